"""Controlling a run: from a request to a durable command, and on to its effect.

Owns admission and receipts. That the command is in the table is the acknowledgement; the run's owner makes
a fact of it. What is certain to be rejected is refused at once, with the same reason.
"""

from jackline_server import failpoints
from jackline_server.core.commands import (
    Abort,
    AdjustBounds,
    Answer,
    Approve,
    Command,
    Decision,
    EditAndApprove,
    Reject,
    Steer,
    SubmitToolResult,
    passed_on_id,
)
from jackline_server.core.deciding import adjusting, approving, control
from jackline_server.core.deciding.adjusting import Misfit
from jackline_server.core.facts import CommandRejected, Phase, StopReason
from jackline_server.core.folding.evolve_calls import ACCEPT
from jackline_server.core.frozen import change
from jackline_server.core.instruments import SchemaValidator
from jackline_server.core.reading import limit_questions, question_forms
from jackline_server.core.state import RunState
from jackline_server.core.steps import Moment
from jackline_server.runtime.feed import Feed
from jackline_server.runtime.ports import Chance, Clock, Codec, Signals, UnknownFact
from jackline_server.runtime.refusals import Reason, Refused, Violation
from jackline_server.runtime.run_limits import RunLimits
from jackline_server.runtime.snapshots import Snapshots
from jackline_server.runtime.store_ports import (
    Below,
    CommandRow,
    Commands,
    CommandState,
    RunRow,
    Runs,
    Submission,
)
from jackline_server.runtime.store_refusals import refusing_store_errors
from jackline_server.runtime.use_cases import ControlRun, Receipt, Stage
from jackline_server.runtime.written_words import WrittenWords, fingerprint

COMMAND_LIMIT = 64
"""Commands of one run that may wait. Guidance is refused at half of them and an abort at twice as many, so
that no flood of the one locks out the other."""

POLL_MS = 1_000


class Controlling:
    """The use case `control`."""

    def __init__(  # noqa: PLR0913 - one for each thing a command touches
        self,
        *,
        commands: Commands,
        runs: Runs,
        snapshots: Snapshots,
        signals: Signals,
        feed: Feed,
        codec: Codec,
        clock: Clock,
        chance: Chance,
        limits: RunLimits,
        schemas: SchemaValidator,
        words: WrittenWords,
    ) -> None:
        self._commands = commands
        self._runs = runs
        self._snapshots = snapshots
        self._signals = signals
        self._feed = feed
        self._codec = codec
        self._clock = clock
        self._chance = chance
        self._limits = limits
        self._schemas = schemas
        self._words = words

    async def control(self, request: ControlRun) -> Receipt:
        """See `service_ports.RunUseCases.control`."""
        with refusing_store_errors():
            row = await self._snapshots.row(request.caller.tenant, request.run_id)
            command = self._command(request)
            sent = self._codec.encode_command(command)
            stored, repeated = await self._commands.get(row.run_id, command.command_id), True
            if stored is None:
                if row.phase.terminal:
                    return _terminal(row, command)
                stored, repeated = await self._submit(row, await self._admitted(row, command))
            if stored is None:
                return _terminal(await self._snapshots.row(request.caller.tenant, request.run_id), command)
            if not self._is_same(stored, sent):
                raise _reused(command)
            if not repeated:
                failpoints.hit("control.after_commit_before_apply")
            if stored.state is CommandState.PENDING:
                await self._nudge(row, command)  # a repeat too: the answer to the first may have been lost
            return await self._await(request, command, stored, repeated=repeated)

    def _is_same(self, stored: CommandRow, sent: bytes) -> bool:
        """True if what is stored is what was made of these bytes."""
        if stored.payload == sent:
            return True
        try:
            kept = self._codec.decode_command(stored.payload, ordinal=stored.ordinal)
        except UnknownFact:
            return False
        return kept.fingerprint == fingerprint(sent)

    async def _submit(self, row: RunRow, command: Command) -> tuple[CommandRow | None, bool]:
        """The stored command and whether it had been sent before; None if the run has ended."""
        submission, stored = await self._commands.submit(
            row.run_id,
            command_id=command.command_id,
            payload=self._codec.encode_command(command),
            limit=_limit(command),
            below=self._below(row, command),
        )
        if submission is Submission.FULL:
            raise _full(_limit(command))
        return stored, submission is Submission.REPEATED

    def _below(self, row: RunRow, command: Command) -> Below | None:
        """What the runs below one are told by the same commit: that they end, where it does."""
        if not isinstance(command.action, Abort):
            return None
        ends = change(command.action, cause=StopReason.PARENT)
        given = passed_on_id(row.run_id, command.command_id)
        told = change(
            command,
            command_id=given,
            action=ends,
            expect_phase=None,
            expect_sequence=None,
            fingerprint="",
        )
        return Below(command_id=given, payload=self._codec.encode_command(told))

    async def _nudge(self, row: RunRow, command: Command) -> None:
        self._signals.nudge(row.run_id)
        if isinstance(command.action, Abort):
            for run_id in await self._runs.living_below(row.tenant, row.run_id):
                self._signals.nudge(run_id)

    def _command(self, request: ControlRun) -> Command:
        return Command(
            command_id=request.command_id or self._chance.new_id("cmd_"),
            ordinal=0,
            principal=request.caller.principal,
            reason=request.reason,
            expect_phase=None if request.expect_phase is None else Phase(request.expect_phase),
            expect_sequence=request.expect_sequence,
            action=request.action,
        )

    async def _admitted(self, row: RunRow, command: Command) -> Command:
        """The command as it is to be stored, unless it is refused. Raises Refused."""
        expected = command.expect_phase is not None or command.expect_sequence is not None
        about = isinstance(command.action, Answer | Decision | SubmitToolResult | AdjustBounds)
        state = (await self._snapshots.of(row)).state if expected or about else None
        kept = await self._words.kept(row, command, state)
        if state is not None:
            self._admit(state, kept)
        return kept

    def _admit(self, state: RunState, command: Command) -> None:
        """Refuse what can't come to anything as the run is now. Raises Refused."""
        if isinstance(command.action, Approve | EditAndApprove):
            self._admit_approval(state, command, command.action)
        if isinstance(command.action, Answer):
            self._admit_words(state, command, command.action)
        bounds = _new_bounds(state, command)
        if bounds is not None:
            self._admit_bounds(state, command, bounds)
        moment = Moment(active_ms=state.active_ms, unix_ms=self._clock.unix_ms())
        facts = control.settle(state, command, moment)
        if facts is not None and isinstance(facts[0], CommandRejected):
            raise _refusal(facts[0], state.phase, state.sequence, command)

    def _admit_words(self, state: RunState, command: Command, answer: Answer) -> None:
        """Refuse words that are not what an open question asks for: it stays open."""
        asked = state.oversight.interrupts.get(answer.interrupt_id)
        if asked is None or answer.option not in asked.options:
            return
        problem = None
        if answer.text and question_forms.loses_words(state, asked, answer.option):
            problem = (
                "the tool is told no words with this answer; leave them out, or give a reason for the record"
            )
        elif asked.schema_json and answer.option == ACCEPT:
            problem = question_forms.misfit(asked.schema_json, answer.text, self._schemas)
        if problem is None:
            return
        problem += _once_masked(command)
        violation = Violation(field="answer.text", description=problem, reason="misfit")
        raise Refused(
            Reason.INVALID_ANSWER,
            "The answer is not what is asked for: see the field. The question stays open.",
            metadata={"interrupt_id": answer.interrupt_id},
            violations=(violation,),
        )

    def _admit_approval(self, state: RunState, command: Command, action: Approve | EditAndApprove) -> None:
        """Refuse whoever started the run, and arguments that the call can't have: it stays open."""
        if not self._limits.may_approve(command.principal, starter=state.started.principal):
            raise Refused(
                Reason.OWN_RUN,
                "Nobody may approve a call of a run of their own here. Ask somebody else.",
                metadata={"run_id": state.run_id},
            )
        asked = state.oversight.interrupts.get(action.interrupt_id)
        if not isinstance(action, EditAndApprove) or asked is None or asked.digest != action.digest:
            return
        problem = approving.misfit(state, asked, action.arguments_json, self._schemas)
        if problem is not None:
            violation = Violation(
                field="edit_and_approve.arguments_json",
                description=problem + _once_masked(command),
                reason="misfit",
            )
            raise Refused(
                Reason.INVALID_ANSWER,
                "The call can't have these arguments: see the field. It still waits to be approved.",
                metadata={"interrupt_id": action.interrupt_id},
                violations=(violation,),
            )

    def _admit_bounds(self, state: RunState, command: Command, action: AdjustBounds) -> None:
        """Refuse new bounds that the operator does not allow, or that the run can't have now."""
        if not self._limits.starter_adjusts and command.principal == state.started.principal:
            raise Refused(
                Reason.OWN_RUN,
                "Nobody may adjust the bounds of a run of their own here. Ask somebody else.",
                metadata={"run_id": state.run_id},
            )
        found = adjusting.over(self._limits.most, action.run, action.visit) or adjusting.misfit(
            state, action.run, action.visit, now_active_ms=state.active_ms
        )
        if found is not None:
            raise _misfit(found)

    async def _await(
        self, request: ControlRun, command: Command, stored: CommandRow, *, repeated: bool
    ) -> Receipt:
        """The receipt, once the command has come as far as asked or the time is over."""
        _, watcher = self._feed.subscribe(request.run_id, deltas=False)
        until = self._clock.monotonic_ms() + request.wait_ms
        row = stored
        try:
            while True:
                stage, reached = await self._stage(request, row)
                left = until - self._clock.monotonic_ms()
                if reached or left <= 0:
                    return _receipt(row, stage, repeated=repeated, reached=reached)
                await watcher.wait(min(left, POLL_MS))
                row = await self._commands.get(request.run_id, command.command_id) or row
        finally:
            self._feed.unsubscribe(request.run_id, watcher)

    async def _stage(self, request: ControlRun, row: CommandRow) -> tuple[Stage, bool]:
        if row.state is CommandState.PENDING:
            return Stage.ACCEPTED, request.wait is Stage.ACCEPTED
        if isinstance(request.action, Abort) and row.state is CommandState.APPLIED:
            run = await self._snapshots.row(request.caller.tenant, request.run_id)
            if not run.phase.terminal:
                return Stage.EFFECTIVE, request.wait is not Stage.SETTLED
        return Stage.SETTLED, True


def _once_masked(command: Command) -> str:
    """What is to be said of words that do not fit, if that may be because of what is masked in them."""
    return " (the workflow has personal data masked in it)" if command.fingerprint else ""


def _receipt(row: CommandRow, stage: Stage, *, repeated: bool, reached: bool) -> Receipt:
    return Receipt(
        command_id=row.command_id,
        stage=stage,
        applied=row.state is CommandState.APPLIED,
        rejection=row.rejection,
        sequence=row.sequence,
        already_terminal=False,
        repeated=repeated,
        reached=reached,
    )


def _terminal(row: RunRow, command: Command) -> Receipt:
    """Aborting a run that has ended is fine; anything else is not."""
    if not isinstance(command.action, Abort):
        raise Refused(
            Reason.RUN_TERMINAL,
            f"The run has ended: {row.phase.value}. Start another.",
            metadata={"state": row.phase.value},
        )
    return Receipt(
        command_id=command.command_id,
        stage=Stage.SETTLED,
        applied=False,
        rejection="",
        sequence=row.head_sequence,
        already_terminal=True,
        repeated=False,
        reached=True,
    )


def _limit(command: Command) -> int:
    match command.action:
        case Steer():
            return COMMAND_LIMIT // 2
        case Abort():
            return COMMAND_LIMIT * 2
        case _:
            return COMMAND_LIMIT


def _full(limit: int) -> Refused:
    return Refused(
        Reason.COMMAND_LIMIT,
        f"{limit} commands wait for this run already. Wait for them to be applied.",
        metadata={"limit": str(limit)},
        retry_after_ms=1_000,
    )


def _reused(command: Command) -> Refused:
    return Refused(
        Reason.COMMAND_ID_REUSED,
        "The command id was used with another content. Use a fresh one.",
        metadata={"command_id": command.command_id},
    )


def _refusal(fact: CommandRejected, phase: Phase, sequence: int, command: Command) -> Refused:
    metadata = {"state": phase.value, "sequence": str(sequence)}
    match command.action:
        case Answer(interrupt_id=interrupt_id, option=option):
            metadata |= {"interrupt_id": interrupt_id, "option": option}
        case Approve() | EditAndApprove() | Reject() as decision:
            metadata |= {"interrupt_id": decision.interrupt_id}
        case SubmitToolResult(call_id=call_id):
            metadata |= {"call_id": call_id}
        case _:
            pass
    reason = Reason(fact.rejection.value)
    return Refused(reason, _WORDS[reason], metadata=metadata)


def _new_bounds(state: RunState, command: Command) -> AdjustBounds | None:
    """The bounds that a command sets, by itself or as the answer to a question about a limit."""
    match command.action:
        case AdjustBounds() as action:
            return action
        case Answer(interrupt_id=interrupt_id, option=limit_questions.RAISE):
            interrupt = state.oversight.interrupts.get(interrupt_id)
            if interrupt is None or not interrupt.raise_to:
                return None
            run, visit = control.granted(state, interrupt)
            return AdjustBounds(run=run, visit=visit)
        case _:
            return None


def _misfit(found: Misfit) -> Refused:
    reason, field = Reason(found.rejection.value), f"adjust_bounds.{found.field}"
    metadata = {"field": field}
    match reason:
        case Reason.BOUND_TOO_HIGH:
            words = f"looser than the workflow or the operator allows; at most {found.limit}"
            metadata["limit"] = str(found.limit)
        case Reason.BOUND_TOO_LOW:
            words = f"{found.limit} are spent or held already; give at least as much"
            metadata["spent"] = str(found.limit)
        case Reason.NO_BOUNDED_VISIT:
            words = "the run is in no step that asks a model; adjust the bounds of the run"
        case _:
            words = "a model of the workflow has no price; set one in its profile"
    violation = Violation(field=field, description=words, reason=reason.value.lower())
    return Refused(reason, f"{field}: {words}.", metadata=metadata, violations=(violation,))


_WORDS = {
    Reason.EXPECTATION_FAILED: "The run is not as expected. Read it again and decide anew.",
    Reason.INTERRUPT_NOT_FOUND: "The run has no such interrupt. List its interrupts.",
    Reason.ALREADY_DECIDED: "The interrupt was answered before. Nothing is left to do.",
    Reason.INTERRUPT_EXPIRED: "The interrupt has expired. The run went on without an answer.",
    Reason.UNKNOWN_OPTION: "The interrupt has no such option. List its interrupts to see them.",
    Reason.ARGUMENTS_CHANGED: "That is not what the interrupt asks about. List it again and decide anew.",
    Reason.WRONG_INTERRUPT_KIND: (
        "The interrupt waits for another command: an approval for approve, edit_and_approve or reject, any "
        "other for answer."
    ),
    Reason.INVALID_ANSWER: "The call can't have these arguments. It still waits to be approved.",
    Reason.CALL_NOT_FOUND: "The run has no such tool call. List its tool calls.",
    Reason.CALL_NOT_OPEN: "The outcome of that tool call is not open. Nothing is left to do.",
}

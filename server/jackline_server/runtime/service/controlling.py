"""Controlling a run: from a request to a durable command, and on to its effect.

Owns the command's way into the table, and receipts. That it is there is the acknowledgement; the run's owner
makes a fact of it. Does not own what is refused at once (`admission`).
"""

from jackline_server import failpoints
from jackline_server.core.commands import (
    Abort,
    AdjustBounds,
    Answer,
    Command,
    Decision,
    Steer,
    SubmitToolResult,
    passed_on_id,
)
from jackline_server.core.facts import Phase, StopReason
from jackline_server.core.frozen import change
from jackline_server.runtime.ports.codec import Codec, UnknownFact
from jackline_server.runtime.ports.command_table import Below, CommandRow, Commands, CommandState, Submission
from jackline_server.runtime.ports.machine import Chance, Clock
from jackline_server.runtime.ports.run_rows import RunRow, Runs
from jackline_server.runtime.ports.signals import Signals
from jackline_server.runtime.reading.feed import Feed
from jackline_server.runtime.refusals import Reason, Refused
from jackline_server.runtime.service.admission import Admission
from jackline_server.runtime.service.snapshots import Snapshots
from jackline_server.runtime.service.written_words import WrittenWords, fingerprint
from jackline_server.runtime.store_refusals import refusing_store_errors
from jackline_server.runtime.use_cases import ControlRun, Receipt, Stage

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
        admission: Admission,
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
        self._admission = admission
        self._words = words

    async def control(self, request: ControlRun) -> Receipt:
        """See `service.ports.RunUseCases.control`."""
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
        """What the runs below one are told by the same commit: that they end, where it does.

        Not why: those words are masked as this run's plan says, which is not theirs.
        """
        if not isinstance(command.action, Abort):
            return None
        ends = change(command.action, cause=StopReason.PARENT)
        given = passed_on_id(row.run_id, command.command_id)
        told = change(
            command,
            command_id=given,
            reason="",
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
            self._admission.check(state, kept, sent=command.action)
        return kept

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

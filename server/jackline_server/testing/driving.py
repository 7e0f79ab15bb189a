"""A whole run without any I/O: a scripted model and scripted tools around the real `decide` and `evolve`.

Owns the pure counterpart of the runtime's loop: announce, do, record, with a clock that moves only as the
script says. A commit is all or nothing; a crash can follow any of them. Does not own the runtime, whose
cancellation and concurrency are proved elsewhere.

The doubles are strict: a call that the script does not hold fails, and `run_to_end` fails over what was
scripted and never asked for.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Generic, TypeVar, assert_never

from jackline_server.core import bounds, json_text
from jackline_server.core.calling import calls, tool_retries
from jackline_server.core.calling.tool_retries import FailedAttempt
from jackline_server.core.commands import Action, Command
from jackline_server.core.decide import decide
from jackline_server.core.deciding import control, retries, usage_reports
from jackline_server.core.deciding.usage_reports import Reported
from jackline_server.core.evolve import begin, evolve, replay
from jackline_server.core.facts import (
    CallStatus,
    ConsultAnswer,
    Consulted,
    Fact,
    FailureClass,
    FinishReason,
    ModelCallFailed,
    ModelReplied,
    Noticed,
    RecoveryCause,
    RunFinished,
    RunRecovered,
    RunStarted,
    ToolAsk,
    ToolCallFinished,
    Usage,
)
from jackline_server.core.gating import gate_answers
from jackline_server.core.instruments import Instruments
from jackline_server.core.plan import JsonValue, ModelStep, Plan
from jackline_server.core.reading import timing
from jackline_server.core.reasoning import ReasoningBlocks
from jackline_server.core.state import RunState
from jackline_server.core.steps import (
    CallModel,
    CallTools,
    Consult,
    Finish,
    Moment,
    Question,
    Record,
    Step,
    ToolAttempt,
    Wait,
)
from jackline_server.testing import child_runs, plans
from jackline_server.testing.instruments import instruments as real_instruments

STARTED_UNIX_MS = 1_700_000_000_000
MOST_STEPS = 20_000
"""A run that takes more steps than this goes nowhere."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call in a reply. Without a `call_id` the engine gives one."""

    name: str
    arguments: str = "{}"
    call_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Says:
    """A reply. `usage` None: the prompt as it was estimated, and 10 tokens."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    usage: Usage | None = None
    finish: FinishReason | None = None
    takes_ms: int = 100
    blocks: ReasoningBlocks | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fails:
    """A failed attempt at the model. `usage` is what it is charged, `text` what had come of the reply."""

    failure: FailureClass = FailureClass.UNAVAILABLE
    usage: Usage = Usage()
    retry_after_ms: int | None = None
    takes_ms: int = 100
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """How an attempt at a tool ends. `may_pass` says that another attempt can help.

    With `cut_from_bytes` the output is the beginning of one that was cut, as the fact has it.
    """

    status: CallStatus = CallStatus.COMPLETED
    output: JsonValue = None
    error: str = ""
    takes_ms: int = 50
    may_pass: bool = False
    retry_after_ms: int | None = None
    timed_out: bool = False
    cut_from_bytes: int = 0
    tail: str = ""
    blob: str = ""
    ask: ToolAsk | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """How a question ends."""

    answer: ConsultAnswer = ConsultAnswer.NO
    error: str = ""
    takes_ms: int = 5
    reason: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])


Reply = Says | Fails
ToolScript = Callable[[ToolAttempt], Ends] | Iterable[Ends]
ConsultScript = Callable[[Question], Answers] | Iterable[Answers]


class Unscripted(AssertionError):
    """The run did something that the script does not hold, or did not do what it holds."""


class _Crash(Exception):
    """The worker goes away after a commit."""


_Item = TypeVar("_Item")


class _Script(Generic[_Item]):
    """Items that are handed out once, in order."""

    def __init__(self, what: str, items: Iterable[_Item]) -> None:
        self._what = what
        self._items = iter(items)

    def next(self) -> _Item:
        """The next one. Raises Unscripted after the last."""
        for item in self._items:
            return item
        raise Unscripted(f"{self._what} was called more often than its script says")

    def check_used(self) -> None:
        """Raise Unscripted if an item is left."""
        for item in self._items:
            raise Unscripted(f"{self._what} was never asked for {item}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What a run is made of. `crash_after` names commits, from 1, after which the worker goes away.

    `sent` are commands by the number of the boundary at which they arrive, from 0. Usage counts as a script
    says it unless `believes_usage` is false: then it is judged as the runtime judges what a provider says.
    """

    plan: Plan
    replies: Iterable[Reply] = ()
    tools: Mapping[str, ToolScript] = field(default_factory=dict[str, ToolScript])
    consultants: ConsultScript = ()
    started: RunStarted | None = None
    crash_after: Collection[int] = frozenset()
    sent: Mapping[int, Action] = field(default_factory=dict[int, Action])
    instruments: Instruments = field(default_factory=real_instruments)
    believes_usage: bool = True


class Driver:
    """One run. `log` holds each fact with its active time, `commits` the facts by commit."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._replies = _Script("the model", scenario.replies)
        self._tools: dict[str, Callable[[ToolAttempt], Ends] | _Script[Ends]] = {
            name: script if callable(script) else _Script(f"the tool {name}", script)
            for name, script in scenario.tools.items()
        }
        answers = scenario.consultants
        self._answers: Callable[[Question], Answers] | _Script[Answers] = (
            answers if callable(answers) else _Script("a function", answers)
        )
        self._queue: list[Command] = []
        self._ordinal = 0
        self._boundary = 0
        first = scenario.started or plans.started(scenario.plan)
        self.active_ms = 0
        self.unix_ms = STARTED_UNIX_MS
        self.state: RunState = begin("run-1", scenario.plan, first)
        self.log: list[tuple[Fact, int]] = [(first, 0)]
        self.commits: list[tuple[Fact, ...]] = [(first,)]
        self.model_calls: list[CallModel] = []
        self.attempts: list[ToolAttempt] = []
        self.consulted: list[Question] = []

    # --- what a test reads ---------------------------------------------------------------------

    @property
    def facts(self) -> list[Fact]:
        """All facts, in order."""
        return [fact for fact, _ in self.log]

    @property
    def now(self) -> Moment:
        """The moment at which `decide` is asked next."""
        return Moment(active_ms=self.active_ms, unix_ms=self.unix_ms)

    @property
    def finished(self) -> RunFinished:
        """How the run ended. Raises Unscripted if it has not."""
        if self.state.finished is None:
            raise Unscripted(f"the run has not ended; it is {self.state.phase.value}")
        return self.state.finished

    def replayed(self) -> RunState:
        """The state that the log alone gives."""
        return replay(self.state.run_id, self.state.plan, self.log)

    # --- what a test does ----------------------------------------------------------------------

    def run_to_end(self) -> "Driver":
        """Run until the end. Raises Unscripted if the run waits for ever or the script is not used up."""
        self.run()
        _ = self.finished
        self._replies.check_used()
        for script in self._tools.values():
            if isinstance(script, _Script):
                script.check_used()
        if not callable(self._answers):
            self._answers.check_used()
        return self

    def run(self, until: Callable[["Driver"], bool] | None = None) -> "Driver":
        """Run until the end, until only a command or timer can move it, or until `until` is true."""
        for _ in range(MOST_STEPS):
            if until is not None and until(self):
                return self
            step = self.step()
            if isinstance(step, Finish) or (isinstance(step, Wait) and step.until_active_ms is None):
                return self
        raise Unscripted(f"the run took more than {MOST_STEPS} steps")

    def step(self) -> Step:
        """One boundary: drain the commands, decide, carry it out. A scripted crash ends in a recovery."""
        try:
            return self._step()
        except _Crash:
            self.recover()
            return Record(facts=())

    def send(self, action: Action, *, principal: str = "operator", command_id: str = "") -> Command:
        """Put a command into the queue; the next boundary drains it."""
        self._ordinal += 1
        command = Command(
            command_id=command_id or f"command-{self._ordinal}",
            ordinal=self._ordinal,
            principal=principal,
            reason="",
            expect_phase=None,
            expect_sequence=None,
            action=action,
        )
        self._queue.append(command)
        return command

    def recover(self, cause: RecoveryCause = RecoveryCause.CRASH) -> None:
        """Another worker takes the run over."""
        self._append((RunRecovered(epoch=self.state.epoch + 1, cause=cause),))

    def pass_time(self, *, active_ms: int = 0, unix_ms: int = 0) -> None:
        """Move the clocks and record the timers that are due. Waiting does not move active time by itself."""
        self.active_ms += active_ms
        self.unix_ms += max(active_ms, unix_ms)
        due = timing.due(self.state, self.unix_ms)
        if due:
            self._append(due)

    # --- one boundary --------------------------------------------------------------------------

    def _drain(self) -> None:
        """Settle what can be settled of the queue; the rest waits."""
        action = self._scenario.sent.get(self._boundary)
        self._boundary += 1
        if self.state.finished is not None:
            return
        if action is not None:
            self.send(action)
        held: list[Command] = []
        for command in tuple(self._queue):
            if not self._settled(command):
                held.append(command)
            elif held:  # as an inbox has it: those that came before it come before the next
                held = [earlier for earlier in held if not self._settled(earlier)]

    def _settled(self, command: Command) -> bool:
        facts = control.settle(self.state, command, self.now)
        if facts is None:
            return False
        self._queue.remove(command)
        self._commit(facts)
        return True

    def _step(self) -> Step:
        self._drain()
        step = decide(self.state, now=self.now, instruments=self._scenario.instruments)
        match step:
            case Record():
                self._commit(self._with_leftovers(step.facts))
            case CallModel():
                self._call_model(step)
            case CallTools():
                self._call_tools(step)
            case Consult():
                self._consult(step)
            case Wait():
                if step.until_active_ms is not None:
                    self.pass_time(active_ms=max(step.until_active_ms - self.active_ms, 0))
            case Finish():
                pass
            case _:
                assert_never(step)
        return step

    def _with_leftovers(self, facts: tuple[Fact, ...]) -> tuple[Fact, ...]:
        if not any(isinstance(fact, RunFinished) for fact in facts):
            return facts
        left = tuple(control.leftover(self.state, command) for command in self._queue)
        self._queue = []
        return (*left, *facts)

    def _call_model(self, step: CallModel) -> None:
        self._commit((step.started,))
        self.model_calls.append(step)
        reply = self._replies.next()
        self.pass_time(active_ms=reply.takes_ms)
        match reply:
            case Says():
                self._commit(self._replied(step, reply))
            case Fails():
                self._commit((self._failed(step, reply),))

    def _replied(self, step: CallModel, reply: Says) -> tuple[Fact, ...]:
        usage, told = self._charged(step, reply)
        finish = FinishReason.TOOL_CALLS if reply.calls else FinishReason.STOP
        asked = tuple((call.call_id, call.name, call.arguments) for call in reply.calls)
        heard = calls.heard(self.state, reply.text, asked)
        replied = ModelReplied(
            usage=usage,
            cost_micros=bounds.charge(step.model, usage),
            finish=reply.finish or finish,
            tool_calls=len(heard.asked),
            tokens_used=self.state.ledger.tokens + usage.total,
            latency_ms=reply.takes_ms,
            first_token_ms=reply.takes_ms,
            text=reply.text,
            reasoning="",
            blocks=reply.blocks,
            calls_in_text=heard.in_text,
        )
        notices = told if heard.notice is None else (heard.notice, *told)
        return (replied, *calls.requested(self.state, heard.asked), *notices)

    def _charged(self, step: CallModel, reply: Says) -> tuple[Usage, tuple[Noticed, ...]]:
        usage = reply.usage or Usage(prompt_tokens=step.started.prompt_tokens, completion_tokens=10)
        if self._scenario.believes_usage:
            return usage, ()
        reported = Reported(usage=usage, unreadable=False, said=(reply.text,))
        charged = usage_reports.charged(self.state, step, reported)
        return charged.usage, charged.notices

    def _failed(self, step: CallModel, reply: Fails) -> ModelCallFailed:
        visit = self.state.visit
        plan = self.state.plan.step(visit.step_id) if visit is not None else None
        if visit is None or not isinstance(plan, ModelStep):
            raise Unscripted("a model was called outside a model step")
        following = retries.after_failure(
            visit,
            plan,
            step.model,
            failed=retries.Failed(failure=reply.failure, retry_after_ms=reply.retry_after_ms),
            now_active_ms=self.active_ms,
            fraction=0.5,
        )
        usage = reply.usage
        if not self._scenario.believes_usage:
            usage = usage_reports.charged_for_failure(self.state, step, usage)
        cost = bounds.charge(step.model, usage)
        return ModelCallFailed(
            failure=reply.failure,
            retry_in_ms=following.retry_in_ms,
            waits=following.waits,
            usage=usage,
            cost_micros=cost,
            error=reply.failure.value,
            text=reply.text,
        )

    def _call_tools(self, step: CallTools) -> None:
        """Announce all, then end each by itself, the quickest first."""
        children = step.attempts[0].child is not None
        begun = [child_runs.begun(attempt) for attempt in step.attempts] if children else []
        self._commit((*(attempt.started for attempt in step.attempts), *begun))
        self.attempts.extend(step.attempts)
        ends = [(attempt, self._end(attempt)) for attempt in step.attempts]
        began = self.active_ms
        for attempt, end in sorted(ends, key=lambda pair: pair[1].takes_ms):
            if children:
                self._child_ended(attempt, end)
                continue
            self.pass_time(active_ms=began + end.takes_ms - self.active_ms)
            self._commit((self._tool_ended(attempt, end),))

    def _child_ended(self, attempt: ToolAttempt, end: Ends) -> None:
        self._commit(
            child_runs.ended(
                attempt,
                self.state,
                status=end.status,
                output_json=json_text.write(end.output),
                takes_ms=end.takes_ms,
            )
        )
        self.active_ms = max(self.active_ms, self.state.active_ms)

    def _tool_ended(self, attempt: ToolAttempt, end: Ends) -> ToolCallFinished:
        failed = FailedAttempt(may_pass=end.may_pass, retry_after_ms=end.retry_after_ms)
        return ToolCallFinished(
            call_id=attempt.started.call_id,
            tool=attempt.started.tool,
            status=end.status,
            duration_ms=end.takes_ms,
            retry_in_ms=tool_retries.retry_in_ms(
                self.state,
                attempt.started.call_id,
                failed=failed,
                now_active_ms=self.active_ms,
                fraction=0.5,
            ),
            timed_out=end.timed_out,
            cut_from_bytes=end.cut_from_bytes,
            tail=end.tail,
            blob=end.blob,
            output_json=json_text.write(end.output) if end.status is CallStatus.COMPLETED else None,
            error=end.error,
            ask=end.ask,
        )

    def _end(self, attempt: ToolAttempt) -> Ends:
        script = self._tools.get(attempt.step.step_id)
        if script is None:
            raise Unscripted(f"the tool {attempt.step.step_id} has no script")
        return script(attempt) if callable(script) else script.next()

    def _consult(self, step: Consult) -> None:
        """Ask all; the answers are there when the slowest is."""
        self.consulted.extend(step.questions)
        ends = [
            self._answers(question) if callable(self._answers) else self._answers.next()
            for question in step.questions
        ]
        self.pass_time(active_ms=max(end.takes_ms for end in ends))
        answers = [
            Consulted(
                kind=question.kind,
                who=question.who,
                answer=end.answer,
                duration_ms=end.takes_ms,
                error=end.error,
                point=question.point,
                subject=question.subject,
                reason=end.reason,
                metadata_json=json_text.write(dict(end.metadata)) if end.metadata else "",
            )
            for question, end in zip(step.questions, ends, strict=True)
        ]
        self._commit(gate_answers.facts_of(self.state, answers))

    def _commit(self, facts: tuple[Fact, ...]) -> None:
        """One commit, after which the worker may go away."""
        self._append(facts)
        if len(self.commits) in self._scenario.crash_after and self.state.finished is None:
            raise _Crash

    def _append(self, facts: tuple[Fact, ...]) -> None:
        for fact in facts:
            self.state = evolve(self.state, fact, active_ms=self.active_ms)
            self.log.append((fact, self.active_ms))
        self.commits.append(facts)


def drive(plan: Plan, *replies: Reply, **tools: ToolScript) -> Driver:
    """Run a plan to its end: the model's replies in order, and each tool's endings by its name."""
    return Driver(Scenario(plan=plan, replies=replies, tools=tools)).run_to_end()


def then_for_ever(replies: Iterable[Reply], last: Reply) -> Iterable[Reply]:
    """A script without an end, for properties: these, then always the same."""

    def again() -> Iterable[Reply]:
        while True:
            yield last

    return chain(replies, again())

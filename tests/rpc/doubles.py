"""Use cases that answer what a test laid down, and note whatever they were not expected to be asked."""

import inspect
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.core.evolve import begin, evolve
from jackline_server.core.facts import (
    CallStatus,
    Fact,
    FinishReason,
    InterruptKind,
    InterruptRaised,
    ModelCallStarted,
    ModelReplied,
    Phase,
    Purpose,
    RunFinished,
    StepFinished,
    StepStarted,
    StopReason,
    ToolCallFinished,
    ToolCallRequested,
    ToolCallStarted,
    Usage,
)
from jackline_server.core.messages import Message
from jackline_server.core.plan import Effect
from jackline_server.core.state import RunState
from jackline_server.runtime.ports.codec import Envelope, Record
from jackline_server.runtime.ports.definitions import Source
from jackline_server.runtime.ports.journal import StoredEvent
from jackline_server.runtime.ports.revisions import RevisionRow
from jackline_server.runtime.ports.run_rows import RunPage, RunQuery, RunRow
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT, Tenant
from jackline_server.runtime.ports.threads import Appended, ThreadRow
from jackline_server.runtime.ports.webhooks import DeliveryQuery, DeliveryRow, Tried
from jackline_server.runtime.service.bulk_control import BulkControl, BulkDone
from jackline_server.runtime.service.kill_switch import Switched, SwitchView
from jackline_server.runtime.service.webhooking import WebhookView
from jackline_server.runtime.use_cases import (
    AppendMessages,
    Caller,
    Checked,
    ControlRun,
    Described,
    ForkRun,
    Frame,
    PutDone,
    Receipt,
    ResultPart,
    Snapshot,
    Started,
    StartRun,
    ThreadPage,
)
from jackline_server.testing import plans

RUN_ID = "run_01k0000000000000000000000a"
OTHER_RUN_ID = "run_01k0000000000000000000000b"
NOW_MS = 1_790_000_000_000
CODEC = ProtoCodec()
PLAN = plans.agent_plan(plans.tool("refund", Effect.WRITE))


class UnexpectedCall(AssertionError):
    """A use case was asked that the test did not expect."""


class Script:
    """What each use case answers, by name; None of a name is a call that must not come."""

    def __init__(self) -> None:
        self.answers: dict[str, Callable[..., Any]] = {}
        self.asked: list[tuple[str, tuple[Any, ...]]] = []
        self.unexpected: list[str] = []

    def on(self, name: str, answer: Callable[..., Any]) -> None:
        """Answer a use case with what `answer` returns; it may be a coroutine, or raise."""
        self.answers[name] = answer

    def always(self, name: str, value: object) -> None:
        """Answer a use case with one value, whatever it is asked."""

        def answer(*_: object) -> object:
            return value

        self.answers[name] = answer

    def find(self, name: str, *given: Any) -> Callable[..., Any]:
        """The answer to a call that has come."""
        self.asked.append((name, given))
        answer = self.answers.get(name)
        if answer is None:
            self.unexpected.append(name)
            raise UnexpectedCall(name)
        return answer

    async def ask(self, name: str, *given: Any) -> Any:
        """Answer a call that has come."""
        found: Any = self.find(name, *given)(*given)
        return await found if inspect.isawaitable(found) else found


class ScriptedRuns:
    """RunUseCases by script."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self.closed_watches = 0
        self.left_owners = 0

    async def start(self, request: StartRun) -> Started:
        return await self._script.ask("start", request)

    async def fork(self, request: ForkRun) -> Started:
        return await self._script.ask("fork", request)

    async def control(self, request: ControlRun) -> Receipt:
        return await self._script.ask("control", request)

    async def bulk(self, request: BulkControl) -> BulkDone:
        return await self._script.ask("bulk", request)

    async def get(self, tenant: Tenant, run_id: str) -> Snapshot:
        return await self._script.ask("get", tenant, run_id)

    async def wait(self, tenant: Tenant, run_id: str, *, timeout_ms: int) -> Snapshot:
        return await self._script.ask("wait", tenant, run_id, timeout_ms)

    async def page(self, query: RunQuery) -> RunPage:
        return await self._script.ask("page", query)

    async def result(
        self, tenant: Tenant, run_id: str, call_id: str, *, part: int = 0, offset: int, limit: int
    ) -> ResultPart:
        return await self._script.ask("result", tenant, run_id, call_id, part, offset, limit)

    async def messages(self, tenant: Tenant, run_id: str, *, step_id: str, visit: int) -> Sequence[Message]:
        return await self._script.ask("messages", tenant, run_id, step_id, visit)

    @asynccontextmanager
    async def own(
        self, tenant: Tenant, run_id: str, *, after_sequence: int, grace_ms: int
    ) -> AsyncGenerator[None]:
        await self._script.ask("own", tenant, run_id, after_sequence, grace_ms)
        try:
            yield
        finally:
            self.left_owners += 1

    async def watch(
        self,
        tenant: Tenant,
        run_id: str,
        *,
        after_sequence: int,
        deltas: bool,
        positions: Mapping[str, int] | None = None,
        progress: bool = False,
    ) -> AsyncGenerator[Frame, None]:
        try:
            frames = self._script.find("watch", tenant, run_id, after_sequence, deltas, progress)
            async for frame in frames(tenant, run_id, after_sequence, deltas):
                yield frame
        finally:
            self.closed_watches += 1


class ScriptedThreads:
    """ThreadUseCases by script."""

    def __init__(self, script: Script) -> None:
        self._script = script

    async def threads(
        self, tenant: Tenant, *, before: tuple[int, str] | None, limit: int
    ) -> Sequence[ThreadRow]:
        return await self._script.ask("threads", tenant, before, limit)

    async def thread(
        self, tenant: Tenant, thread_id: str, *, after: int, limit: int, content: bool
    ) -> ThreadPage:
        return await self._script.ask("thread", tenant, thread_id, after, limit, content)

    async def append(self, request: AppendMessages) -> Appended:
        return await self._script.ask("append", request)


async def _never_engaged(_tenant: Tenant) -> bool:
    return False


class ScriptedKillSwitch:
    """KillSwitchUseCases by script. It is released unless the script says otherwise."""

    def __init__(self, script: Script) -> None:
        self._script = script

    async def engage(self, caller: Caller, *, reason: str) -> Switched:
        return await self._script.ask("engage", caller, reason)

    async def release(self, caller: Caller, *, reason: str) -> Switched:
        return await self._script.ask("release", caller, reason)

    async def engaged(self, tenant: Tenant) -> bool:
        answer = self._script.answers.get("engaged", _never_engaged)
        return await answer(tenant)

    async def look(self, tenant: Tenant) -> SwitchView:
        return await self._script.ask("look", tenant)


class ScriptedWebhooks:
    """WebhookUseCases by script."""

    def __init__(self, script: Script) -> None:
        self._script = script

    async def webhooks(self, tenant: Tenant) -> Sequence[WebhookView]:
        return await self._script.ask("webhooks", tenant)

    async def deliveries(self, query: DeliveryQuery) -> Sequence[DeliveryRow]:
        return await self._script.ask("deliveries", query)

    async def resend(self, tenant: Tenant, delivery_id: str) -> DeliveryRow:
        return await self._script.ask("resend", tenant, delivery_id)

    async def test(self, name: str) -> Tried:
        return await self._script.ask("test", name)


class ScriptedWorkflows:
    """WorkflowUseCases by script."""

    def __init__(self, script: Script) -> None:
        self._script = script

    async def check(self, tenant: Tenant, source: Source, *, beside: Sequence[Source] = ()) -> Checked:
        return await self._script.ask("check", tenant, source, beside)

    async def put(self, caller: Caller, source: Source, *, alias: str, expect_digest: str) -> PutDone:
        return await self._script.ask("put", caller, source, alias, expect_digest)

    async def get_revision(self, tenant: Tenant, reference: str) -> RevisionRow:
        return await self._script.ask("get_revision", tenant, reference)

    async def revisions(self, tenant: Tenant, *, after: str, limit: int) -> Sequence[RevisionRow]:
        return await self._script.ask("revisions", tenant, after, limit)

    async def describe(self, tenant: Tenant, reference: str) -> Described:
        return await self._script.ask("describe", tenant, reference)


class FixedClock:
    """A clock that stands."""

    def unix_ms(self) -> int:
        return NOW_MS

    def monotonic_ms(self) -> int:
        return 0

    async def sleep(self, ms: int) -> None:
        raise UnexpectedCall(f"sleep({ms})")


# --- a run ---------------------------------------------------------------------------------------


def fold(*facts: Fact, run_id: str = RUN_ID, input_json: str = '{"message":"hi"}') -> RunState:
    """The state of a run that has these facts after its first."""
    state = begin(
        run_id, PLAN, plans.started(PLAN, input_json=input_json, subject_json='{"user":"u1"}'), active_ms=0
    )
    for index, fact in enumerate(facts):
        state = evolve(state, fact, active_ms=10 * (index + 1))
    return state


ASKED: tuple[Fact, ...] = (
    StepStarted(step_id=plans.AGENT, visit=1, steps=1),
    ModelCallStarted(
        iteration=1,
        purpose=Purpose.TURN,
        attempt=1,
        model=plans.MODEL,
        prompt_tokens=10,
        max_output_tokens=20,
        reserved_cost_micros=0,
    ),
    ModelReplied(
        usage=Usage(prompt_tokens=10, completion_tokens=5),
        cost_micros=0,
        finish=FinishReason.TOOL_CALLS,
        tool_calls=1,
        tokens_used=15,
        latency_ms=3,
        first_token_ms=1,
        text="secret-reply",
        reasoning="",
    ),
    ToolCallRequested(
        call_id="call_1", ordinal=1, tool="refund", name="refund", arguments='{"secret-argument":1}'
    ),
    ToolCallStarted(call_id="call_1", tool="refund", call_key="key", effect=Effect.WRITE, attempt=1),
)
UNKNOWN: tuple[Fact, ...] = (
    *ASKED,
    ToolCallFinished(call_id="call_1", tool="refund", status=CallStatus.UNKNOWN, error="secret-error"),
    InterruptRaised(
        interrupt_id="int_1",
        kind=InterruptKind.UNKNOWN_OUTCOME,
        call_id="call_1",
        options=("happened", "did_not_happen"),
        expires_unix_ms=NOW_MS + plans.DAY_MS,
        question="secret-question",
    ),
)
FINISHED: tuple[Fact, ...] = (
    *ASKED,
    ToolCallFinished(
        call_id="call_1", tool="refund", status=CallStatus.COMPLETED, output_json='"secret-result"'
    ),
    StepFinished(
        signal="default",
        stop_reason=StopReason.DEFAULT,
        stop_leaf="",
        partial=False,
        next_step="",
        writes=("answer_result",),
        writes_json='{"answer_result":"secret-write"}',
        result_json='"secret-result"',
        error="",
    ),
    RunFinished(
        phase=Phase.SUCCEEDED,
        signal="default",
        stop_reason=StopReason.DEFAULT,
        stop_leaf="",
        partial=False,
        result_json='"secret-result"',
        error="",
    ),
)


def row_of(state: RunState, *, created_unix_ms: int = NOW_MS) -> RunRow:
    """The row that a store would hold."""
    finished = NOW_MS + 1 if state.finished is not None else None
    return RunRow(
        tenant=DEFAULT_TENANT,
        run_id=state.run_id,
        workflow=state.started.workflow,
        plan_digest=state.started.plan_digest,
        labels={"team": "care"},
        created_unix_ms=created_unix_ms,
        finished_unix_ms=finished,
        epoch=state.epoch,
        owner=None,
        head_sequence=state.sequence,
        phase=state.phase,
        summary=CODEC.summarize(state, created_unix_ms=created_unix_ms, finished_unix_ms=finished),
    )


def snapshot_of(state: RunState, *, created_unix_ms: int = NOW_MS) -> Snapshot:
    """What `get` answers."""
    return Snapshot(row=row_of(state, created_unix_ms=created_unix_ms), state=state)


def event(sequence: int, *, words: int = 20) -> StoredEvent:
    """An event of the run, with so many bytes of content."""
    fact = ModelReplied(
        usage=Usage(prompt_tokens=1, completion_tokens=1),
        cost_micros=0,
        finish=FinishReason.STOP,
        tool_calls=0,
        tokens_used=2,
        latency_ms=1,
        first_token_ms=1,
        text="s" * words,
        reasoning="",
    )
    envelope = Envelope(
        run_id=RUN_ID,
        sequence=sequence,
        unix_ms=NOW_MS,
        active_ms=sequence,
        step_id=plans.AGENT,
        visit=1,
        iteration=1,
        signal="running",
    )
    return CODEC.encode(Record(envelope=envelope, fact=fact))


def fold_events(*facts: Fact) -> list[StoredEvent]:
    """The events of a run that has these facts after its first."""
    started = plans.started(PLAN)
    return [
        CODEC.encode(
            Record(
                envelope=Envelope(
                    run_id=RUN_ID,
                    sequence=sequence,
                    unix_ms=NOW_MS,
                    active_ms=sequence,
                    step_id=plans.AGENT,
                    visit=1,
                    iteration=1,
                    signal="running",
                ),
                fact=fact,
            )
        )
        for sequence, fact in enumerate((started, *facts), start=1)
    ]


def frame_of(*events: StoredEvent, head: int | None = None) -> Frame:
    """A frame of these events."""
    through = events[-1].sequence if events else 0
    return Frame(
        events=events,
        deltas=(),
        reset=0,
        sent_through=through,
        head=through if head is None else head,
        degraded=False,
    )

"""What the doors ask of the service, as values: requests, answers and the stream's frames.

Owns the shapes that `rpc` and later doors share with `service`. Scopes, wire rules and views are theirs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from jackline_server.core.commands import Action
from jackline_server.core.frozen import frozen
from jackline_server.core.messages import Message
from jackline_server.core.plan import OnQuestion, Plan, RunBounds
from jackline_server.core.state import RunState
from jackline_server.runtime.ports.definitions import Finding, Source, WorstCase
from jackline_server.runtime.ports.journal import StoredEvent
from jackline_server.runtime.ports.revisions import RevisionRow
from jackline_server.runtime.ports.run_rows import RunRow
from jackline_server.runtime.ports.tenants import Tenant
from jackline_server.runtime.ports.threads import MessageRow, ThreadRow
from jackline_server.runtime.ports.tool_reports import ToolProgress
from jackline_server.runtime.ports.tool_waits import WaitingCall


@frozen
class ResultPart:
    """A piece of a tool call's result. Only `kept_bytes` of its `total_bytes` can be read."""

    data: bytes
    total_bytes: int
    kept_bytes: int
    media_type: str


@frozen
class Caller:
    """Who asks: the tenant of the credential, and the principal that facts name."""

    tenant: Tenant
    principal: str


@frozen
class TighterBounds:
    """Bounds given at the start; None leaves the workflow's."""

    run_timeout_ms: int | None = None
    token_budget: int | None = None
    cost_budget_micros: int | None = None
    steps: int | None = None
    events: int | None = None
    child_depth: int | None = None


class OnBusy(Enum):
    """What happens to a start whose thread has an active run."""

    REJECT = "reject"
    ENQUEUE = "enqueue"
    STEER = "steer"
    REPLACE = "replace"


@frozen
class ThreadRequest:
    """The thread that a run is to continue."""

    thread_id: str
    on_busy: OnBusy


@frozen
class StartRun:
    """A run to start. Exactly one of `workflow` (name, name@alias, name@digest) and `inline` is set.

    `fingerprint` is the SHA-256 of the canonical request; it matters only with a `request_id`.
    `start_delay_ms` is not set with a thread.
    """

    caller: Caller
    workflow: str
    inline: Source | None
    input_json: str
    request_id: str
    fingerprint: bytes
    subject_json: str
    labels: Mapping[str, str]
    bounds: TighterBounds
    deadline_unix_ms: int | None
    on_question: OnQuestion | None
    thread: ThreadRequest | None = None
    start_delay_ms: int | None = None


@frozen
class ForkRun:
    """A run to start from the first events of another, up to `sequence`.

    An empty `workflow` leaves the run's own plan, an empty `steer` gives no guidance. `labels` are set over
    those of the run. `fingerprint` is as in StartRun.
    """

    caller: Caller
    run_id: str
    sequence: int
    request_id: str
    fingerprint: bytes
    workflow: str
    bounds: TighterBounds
    labels: Mapping[str, str]
    steer: str
    deadline_unix_ms: int | None


class Disposition(Enum):
    """What became of a start."""

    STARTED = "started"
    QUEUED = "queued"
    DEDUPLICATED = "deduplicated"
    STEERED = "steered"
    REPLACED = "replaced"


@frozen
class Started:
    """The run that a start made or found, or, STEERED, gave its input to."""

    row: RunRow
    disposition: Disposition


class Stage(Enum):
    """How far a command has come."""

    ACCEPTED = "accepted"
    EFFECTIVE = "effective"
    SETTLED = "settled"


@frozen
class ControlRun:
    """One command for a run. An empty `command_id` is made up. `wait_ms` bounds the wait for `wait`."""

    caller: Caller
    run_id: str
    command_id: str
    reason: str
    expect_phase: str | None
    expect_sequence: int | None
    action: Action
    wait: Stage
    wait_ms: int


@frozen
class Receipt:
    """What became of a command. `sequence` is 0 while it is pending; `rejection` names a reason."""

    command_id: str
    stage: Stage
    applied: bool
    rejection: str
    sequence: int
    already_terminal: bool
    repeated: bool
    reached: bool


@frozen
class Snapshot:
    """A run as its durable facts have it, and which of its calls wait, as far as this process drives it."""

    row: RunRow
    state: RunState
    waits: Sequence[WaitingCall] = ()


@frozen
class TextMessage:
    """A message to append: the assistant's, or the user's."""

    assistant: bool
    text: str


@frozen
class AppendMessages:
    """Messages for a thread. `fingerprint` is as in StartRun."""

    caller: Caller
    thread_id: str
    messages: Sequence[TextMessage]
    request_id: str
    fingerprint: bytes


@frozen
class ThreadPage:
    """A thread with a page of its messages; `content` is empty if it was not asked for."""

    row: ThreadRow
    messages: Sequence[MessageRow]
    content: Sequence[Message]


@dataclass(frozen=True, slots=True)
class LiveDelta:
    """A live piece. Exactly one of text, reasoning, fragment, `waits_for`, `waiting` and `progress` is set.

    `attempt_id` is the sequence of the ModelCallStarted it belongs to; `tool` and `index` go with
    `fragment`. `waits_for` is the model profile at which the run waits for a place; it has no attempt yet.
    `waiting` is a tool call that waits, or does no more, `progress` how far one is.
    """

    attempt_id: int
    step_id: str
    iteration: int
    text: str = ""
    reasoning: str = ""
    fragment: str = ""
    tool: str = ""
    index: int = 0
    waits_for: str = ""
    waiting: "ToolWaiting | None" = None
    progress: ToolProgress | None = None

    @property
    def chars(self) -> int:
        """Its size, near enough to bound what is kept."""
        return len(self.text) + len(self.reasoning) + len(self.fragment) + len(self.tool) + 16


@frozen
class ToolWaiting:
    """That a call waits before anything is called, or that it does no more."""

    call: WaitingCall
    is_over: bool = False


def wait_shown(call: WaitingCall, *, is_over: bool = False) -> LiveDelta:
    """The live piece that says so."""
    return LiveDelta(0, call.step_id, call.iteration, waiting=ToolWaiting(call=call, is_over=is_over))


@frozen
class Live:
    """Which live pieces a watcher wants: of what models say, and of how far tool calls are."""

    deltas: bool = False
    progress: bool = False


@frozen
class Frame:
    """What a watcher gets next, in order: events, and live pieces if it asked for them.

    `sent_through` is the last event handed to this watcher up to here, `head` the newest durable one. A
    frame without events is a heartbeat or carries deltas. `reset` is an attempt whose deltas are void, 0
    if none. `degraded` says that the store can't be reached just now.

    `run_id` is set where the events are of a child; `positions` then says how far that child has been sent.
    """

    events: Sequence[StoredEvent]
    deltas: Sequence[LiveDelta]
    reset: int
    sent_through: int
    head: int
    degraded: bool
    run_id: str = ""
    positions: Mapping[str, int] | None = None


@frozen
class Checked:
    """What a check of a workflow found."""

    findings: tuple[Finding, ...]
    plan: Plan | None


@frozen
class PutDone:
    """A stored revision."""

    revision: RevisionRow
    created: bool
    findings: tuple[Finding, ...]


@frozen
class Described:
    """A revision with what it compiles to now."""

    revision: RevisionRow
    plan: Plan
    worst_case: WorstCase


def tightened(bounds: RunBounds, by: TighterBounds) -> tuple[RunBounds, tuple[str, ...]]:
    """The workflow's bounds with the tighter ones in place, and the names of those that were looser."""
    looser: list[str] = []

    def pick(name: str, own: int | None, given: int | None) -> int | None:
        if given is None:
            return own
        if own is not None and given > own:
            looser.append(name)
        return given

    steps = pick("steps", bounds.steps, by.steps)
    events = pick("events", bounds.events, by.events)
    depth = pick("child_depth", bounds.child_depth, by.child_depth)
    merged = RunBounds(
        run_timeout_ms=pick("run_timeout", bounds.run_timeout_ms, by.run_timeout_ms),
        token_budget=pick("token_budget", bounds.token_budget, by.token_budget),
        cost_budget_micros=pick("cost_budget_micros", bounds.cost_budget_micros, by.cost_budget_micros),
        steps=bounds.steps if steps is None else steps,
        events=bounds.events if events is None else events,
        child_depth=bounds.child_depth if depth is None else depth,
    )
    return merged, tuple(looser)

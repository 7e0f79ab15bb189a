"""What happened, as seen from outside: the input of every validator.

Owns the shapes and their JSON form. Whoever watches a system fills them in: the simulator from within one
process, tests from outside it. Nothing here knows how the system works. Times are milliseconds of one clock
of the observer that never jumps.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from pydantic import TypeAdapter

from jackline_server.testing.validators.acts import BulkPage, Switching

Scalar = None | bool | int | str
FieldValue = Scalar | list[str] | dict[str, Scalar]
"""What a field of a fact may be."""

OK = "ok"
"""A call that was answered, or a stream that the server ended in good order."""

LOST = "lost"
"""A call or stream whose end never came: whether a call took effect is not known."""

CLOSED = "closed"
"""A stream that its client gave up."""

REFUSED = "refused"
"""A call or stream that the server ended with a reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event of a log. `kind` is the fact's name on the wire, `digest` stands for all of its bytes.

    `fields` are the fact's metadata. `at_ms` is when it became durable, None if nobody saw that.
    """

    sequence: int
    kind: str
    digest: str
    step: str = ""
    visit: int = 0
    fields: Mapping[str, FieldValue]
    at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCaps:
    """The caps of one visit of a step; None is no cap. `tools` caps single tools by name."""

    max_iterations: int | None = None
    model_requests: int | None = None
    tool_calls: int | None = None
    token_budget: int | None = None
    cost_budget_micros: int | None = None
    tools: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asks:
    """What a step that asks a person offers, if it is a choice, and what it takes if nobody answers in time.

    `default` is the option of that, `default_output` stands for the output; empty without any.
    """

    options: tuple[str, ...] = ()
    default: str = ""
    default_output: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCaps:
    """What a run may spend, in all and by visit. `retried` are tools whose unknown writes are repeated.

    `asks` are the steps that only ask a person, by name. `approves` are the tools whose every call somebody
    has to let start, by the step that calls them.
    """

    steps: int | None = None
    token_budget: int | None = None
    cost_budget_micros: int | None = None
    visits: Mapping[str, StepCaps]
    retried: tuple[str, ...] = ()
    asks: Mapping[str, Asks] = field(default_factory=dict[str, Asks])
    approves: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run and its log as it stands at the end. `mark` tells which start request it came from.

    `thread` is the conversation that it continues, `parent` the run that started it: both empty for none.
    `tokens` and `cost_micros` are what the server says that it has used in all; None if nobody asked.
    """

    run: str
    mark: str
    caps: RunCaps
    events: tuple[Event, ...]
    thread: str = ""
    parent: str = ""
    tokens: int | None = None
    cost_micros: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A write to a run's log that the store took, in the order in which it took them."""

    run: str
    worker: str
    epoch: int
    after: int
    count: int
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A request to start a run. `mark` stands for its content.

    `ending` is OK, REFUSED or LOST; `run` and `disposition` come with OK, `reason` with REFUSED. `on_busy`
    comes with a `thread`.
    """

    client: str
    request_id: str
    mark: str
    begin_ms: int
    end_ms: int
    ending: str
    run: str = ""
    disposition: str = ""
    reason: str = ""
    thread: str = ""
    on_busy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """A command. `content` stands for what it says; the rest is its receipt if `ending` is OK."""

    client: str
    run: str
    command_id: str
    kind: str
    content: str
    abort_mode: str = ""
    begin_ms: int
    end_ms: int
    ending: str
    reason: str = ""
    stage: str = ""
    applied: bool = False
    rejection: str = ""
    sequence: int = 0
    already_terminal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What a stream handed over at once: events as (sequence, digest), and its bookmark."""

    at_ms: int
    events: tuple[tuple[int, str], ...]
    sent_through: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One watch of a run, opened after an event. `ending` is OK, REFUSED, LOST or CLOSED.

    `grace_ms` is set for an owner of the run: how long the run goes on without it.
    """

    client: str
    run: str
    after: int
    begin_ms: int
    end_ms: int
    deliveries: tuple[Delivery, ...]
    ending: str
    reason: str = ""
    metadata: Mapping[str, str]
    grace_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEntry:
    """An attempt as the tool itself noted it, when it began.

    `given` is the SHA-256 in hexadecimal of all that it was given; empty where the tool does not say.
    """

    run: str
    tool: str
    effect: str
    call_key: str
    attempt: int
    at_ms: int
    given: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A request as the model's endpoint noted it, when it came."""

    run: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandEntry:
    """A command's place among the accepted ones of its run."""

    run: str
    command_id: str
    ordinal: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One message of a thread. `run` added it; without one it came from outside, and `text` is all of it."""

    position: int
    run: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """A thread as it stands at the end: its active run if any, how many runs and messages wait, and all."""

    thread: str
    active: str = ""
    waiting: int = 0
    pending: int = 0
    messages: tuple[Said, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """A message that was sent to a thread from outside. No two messages have the same `text`.

    `ending` is OK, REFUSED or LOST.
    """

    client: str
    thread: str
    text: str
    begin_ms: int
    end_ms: int
    ending: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How soon things have to happen. None where the observer's own faults forbid to judge it.

    `quiescent` says that everything was healed at the end and every run had the time to finish.
    `zero_unix_ms` is what the clocks that questions and graces end by read at the observer's zero, if none
    jumps. `gone_within_ms` is how much later than its grace a run without owners is told to end, or than
    `healed_ms`, from which on nothing is disturbed.
    """

    abort_within_ms: int | None = None
    call_after_abort_ms: int | None = None
    heartbeat_within_ms: int | None = None
    quiescent: bool = False
    zero_unix_ms: int | None = None
    gone_within_ms: int | None = None
    healed_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """All that was seen. `commits` and `commands` stay empty where nobody can see them.

    `threads` are those that somebody read at the end.
    """

    runs: tuple[Run, ...] = ()
    commits: tuple[Commit, ...] = ()
    commands: tuple[CommandEntry, ...] = ()
    starts: tuple[Start, ...] = ()
    controls: tuple[Control, ...] = ()
    streams: tuple[Stream, ...] = ()
    tools: tuple[ToolEntry, ...] = ()
    hits: tuple[Hit, ...] = ()
    threads: tuple[Thread, ...] = ()
    appends: tuple[Append, ...] = ()
    switchings: tuple[Switching, ...] = ()
    bulk: tuple[BulkPage, ...] = ()
    limits: Limits = Limits()

    def log(self, run: str) -> tuple[Event, ...]:
        """The log of a run; empty if nobody saw it."""
        return next((one.events for one in self.runs if one.run == run), ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A promise that was broken: its id, the run it concerns (or none), and how."""

    guarantee: str
    run: str
    sentence: str


def to_json(history: History, *, indent: int | None = None) -> bytes:
    """The history as a JSON document: the same bytes for equal histories."""
    return _adapter().dump_json(history, indent=indent)


def from_json(data: bytes | str) -> History:
    """The history back. Raises pydantic.ValidationError."""
    return _adapter().validate_json(data)


@cache
def _adapter() -> TypeAdapter[History]:
    return TypeAdapter(History)

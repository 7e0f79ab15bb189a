"""What the runtime needs from models, tools, codec, compiler, signals and machine, in its own words.

The store's ports are in `store_ports`. Implementations live in the ring around the runtime, none of which
knows another; `bootstrap` alone puts them together. Times are milliseconds.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from jackline_server.core.commands import Command
from jackline_server.core.facts import (
    AttemptLimit,
    CallStatus,
    ConsultKind,
    Fact,
    FailureClass,
    FinishReason,
    ToolAsk,
    ToolReply,
    Usage,
)
from jackline_server.core.frozen import frozen
from jackline_server.core.gate_plans import ArgumentsView, MaskPlan, Point
from jackline_server.core.messages import Message
from jackline_server.core.plan import Effect, JsonValue, ModelPlan, Plan, ToolChoice, ToolEntry, ToolStep
from jackline_server.core.state import RunState
from jackline_server.runtime.store_ports import StoredEvent
from jackline_server.runtime.tool_reports import Report
from jackline_server.runtime.tool_waits import OnWait, unheard

# --- models ------------------------------------------------------------------------------------


@frozen
class ModelRequest:
    """One attempt at a model.

    `total_ms` bounds the whole attempt, `idle_ms` the wait for the next chunk; the other timers and the caps
    are the plan's. `max_output_tokens` goes to the provider, and so does `reply_schema`: a JSON Schema that
    the answer is to keep to.
    """

    plan: ModelPlan
    messages: Sequence[Message]
    tools: Sequence[ToolEntry]
    tool_choice: ToolChoice
    max_output_tokens: int
    total_ms: int
    idle_ms: int
    reply_schema: str | None = None


@dataclass(frozen=True, slots=True)
class TextChunk:
    """A piece of the reply's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningChunk:
    """A piece of the model's reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallChunk:
    """A piece of a tool call. `index` is its slot in the reply; id and name come once, if at all."""

    index: int
    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class EndChunk:
    """The end of a reply, always the last chunk. `usage` is None if none usable was reported.

    `usage_unreadable` says that some was reported, and could not be read as numbers of tokens.
    `reasoning_field` and `blocks_json` say how the reasoning is sent back: as `ReasoningBlocks` has it.
    """

    finish: FinishReason
    usage: Usage | None
    reasoning_field: str = ""
    blocks_json: str = ""
    usage_unreadable: bool = False


ModelChunk = TextChunk | ReasoningChunk | ToolCallChunk | EndChunk


class ModelFailure(Exception):
    """An attempt failed, in a way that has a class.

    `usage` is what the provider is known to have charged: all zero if it refused before it worked, None
    if nobody knows. `message` goes to the log: it holds no secret and no address. `limit` is the timer or cap
    that ended the attempt, if one did.
    """

    def __init__(
        self,
        failure: FailureClass,
        message: str,
        *,
        retry_after_ms: int | None = None,
        usage: Usage | None = None,
        limit: AttemptLimit | None = None,
    ) -> None:
        super().__init__(message)
        self.failure = failure
        self.message = message
        self.retry_after_ms = retry_after_ms
        self.usage = usage
        self.limit = limit


class Models(Protocol):
    """All model adapters behind one door."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        """Attempt one call and yield its chunks; exactly one EndChunk, last.

        Closing the iterator early, or cancelling its consumer, ends the provider's connection. The
        adapter never retries.

        Raises:
            ModelFailure: whatever went wrong, its timers and caps included.
        """
        ...


class ModelPlace(Protocol):
    """A place for one attempt at a model."""

    def release(self, used_tokens: int | None) -> None:
        """Give it back, once. `used_tokens` is what the attempt came to; None if nobody knows."""
        ...


class ModelPlaces(Protocol):
    """Room for attempts at models: a run takes a place before it announces an attempt."""

    def take(self, plan: ModelPlan, *, tokens: int) -> ModelPlace | None:
        """A place, if there is one now and nobody waits for it. `tokens` is what the attempt may come to."""
        ...

    async def wait(self, plan: ModelPlan, *, tokens: int) -> ModelPlace:
        """Wait in line for a place. Cancelling it leaves the line."""
        ...


@dataclass(frozen=True, slots=True)
class NoLimits:
    """For models that anybody may call at any time. Both ModelPlaces and ModelPlace."""

    def take(self, plan: ModelPlan, *, tokens: int) -> ModelPlace | None:
        """There is always room."""
        del plan, tokens
        return self

    async def wait(self, plan: ModelPlan, *, tokens: int) -> ModelPlace:
        """There is always room."""
        del plan, tokens
        return self

    def release(self, used_tokens: int | None) -> None:
        """Nothing was taken."""
        del used_tokens


# --- tools -------------------------------------------------------------------------------------


@frozen
class Invocation:
    """One attempt at a tool.

    `arguments` are what the caller chose (the model, or a visit of the step); `bound` are the engine's
    own values and win over them; `step_input` fills what neither has. `call_key` goes to the tool as
    idempotency key. `reply` is what a person said to what the last attempt asked. `on_wait` is told what the
    attempt waits for before anything is called; `report` takes in how far it is, None where nobody asks.
    """

    step: ToolStep
    run_id: str
    call_key: str
    attempt: int
    arguments: Mapping[str, JsonValue]
    bound: Mapping[str, JsonValue]
    step_input: Mapping[str, JsonValue]
    subject: Mapping[str, JsonValue]
    timeout_ms: int
    reply: ToolReply | None = None
    on_wait: OnWait = unheard
    report: Report | None = None

    @property
    def values(self) -> dict[str, JsonValue]:
        """All of them under one roof, the engine's values on top."""
        return {**self.step_input, **self.arguments, **self.bound}


class ToolEnding(Enum):
    """How an attempt at a tool ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    ASKING = "asking"
    """Not at all yet: it asks a person, and is to be called again with the answer."""

    UNCERTAIN = "uncertain"
    """Failed in a way that leaves open whether the tool acted: its answer was lost or came too late."""

    def status(self, effect: Effect) -> CallStatus:
        """What it comes to for the call: of one that may be made again, doubt is a failure like any other."""
        match self:
            case ToolEnding.COMPLETED:
                return CallStatus.COMPLETED
            case ToolEnding.FAILED:
                return CallStatus.FAILED
            case ToolEnding.ASKING:
                return CallStatus.ASKING
            case ToolEnding.UNCERTAIN:
                return CallStatus.FAILED if effect.repeatable else CallStatus.UNKNOWN


@frozen
class MediaPart:
    """Something in a result that is no text. `name` is what its sender calls it, empty if nothing.

    `data` is None where the bytes must not be kept.
    """

    data: bytes | None
    media_type: str
    name: str = ""
    size: int = 0

    @property
    def bytes(self) -> int:
        """How many there are, or were."""
        return self.size if self.data is None else len(self.data)


@frozen
class ToolResult:
    """What an attempt returned: an output as JSON text, or an error in words for the model.

    Of an output that is too long for the log, `output_json` is its beginning as a JSON string, `tail` its
    end, `whole` all of its text, and `cut_from_bytes` the length of that; 0 for any other.

    `media` is what else it holds: part 1 and so on.

    `may_pass` says that another
    attempt can help, `retry_after_ms` how long the tool asks to wait; `timed_out` that the time was over.
    `connection_problem` is set where it is the connection that failed, and not the call or the tool: why, in
    words that hold nothing of the call.
    """

    ending: ToolEnding
    output_json: str | None = None
    error: str = ""
    cut_from_bytes: int = 0
    may_pass: bool = False
    retry_after_ms: int | None = None
    timed_out: bool = False
    connection_problem: str = ""
    tail: str = ""
    whole: str | None = None
    media: tuple[MediaPart, ...] = ()
    ask: ToolAsk | None = None

    @property
    def connection_failed(self) -> bool:
        """True if it is the connection that failed."""
        return bool(self.connection_problem)


class Toolbox(Protocol):
    """All step kinds that do one thing, behind one door."""

    async def call(self, invocation: Invocation) -> ToolResult:
        """Attempt one call. A tool's failure is a result, never a raise.

        Cancelling it stops the attempt as far as its kind allows; whether the tool acted is then open.
        """
        ...


class HeldCalls(Protocol):
    """Calls that a server holds open while a person is asked."""

    def let_go(self, run_id: str) -> None:
        """Nobody waits for those of this run any more: tell their servers so. Raises and awaits nothing."""
        ...


# --- consultants -------------------------------------------------------------------------------


@frozen
class RunPlace:
    """Where in which run a question is asked. `visit` and `iteration` are 0 between steps."""

    workflow: str = ""
    principal: str = ""
    step_id: str = ""
    visit: int = 0
    iteration: int = 0


@frozen
class Consultation:
    """A question. `who` is the place in the plan that asks it, `target` names who is asked.

    `variables` are what may be given to whoever is asked; `subject` says on whose behalf the run works.
    `point` is where in the run, None for a condition; `view` how much of a call's arguments a policy
    service may see.
    """

    kind: ConsultKind
    target: str
    run_id: str
    who: str
    variables: Mapping[str, JsonValue]
    subject: Mapping[str, JsonValue]
    timeout_ms: int
    point: Point | None = None
    view: ArgumentsView | None = None
    place: RunPlace = RunPlace()


@frozen
class ConsultReply:
    """The answer; None if there is none, with the reason in words.

    Yes and no are what a condition is; to a hook or a policy they are to let pass and not to. `retry` asks
    for the call once more; `metadata` is what a hook sets for the run.
    """

    answer: bool | None
    error: str = ""
    reason: str = ""
    retry: bool = False
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])


class Consultants(Protocol):
    """Those who are asked and change nothing."""

    async def ask(self, question: Consultation) -> ConsultReply:
        """Put one question. Whatever goes wrong is a reply without an answer, never a raise.

        Returns at most about a second after the question's time is over. Cancelling it ends the question;
        what can't be stopped is left behind.
        """
        ...


@dataclass(frozen=True, slots=True)
class NoConsultants:
    """For a server that has nobody to ask."""

    async def ask(self, question: Consultation) -> ConsultReply:
        """There is no answer."""
        del question
        return ConsultReply(answer=None, error="This server has no functions.")


# --- masks -----------------------------------------------------------------------------------


class Masks(Protocol):
    """Hides personal data before anything is stored."""

    def text(self, text: str, plan: MaskPlan) -> str:
        """The text with every piece of such data replaced by a mark of its kind. CPU only, in linear time."""
        ...

    def json(self, text: str, plan: MaskPlan) -> str:
        """The same for the texts and numbers of a JSON document; as plain text if it is none."""
        ...


@dataclass(frozen=True, slots=True)
class NoMasks:
    """For a server that masks nothing: a plan that wants it is refused."""

    def text(self, text: str, plan: MaskPlan) -> str:
        """Raises LookupError."""
        raise LookupError("this server has no masks")

    def json(self, text: str, plan: MaskPlan) -> str:
        """Raises LookupError."""
        raise LookupError("this server has no masks")


# --- codec -------------------------------------------------------------------------------------


@frozen
class Envelope:
    """Where and when a fact happened. `signal` is `running` until the step or run has one.

    `parent_run_id` is the run that started this one, empty without.
    """

    run_id: str
    sequence: int
    unix_ms: int
    active_ms: int
    step_id: str
    visit: int
    iteration: int
    signal: str
    parent_run_id: str = ""


@frozen
class Record:
    """A fact with its envelope, as read back."""

    envelope: Envelope
    fact: Fact


class UnknownFact(Exception):
    """The log holds a fact that this version does not know: a newer one wrote it."""


class Codec(Protocol):
    """Facts, plans, commands and summaries as bytes. Total both ways."""

    def encode(self, record: Record) -> StoredEvent:
        """The event's bytes, metadata and content apart."""
        ...

    def decode(self, event: StoredEvent) -> Record:
        """The record back. Raises UnknownFact."""
        ...

    def encode_plan(self, plan: Plan) -> bytes:
        """The plan's bytes, the same for equal plans; `plan.digest` is not part of them."""
        ...

    def decode_plan(self, data: bytes) -> Plan:
        """The plan back, with `digest` set to the SHA-256 of `data`."""
        ...

    def encode_command(self, command: Command) -> bytes:
        """The command's bytes; its ordinal is not part of them."""
        ...

    def decode_command(self, data: bytes, *, ordinal: int) -> Command:
        """The command back."""
        ...

    def encode_message(self, message: Message) -> bytes:
        """The bytes of a thread's message, the same for equal ones."""
        ...

    def decode_message(self, data: bytes) -> Message:
        """The message back. Raises UnknownFact, StoreDamaged."""
        ...

    def summarize(self, state: RunState, *, created_unix_ms: int, finished_unix_ms: int | None) -> bytes:
        """The encoded metadata view of the run, as lists show it."""
        ...


# --- definitions -------------------------------------------------------------------------------


class Severity(Enum):
    """How much a finding weighs."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@frozen
class Finding:
    """One finding of a check. `line` and `column` are from 1, 0 where it is about the whole file."""

    severity: Severity
    code: str
    message: str
    file: str
    line: int
    column: int
    path: str


@frozen
class Signature:
    """A workflow as those see it that run it. `runs` are the references of those that its own steps run."""

    name: str
    input_schema_json: str | None
    runs: tuple[str, ...]


@frozen
class Source:
    """A workflow as it was written. `file` is the name that findings cite for the YAML.

    `known` are the workflows that its steps run, and those that these run, by the reference that names them;
    a text says why there is none. What was not looked up is left out.
    """

    yaml: str
    files: Mapping[str, bytes]
    file: str = "workflow.yaml"
    known: Mapping[str, Signature | str] = field(default_factory=dict[str, "Signature | str"])


@frozen
class WorstCase:
    """The most that one run can spend; None has no cap."""

    model_requests: int | None
    tool_calls: int | None
    tokens: int | None
    cost_micros: int | None
    active_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilation:
    """What a source was compiled to. `plan` is None if a finding is an error.

    `name` is the workflow's, empty if it has none; `revision` the SHA-256 of the source with its pins.
    `catalogs` are the MCP connections whose catalog was read, with the version that was, None if there was
    none. `pins` are files that keep what was read of them: a source with them needs no catalog to compile.
    `runs` are the references of the workflows that its steps run.
    """

    name: str
    revision: str
    plan: Plan | None
    findings: tuple[Finding, ...]
    worst_case: WorstCase | None
    catalogs: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])
    pins: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    runs: tuple[str, ...] = ()


class Compiler(Protocol):
    """Turns a workflow file into a plan, or into findings that say why not."""

    def compile(self, source: Source) -> Compilation:
        """Check and compile. CPU only, bounded by the sizes of the source; raises nothing."""
        ...

    def signature(self, source: Source) -> Signature | None:
        """What others need to know of it, unchecked; None if it can't be read. CPU only, raises nothing."""
        ...


# --- signals -----------------------------------------------------------------------------------


class Signals(Protocol):
    """Nudges across a deployment. May be lost, doubled or late: the store is the truth."""

    def nudge(self, run_id: str) -> None:
        """Say that something about a run has changed in the store."""
        ...

    def subscribe(self, subscriber: Callable[[str], None]) -> None:
        """Call `subscriber` with the run's id at every nudge."""
        ...


# --- the machine -------------------------------------------------------------------------------


class Clock(Protocol):
    """Time. Nothing is decided by `unix_ms` but deadlines and expiries that people set."""

    def unix_ms(self) -> int:
        """Wall-clock time."""
        ...

    def monotonic_ms(self) -> int:
        """Time that never jumps; only differences mean anything."""
        ...

    async def sleep(self, ms: int) -> None:
        """Return after so long."""
        ...


class Chance(Protocol):
    """Ids and jitter."""

    def new_id(self, prefix: str) -> str:
        """A fresh id: the prefix and 26 lower-case letters and digits, sortable by time."""
        ...

    def fraction(self) -> float:
        """A number from 0 up to 1."""
        ...

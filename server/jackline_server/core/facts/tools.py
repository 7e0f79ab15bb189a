"""Tool calls: requested, started, finished."""

from enum import Enum

from jackline_server.core.frozen import frozen
from jackline_server.core.media import ResultMedia
from jackline_server.core.plan import Effect


class CallStatus(Enum):
    """Where a tool call stands."""

    REQUESTED = "requested"
    STARTED = "started"
    COMPLETED = "completed"
    FAILED = "failed"
    DENIED = "denied"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"
    ASKING = "asking"


class CallProblem(Enum):
    """Why a requested call can't start."""

    UNKNOWN_TOOL = "unknown_tool"
    MALFORMED_ARGUMENTS = "malformed_arguments"
    INVALID_ARGUMENTS = "invalid_arguments"
    NOT_ALLOWED = "not_allowed"
    OVER_TOOL_LIMIT = "over_tool_limit"
    OVER_LIMIT = "over_limit"
    STEP_ENDED = "step_ended"
    TWIN_UNKNOWN = "twin_unknown"
    GUARDRAIL = "guardrail"
    POLICY_DENIED = "policy_denied"
    REPLY_DISCARDED = "reply_discarded"
    NOT_APPROVED = "not_approved"
    CHILD_DEPTH = "child_depth"
    SUPERVISOR = "supervisor"


OTHER_TOOL = "other"
"""Stands in metadata for a name that the model made up."""


@frozen
class ToolAsk:
    """What a tool asks a person before it goes on. `state_json` is what it is given back with the answer.

    `schema_json` is of what the answer has to be: an object, or words where its type is `string`; empty where
    no data is wanted. `options` are what can be answered; empty is `accept` and `decline`.
    """

    text: str
    schema_json: str = ""
    state_json: str = "null"
    options: tuple[str, ...] = ()


@frozen
class ToolReply:
    """What a person said: `accept`, with an object as JSON where one was wanted, `decline`, or `cancel`."""

    option: str
    text: str
    state_json: str


@frozen
class ToolCallRequested:
    """The model, or a visit of a tool step, asked for a call.

    `tool` is a name of the plan, or `other`; `name` and `arguments` are as they were written.
    """

    call_id: str
    ordinal: int
    tool: str
    name: str  # content
    arguments: str  # content


@frozen
class ToolCallStarted:
    """A tool attempt is reserved and about to start. `call_key` is the same for every attempt."""

    call_id: str
    tool: str
    call_key: str
    effect: Effect
    attempt: int


@frozen
class ToolCallFinished:
    """A tool call ended, was never started (`denied`), or asks a person and then goes on (`asking`).

    `output_json` is None without an output. Where the output was cut, that is the beginning of its text as a
    JSON string, `tail` the end, `cut_from_bytes` the true length, and `blob` the digest of the whole text;
    empty if that is not kept. `media` is what of the result is no text.

    `waited_ms` of `duration_ms` went by before anything was called.

    `reused_from` is the equal call whose result it got. `retry_in_ms` is None if no further attempt follows.
    """

    call_id: str
    tool: str
    status: CallStatus
    duration_ms: int = 0
    waited_ms: int = 0
    problem: CallProblem | None = None
    cut_from_bytes: int = 0
    abandoned: bool = False
    reused_from: str = ""
    retry_in_ms: int | None = None
    timed_out: bool = False
    output_json: str | None = None  # content
    error: str = ""  # content; in words for the model
    tail: str = ""  # content
    blob: str = ""  # content
    media: tuple[ResultMedia, ...] = ()  # content
    ask: ToolAsk | None = None  # content

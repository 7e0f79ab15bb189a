"""Calls of a model: announced, replied, failed, and what they used."""

from enum import Enum

from jackline_server.core.facts.runs import StopReason
from jackline_server.core.frozen import frozen
from jackline_server.core.reasoning import ReasoningBlocks


@frozen
class Usage:
    """Tokens of one model call. `estimated` where the provider reported nothing usable."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    estimated: bool = False

    @property
    def total(self) -> int:
        """Prompt and completion together."""
        return self.prompt_tokens + self.completion_tokens


class Purpose(Enum):
    """What a model call is for. Only a turn uses an iteration."""

    TURN = "turn"
    REPAIR = "repair"
    FINAL_ANSWER = "final_answer"
    GROUND = "ground"
    SUMMARY = "summary"
    JUDGE = "judge"
    """A guardrail's."""

    SUPERVISE = "supervise"
    """A supervisor's judge."""

    @property
    def is_aside(self) -> bool:
        """True if the reply is no part of the conversation."""
        return self in _ASIDE


_ASIDE = frozenset({Purpose.GROUND, Purpose.SUMMARY, Purpose.JUDGE, Purpose.SUPERVISE})


@frozen
class ModelCallStarted:
    """A model call is reserved and about to start.

    `iteration` is the turn it belongs to, from 1. `reserved_tokens` is the estimated prompt plus
    `max_output_tokens`, the cap that is sent to the provider. A closing answer names the limit that
    led to it. A summary stands for the first `summarised` entries of the visit.
    """

    iteration: int
    purpose: Purpose
    attempt: int
    model: str
    prompt_tokens: int
    max_output_tokens: int
    reserved_cost_micros: int
    limit: StopReason | None = None
    limit_leaf: str = ""
    summarised: int = 0

    @property
    def reserved_tokens(self) -> int:
        """What is held in the token ledgers until the call is settled."""
        return self.prompt_tokens + self.max_output_tokens


class FinishReason(Enum):
    """Why the model stopped."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"
    OTHER = "other"


@frozen
class ModelReplied:
    """The model replied. Its tool calls follow as facts of their own, in the same commit.

    `calls_in_text` says that it wrote them into its text, which is kept as it was written.
    `blocks` is None if no reasoning has to be sent back.
    """

    usage: Usage
    cost_micros: int
    finish: FinishReason
    tool_calls: int
    tokens_used: int
    latency_ms: int
    first_token_ms: int
    text: str  # content
    reasoning: str  # content
    blocks: ReasoningBlocks | None = None  # content
    calls_in_text: bool = False


class FailureClass(Enum):
    """What kind of failure an attempt at the model met."""

    RATE_LIMITED = "rate_limited"
    UNAVAILABLE = "unavailable"
    CONNECTION = "connection"
    TIMEOUT = "timeout"
    MALFORMED = "malformed"
    AUTHENTICATION = "authentication"
    BAD_REQUEST = "bad_request"
    CONTEXT_OVERFLOW = "context_overflow"
    CANCELLED = "cancelled"
    INTERNAL = "internal"

    @property
    def may_pass(self) -> bool:
        """True if another attempt can help."""
        return self in _PASSING


_PASSING = frozenset(
    {
        FailureClass.RATE_LIMITED,
        FailureClass.UNAVAILABLE,
        FailureClass.CONNECTION,
        FailureClass.TIMEOUT,
        FailureClass.MALFORMED,
    }
)


class AttemptLimit(Enum):
    """Which timer or cap ended an attempt at a model."""

    CONNECT = "connect"
    FIRST_TOKEN = "first_token"  # noqa: S105 - no secret: it is a token of a model
    IDLE = "idle"
    TOTAL = "total"
    BYTES = "bytes"
    CHUNKS = "chunks"


@frozen
class ModelCallFailed:
    """The attempt failed. `usage` and `cost_micros` are what it is charged.

    `retry_in_ms` is None if no further attempt at this model follows. `text` is what had come of the reply's
    text: it was interrupted there. `limit` is the timer or cap that ended it; None if it ended by itself.
    `waits` says that none of the step's models could be reached, and that it waits so long before it begins
    again with the first.
    """

    failure: FailureClass
    retry_in_ms: int | None
    usage: Usage
    cost_micros: int
    error: str  # content; no secret, no address
    text: str = ""  # content
    limit: AttemptLimit | None = None
    waits: bool = False

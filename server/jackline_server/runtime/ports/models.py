"""What the runtime needs of a model: a request, what comes back, how it fails, and places at a provider."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Protocol

from jackline_server.core.facts import AttemptLimit, FailureClass, FinishReason, Usage
from jackline_server.core.frozen import frozen
from jackline_server.core.messages import Message
from jackline_server.core.plan import ModelPlan, ToolChoice, ToolEntry


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

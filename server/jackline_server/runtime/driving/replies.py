"""Chunks of a model's reply, folded into the reply.

Owns the fold, what a finish reason means beside what really came, and the replacement of lone
surrogates. Pure. Does not own what a provider's chunks look like (`models`) nor what a reply means for
the run (`core`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import assert_never

from jackline_server.core.facts import FinishReason, Usage
from jackline_server.core.frozen import frozen
from jackline_server.runtime.ports.models import (
    EndChunk,
    ModelChunk,
    ReasoningChunk,
    TextChunk,
    ToolCallChunk,
)

CALL_ID_CHARS = 128
"""A provider's call id is kept up to here."""

CALL_NAME_CHARS = 256
"""A tool name is kept up to here; no tool has so long a one, so what is cut names none."""


@frozen
class ReplyCall:
    """One tool call as the model wrote it. `index` is its place in the reply, from 0, without holes.

    `call_id` and `name` are empty where the model gave none; `arguments` is any text.
    """

    index: int
    call_id: str
    name: str
    arguments: str


@frozen
class Reply:
    """A whole reply. `usage` is None if the provider reported none that is usable.

    `usage_unreadable`, `reasoning_field` and `blocks_json` are those of its EndChunk.
    """

    text: str
    reasoning: str
    calls: tuple[ReplyCall, ...]
    finish: FinishReason
    usage: Usage | None
    reasoning_field: str = ""
    blocks_json: str = ""
    usage_unreadable: bool = False


@dataclass(slots=True)
class _Call:
    """A call while it arrives."""

    call_id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class ReplyBuilder:
    """Folds the chunks of one attempt, in order. Not shared between attempts."""

    _text: list[str] = field(default_factory=list[str])
    _reasoning: list[str] = field(default_factory=list[str])
    _calls: dict[int, _Call] = field(default_factory=dict[int, _Call])
    _end: EndChunk | None = None

    def add(self, chunk: ModelChunk) -> None:
        """Take in the next chunk. What follows an EndChunk is left aside."""
        if self._end is not None:
            return
        match chunk:
            case TextChunk(text=text):
                self._text.append(text)
            case ReasoningChunk(text=text):
                self._reasoning.append(text)
            case ToolCallChunk():
                self._add_call(chunk)
            case EndChunk():
                self._end = chunk
            case _:
                assert_never(chunk)

    def _add_call(self, chunk: ToolCallChunk) -> None:
        """The first id and the first name of a slot stand; arguments are glued."""
        call = self._calls.setdefault(chunk.index, _Call())
        call.call_id = call.call_id or chunk.call_id
        call.name = call.name or chunk.name
        call.arguments.append(chunk.arguments)

    @property
    def ended(self) -> bool:
        """True once the EndChunk has come."""
        return self._end is not None

    @property
    def text(self) -> str:
        """The text that has come so far."""
        return well_formed("".join(self._text))

    def reply(self) -> Reply:
        """What has come so far; `finish` is OTHER and `usage` None while no EndChunk has come."""
        end = self._end or EndChunk(FinishReason.OTHER, None)
        calls = tuple(_finished(index, call) for index, (_, call) in enumerate(sorted(self._calls.items())))
        text = well_formed("".join(self._text))
        return Reply(
            text=text,
            reasoning=well_formed("".join(self._reasoning)),
            calls=calls,
            finish=_plain_finish(end.finish, has_calls=bool(calls), has_text=bool(text)),
            usage=end.usage,
            reasoning_field=end.reasoning_field,
            blocks_json=end.blocks_json,
            usage_unreadable=end.usage_unreadable,
        )


def fold(chunks: Iterable[ModelChunk]) -> Reply:
    """The reply that these chunks make."""
    builder = ReplyBuilder()
    for chunk in chunks:
        builder.add(chunk)
    return builder.reply()


def well_formed(text: str) -> str:
    """The text with surrogate pairs joined and lone surrogates replaced by U+FFFD.

    Lone surrogates pass `json.loads` and fail much later, where text is encoded.
    """
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _finished(index: int, call: _Call) -> ReplyCall:
    arguments = well_formed("".join(call.arguments))
    return ReplyCall(
        index=index,
        call_id=well_formed(call.call_id)[:CALL_ID_CHARS],
        name=well_formed(call.name)[:CALL_NAME_CHARS],
        arguments=arguments if arguments.strip() else "",
    )


def _plain_finish(finish: FinishReason, *, has_calls: bool, has_text: bool) -> FinishReason:
    """What the reason means once it is compared with what came.

    Providers say `stop` over calls and `tool_calls` over none; a cut or filtered reply stays what it is.
    """
    match finish:
        case FinishReason.STOP | FinishReason.OTHER if has_calls:
            return FinishReason.TOOL_CALLS
        case FinishReason.TOOL_CALLS if not has_calls:
            return FinishReason.STOP if has_text else FinishReason.OTHER
        case _:
            return finish

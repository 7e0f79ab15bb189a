"""A model that plays a script: for demonstrations, tests and trying a workflow without a provider.

Owns how a script is played. `script` owns the file format. It has no state between calls: a turn is chosen
from the messages of the request alone, so that a repeated request gets the same reply.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping, Sequence

from jackline_server.core import json_text
from jackline_server.core.facts import FailureClass, FinishReason, Usage
from jackline_server.core.messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from jackline_server.core.plan import JsonObject, JsonValue
from jackline_server.models.failures import refused
from jackline_server.models.profile import ModelProfile
from jackline_server.models.script import (
    Script,
    ScriptCall,
    ScriptFailure,
    ScriptUsage,
    Turn,
    When,
    load_script,
)
from jackline_server.runtime.ports.models import (
    EndChunk,
    ModelChunk,
    ModelFailure,
    ModelRequest,
    ReasoningChunk,
    TextChunk,
    ToolCallChunk,
)

_PIECE_CHARS = 24
_BYTES_PER_TOKEN = 4
_MESSAGE_TOKENS = 4
_NAMES_SHOWN, _NAME_SHOWN = 8, 64
_PLACEHOLDER = re.compile(r"\{\{\s*user\.([A-Za-z_][\w]*)\s*\}\}")
_UNCHARGED = frozenset(
    {
        FailureClass.RATE_LIMITED,
        FailureClass.CONNECTION,
        FailureClass.AUTHENTICATION,
        FailureClass.BAD_REQUEST,
        FailureClass.CONTEXT_OVERFLOW,
    }
)


def load_scripts(profiles: Mapping[str, ModelProfile]) -> dict[str, Script]:
    """The scripts of all profiles that have one, by profile. Reads files. Raises ScriptError."""
    return {name: load_script(profile.script) for name, profile in profiles.items() if profile.script}


class ScriptedModels:
    """Implements Models. `scripts` is by profile."""

    def __init__(self, *, scripts: Mapping[str, Script]) -> None:
        self._scripts = scripts

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        """See Models. A conversation that no turn fits is BAD_REQUEST."""
        script = self._scripts.get(request.plan.profile)
        if script is None:
            raise refused(
                FailureClass.BAD_REQUEST,
                f"model profile {request.plan.profile!r} has no script; set `script`",
            )
        turn = choose(script, request.messages, [tool.ref for tool in request.tools])
        if turn is None:
            raise refused(FailureClass.BAD_REQUEST, "the script has no turn for this conversation")
        pieces = play(turn, request.messages)
        if turn.delay_ms:
            await asyncio.sleep(turn.delay_ms / 1000)
        for number, piece in enumerate(pieces):
            if number and turn.chunk_delay_ms:
                await asyncio.sleep(turn.chunk_delay_ms / 1000)
            yield piece
        if turn.error is not None:
            raise _failure(turn.error, started=bool(pieces))
        yield EndChunk(_finish(turn), _usage(turn, request.messages, pieces))


def choose(script: Script, messages: Sequence[Message], offered: Sequence[str]) -> Turn | None:
    """The first turn that fits the conversation and the tools that the request offers."""
    number = 1 + len(_replies(messages))
    for turn in script.turns:
        if turn.when.turn in (None, number) and _fits(turn.when, messages, offered):
            return turn
    return None


def play(turn: Turn, messages: Sequence[Message]) -> list[ModelChunk]:
    """The chunks of a turn, its end aside. Raises ModelFailure: BAD_REQUEST, for an unknown placeholder."""
    user = _user_object(messages) if turn.has_placeholders else {}
    pieces: list[ModelChunk] = [ReasoningChunk(part) for part in _cut(_fill_text(turn.reasoning, user))]
    pieces += [TextChunk(part) for part in _cut(_spoken(turn, user))]
    number = sum([len(reply.calls) for reply in _replies(messages)])
    for index, call in enumerate(turn.tool_calls):
        number += 1
        call_id = f"call_{number}" if call.id is None else call.id
        first, *rest = _cut(_arguments(turn, call, user)) or [""]
        pieces.append(ToolCallChunk(index, call_id, call.name, first))
        pieces += [ToolCallChunk(index, "", "", part) for part in rest]
    return pieces


def _replies(messages: Sequence[Message]) -> list[AssistantMessage]:
    return [message for message in messages if isinstance(message, AssistantMessage)]


def _fits(when: When, messages: Sequence[Message], offered: Sequence[str]) -> bool:
    last = messages[-1] if messages else None
    return (
        (when.after_tool is None or (isinstance(last, ToolMessage) and last.name == when.after_tool))
        and _are_offered(when.tools_offered, offered)
        and _contain(messages, SystemMessage, when.system_contains)
        and _contain(messages, UserMessage, when.user_contains)
        and _contain(messages, UserMessage, when.last_user_contains, newest=1)
        and _contain(messages, ToolMessage, when.tool_results_contain)
        and _contain(messages, ToolMessage, when.last_result_contains, newest=1)
    )


def _are_offered(wanted: Sequence[str] | None, offered: Sequence[str]) -> bool:
    """An empty list wants a request without tools."""
    if wanted is None:
        return True
    return set(wanted) <= set(offered) if wanted else not offered


def _contain(
    messages: Sequence[Message],
    kind: type[SystemMessage | UserMessage | ToolMessage],
    wanted: Sequence[str],
    *,
    newest: int = 0,
) -> bool:
    """True if each wanted text stands in a message of that kind, or in one of so many newest; any case."""
    if not wanted:
        return True
    texts = [message.text for message in messages if isinstance(message, kind)]
    if newest:
        texts = texts[-newest:]
    return all(any(want.casefold() in text.casefold() for text in texts) for want in wanted)


# --- placeholders ------------------------------------------------------------------------------


def _user_object(messages: Sequence[Message]) -> JsonObject:
    """The JSON object in the first user message, which may stand between other words; else empty."""
    text = next((message.text for message in messages if isinstance(message, UserMessage)), "")
    for candidate in (text, text[text.find("{") : text.rfind("}") + 1]):
        try:
            return json_text.parse_object(candidate)
        except json_text.JsonError:
            continue
    return {}


def _fill(value: JsonValue, user: JsonObject) -> JsonValue:
    match value:
        case str():
            whole = _PLACEHOLDER.fullmatch(value)
            return _lookup(whole.group(1), user) if whole else _fill_text(value, user)
        case list():
            return [_fill(item, user) for item in value]
        case dict():
            return {key: _fill(item, user) for key, item in value.items()}
        case _:
            return value


def _fill_text(text: str, user: JsonObject) -> str:
    def spell(match: re.Match[str]) -> str:
        value = _lookup(match.group(1), user)
        return value if isinstance(value, str) else json_text.write(value)

    return _PLACEHOLDER.sub(spell, text)


def _keys_of(user: JsonObject) -> str:
    """Whether a name is misspelt, or a step without `input` shows its values one level down."""
    names = ", ".join(f"`{key[:_NAME_SHOWN]}`" for key in list(user)[:_NAMES_SHOWN])
    return f"its keys are {names}" if names else "it has no keys"


def _lookup(name: str, user: JsonObject) -> JsonValue:
    if name not in user:
        raise refused(
            FailureClass.BAD_REQUEST,
            f"the script wants `user.{name}`, which the first user message does not have; {_keys_of(user)}",
        )
    return user[name]


# --- the reply ---------------------------------------------------------------------------------


def _spoken(turn: Turn, user: JsonObject) -> str:
    if "answer" in turn.model_fields_set:
        return json_text.write(_fill(turn.answer, user))
    return _fill_text(turn.text or "", user)


def _arguments(turn: Turn, call: ScriptCall, user: JsonObject) -> str:
    if not turn.has_placeholders:
        return call.text
    filled = _fill(call.arguments, user)
    return filled if isinstance(filled, str) else json_text.write(filled)


def _cut(text: str) -> list[str]:
    return [text[start : start + _PIECE_CHARS] for start in range(0, len(text), _PIECE_CHARS)]


def _finish(turn: Turn) -> FinishReason:
    if turn.finish is not None:
        return turn.finish
    return FinishReason.TOOL_CALLS if turn.tool_calls else FinishReason.STOP


def _usage(turn: Turn, messages: Sequence[Message], pieces: Sequence[ModelChunk]) -> Usage | None:
    match turn.usage:
        case ScriptUsage() as told:
            return Usage(
                prompt_tokens=told.prompt_tokens,
                completion_tokens=told.completion_tokens,
                cached_tokens=told.cached_tokens,
                reasoning_tokens=told.reasoning_tokens,
            )
        case "none":
            return None
        case None:
            asked = sum(_tokens(message.text) + _MESSAGE_TOKENS for message in messages)
            said = "".join(
                piece.arguments if isinstance(piece, ToolCallChunk) else _said(piece) for piece in pieces
            )
            return Usage(prompt_tokens=asked, completion_tokens=_tokens(said))


def _said(piece: ModelChunk) -> str:
    return piece.text if isinstance(piece, TextChunk | ReasoningChunk) else ""


def _tokens(text: str) -> int:
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return -(-size // _BYTES_PER_TOKEN)


def _failure(error: ScriptFailure, *, started: bool) -> ModelFailure:
    is_free = error.failure in _UNCHARGED and not started
    return ModelFailure(
        error.failure,
        error.message,
        retry_after_ms=error.retry_after_ms,
        usage=Usage() if is_free else None,
    )

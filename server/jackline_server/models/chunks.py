"""A provider's streamed chunks, read into ours, whatever shape they are in.

Owns the way back from the OpenAI chat wire: which tool call a fragment belongs to, which usage counts,
and when a stream was whole. Pure; one reader an attempt. Reads mappings and objects alike, and trusts
no field to be there or to have its type.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

from jackline_server.core import json_text
from jackline_server.core.facts import FailureClass, FinishReason, Usage
from jackline_server.models.failures import in_stream_failure
from jackline_server.models.thoughts import SENT_BACK_OF_CALLS, Thoughts
from jackline_server.runtime.driving.replies import well_formed
from jackline_server.runtime.ports.models import (
    EndChunk,
    ModelChunk,
    ModelFailure,
    ReasoningChunk,
    TextChunk,
    ToolCallChunk,
)

MAX_REPORTED_TOKENS = 100_000_000
"""A provider that reports more for one call is not believed."""

_MAX_SLOT = 1_000_000
_COMPLETE_CHECK_CHARS = 65_536
_COMPLETE_CHECKS = 16
_HIGH_SURROGATES = range(0xD800, 0xDC00)

_FINISHES: Mapping[str, FinishReason] = {
    "stop": FinishReason.STOP,
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "eos": FinishReason.STOP,
    "complete": FinishReason.STOP,
    "tool_calls": FinishReason.TOOL_CALLS,
    "tool_use": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
    "length": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "content_filter": FinishReason.CONTENT_FILTER,
    "safety": FinishReason.CONTENT_FILTER,
    "refusal": FinishReason.CONTENT_FILTER,
}


def _get(value: object, name: str) -> object:
    """A field of a mapping or an object; None if it is not there."""
    if type(value) is dict:  # at once: the abstract check below costs most of what reading a stream does
        return cast("dict[str, object]", value).get(name)
    if isinstance(value, Mapping):
        return cast("Mapping[str, object]", value).get(name)
    return getattr(value, name, None)


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _text(value: object) -> str:
    """A string, or the text parts of a list of content parts; empty for anything else."""
    if isinstance(value, str):
        return value
    return "".join(part for item in _list(value) if isinstance(part := _get(item, "text"), str))


def finish_reason(value: object) -> FinishReason | None:
    """The reason, OTHER for one that is unknown, None for none."""
    if not isinstance(value, str) or not value:
        return None
    return _FINISHES.get(value.lower(), FinishReason.OTHER)


# --- usage -------------------------------------------------------------------------------------


def _count(value: object) -> int | None:
    """A token count that can be believed. A bool, a float, a string and a huge number are none."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value <= MAX_REPORTED_TOKENS else None


def read_usage(report: object) -> Usage | None:
    """One usage report; None if it can't be believed as a whole.

    A prompt of no tokens can't be. Details that are no counts are zero; whether they fit their totals is the
    core's to say.
    """
    prompt = _count(_get(report, "prompt_tokens"))
    completion = _count(_get(report, "completion_tokens"))
    if not prompt or completion is None:
        return None
    cached = _count(_get(_get(report, "prompt_tokens_details"), "cached_tokens")) or 0
    reasoning = _count(_get(_get(report, "completion_tokens_details"), "reasoning_tokens")) or 0
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        cached_tokens=cached,
        reasoning_tokens=reasoning,
    )


@dataclass(slots=True)
class _UsageReports:
    """What was reported over a stream. Reports are cumulative: the highest counts, none are summed."""

    best: Usage | None = None
    unbelievable: bool = False

    def add(self, report: object) -> None:
        usage = read_usage(report)
        if usage is None:
            self.unbelievable = True
        elif self.best is None:
            self.best = usage
        else:
            self.best = Usage(
                prompt_tokens=max(self.best.prompt_tokens, usage.prompt_tokens),
                completion_tokens=max(self.best.completion_tokens, usage.completion_tokens),
                cached_tokens=max(self.best.cached_tokens, usage.cached_tokens),
                reasoning_tokens=max(self.best.reasoning_tokens, usage.reasoning_tokens),
            )

    def settle(self, *, produced: bool) -> Usage | None:
        """None if any report was unbelievable, or output came and none was reported."""
        if self.unbelievable or self.best is None:
            return None
        return None if produced and self.best.completion_tokens == 0 else self.best


# --- tool calls --------------------------------------------------------------------------------


@dataclass(slots=True)
class _Slot:
    """One tool call of the reply, in the order of appearance."""

    index: int
    call_id: str
    name: str
    arguments: str = ""
    checks: int = 0

    def is_complete(self) -> bool:
        """True if the arguments are a whole JSON object already. Asked of short ones, and a few times."""
        if not self.arguments.rstrip().endswith("}") or len(self.arguments) > _COMPLETE_CHECK_CHARS:
            return False
        if self.checks == _COMPLETE_CHECKS:
            return False  # a reply made to be read again with each of its fragments
        self.checks += 1
        try:
            json_text.parse_object(self.arguments)
        except json_text.JsonError:
            return False
        return True


@dataclass(slots=True)
class _Slots:
    """Which slot a fragment belongs to.

    A provider's index is believed until it is contradicted: providers leave it out, or send 0 for every
    call. Ids are never glued, since some providers repeat the id with each fragment, and some make up a new
    one for each: an id opens a call only if a name comes with it.
    """

    by_key: dict[object, _Slot] = field(default_factory=dict[object, _Slot])
    latest: _Slot | None = None
    count: int = 0

    def take(self, fragment: object) -> ToolCallChunk:
        function = _get(fragment, "function")
        call_id, name = _text(_get(fragment, "id")), _text(_get(function, "name"))
        arguments = _arguments(_get(function, "arguments"))
        index = _get(fragment, "index")
        known = self._known(index, call_id)
        slot = known
        if slot is None or _opens(slot, call_id=call_id, name=name, arguments=arguments):
            slot = _Slot(index=self.count, call_id=call_id, name=name)
            self.count += 1
        is_new = slot is not known
        told_id = call_id if is_new or not slot.call_id else ""
        told_name = name if is_new or not slot.name else ""
        self._keep(slot, index=index, call_id=call_id, name=name)
        if len(slot.arguments) <= _COMPLETE_CHECK_CHARS:
            slot.arguments += arguments
        return ToolCallChunk(
            index=slot.index,
            call_id=well_formed(told_id),
            name=well_formed(told_name),
            arguments=well_formed(arguments),
        )

    def _known(self, index: object, call_id: str) -> _Slot | None:
        if _is_index(index):
            slot = self.by_key.get(index)
            if slot is not None and call_id and slot.call_id not in ("", call_id):
                return self.by_key.get(call_id, slot)
            return slot
        return self.by_key.get(call_id) or self.latest if call_id else self.latest

    def _keep(self, slot: _Slot, *, index: object, call_id: str, name: str) -> None:
        slot.call_id = slot.call_id or call_id
        slot.name = slot.name or name
        if _is_index(index):
            self.by_key[index] = slot
        if slot.call_id:
            self.by_key[slot.call_id] = slot
        self.latest = slot


def _is_index(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MAX_SLOT


def _opens(slot: _Slot, *, call_id: str, name: str, arguments: str) -> bool:
    """True if a fragment with the slot's index begins another call."""
    if not name or not slot.name:
        return False
    if name != slot.name:
        return True
    if call_id and slot.call_id:
        return call_id != slot.call_id
    return bool(arguments.strip()) and slot.is_complete()


def _arguments(value: object) -> str:
    """The fragment of arguments. Some providers send the object itself."""
    if isinstance(value, dict):
        try:
            return json_text.write(cast("json_text.JsonObject", value))
        except (ValueError, TypeError, RecursionError):
            return ""
    return _text(value)


# --- the reader --------------------------------------------------------------------------------


@dataclass(slots=True)
class ChunkReader:
    """Reads the chunks of one stream. Call `end` once, when it is over.

    `started` turns true with the first content that came. `secrets` are kept out of what an error says.
    """

    started: bool = False
    secrets: tuple[str, ...] = ()
    _slots: _Slots = field(default_factory=_Slots)
    _usage: _UsageReports = field(default_factory=_UsageReports)
    _thoughts: Thoughts = field(default_factory=Thoughts)
    _finish: FinishReason | None = None
    _held: str = ""

    def read(self, chunk: object) -> Iterator[ModelChunk]:
        """What a chunk holds. An empty one, or one without choices, holds nothing.

        Raises:
            ModelFailure: the chunk is an error object.
        """
        if (error := _get(chunk, "error")) is not None:
            raise in_stream_failure(error, self.secrets)
        if (report := _get(chunk, "usage")) is not None:
            self._usage.add(report)
        choice = _first_choice(chunk)
        if choice is None:
            return
        if (finish := finish_reason(_get(choice, "finish_reason"))) is not None:
            self._finish = finish
        for piece in self._read_delta(_get(choice, "delta")):
            self.started = True
            yield piece

    def distrust(self, *, finish: bool, usage: bool) -> None:
        """Forget the finish reason or the usage, if a library between made it up."""
        if finish:
            self._finish = None
        if usage:
            self._usage = _UsageReports()

    def _read_delta(self, delta: object) -> Iterator[ModelChunk]:
        if reasoning := self._read_reasoning(delta):
            yield ReasoningChunk(well_formed(reasoning))
        if text := self._joined(_text(_get(delta, "content"))):
            yield TextChunk(text)
        for fragment in _list(_get(delta, "tool_calls")):
            if fragment is not None:
                piece = self._slots.take(fragment)
                for name in SENT_BACK_OF_CALLS:
                    if (value := _get(fragment, name)) is not None:
                        self._thoughts.of_call(piece.index, name, value)
                yield piece
        if (function := _get(delta, "function_call")) is not None:
            yield self._slots.take({"index": 0, "function": function})

    def _read_reasoning(self, delta: object) -> str:
        """What is shown of a delta's reasoning; what has to be sent back of it is kept."""
        shown = ""
        for name in ("reasoning_content", "reasoning"):
            if shown := _text(_get(delta, name)):
                self._thoughts.plain(name, shown)
                break
        if (blocks := _get(delta, "thinking_blocks")) is not None:
            self._thoughts.thinking(blocks)
        if (blocks := _get(delta, "reasoning_details")) is not None:
            self._thoughts.details(blocks)
        if refusal := _text(_get(delta, "refusal")):
            self._thoughts.mix()
        return shown + refusal

    def _joined(self, text: str) -> str:
        """The text, with the first half of a surrogate pair held back until its second half comes."""
        if not text:
            return ""
        text, self._held = self._held + text, ""
        if ord(text[-1]) in _HIGH_SURROGATES:
            text, self._held = text[:-1], text[-1]
        return well_formed(text)

    def end(self) -> Iterator[ModelChunk]:
        """The end of the reply, after what was held back.

        Raises:
            ModelFailure: MALFORMED, if no finish reason came: the stream was cut, or was none at all.
        """
        if self._finish is None:
            what = "was cut: it ended without a finish reason" if self.started else "held no reply"
            raise ModelFailure(FailureClass.MALFORMED, f"the model's stream {what}")
        if self._held:
            yield TextChunk(well_formed(self._held))
        name, blocks_json = self._thoughts.fields()
        usage = self._usage.settle(produced=self.started)
        yield EndChunk(self._finish, usage, name, blocks_json, usage_unreadable=self._usage.unbelievable)


def _first_choice(chunk: object) -> object:
    """The choice with index 0, or without one; only the first counts."""
    for choice in _list(_get(chunk, "choices")):
        if _get(choice, "index") in (0, None):
            return choice
    return None

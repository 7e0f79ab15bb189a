"""A model's reasoning as it has to be sent back to it, gathered from the pieces of a stream.

Owns which fields of an assistant message that is: plain text (`reasoning_content`, `reasoning`), blocks that
a provider signed (`thinking_blocks`, as litellm has Anthropic's and Bedrock's; `reasoning_details`, as
OpenRouter has all of them), and what hangs on a tool call (`extra_content`, Gemini's thought signature;
litellm's `provider_specific_fields`). Strings of one block are joined and not changed otherwise: a signature
is over every byte. Pure; one an attempt. Trusts no field to be there or to have its type.

Blocks are shown to nobody, so that no cap on what a reply shows holds them: they have one of their own.
"""

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from jackline_server.core import json_text
from jackline_server.models.failures import over_size
from jackline_server.runtime.driving.replies import well_formed

SENT_BACK = frozenset({"reasoning_content", "reasoning", "reasoning_details", "thinking_blocks"})
"""The fields of an assistant message that carry reasoning."""

SENT_BACK_OF_CALLS = frozenset({"extra_content", "provider_specific_fields"})
"""The fields of its tool calls that do."""

_JOINED = frozenset({"thinking", "text", "summary", "data"})
_WHOLE_KINDS = frozenset({"redacted_thinking", "reasoning.encrypted"})
_Block = dict[str, object]

MAX_WEIGHT = 1024 * 1024
"""The blocks of one reply, in characters: more than this no event of a run can hold."""

_VALUE_WEIGHT = 32
"""What a value costs beside its text."""


@dataclass(slots=True)
class _Blocks:
    """The blocks of one field, in order. Only the last one still grows."""

    _blocks: list[_Block] = field(default_factory=list[_Block])
    _growing: dict[str, io.StringIO] = field(default_factory=dict[str, io.StringIO])

    def take(self, blocks: object) -> int:
        """Add blocks, or the next pieces of one: what one delta lists is never one block. Their weight."""
        if not isinstance(blocks, list):
            return 0
        before, weight = len(self._blocks), 0
        for item in cast("list[object]", blocks):
            if not isinstance(item, Mapping):
                continue
            piece = dict(cast("Mapping[str, object]", item))
            last = self._blocks[-1] if self._blocks else None
            if last is not None and _goes_on(last, piece, is_older=len(self._blocks) == before):
                weight += self._join(last, piece)
            else:
                self.whole()
                self._blocks.append(piece)
                weight += _weight(piece)
        return weight

    def whole(self) -> list[_Block]:
        """All blocks, with the texts of the last one put together."""
        for name, text in self._growing.items():
            self._blocks[-1][name] = text.getvalue()
        self._growing.clear()
        return self._blocks

    def _join(self, last: _Block, piece: _Block) -> int:
        weight = 0
        for name, value in piece.items():
            before = last.get(name)
            if name in _JOINED and isinstance(before, str) and isinstance(value, str):
                if name not in self._growing:
                    self._growing[name] = io.StringIO()
                    self._growing[name].write(before)
                self._growing[name].write(value)
                weight += len(value)
            elif value is not None and value != "" and not _same(value, before):
                self._growing.pop(name, None)
                last[name] = value
                weight += _weight(value)
        return weight


@dataclass(slots=True)
class Thoughts:
    """Takes in deltas in order; `fields` says what came of them."""

    _name: str = ""
    _plain: list[str] = field(default_factory=list[str])
    _is_mixed: bool = False
    _thinking: _Blocks = field(default_factory=_Blocks)
    _details: _Blocks = field(default_factory=_Blocks)
    _calls: dict[int, _Block] = field(default_factory=dict[int, _Block])
    _taken: int = 0

    def plain(self, name: str, text: str) -> None:
        """Take in a piece of plain reasoning that came in the field of that name."""
        self._name = self._name or name
        self._plain.append(text)

    def mix(self) -> None:
        """Something else is shown as reasoning as well."""
        self._is_mixed = True

    def thinking(self, blocks: object) -> None:
        """Take in a delta's `thinking_blocks`. Raises ModelFailure: MALFORMED, over the cap."""
        self._weigh(self._thinking.take(blocks))

    def details(self, blocks: object) -> None:
        """Take in a delta's `reasoning_details`. Raises as `thinking` does."""
        self._weigh(self._details.take(blocks))

    def of_call(self, index: int, name: str, value: object) -> None:
        """Take in what hangs on the tool call of that slot. Raises as `thinking` does."""
        if isinstance(value, Mapping) and value:
            kept, known = dict(cast("Mapping[str, object]", value)), self._calls.setdefault(index, {})
            if not _same(kept, known.get(name)):
                known[name] = kept
                self._weigh(_weight(kept))

    def fields(self) -> tuple[str, str]:
        """The field whose text is the reasoning that was shown, and a JSON object of all others.

        Each is empty where there is none.
        """
        others: _Block = {}
        if thinking := self._thinking.whole():
            others["thinking_blocks"] = [_without(block, "index") for block in thinking]
        if details := self._details.whole():
            others["reasoning_details"] = details
        name = self._name if self._plain and not others else ""
        if name and (self._is_mixed or any(well_formed(text) != text for text in self._plain)):
            others[name], name = "".join(self._plain), ""
        if self._calls:
            most = max(self._calls)
            others["tool_calls"] = [self._calls.get(index) for index in range(most + 1)]
        return name, _as_json(others)

    def _weigh(self, weight: int) -> None:
        self._taken += weight
        if self._taken > MAX_WEIGHT:
            raise over_size()


def _goes_on(last: _Block, piece: _Block, *, is_older: bool) -> bool:
    """True if a piece belongs to the last block: by its index, or else as long as that is not signed."""
    if piece.get("type") != last.get("type") or piece.get("type") in _WHOLE_KINDS:
        return False
    if (index := piece.get("index")) is not None and last.get("index") is not None:
        return index == last.get("index")
    return is_older and not last.get("signature")


def _same(one: object, other: object) -> bool:
    """True if nothing would change; what is nested too deep to be compared counts as different."""
    try:
        return one == other
    except RecursionError:
        return False


def _weight(value: object) -> int:
    """About the characters of a value as JSON, with what its parts cost. Stops where it is too much."""
    weight, rest = 0, [value]
    while rest and weight <= MAX_WEIGHT:
        one = rest.pop()
        weight += _VALUE_WEIGHT
        if isinstance(one, str):
            weight += len(one)
        elif isinstance(one, Mapping):
            fields = cast("Mapping[str, object]", one)
            rest += fields.values()
            weight += sum(map(len, fields))
        elif isinstance(one, list):
            rest += cast("list[object]", one)
    return weight


def _without(block: _Block, name: str) -> _Block:
    return {key: value for key, value in block.items() if key != name}


def _as_json(fields: _Block) -> str:
    """Their JSON, in ASCII, so that no half of a character is lost; empty for none.

    Empty as well for what can't be written, or could not be read again.
    """
    if not fields:
        return ""
    try:
        text = json.dumps(fields, separators=(",", ":"), allow_nan=False)
        json_text.parse_object(text)
    except (TypeError, ValueError, RecursionError):
        return ""
    return text

"""A model's reasoning as it has to be sent back to it, gathered from the pieces of a stream.

Owns which fields of an assistant message that is: plain text (`reasoning_content`, `reasoning`), blocks that
a provider signed (`thinking_blocks`, as litellm has Anthropic's and Bedrock's; `reasoning_details`, as
OpenRouter has all of them), and what hangs on a tool call (`extra_content`, Gemini's thought signature;
litellm's `provider_specific_fields`). Strings of one block are joined and not changed otherwise: a signature
is over every byte. Pure; one an attempt. Trusts no field to be there or to have its type.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from jackline_server.core import json_text
from jackline_server.runtime.replies import well_formed

SENT_BACK = frozenset({"reasoning_content", "reasoning", "reasoning_details", "thinking_blocks"})
"""The fields of an assistant message that carry reasoning."""

SENT_BACK_OF_CALLS = frozenset({"extra_content", "provider_specific_fields"})
"""The fields of its tool calls that do."""

_JOINED = frozenset({"thinking", "text", "summary", "data"})
_WHOLE_KINDS = frozenset({"redacted_thinking", "reasoning.encrypted"})
_Block = dict[str, object]


@dataclass(slots=True)
class Thoughts:
    """Takes in deltas in order; `fields` says what came of them."""

    _name: str = ""
    _plain: list[str] = field(default_factory=list[str])
    _is_mixed: bool = False
    _thinking: list[_Block] = field(default_factory=list[_Block])
    _details: list[_Block] = field(default_factory=list[_Block])
    _calls: dict[int, _Block] = field(default_factory=dict[int, _Block])

    def plain(self, name: str, text: str) -> None:
        """Take in a piece of plain reasoning that came in the field of that name."""
        self._name = self._name or name
        self._plain.append(text)

    def mix(self) -> None:
        """Something else is shown as reasoning as well."""
        self._is_mixed = True

    def thinking(self, blocks: object) -> None:
        """Take in a delta's `thinking_blocks`."""
        _take(self._thinking, blocks)

    def details(self, blocks: object) -> None:
        """Take in a delta's `reasoning_details`."""
        _take(self._details, blocks)

    def of_call(self, index: int, name: str, value: object) -> None:
        """Take in what hangs on the tool call of that slot."""
        if isinstance(value, Mapping) and value:
            self._calls.setdefault(index, {})[name] = dict(cast("Mapping[str, object]", value))

    def fields(self) -> tuple[str, str]:
        """The field whose text is the reasoning that was shown, and a JSON object of all others.

        Each is empty where there is none.
        """
        others: _Block = {}
        if self._thinking:
            others["thinking_blocks"] = [_without(block, "index") for block in self._thinking]
        if self._details:
            others["reasoning_details"] = self._details
        name = self._name if self._plain and not others else ""
        if name and (self._is_mixed or any(well_formed(text) != text for text in self._plain)):
            others[name], name = "".join(self._plain), ""
        if self._calls:
            most = max(self._calls)
            others["tool_calls"] = [self._calls.get(index) for index in range(most + 1)]
        return name, _as_json(others)


def _take(known: list[_Block], blocks: object) -> None:
    """Add blocks, or the next pieces of one: what one delta lists is never one block."""
    if not isinstance(blocks, list):
        return
    before = len(known)
    for item in cast("list[object]", blocks):
        if not isinstance(item, Mapping):
            continue
        piece = dict(cast("Mapping[str, object]", item))
        last = known[-1] if known else None
        if last is not None and _goes_on(last, piece, is_older=len(known) == before):
            _join(last, piece)
        else:
            known.append(piece)


def _goes_on(last: _Block, piece: _Block, *, is_older: bool) -> bool:
    """True if a piece belongs to the last block: by its index, or else as long as that is not signed."""
    if piece.get("type") != last.get("type") or piece.get("type") in _WHOLE_KINDS:
        return False
    if (index := piece.get("index")) is not None and last.get("index") is not None:
        return index == last.get("index")
    return is_older and not last.get("signature")


def _join(last: _Block, piece: _Block) -> None:
    for name, value in piece.items():
        before = last.get(name)
        if name in _JOINED and isinstance(before, str) and isinstance(value, str):
            last[name] = before + value
        elif value is not None and value != "":
            last[name] = value


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

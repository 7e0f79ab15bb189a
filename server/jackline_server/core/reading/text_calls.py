"""Tool calls that a model wrote into its text: which they are, and what is left of the text without them.

Owns the formats and when text counts as a call. It does for names of declared tools alone, at the end of a
reply, in blocks that begin a line: what is quoted, stands in a sentence, or in a block with words behind it
is talk about a tool and stays text. Pure and total; each character is read a bounded number of times.

- Hermes: `<tool_call>{"name": "look", "arguments": {"id": 7}}</tool_call>`; the end may be missing.
- Qwen: `<function=look><parameter=id>7</parameter></function>`, mostly inside `<tool_call>`.
- The same JSON in a fenced block, or bare, if it is the whole reply.

Besides `arguments` it may be `parameters`; OpenAI's own form and lists are taken too.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from jackline_server.core import json_text
from jackline_server.core.frozen import frozen
from jackline_server.core.plan import JsonObject, JsonValue, ModelStep, StepPlan, ToolEntry
from jackline_server.core.reading import finish_tool, result_tool

MOST_CALLS = 256
"""A text with more is no reply that can be carried out."""

MOST_CHARS = 1 << 20
"""A longer text is not looked into."""

_HINT = re.compile(r'<tool_call>|<function=|"name"|"function"')
_BLOCK = re.compile(
    r"[ \t]*+(?:<tool_call>|(?=<function=)|(?P<fence>`{3,}+|~{3,}+)[ \t]*+(?P<language>[\w-]*+)[^`\n]*+$)",
    re.MULTILINE,
)
_FUNCTION = re.compile(r"\s*<function=(?P<name>[^<>\s]{1,128})>")
_PARAMETER = re.compile(r"\s*<parameter=(?P<name>[^<>]{1,128})>")
_FENCE_END = re.compile(r"^[ \t]*+(`{3,}+|~{3,}+)[ \t\r]*+$", re.MULTILINE)
_SPACE = re.compile(r"\s*")
_LANGUAGES = frozenset({"", "json", "tool_call", "tool_calls", "tool"})
_SAID_BEFORE = frozenset({"name", "arguments", "parameters", "id", "type"})
_INVENTED = "<tool_response>"
"""What some models go on with: the result that they expect. Whatever follows it was made up."""

_THINKS, _THOUGHT = "<think>", "</think>"

_Call = tuple[str, str]


@frozen
class TextCalls:
    """Calls as (name, arguments), the arguments as JSON text, and the text before them."""

    calls: tuple[_Call, ...]
    rest: str


def find(text: str, tools: Sequence[ToolEntry]) -> TextCalls | None:
    """The calls at the end of a text, None if there are none."""
    if len(text) > MOST_CHARS or _HINT.search(text) is None:
        return None
    known = {tool.ref: tool.parameters_json for tool in tools}
    bare = _calls_of_json(text.strip(), known)
    if bare:
        return _counted(bare, "")
    return _Scan(text=text, known=known).read()


def words(text: str, step: StepPlan) -> str:
    """The text without the calls that stand in it."""
    found = find(text, spoken_tools(step)) if isinstance(step, ModelStep) else None
    return text if found is None else found.rest


def spoken_tools(step: ModelStep) -> tuple[ToolEntry, ...]:
    """The tools whose calls are looked for in the text of a step's model."""
    tools = (*step.tools, *finish_tool.declared(step))
    return (*tools, result_tool.ENTRY) if step.reads_results else tools


def _counted(calls: Sequence[_Call], rest: str) -> TextCalls | None:
    return TextCalls(calls=tuple(calls), rest=rest) if len(calls) <= MOST_CALLS else None


@dataclass(slots=True, kw_only=True)
class _Scan:
    """One pass over a text. `calls` are those since the last words, which began at `begin`."""

    text: str
    known: Mapping[str, str]
    calls: list[_Call] = field(default_factory=list[_Call])
    begin: int = 0

    def read(self) -> TextCalls | None:
        text, at = self.text, 0
        if text.lstrip().startswith(_THINKS):
            at = text.find(_THOUGHT) + len(_THOUGHT) if _THOUGHT in text else len(text)
        while at < len(text):
            start = self._skip_blank(at)
            match = _BLOCK.match(text, start)
            if match is None:
                if start < len(text) and text.startswith(_INVENTED, start) and self.calls:
                    break
                line_end = text.find("\n", start)
                line_end = len(text) if line_end < 0 else line_end + 1
                if text[start:line_end].strip():
                    self.calls.clear()
                at = line_end
                continue
            found, at = self._block(match)
            if not found:
                self.calls.clear()
            elif not self.calls:
                self.begin = match.start()
            self.calls.extend(found)
        return _counted(self.calls, text[: self.begin].rstrip()) if self.calls else None

    def _skip_blank(self, at: int) -> int:
        """The beginning of the next line that is not blank, or the rest of this one behind a block."""
        text = self.text
        while at < len(text) and text[at] in "\r\n":
            at += 1
        return at

    def _block(self, match: re.Match[str]) -> tuple[list[_Call], int]:
        """The calls of the block that opens there, none if it is no call; and where it ends."""
        body = match.end()
        if match["fence"]:
            return self._fenced(match, body)
        if not match.group().strip():
            return self._functions(body)
        end = self.text.find("</tool_call>", body)
        after = end + len("</tool_call>")
        if end < 0:
            end = after = len(self.text)
        inside = self.text[body:end]
        if _FUNCTION.match(inside) is None:
            return _calls_of_json(inside.strip(), self.known), after
        calls, place = _functions_in(inside, 0, self.known)
        return (calls if not inside[place:].strip() else []), after

    def _fenced(self, match: re.Match[str], body: int) -> tuple[list[_Call], int]:
        ends = _FENCE_END.finditer(self.text, body)
        closing = next((end for end in ends if end[1].startswith(match["fence"])), None)
        if closing is None:
            return [], len(self.text)
        inside = self.text[body : closing.start()].strip()
        named = (match["language"] or "").lower() in _LANGUAGES
        return (_calls_of_json(inside, self.known) if named else []), closing.end()

    def _functions(self, body: int) -> tuple[list[_Call], int]:
        calls, place = _functions_in(self.text, body, self.known)
        if calls:
            return calls, place
        line_end = self.text.find("\n", place)
        return [], len(self.text) if line_end < 0 else line_end


# --- Qwen's form -------------------------------------------------------------------------------


def _functions_in(text: str, at: int, known: Mapping[str, str]) -> tuple[list[_Call], int]:
    """The functions that follow each other there, none if one is not whole, and how far was read."""
    calls: list[_Call] = []
    while (opened := _FUNCTION.match(text, at)) is not None:
        name, at = opened["name"], opened.end()
        arguments: JsonObject = {}
        while (parameter := _PARAMETER.match(text, at)) is not None:
            end = text.find("</parameter>", parameter.end())
            if end < 0:
                return [], len(text)
            value = _without_line_ends(text[parameter.end() : end])
            arguments[parameter["name"].strip()] = value
            at = end + len("</parameter>")
        space = _SPACE.match(text, at)
        rest = at if space is None else space.end()
        if not text.startswith("</function>", rest) or name not in known:
            return [], at
        at = rest + len("</function>")
        calls.append((name, json_text.write(_typed(arguments, known[name]))))
    return calls, at


def _without_line_ends(value: str) -> str:
    return value.removeprefix("\r").removeprefix("\n").removesuffix("\n").removesuffix("\r")


def _typed(arguments: JsonObject, parameters_json: str) -> JsonObject:
    """The texts as what the schema says they are; one that can't be read so stays a text, and is refused."""
    schemas = _schemas(parameters_json)
    return {name: _value(value, schemas.get(name)) for name, value in arguments.items()}


@lru_cache(maxsize=256)
def _schemas(parameters_json: str) -> JsonObject:
    """What the schema says of each parameter. A text may have calls by the thousand; it is read once."""
    properties = json_text.parse_object(parameters_json).get("properties")
    return properties if isinstance(properties, dict) else {}


def _value(value: JsonValue, schema: JsonValue) -> JsonValue:
    kind = schema.get("type") if isinstance(schema, dict) else None
    kinds = kind if isinstance(kind, list) else [kind]
    if not isinstance(value, str) or kind is None or "string" in kinds:
        return value
    try:
        return json_text.parse(value)
    except json_text.JsonError:
        return value


# --- JSON --------------------------------------------------------------------------------------


def _calls_of_json(text: str, known: Mapping[str, str]) -> list[_Call]:
    """The calls that a JSON text is, none if it is anything else."""
    if not text or text[0] not in "{[" or text[-1] not in "}]":
        return []
    try:
        value = json_text.parse(text)
    except json_text.JsonError:
        return []
    items = value if isinstance(value, list) else [value]
    calls = [_call_of(item, known) for item in items]
    return [call for call in calls if call is not None] if all(calls) else []


def _call_of(item: JsonValue, known: Mapping[str, str]) -> _Call | None:
    if not isinstance(item, dict):
        return None
    inner = item.get("function")
    if isinstance(inner, dict) and item.keys() <= {"function", "type", "id"}:
        item = inner
    name = item.get("name")
    if not isinstance(name, str) or name not in known or not item.keys() <= _SAID_BEFORE:
        return None
    if ("arguments" in item) == ("parameters" in item):
        return None
    arguments = item["arguments"] if "arguments" in item else item["parameters"]
    if isinstance(arguments, str):
        return name, arguments
    return (name, json_text.write(arguments)) if isinstance(arguments, dict) else None

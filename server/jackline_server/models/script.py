"""The script of a scripted model: its file format, read strictly.

Owns the YAML format and its errors. `scripted` plays it. A script:

    turns:
      - when:                           # all that is given must hold; left out: always
          turn: 1                       # 1 + the assistant messages so far
          system_contains: "refund"     # texts are compared without regard to case; a list: all of them
          user_contains: "..."          # in any user message
          last_user_contains: "..."     # in the newest user message
          tool_results_contain: "..."   # in any tool result
          last_result_contains: "..."   # in the newest tool result
          after_tool: lookup_order      # the conversation ends with a result of this tool
          tools_offered: [issue_refund] # the request offers all of these; []: it offers none
        reasoning: "..."
        text: "..."                     # or `answer`: any value, given as JSON text
        tool_calls:
          - {name: lookup_order, arguments: {order_id: "{{ user.order_id }}"}}
          - {name: lookup_order, arguments: "not JSON", id: call_7}   # a string is sent as it is
        usage: {prompt_tokens: 10, completion_tokens: 5}    # left out: estimated; `none`: none reported
        delay_ms: 20                    # before the first chunk
        chunk_delay_ms: 5               # before each further chunk
        finish: stop                    # stop | length | tool_calls | content_filter
        error: {class: rate_limited, message: "...", retry_after_ms: 100}   # after the text, if there is any

Plain words are read by the core schema of YAML 1.2, as in workflows: `yes`, `on` and `2020-01-01` are texts.
The first turn that fits is played. `{{ user.NAME }}` stands for a key of the JSON object in the first user
message; a string that is nothing else takes the value with its type.
"""

import difflib
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, cast

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from jackline_server import yaml_scalars
from jackline_server.core import json_text
from jackline_server.core.facts import FailureClass, FinishReason
from jackline_server.plain_files import read_regular

MAX_SCRIPT_BYTES = 1024 * 1024


class ScriptError(Exception):
    """A script can't be used. The message names the file, and the line where it is known."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _as_tuple(value: object) -> object:
    if isinstance(value, str):
        return (value,)
    if isinstance(value, dict):
        return (cast("object", value),)
    return tuple(cast("list[object]", value)) if isinstance(value, list) else value


Texts = Annotated[
    tuple[str, ...],
    BeforeValidator(_as_tuple),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
Milliseconds = Annotated[int, Field(ge=0, le=86_400_000)]
Tokens = Annotated[int, Field(ge=0, le=100_000_000)]


class When(_Strict):
    """What a conversation must be like for a turn to be played."""

    turn: Annotated[int, Field(ge=1)] | None = None
    system_contains: Texts = ()
    user_contains: Texts = ()
    last_user_contains: Texts = ()
    tool_results_contain: Texts = ()
    last_result_contains: Texts = ()
    after_tool: str | None = None
    tools_offered: Texts | None = None


class ScriptCall(_Strict):
    """A tool call. `id` is made up where it is left out."""

    name: str
    arguments: dict[str, JsonValue] | str = Field(default_factory=dict[str, JsonValue])
    id: str | None = None

    @cached_property
    def text(self) -> str:
        """The arguments as a model writes them, placeholders and all."""
        return self.arguments if isinstance(self.arguments, str) else json_text.write(self.arguments)


class ScriptUsage(_Strict):
    """What the provider reports."""

    prompt_tokens: Tokens
    completion_tokens: Tokens
    cached_tokens: Tokens = 0
    reasoning_tokens: Tokens = 0


class ScriptFailure(_Strict):
    """How the attempt fails."""

    failure: Annotated[FailureClass, Field(strict=False)] = Field(alias="class")
    message: str = "the script says so"
    retry_after_ms: Milliseconds | None = None


class Turn(_Strict):
    """One reply."""

    when: When = When()
    reasoning: str = ""
    text: str | None = None
    answer: JsonValue = None
    tool_calls: Annotated[tuple[ScriptCall, ...], BeforeValidator(_as_tuple)] = ()
    usage: ScriptUsage | Literal["none"] | None = None
    delay_ms: Milliseconds = 0
    chunk_delay_ms: Milliseconds = 0
    finish: Annotated[FinishReason, Field(strict=False)] | None = None
    error: ScriptFailure | None = None

    @cached_property
    def has_placeholders(self) -> bool:
        """True if something of the turn has to be filled from the conversation."""
        return "{{" in self.model_dump_json()

    @model_validator(mode="after")
    def _says_something(self) -> "Turn":
        has_answer = "answer" in self.model_fields_set
        if self.text is not None and has_answer:
            raise ValueError("has both `text` and `answer`; keep one")
        if self.text is None and not has_answer and not self.tool_calls and self.error is None:
            raise ValueError('needs `text`, `answer`, `tool_calls` or `error`; an empty reply is `text: ""`')
        return self


class Script(_Strict):
    """All turns, in the order in which they are tried."""

    turns: Annotated[tuple[Turn, ...], BeforeValidator(_as_tuple), Field(min_length=1)]


_PLAIN = "plain"
"""The tag of a scalar that stands without quotes and without a tag of its own."""
_TAGS = frozenset({_PLAIN, *(f"tag:yaml.org,2002:{name}" for name in ("str", "seq", "map"))})


class _Loader(yaml.SafeLoader):
    """Leaves it to `yaml_scalars` what a plain scalar is."""

    yaml_implicit_resolvers = {None: [(_PLAIN, re.compile(""))]}  # noqa: RUF012 - as the library declares it


def load_script(path: Path) -> Script:
    """Read a script file.

    Raises:
        ScriptError: it can't be read, is not YAML, or does not have the format; all problems at once.
    """
    try:
        data = read_regular(path, most_bytes=MAX_SCRIPT_BYTES)
    except OSError as error:
        raise ScriptError(f"{path}: can't read the model script: {error.strerror}") from None
    if len(data) > MAX_SCRIPT_BYTES:
        raise ScriptError(f"{path}: a model script has at most {MAX_SCRIPT_BYTES} bytes")
    return parse_script(data, file=str(path))


def parse_script(source: str | bytes, *, file: str) -> Script:
    """Read a script's text; `file` is the name that errors cite. Raises ScriptError."""
    try:
        root = yaml.compose(source, Loader=_Loader)
        problems = list(_yaml_problems(root, file))
        if problems:
            raise ScriptError("\n".join(problems))
        loaded = None if root is None else _value(root)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{file}:{mark.line + 1}:{mark.column + 1}" if isinstance(mark, yaml.Mark) else file
        raise ScriptError(f"{where}: not YAML: {getattr(error, 'problem', None) or 'unreadable'}") from None
    except RecursionError:
        raise ScriptError(f"{file}: nested too deeply") from None
    try:
        return Script.model_validate(loaded)
    except ValidationError as error:
        raise ScriptError("\n".join(_problems(error, root, file))) from None


def _yaml_problems(root: yaml.Node | None, file: str) -> Iterator[str]:
    """What YAML allows and a script does not need, and numbers that are none."""
    seen: set[int] = set()
    stack: list[yaml.Node] = [root] if root is not None else []
    while stack:
        node = stack.pop()
        if id(node) in seen:
            yield f"{_where(node, file)}: aliases are not allowed"
            continue
        seen.add(id(node))
        if node.tag not in _TAGS:
            yield f"{_where(node, file)}: tags (`!name`) are not allowed"
        if isinstance(node, yaml.SequenceNode):
            stack.extend(node.value)
        elif isinstance(node, yaml.MappingNode):
            yield from _key_problems(node, file)
            stack.extend(value for _, value in node.value)
        elif problem := _number_problem(node):
            yield f"{_where(node, file)}: {problem}"


def _key_problems(node: yaml.MappingNode, file: str) -> Iterator[str]:
    keys: set[str] = set()
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode) or (
            key.tag == _PLAIN and yaml_scalars.is_not_text(key.value)
        ):
            yield f"{_where(key, file)}: a key is a text; put it in quotes"
            continue
        if key.value in keys:
            yield f"{_where(key, file)}: the key `{key.value}` is there twice"
        keys.add(key.value)


def _number_problem(node: yaml.Node) -> str:
    try:
        _value(node)
    except yaml_scalars.ScalarError as error:
        return str(error)
    return ""


def _value(node: yaml.Node) -> object:
    """What a tree without problems holds, as JSON has it."""
    if isinstance(node, yaml.MappingNode):
        return {key.value: _value(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_value(item) for item in node.value]
    value = yaml_scalars.resolve(node.value) if node.tag == _PLAIN else node.value
    return float(value) if isinstance(value, Decimal) else value


def _problems(error: ValidationError, root: yaml.Node | None, file: str) -> Iterator[str]:
    for detail in error.errors(include_url=False, include_input=False):
        path = [part for part in detail["loc"] if isinstance(part, int) or not part.startswith("function-")]
        where = _where(_node_at(root, path), file)
        dotted = ".".join(str(part) for part in path) or "the script"
        if detail["type"] == "extra_forbidden":
            yield f"{where}: {dotted}: unknown key{_nearest(str(path[-1]))}"
        else:
            yield f"{where}: {dotted}: {detail['msg'].removeprefix('Value error, ')}"


def _nearest(name: str) -> str:
    known = [
        field.alias or key
        for model in (Script, Turn, When, ScriptCall, ScriptUsage, ScriptFailure)
        for key, field in model.model_fields.items()
    ]
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean `{close[0]}`?" if close else ""


def _node_at(root: yaml.Node | None, path: Sequence[int | str]) -> yaml.Node | None:
    """The deepest node on the way along a path."""
    node = root
    for part in path:
        if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
        elif isinstance(node, yaml.MappingNode):
            node = next((value for key, value in node.value if key.value == part), node)
    return node


def _where(node: yaml.Node | None, file: str) -> str:
    if node is None:
        return file
    return f"{file}:{node.start_mark.line + 1}:{node.start_mark.column + 1}"

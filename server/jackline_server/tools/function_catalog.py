"""The Python functions that workflows may name: found in the operator's roots, described by their signature.

Owns which function a name leads to, and the shape of its arguments. Does not call them (`function`).
"""

import importlib
import inspect
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, cast, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, PydanticUserError, create_model
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError

from jackline_server.core import json_text
from jackline_server.core.frozen import frozen
from jackline_server.core.plan import JsonObject, JsonValue
from jackline_server.tools import docstrings
from jackline_server.tools.tool_call import ToolCall

CONTEXT_PARAMETER = "call"

_NAME = re.compile(r"([A-Za-z]\w*(?:\.[A-Za-z]\w*)*):([A-Za-z]\w*)", re.ASCII)
_MAX_DESCRIPTION = 4_000
_MAX_SCHEMA_DEPTH = 32
_DATA = frozenset({"default", "examples", "enum", "const"})
"""Keywords whose values are no schemas, whatever they look like."""

_WORDS = frozenset({"title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"})
"""Keywords that ask for nothing: beside a reference they stand in the place of the target's."""

_TABLES = frozenset({"properties", "patternProperties", "dependentSchemas"})


@frozen
class FunctionDescription:
    """What a model is told of a function: the JSON Schema of its arguments and what its docstring says."""

    parameters_json: str
    description: str


@frozen
class FoundFunction:
    """A function that may be called. `arguments` validates them; `parameters` leads to its fields' names."""

    name: str
    call: Callable[..., object]
    arguments: type[BaseModel]
    parameters: Mapping[str, str]
    takes_call: bool
    is_async: bool
    description: FunctionDescription


class FunctionProblem(Exception):
    """A function can't be used. The message is for the author of a workflow."""


class FunctionCatalog:
    """Finds functions under the roots, each once: a function found stays as it was then.

    A root is a module or a package; everything below a package on a dotted boundary belongs to it.
    """

    def __init__(self, *, roots: Sequence[str]) -> None:
        self._roots = tuple(roots)
        self._found: dict[str, FoundFunction] = {}

    def describe(self, function: str) -> FunctionDescription | str:
        """The description of `package.module:name`, or in words why it can't be used.

        Imports the module if it was not yet, and so runs the operator's code.
        """
        try:
            return self.find(function).description
        except FunctionProblem as problem:
            return str(problem)

    def known(self, function: str) -> FoundFunction | None:
        """The function of that name if it was found before; imports nothing."""
        return self._found.get(function)

    def find(self, function: str) -> FoundFunction:
        """The function of that name; may import its module. Raises FunctionProblem."""
        if (known := self.known(function)) is not None:
            return known
        found = _examined(function, self._resolved(function))
        return self._found.setdefault(function, found)

    def _resolved(self, function: str) -> Callable[..., object]:
        match = _NAME.fullmatch(function)
        if match is None or "__" in function:
            raise FunctionProblem(
                "not the name of a function: write package.module:name, without private names"
            )
        module_name, name = match.groups()
        if not self._holds(module_name):
            raise FunctionProblem(
                f"module {module_name!r} is outside the allowed roots; the operator sets functions.roots"
            )
        value = vars(_imported(module_name)).get(name)
        if value is None:
            raise FunctionProblem(f"module {module_name!r} has no function {name!r}")
        if not inspect.isfunction(value):
            raise FunctionProblem(f"{function!r} is not a plain function but a {type(value).__name__}")
        if not self._holds(value.__module__ or "") or not self._holds(inspect.unwrap(value).__module__ or ""):
            raise FunctionProblem(f"{function!r} was only imported there and lives outside the allowed roots")
        return value

    def _holds(self, module: str) -> bool:
        return any(module == root or module.startswith(f"{root}.") for root in self._roots)


def _imported(module: str) -> object:
    try:
        return importlib.import_module(module)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the operator's module may raise anything
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        frames = traceback.extract_tb(error.__traceback__)
        where = f" in {frames[-1].filename}, line {frames[-1].lineno}" if frames else ""
        raise FunctionProblem(f"module {module!r} can't be imported: {reason}{where}") from None


def _examined(function: str, value: Callable[..., object]) -> FoundFunction:
    try:
        signature = inspect.signature(value)
        hints = get_type_hints(value, include_extras=True)
    except (NameError, TypeError, ValueError, AttributeError, SyntaxError) as error:
        raise FunctionProblem(f"the annotations of {function!r} can't be read: {error}") from None
    takes_call = hints.get(CONTEXT_PARAMETER) is ToolCall
    parameters = [
        parameter
        for parameter in signature.parameters.values()
        if not (takes_call and parameter.name == CONTEXT_PARAMETER)
    ]
    told = docstrings.read(inspect.getdoc(value) or "", [parameter.name for parameter in parameters])
    arguments = _arguments_model(function, parameters, hints)
    return FoundFunction(
        name=function,
        call=value,
        arguments=arguments,
        parameters={
            field.alias: name for name, field in arguments.model_fields.items() if field.alias is not None
        },
        takes_call=takes_call,
        is_async=inspect.iscoroutinefunction(value),
        description=FunctionDescription(
            parameters_json=json_text.write(_told(_schema(function, arguments), told.parameters)),
            description=told.text[:_MAX_DESCRIPTION],
        ),
    )


def _arguments_model(
    function: str, parameters: Sequence[inspect.Parameter], hints: Mapping[str, Any]
) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for index, parameter in enumerate(parameters):
        if parameter.kind not in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY):
            raise FunctionProblem(f"parameter {parameter.name!r} of {function!r} can't be given by name")
        if parameter.name not in hints:
            raise FunctionProblem(f"parameter {parameter.name!r} of {function!r} has no annotation")
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        # The field's own name is neutral: a parameter may be called `json` or `copy`, a model's field not.
        fields[f"argument_{index}"] = (
            Annotated[hints[parameter.name], Field(alias=parameter.name)],
            default,
        )
    config = ConfigDict(extra="forbid", strict=True, arbitrary_types_allowed=False)
    try:
        return create_model("Arguments", __config__=config, **fields)
    except (PydanticSchemaGenerationError, PydanticUserError, TypeError, ValueError) as error:
        raise FunctionProblem(
            f"the parameters of {function!r} can't be given as JSON: {_first(error)}"
        ) from None


def _schema(function: str, arguments: type[BaseModel]) -> JsonObject:
    try:
        schema = cast(JsonObject, arguments.model_json_schema(by_alias=True))
    except (PydanticInvalidForJsonSchema, PydanticUserError, ValueError, TypeError, LookupError) as error:
        raise FunctionProblem(
            f"the parameters of {function!r} have no JSON Schema: {_first(error)}"
        ) from None
    definitions = schema.pop("$defs", {})
    schema.pop("title", None)
    inlined = _inlined(schema, cast(JsonObject, definitions), _MAX_SCHEMA_DEPTH)
    return cast(JsonObject, inlined)


def _told(schema: JsonObject, texts: Mapping[str, str]) -> JsonObject:
    """The schema with what the docstring says of parameters that say nothing of themselves."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return schema
    for name, text in texts.items():
        found = properties.get(name)
        if isinstance(found, dict) and "description" not in found:
            properties[name] = {**found, "description": text}
    return schema


def _inlined(node: JsonValue, definitions: JsonObject, depth: int) -> JsonValue:
    """The schema with each reference replaced by what it refers to: many providers know no references."""
    if depth == 0:
        raise FunctionProblem("a parameter's type holds itself, or is nested too deep")
    if isinstance(node, list):
        return [_inlined(item, definitions, depth - 1) for item in node]
    if not isinstance(node, dict):
        return node
    reference = node.get("$ref")
    if isinstance(reference, str):
        rest = {key: value for key, value in node.items() if key != "$ref"}
        target = cast(JsonObject, definitions[reference.removeprefix("#/$defs/")])
        if rest.keys() <= _WORDS:
            return _inlined({**target, **rest}, definitions, depth - 1)
        more = rest.get("allOf")
        parts: list[JsonValue] = [*(more if isinstance(more, list) else ()), target]
        return _inlined({**rest, "allOf": parts}, definitions, depth - 1)  # both hold
    return {
        key: _within(key, value, definitions, depth - 1)
        for key, value in node.items()
        if not _is_title(key, value)
    }


def _within(key: str, value: JsonValue, definitions: JsonObject, depth: int) -> JsonValue:
    """What a keyword has: a value of the function's own, schemas by name, or schemas."""
    if key in _DATA:
        return value
    if key in _TABLES and isinstance(value, dict):
        return {name: _inlined(one, definitions, depth) for name, one in value.items()}
    return _inlined(value, definitions, depth)


def _is_title(key: str, value: JsonValue) -> bool:
    return key == "title" and isinstance(value, str)


def _first(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]

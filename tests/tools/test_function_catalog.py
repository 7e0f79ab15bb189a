import json

import pytest

from jackline_server.tools.function_catalog import FunctionCatalog, FunctionDescription
from tests.tools.invocations import ROOT

CATALOG = FunctionCatalog(roots=[ROOT])


@pytest.mark.parametrize(
    "function",
    [
        "os:system",
        "builtins:eval",
        "builtins:exec",
        "subprocess:run",
        "../x",
        "../x:y",
        "",
        ":",
        "a:",
        ":b",
        ROOT,
        f"{ROOT}.orders",
        f"{ROOT}.orders:",
        f"{ROOT}.orders:add.__globals__",
        f"{ROOT}.orders:add()",
        f"{ROOT}.orders:__import__",
        f"{ROOT}.orders:__builtins__",
        f"{ROOT}.orders:_private",
        f"{ROOT}.orders:os.system",
        f"{ROOT}.orders:os",
        f"{ROOT}.orders:subprocess",
        f"{ROOT}.orders:run",
        f"{ROOT}.orders:join",
        f"{ROOT}.orders:neighbour",
        f"{ROOT}.orders:smuggled",
        f"{ROOT}.orders:anonymous_alias",
        f"{ROOT}.orders:applied",
        f"{ROOT}.orders:an_object",
        f"{ROOT}.orders:Receipt",
        f"{ROOT}.orders:ToolCall",
        f"{ROOT}.orders:missing",
        f"{ROOT}.orders:add\n",
        f"{ROOT}.orders:\N{FULLWIDTH LATIN SMALL LETTER A}dd",
        f"{ROOT}.missing:add",
        f"{ROOT}..orders:add",
        f".{ROOT}.orders:add",
        f"{ROOT}/orders:add",
        f"{ROOT}_not:neighbour",
        f"{ROOT}.broken:x",
        "tests.tools.roots:x",
        "tests.tools.invocations:invocation",
        "jackline_server.tools.function_catalog:FunctionCatalog",
    ],
)
def test_nothing_outside_the_roots_is_a_tool(function: str):
    assert isinstance(CATALOG.describe(function), str)


def test_without_roots_nothing_is_a_tool():
    assert isinstance(FunctionCatalog(roots=[]).describe(f"{ROOT}.orders:add"), str)


@pytest.mark.parametrize("name", ["unannotated", "variadic", "not_json", "recursive", "unspeakable"])
def test_a_signature_that_no_schema_tells_is_a_problem(name: str):
    assert isinstance(CATALOG.describe(f"{ROOT}.orders:{name}"), str)


def described(name: str) -> FunctionDescription:
    description = CATALOG.describe(f"{ROOT}.orders:{name}")
    assert isinstance(description, FunctionDescription)
    return description


def test_a_function_is_described_by_its_signature_and_docstring():
    description = described("add")
    assert description.description == "Adds two numbers."
    assert json.loads(description.parameters_json) == {
        "additionalProperties": False,
        "properties": {
            "left": {"type": "integer", "description": "the first"},
            "right": {"default": 2, "type": "integer", "description": "the second"},
        },
        "required": ["left"],
        "type": "object",
    }


def test_nested_types_are_inlined_and_parameters_keep_their_names():
    schema = json.loads(described("ship").parameters_json)
    properties = schema["properties"]
    assert set(properties) == {"order", "to", "day", "size", "json"}
    assert properties["order"]["description"] == "The order's id"
    assert properties["to"]["properties"]["street"] == {"type": "string"}
    assert set(properties["to"]["properties"]) == {"street", "title"}
    assert properties["size"]["enum"] == ["small", "large"]
    assert "$ref" not in described("ship").parameters_json


def test_what_stands_beside_a_type_holds_together_with_it_and_values_are_no_schemas():
    described = CATALOG.describe(f"{ROOT}.orders:send")
    assert isinstance(described, FunctionDescription)
    fields = json.loads(described.parameters_json)["properties"]
    assert fields["to"]["properties"] == {"street": {"maxLength": 80}}
    (address,) = fields["to"]["allOf"]
    assert set(address["properties"]) == {"street", "title"}
    assert fields["names"]["default"] == {"title": "Dr", "type": "object"}


def test_the_context_parameter_is_hidden_and_only_by_its_annotation():
    assert set(json.loads(described("told").parameters_json)["properties"]) == {"what"}
    assert set(json.loads(described("call_is_a_plain_argument").parameters_json)["properties"]) == {"call"}


def test_a_decorated_function_is_found_as_what_it_wraps():
    assert json.loads(described("decorated").parameters_json)["required"] == ["left"]

"""The schema of a whole answer: its outcome and its result, as a provider or the tool `finish` takes it.

Owns how the two parts of a contract become one schema. Does not own what a provider makes of it (`models`)
nor how an answer is read: the core judges the outcome and the result each by itself.
"""

from collections.abc import Sequence

from jackline_server.core.plan import JsonObject, JsonValue

_MAPS = ("properties", "patternProperties", "dependentSchemas", "dependencies", "definitions", "$defs")
_DATA = ("enum", "const", "default", "examples")
_SHARED = ("definitions", "$defs")
_RESULT = "#/properties/result"


def contract_of(enum: Sequence[str], schema: JsonValue) -> JsonObject:
    """One schema, `type: object`, with `outcome` where there is an enum, and `result`.

    `schema` is that of the result; None where any will do. It has passed the checks of a schema. What its
    references point at still stands where they say.
    """
    properties: JsonObject = {}
    required: list[JsonValue] = []
    if enum:
        properties["outcome"] = {"type": "string", "enum": list(enum), "description": "How it ended."}
        required.append("outcome")
    if schema is not None or not enum:
        required.append("result")
    shared: JsonObject = {}
    if isinstance(schema, dict):
        shared = {key: _moved(schema[key], is_map=True) for key in _SHARED if key in schema}
        if "$schema" in schema:
            shared["$schema"] = schema["$schema"]
        left = {key: value for key, value in schema.items() if key not in (*_SHARED, "$schema", "$id")}
        properties["result"] = _moved(left, is_map=False)
    else:
        properties["result"] = {"description": "Your result."}
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
        **shared,
    }


def _moved(schema: JsonValue, *, is_map: bool) -> JsonValue:
    """A schema, or a map of them, with its references as they are below `result`."""
    if isinstance(schema, list):
        return [_moved(item, is_map=False) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if is_map:
        return {name: _moved(child, is_map=False) for name, child in schema.items()}
    return {key: _keyword(key, value) for key, value in schema.items()}


def _keyword(key: str, value: JsonValue) -> JsonValue:
    if key == "$ref" and isinstance(value, str):
        shared = any(value.startswith(f"#/{name}/") for name in _SHARED)
        return value if shared else f"{_RESULT}{value[1:]}"
    return value if key in _DATA else _moved(value, is_map=key in _MAPS)

"""The script of a scripted model as JSON Schema (draft 2020-12), made of the models that read it."""

from collections.abc import Mapping
from typing import Any

from jackline_server.models.script import Script

DRAFT = "https://json-schema.org/draft/2020-12/schema"


def script_schema(texts: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """The schema of a script, every key described."""
    made = Script.model_json_schema(ref_template="#/$defs/{model}")
    for name, definition in {**made["$defs"], "Script": made}.items():
        for key, value in definition.get("properties", {}).items():
            value.pop("title", None)
            if value.get("default", 0) is None:
                del value["default"]
            if (text := texts.get(name, {}).get(key)) is not None:
                value["description"] = text
    made["properties"]["turns"]["minItems"] = 1
    made["$defs"]["Turn"] |= {
        "anyOf": [{"required": [key]} for key in ("text", "answer", "tool_calls", "error")],
        "not": {"required": ["text", "answer"], "properties": {"text": {"type": "string"}}},
    }
    return {"$schema": DRAFT, **made, "title": "A script of a scripted model"}

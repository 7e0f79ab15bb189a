"""A workflow file as JSON Schema (draft 2020-12), for editors: made of the shapes that read the file.

Owns what pydantic can't know of them: the steps by their kind, the defaults that are not in the shapes, and
which keys of a tool go together. What only the compiler sees (names, routes, bounds together) is not in it.
"""

from collections.abc import Mapping
from typing import Any

from jackline_server.core.plan import RESERVED_SIGNALS
from jackline_server.definitions import defaults, shapes
from jackline_server.definitions.presets import SERVICE

DRAFT = "https://json-schema.org/draft/2020-12/schema"

_SECOND = defaults.SECOND_MS
_DEFAULTS: Mapping[tuple[str, str], object] = {
    ("RunBounds", "run_timeout"): f"{SERVICE.run_timeout_ms // defaults.MINUTE_MS}m",
    ("RunBounds", "steps"): SERVICE.steps,
    ("RunBounds", "events"): SERVICE.events,
    ("Workflow", "on_question"): SERVICE.on_question.value,
    ("AgentBounds", "max_iterations"): SERVICE.max_iterations,
    ("CompletionBounds", "model_requests"): defaults.COMPLETION_MODEL_REQUESTS,
    ("*", "model_timeout"): f"{SERVICE.model_timeout_ms // _SECOND}s",
    ("*", "idle_timeout"): f"{SERVICE.idle_timeout_ms // _SECOND}s",
    ("AgentBounds", "tool_timeout"): f"{SERVICE.tool_timeout_ms // _SECOND}s",
    ("Http", "timeout"): f"{SERVICE.tool_timeout_ms // _SECOND}s",
    ("Function", "timeout"): f"{SERVICE.tool_timeout_ms // _SECOND}s",
    ("Mcp", "timeout"): f"{SERVICE.tool_timeout_ms // _SECOND}s",
    ("Agent", "max_parallel"): defaults.MAX_PARALLEL,
    ("Agent", "allow_effects"): ["read", "idempotent", "write", "destructive"],
    ("*", "on_limit"): SERVICE.on_limit.value,
    ("*", "limit_expiry"): f"{defaults.LIMIT_EXPIRY_MS // defaults.HOUR_MS}h",
    ("*", "answer"): SERVICE.answer.value,
    ("Outcome", "repairs"): SERVICE.repairs,
    ("StopFunction", "timeout"): f"{defaults.STOP_FUNCTION_TIMEOUT_MS // _SECOND}s",
    ("Repeat", "by"): defaults.REPEAT_BY.value,
    ("Repeat", "count"): SERVICE.repeat_count,
    ("Repeat", "nudge"): SERVICE.repeat_nudge,
    ("Reflect", "guidance"): defaults.REFLECT_GUIDANCE,
    ("Ground", "threshold"): defaults.GROUND_THRESHOLD_PERMILLE / 1_000,
    ("Ground", "max_replans"): defaults.GROUND_MAX_REPLANS,
    ("Ground", "on_error"): defaults.GROUND_ON_ERROR.value,
    ("*", "result_chars"): SERVICE.result_chars,
    ("*", "on_unknown"): SERVICE.on_unknown.value,
    ("Human", "expiry"): f"{defaults.HUMAN_EXPIRY_MS // defaults.HOUR_MS}h",
    ("*", "unknown_expiry"): f"{defaults.UNKNOWN_EXPIRY_MS // defaults.HOUR_MS}h",
    ("Http", "effect"): defaults.EFFECT.value,
    ("Function", "effect"): defaults.EFFECT.value,
}
"""By shape and key; `*` is every shape that has it."""

_STEP_NAME = "^[a-z][a-z0-9_]{0,62}$"

Texts = Mapping[str, Mapping[str, str]]
"""What each key is, by the name of its shape."""


def workflow_schema(texts: Texts) -> dict[str, Any]:
    """The schema of a workflow file, every key described."""
    made: dict[str, Any] = {"$defs": {}}
    for shape in (*shapes.KINDS.values(), shapes.WorkflowShape):
        part = shape.model_json_schema(ref_template="#/$defs/{model}")
        made["$defs"].update(part.pop("$defs", {}))
        made["$defs"][shape.__name__] = part
    made = _renamed(made)
    definitions: dict[str, Any] = made["$defs"]
    for name, definition in definitions.items():
        _describe(name, definition, texts)
    for kind, shape in shapes.KINDS.items():
        step = definitions[_short(shape.__name__)]
        step["properties"]["kind"] = {**step["properties"]["kind"], "const": kind}
    _close_tools(definitions["Tool"])
    top = definitions.pop("Workflow")
    definitions["Step"] = _step()
    top["properties"]["steps"] = {
        **top["properties"]["steps"],
        "propertyNames": {"pattern": _STEP_NAME, "not": {"enum": sorted(RESERVED_SIGNALS)}},
        "additionalProperties": {"$ref": "#/$defs/Step"},
    }
    return {
        "$schema": DRAFT,
        **top,
        "title": "A workflow of Jackline",
        "$defs": dict(sorted(definitions.items())),
    }


def shape_schema(shape: type[shapes.Shape], texts: Texts, *, title: str) -> dict[str, Any]:
    """The schema of another file that is read by shapes, every key described."""
    made = shape.model_json_schema(ref_template="#/$defs/{model}")
    definitions: dict[str, Any] = made.pop("$defs", {})
    renamed = _renamed({"$defs": {**definitions, shape.__name__: made}})["$defs"]
    for name, definition in renamed.items():
        _describe(name, definition, texts)
    top = renamed.pop(_short(shape.__name__))
    return {"$schema": DRAFT, **top, "title": title, "$defs": dict(sorted(renamed.items()))}


def _step() -> dict[str, Any]:
    """One of the kinds: `kind` decides, so that an editor speaks of that kind's keys alone."""
    return {
        "type": "object",
        "title": "A step",
        "required": ["kind"],
        "properties": {"kind": {"enum": list(shapes.KINDS)}},
        "allOf": [
            {
                "if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]},
                "then": {"$ref": f"#/$defs/{_short(shape.__name__)}"},
            }
            for kind, shape in shapes.KINDS.items()
        ],
    }


def _close_tools(tool: dict[str, Any]) -> None:
    """`ref` or `from`, and what belongs to only one of them."""
    of_ref = {"required": ["ref"], "properties": {"ref": {"minLength": 1}}}
    tool["oneOf"] = [
        {**of_ref, "not": {"required": ["allow"], "properties": {"allow": {"type": "array"}}}},
        {
            "required": ["from"],
            "properties": {
                "from": {"type": "string"},
                "description": {"type": "null"},
                "parameters": {"type": "null"},
            },
        },
    ]


def _describe(name: str, definition: dict[str, Any], texts: Texts) -> None:
    definition["title"] = name
    for key, value in definition.get("properties", {}).items():
        value.pop("title", None)
        if value.get("default", 0) is None:
            del value["default"]  # None is "not written", which is no default
        default = _DEFAULTS.get((name, key), _DEFAULTS.get(("*", key)))
        if default is not None:
            value["default"] = default
        text = texts.get(name, {}).get(key)
        if text is not None:
            value["description"] = text


def _short(name: str) -> str:
    return name.removesuffix("Shape")


def _renamed(value: Any) -> Any:  # noqa: ANN401 - JSON of any shape
    """Definitions and what refers to them by the names of the file, not of the code."""
    if isinstance(value, list):
        return [_renamed(item) for item in value]  # pyright: ignore[reportUnknownVariableType] - JSON of any shape
    if not isinstance(value, dict):
        return value
    made: dict[str, Any] = {}
    for key, item in value.items():  # pyright: ignore[reportUnknownVariableType] - JSON of any shape
        if key == "$ref":
            made["$ref"] = _short(str(item))  # pyright: ignore[reportUnknownArgumentType] - a text
        elif key == "$defs":
            made["$defs"] = {_short(name): _renamed(one) for name, one in item.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType, reportUnknownMemberType] - a mapping
        else:
            made[key] = _renamed(item)
    return made

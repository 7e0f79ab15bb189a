"""Steps that ask a person, and the built-in tool `ask_person`.

Owns what can be answered and the default, checked against each other, and the step that stands for the
built-in tool. Does not own where an answer leads (`check_flow`).
"""

import dataclasses

from jackline_server.core.plan import ASK_PERSON, HumanAction, HumanOption, JsonValue
from jackline_server.definitions.parameters import Parameters, as_json, json_text
from jackline_server.definitions.reading import Draft
from jackline_server.definitions.report import Report
from jackline_server.definitions.shapes import (
    AgentShape,
    AnyStep,
    Document,
    HumanShape,
    OptionShape,
    ToolShape,
)
from jackline_server.definitions.yaml_nodes import Path

_IDLE_KEYS = (
    "effect",
    "timeout",
    "retry",
    "on_error",
    "on_timeout",
    "reuse",
    "on_unknown",
    "unknown_expiry",
    "approval",
)
_SCALARS = frozenset({"string", "number", "integer", "boolean"})
_CHOICES = "options"

ASKING = HumanShape(
    kind="human",
    description="Asks a person and waits for the answer. Ask only what you can neither find out nor decide.",
    question="{{ question }}",
    parameters={
        "type": "object",
        "properties": {
            "question": {
                "type": "string",
                "minLength": 1,
                "maxLength": 4000,
                "description": "The question, with all that somebody has to know who has read nothing else.",
            },
            _CHOICES: {
                "type": "array",
                "minItems": 1,
                "maxItems": 10,
                "items": {"type": "string", "minLength": 1, "maxLength": 200},
                "description": "The answers to choose from; leave it out for an answer in words.",
            },
        },
        "required": ["question"],
        "additionalProperties": False,
    },
)
"""The step behind `ask_person`."""


def expanded(draft: Draft, report: Report) -> Draft:
    """The draft with the step that stands for `ask_person`, and entries that name it."""
    if ASK_PERSON in draft.steps:
        message = f"`{ASK_PERSON}` is the built-in tool that asks a person; rename the step"
        report.error("reserved_tool", message, ("steps", ASK_PERSON))
        return draft
    agents = {name: step for name, step in draft.steps.items() if isinstance(step, AgentShape) and _has(step)}
    if not agents:
        return draft
    steps: dict[str, AnyStep] = {**draft.steps, ASK_PERSON: ASKING}
    for name, agent in agents.items():
        steps[name] = agent.model_copy(update={"tools": tuple(_named(entry) for entry in agent.tools)})
    return dataclasses.replace(draft, steps=steps)


def _has(step: AgentShape) -> bool:
    return any(entry.builtin is not None for entry in step.tools)


def _named(entry: ToolShape) -> ToolShape:
    return entry if entry.builtin is None else entry.model_copy(update={"builtin": None, "ref": ASK_PERSON})


def options(shape: HumanShape) -> tuple[HumanOption, ...]:
    """What can be answered, in the order of the file."""
    return tuple(
        HumanOption(value=one.value, description=one.description or "")
        if isinstance(one, OptionShape)
        else HumanOption(value=one)
        for one in shape.options or ()
    )


def check_keys(step_id: str, shape: HumanShape, report: Report) -> None:
    """Report keys that mean nothing for a question."""
    for key in _IDLE_KEYS:
        if getattr(shape, key) is not None:
            message = (
                f"a question changes nothing and is asked once; leave `{key}` out (its time is `expiry`)"
            )
            report.error("human_key", message, ("steps", step_id, key))


def action(step_id: str, shape: HumanShape, parameters: Parameters, report: Report) -> HumanAction:
    """The action of the plan; what is wrong with it is in the report."""
    path: Path = ("steps", step_id)
    if shape.options is not None and shape.schema_ is not None:
        report.error(
            "bad_form", "an answer is one of `options` or fits `schema`, not both", (*path, "schema")
        )
    sound = shape.schema_ is None or _is_form(shape.schema_, parameters, (*path, "schema"), report)
    default: JsonValue = None
    if shape.default is not None and sound:
        default = _default(shape, parameters, (*path, "default"), report)
    return HumanAction(
        question=shape.question,
        options=options(shape),
        schema_json=None if shape.schema_ is None else json_text(shape.schema_),
        default_json=None if default is None else json_text(default),
        choices=_CHOICES if step_id == ASK_PERSON else "",
    )


def _is_form(schema: Document, parameters: Parameters, path: Path, report: Report) -> bool:
    """True for a schema that a person can fill in: an object of plain values."""
    if not parameters.check_schema(schema, path):
        return False
    form = as_json(schema)
    fields = form.get("properties") if isinstance(form, dict) and form.get("type") == "object" else None
    if not isinstance(fields, dict) or not fields:
        report.error("bad_form", "a form is a schema of `type: object` with `properties`", path)
        return False
    for name, field in fields.items():
        if not _is_plain(field):
            message = (
                f"`{name[:64]}` is no plain value: a person fills in texts, numbers, yes or no, and choices"
            )
            report.error("bad_form", message, (*path, "properties", name))
            return False
    return True


def _is_plain(field: JsonValue) -> bool:
    if not isinstance(field, dict):
        return False
    kind = field.get("type")
    if kind == "array":
        items = field.get("items")
        return isinstance(items, dict) and "enum" in items
    return "enum" in field or (isinstance(kind, str) and kind in _SCALARS)


def _default(shape: HumanShape, parameters: Parameters, path: Path, report: Report) -> JsonValue:
    """The output that the default stands for; None if it is no answer, which is reported."""
    value = as_json(shape.default)
    if shape.options is not None:
        known = [option.value for option in options(shape)]
        if value in known:
            return {"option": value}
        report.error("bad_default", f"`default` is none of the options: {', '.join(known)}", path)
        return None
    if shape.schema_ is not None:
        problem = parameters.schemas.problem(json_text(shape.schema_), value)
        if problem is not None:
            report.error("bad_default", f"`default` does not fit the schema: {problem}", path)
        return value
    if not isinstance(value, str) or not value:
        report.error("bad_default", "`default` is the words that stand for an answer", path)
    return value

"""Checks of what conditions and pointers read: names that nothing writes, members that the input can't have.

Owns the findings about single names. A schema says that a member can't be there only if it is closed:
`additionalProperties: false` and nothing that adds properties from elsewhere.
"""

import json
from collections.abc import Iterator
from typing import cast

from jackline_server.core.deciding.stopping import RUN_VARIABLES
from jackline_server.core.plan import JsonValue, ModelStep, Plan, RouterStep, ToolStep
from jackline_server.definitions.catalog import nearest
from jackline_server.definitions.expression_checks import ExpressionChecker
from jackline_server.definitions.reading import Draft
from jackline_server.definitions.report import Report
from jackline_server.definitions.yaml_nodes import Path

OPEN = ("$ref", "allOf", "anyOf", "oneOf", "if", "patternProperties", "dependentSchemas", "dependencies")
"""Where one of these stands, `properties` are not all that a schema knows."""


def check(plan: Plan, draft: Draft, expressions: ExpressionChecker, report: Report) -> None:
    """Report names that have no value."""
    known, schema = context_keys(plan), _input_schema(plan)
    for step in plan.steps.values():
        if isinstance(step, RouterStep):
            for index, case in enumerate(step.cases):
                place: Path = ("steps", step.step_id, "conditions", index, "when")
                for members in sorted(expressions.members(case.when)):
                    _check_members(members, known, schema, place, report)
        else:
            for pointer, place in _pointers(step, draft):
                _check_pointer(pointer, schema, place, report)


def _pointers(step: ModelStep | ToolStep, draft: Draft) -> Iterator[tuple[str, Path]]:
    for name, pointer in (step.input or {}).items():
        yield pointer, ("steps", step.step_id, "input", name)
    places = draft.tool_places(step.step_id)
    for entry in step.tools if isinstance(step, ModelStep) else ():
        for name, pointer in entry.bind.items():
            yield pointer, ("steps", step.step_id, "tools", places[entry.ref], "bind", name)


def _check_members(
    members: tuple[str, ...], known: set[str], schema: JsonValue, path: Path, report: Report
) -> None:
    if members[0] not in known:
        hint = "" if report.is_full else nearest(members[0], known)
        message = f"nothing writes `{members[0][:64]}` into the context, so this counts as false{hint}"
        report.warning("expression_unknown", message, path)
    elif members[0] == "input" and (hint := _lacking(schema, members[1:])):
        report.warning("expression_unknown", f"{hint}, so this counts as false", path)


def _check_pointer(pointer: str, schema: JsonValue, path: Path, report: Report) -> None:
    parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    if parts[0] == "input" and (hint := _lacking(schema, tuple(parts[1:]))):
        report.warning("pointer_unknown", hint, path)


def check_stop_variable(plan: Plan, members: tuple[str, ...], path: Path, report: Report) -> None:
    """Report what an expression of a stop condition reads of its variables and that can't be there."""
    known, schema = context_keys(plan), _input_schema(plan)
    match members:
        case ("context", first, *rest):
            _check_members((first, *rest), known, schema, path, report)
        case ("input", *_):
            _check_members(members, known, schema, path, report)
        case ("run", name, *_) if name not in RUN_VARIABLES:
            message = f"`run` has no `{name[:64]}`{nearest(name, RUN_VARIABLES)}"
            report.warning("expression_unknown", f"{message}, so this counts as false", path)
        case _:
            return


def _lacking(schema: JsonValue, members: tuple[str, ...]) -> str:
    """What the input can't have of a chain of members, or nothing."""
    place = schema
    for depth, name in enumerate(members):
        if not isinstance(place, dict) or any(key in place for key in OPEN):
            return ""
        properties = place.get("properties")
        if isinstance(properties, dict) and name in properties:
            place = properties[name]
        elif place.get("additionalProperties") is False and isinstance(properties, dict):
            owner = ".".join(("input", *members[:depth]))
            return (
                f"the schema of the input has no `{name[:64]}` in `{owner[:128]}`{nearest(name, properties)}"
            )
        else:
            return ""
    return ""


def _input_schema(plan: Plan) -> JsonValue:
    return None if plan.input_schema_json is None else cast("JsonValue", json.loads(plan.input_schema_json))


def context_keys(plan: Plan) -> set[str]:
    """The keys that the context of a run can have."""
    keys = {"input", "_last_error", "_last_error_type"}
    for step in plan.steps.values():
        if isinstance(step, ModelStep):
            keys.add(step.outcome.output_key)
        elif isinstance(step, ToolStep):
            keys.add(step.output_key)
    return keys

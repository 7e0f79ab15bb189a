"""What a step of the flow gives, held against a schema that says what is taken.

Owns these two comparisons. Nothing here is more than a warning: what takes it is looked up anew when it runs.
"""

import json
from collections.abc import Sequence
from typing import Any

from jackline_server.core.frozen import frozen
from jackline_server.core.plan import FunctionAction, Plan, ToolStep
from jackline_server.definitions.catalog import FunctionDescription, Functions, nearest
from jackline_server.definitions.pinned_source import properties_of
from jackline_server.definitions.report import Report
from jackline_server.definitions.shapes import Document
from jackline_server.definitions.yaml_nodes import Path


@frozen
class Taker:
    """Who takes what a step gives: as which finding it is reported, in a word, and the key that names it."""

    code: str
    word: str
    key: str


FUNCTION = Taker(code="function_input", word="function", key="function")


def check_functions(plan: Plan, visited: frozenset[str], functions: Functions, report: Report) -> None:
    """Report what functions of the flow lack, or are given in vain.

    Without an `input` a function is given the context, whose keys but `input` nobody knows beforehand.
    """
    for step_id in sorted(visited):
        step = plan.steps[step_id]
        if not isinstance(step, ToolStep) or not isinstance(step.action, FunctionAction):
            continue
        described = functions.describe(step.action.function)
        if not isinstance(described, FunctionDescription):
            continue
        schema: Document = json.loads(described.parameters_json)
        if step.input is not None:
            check_given(step, schema, FUNCTION, report)
        elif is_closed(schema) and "input" not in properties_of(schema):
            message = "without `input` it is given the whole context, and its function takes no `input`"
            advice = "write what it takes as `input`, or `input: {}`"
            report.warning(FUNCTION.code, f"{message}; {advice}", ("steps", step_id, FUNCTION.key))


def check_given(step: ToolStep, schema: Document, taker: Taker, report: Report) -> None:
    """Report what a step does not give although it is needed, and what it gives that is not taken."""
    place: Path = ("steps", step.step_id)
    properties, given = properties_of(schema), step.input or {}
    required: Sequence[Any] = schema.get("required", ())
    for name in required:
        if name not in given:
            message = f"the {taker.word} needs `{str(name)[:64]}`, which the step's `input` does not give"
            report.warning(taker.code, message, (*place, "input" if step.input else taker.key))
    for name in given if is_closed(schema) else ():
        if name not in properties:
            message = f"the {taker.word} takes no `{name[:64]}`{nearest(name, properties)}"
            report.warning(taker.code, message, (*place, "input", name), of_key=True)


def is_closed(schema: Document) -> bool:
    """True if an object of that schema has no properties but those that it names."""
    return schema.get("additionalProperties") is False and "patternProperties" not in schema

"""What a workflow that a step runs takes, as far as it was looked up.

Owns what of its input a model is asked for, whether a step gives what it needs, and recursion that goes
through other workflows. Nothing here is more than a warning but that: what a step runs may be put later, and
may be another one by the time that it runs.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from jackline_server.core.plan import ChildAction, Plan, ToolStep
from jackline_server.definitions.catalog import FunctionDescription
from jackline_server.definitions.given_inputs import Taker, check_given
from jackline_server.definitions.parameters import PAYLOAD, Parameters, json_text, without
from jackline_server.definitions.reading import Draft
from jackline_server.definitions.report import Report
from jackline_server.definitions.shapes import AnyStep, ChildShape, Document
from jackline_server.runtime.ports.definitions import Signature

_LATEST = ("", "latest")
_WORKFLOW = Taker(code="child_input", word="workflow", key="workflow")


def references(steps: Mapping[str, AnyStep]) -> tuple[str, ...]:
    """The workflows that the steps run, each once."""
    return tuple(dict.fromkeys(step.workflow for step in steps.values() if isinstance(step, ChildShape)))


def signature_of(draft: Draft) -> Signature:
    """What others need to know of a workflow."""
    given = draft.top.input
    return Signature(
        name=draft.top.name,
        input_schema_json=None if given is None else json_text(given.schema_),
        runs=references(draft.steps),
    )


@dataclass(slots=True, kw_only=True)
class ChildInputs:
    """The workflows that the steps of one compilation run."""

    known: Mapping[str, Signature | str]
    parameters: Parameters
    report: Report
    _schemas: dict[str, Document] = field(default_factory=dict[str, Document])

    def describe(self, step_id: str, shape: ChildShape) -> FunctionDescription | None:
        """What a model may be asked for; None if nobody knows what the workflow takes."""
        found = self.known.get(shape.workflow)
        if isinstance(found, str):
            name = shape.workflow[:64]
            message = f"`{step_id}` runs the workflow `{name}`. {found}"
            advice = "No run of this one starts until it is there"
            self.report.warning("child_unknown", f"{message} {advice}", ("steps", step_id, "workflow"))
        if not isinstance(found, Signature):
            return None
        schema = self._schema(found)
        if schema is None:
            return FunctionDescription(parameters_json=json_text(PAYLOAD), docstring="")
        self._schemas[step_id] = schema
        left = without(schema, frozenset(shape.input or ()))
        return FunctionDescription(parameters_json=json_text(left), docstring="")

    def check(self, plan: Plan, visited: frozenset[str]) -> None:
        """Report what a step of the flow lacks or gives in vain, and workflows that lead back to this one."""
        for step_id, step in sorted(plan.steps.items()):
            if not isinstance(step, ToolStep) or not isinstance(step.action, ChildAction):
                continue
            if step_id in visited and step_id in self._schemas:
                check_given(step, self._schemas[step_id], _WORKFLOW, self.report)
            way = self._way_back(plan.name, step.action.workflow)
            if way:
                message = f"`{step_id}` leads back to this workflow, over and over: {' -> '.join(way)}"
                self.report.error("child_recursion", message, ("steps", step_id, "workflow"))

    def _schema(self, found: Signature) -> Document | None:
        """The schema of its input, if that can be used; its own check says what is wrong with it."""
        if found.input_schema_json is None:
            return None
        schema: Document = json.loads(found.input_schema_json)
        schema.setdefault("type", "object")
        usable = schema["type"] == "object" and self.parameters.schemas.refusal(json_text(schema)) is None
        return schema if usable else None

    def _way_back(self, name: str, reference: str) -> tuple[str, ...]:
        """The references by which a workflow leads to the newest of that name; empty if none do.

        The first step is not counted: a workflow that runs itself is reported by its own text.
        """
        ahead: list[tuple[str, ...]] = [(reference,)]
        seen = {reference}
        while ahead:
            way = ahead.pop(0)
            for further in self._runs(way[-1]):
                if _is_newest(further, name):
                    return (*way, further)
                if further not in seen:
                    seen.add(further)
                    ahead.append((*way, further))
        return ()

    def _runs(self, reference: str) -> Iterator[str]:
        found = self.known.get(reference)
        yield from found.runs if isinstance(found, Signature) else ()


def _is_newest(reference: str, name: str) -> bool:
    own, _, version = reference.partition("@")
    return own == name and version in _LATEST

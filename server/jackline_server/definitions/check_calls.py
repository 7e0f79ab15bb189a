"""Checks of what conditions say about tool calls: tools and effects that there are not, arguments of no tool.

Owns these findings, for rules, stop conditions and approvals alike. A model writes what it is shown, so that
an argument that no schema declares is not there, unless a schema says itself that there may be more. A
comparison that is not written out as a member, a sign and a text is not judged.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from typing import cast

from jackline_server.core.deciding.stopping import CALLS_VARIABLES
from jackline_server.core.frozen import frozen
from jackline_server.core.plan import (
    FINISH,
    READ_RESULT,
    Effect,
    JsonValue,
    Plan,
    ToolEntry,
    ToolStep,
)
from jackline_server.definitions.catalog import nearest
from jackline_server.definitions.check_names import OPEN, context_keys
from jackline_server.definitions.expression_checks import ExpressionChecker
from jackline_server.definitions.parameters import PAYLOAD
from jackline_server.definitions.report import Report
from jackline_server.definitions.yaml_nodes import Path

_BUILT_IN = (FINISH, READ_RESULT)
_EFFECTS = tuple(effect.value for effect in Effect)
_EACH_CALL = ("calls", "*")


@frozen
class Callee:
    """A tool as a condition sees its calls: what the model may write, and the names it is given besides."""

    ref: str
    parameters: JsonValue
    given: frozenset[str] = frozenset()


def callees(entries: Iterable[ToolEntry], plan: Plan, *, as_given: bool) -> tuple[Callee, ...]:
    """The tools of these entries; `as_given` adds what is bound and what their steps take of the context."""
    return tuple(_callee(entry, plan, as_given=as_given) for entry in entries)


def visited(step: ToolStep, plan: Plan) -> Callee:
    """A tool step that the flow visits: it is given what it reads of the context, and nothing else."""
    names = context_keys(plan) if step.input is None else set(step.input)
    closed: JsonValue = {"properties": {}, "additionalProperties": False}
    return Callee(ref=step.step_id, parameters=closed, given=frozenset(names))


def _callee(entry: ToolEntry, plan: Plan, *, as_given: bool) -> Callee:
    parameters = cast("JsonValue", json.loads(entry.parameters_json))
    if parameters == PAYLOAD:
        parameters = None  # it stands where nobody could say yet what the tool takes
    if not as_given:
        return Callee(ref=entry.ref, parameters=parameters)
    step = plan.steps.get(entry.ref)
    own = step.input if isinstance(step, ToolStep) else None
    return Callee(ref=entry.ref, parameters=parameters, given=frozenset(entry.bind) | frozenset(own or ()))


@frozen
class CallCheck:
    """The check of one expression about calls of these tools. `follows` is what a wrong argument leads to."""

    callees: Collection[Callee]
    expressions: ExpressionChecker
    report: Report
    path: Path
    code: str = "expression_unknown"
    follows: str = "so this counts as false"

    def check_texts(
        self, cel: str, *, tools: Collection[tuple[str, ...]], effect: tuple[str, ...] = ()
    ) -> None:
        """Report texts that members are held against and that they can't be: `tools` are names of tools."""
        refs = sorted({callee.ref for callee in self.callees})
        for members, text in sorted(self.expressions.compared(cel)):
            if members in tools and refs and text not in (*refs, *_BUILT_IN):
                self._tell(f"`{text[:64]}` is no tool here", nearest(text, refs))
            elif members == effect and text not in _EFFECTS:
                self._tell(f"`{text[:64]}` is no effect", nearest(text, _EFFECTS))

    def check_calls(self, cel: str) -> None:
        """Report what is read of `calls`: members that a call does not have, arguments, names of tools."""
        self.check_texts(cel, tools=((*_EACH_CALL, "name"),))
        for members in sorted(self.expressions.elements(cel)):
            if members[:2] == _EACH_CALL and len(members) > 2:  # noqa: PLR2004  # there is a member
                self._check_of_each(members[2:])

    def check_arguments(self, members: tuple[str, ...]) -> None:
        """Report members of a call's arguments that none of the tools takes."""
        if not members or not self.callees or any(_may_be_given(one, members) for one in self.callees):
            return
        known = {name for callee in self.callees for name in _declared(callee)}
        hint = nearest(members[0], known) if members[0] not in known else ""
        name = ".".join(members)[:128]
        self._report(f"no tool here takes `{name}` as an argument, {self.follows}{hint}", self.code)

    def _check_of_each(self, members: tuple[str, ...]) -> None:
        if members[0] not in CALLS_VARIABLES:
            message = f"a call has no `{members[0][:64]}`{nearest(members[0], CALLS_VARIABLES)}"
            self._report(f"{message}, {self.follows}", self.code)
        elif members[0] == "arguments":
            self.check_arguments(members[1:])

    def _tell(self, message: str, hint: str) -> None:
        self._report(f"{message}: nothing is ever equal to it{hint}", "expression_text_unknown")

    def _report(self, message: str, code: str) -> None:
        self.report.warning(code, message, self.path)


def _declared(callee: Callee) -> set[str]:
    schema = callee.parameters
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    return {*callee.given, *(properties if isinstance(properties, Mapping) else ())}


def _may_be_given(callee: Callee, members: tuple[str, ...]) -> bool:
    if members[0] in callee.given:
        return True
    place = callee.parameters
    for name in members:
        if not isinstance(place, dict) or any(key in place for key in OPEN):
            return True
        properties = place.get("properties")
        further = place.get("additionalProperties", properties is None or properties == {})
        if isinstance(properties, dict) and name in properties:
            place = properties[name]
        else:
            return further is not False
    return True

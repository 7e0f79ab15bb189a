"""Checks of stop conditions: what names nothing, what is refused, and what is always or never true.

Owns these findings. A leaf is judged by the step around it (its tools, outcomes and bounds), a tree by its
leaves. What can't be said from the plan alone is not said.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, assert_never, cast

from jackline_server.core import conditions
from jackline_server.core.conditions import (
    AllOf,
    AnyOf,
    AskFunction,
    Confidence,
    Cost,
    Elapsed,
    Expression,
    Iterations,
    Leaf,
    Not,
    NoToolCalls,
    OutcomeIs,
    StopCondition,
    TextMention,
    Tokens,
    ToolCalled,
)
from jackline_server.core.deciding.stopping import VARIABLES
from jackline_server.core.frozen import frozen
from jackline_server.core.instruments import ExpressionError
from jackline_server.core.plan import ModelPlan, ModelStep, Plan, ToolStep
from jackline_server.definitions import check_names
from jackline_server.definitions.catalog import Functions, nearest
from jackline_server.definitions.check_calls import CallCheck, callees
from jackline_server.definitions.expression_checks import ExpressionChecker
from jackline_server.definitions.model_choice import askable
from jackline_server.definitions.report import Report
from jackline_server.definitions.stop_conditions import placed
from jackline_server.definitions.yaml_nodes import Path


def check(plan: Plan, functions: Functions, expressions: ExpressionChecker, report: Report) -> None:
    """Report everything about the stop conditions of a plan."""
    for step in plan.steps.values():
        if isinstance(step, ModelStep) and step.stop_when is not None:
            _Check(plan=plan, functions=functions, expressions=expressions, report=report, step=step).run()


@frozen
class _Known:
    """What is known of a condition without running it, and why."""

    value: bool
    why: str


@frozen
class _Check:
    """The check of one step's condition."""

    plan: Plan
    functions: Functions
    expressions: ExpressionChecker
    report: Report
    step: ModelStep

    def run(self) -> None:
        tree, path = self.step.stop_when, ("steps", self.step.step_id, "stop_when")
        if tree is None:
            return
        if over := conditions.oversize(tree):
            self.report.error("stop_too_large", f"this stop condition is too large: {over}", path)
            return
        for node, place in placed(tree, path):
            if not isinstance(node, AnyOf | AllOf | Not):
                self._check_names(node, place)
                known = self._known(node)
                if known is not None:
                    self._tell(known, "this", place)
        if isinstance(tree, AnyOf | AllOf | Not):
            whole = self._value(tree)
            if whole is not None:
                self._tell(_Known(value=whole, why=""), "the whole stop condition", path)

    def _tell(self, known: _Known, what: str, path: Path) -> None:
        why = f": {known.why}" if known.why else ""
        if known.value:
            self.report.warning("stop_always", f"{what} is always true after the first turn{why}", path)
        else:
            self.report.warning("stop_never", f"{what} is never true{why}", path)

    # --- names -----------------------------------------------------------------------------------

    def _check_names(self, leaf: Leaf, path: Path) -> None:
        match leaf:
            case ToolCalled():
                self._check_tool(leaf, (*path, "name"))
            case OutcomeIs():
                self._check_outcome(leaf, path)
            case Expression():
                self._check_expression(leaf, path)
            case AskFunction():
                self._check_function(leaf, path)
            case _:
                return

    def _check_tool(self, leaf: ToolCalled, path: Path) -> None:
        refs = [entry.ref for entry in self.step.tools]
        if leaf.name not in refs:
            message = f"`{leaf.name[:64]}` is no tool of this step{nearest(leaf.name, refs)}"
            self.report.error("stop_tool_unknown", message, path)

    def _check_outcome(self, leaf: OutcomeIs, path: Path) -> None:
        enum = self.step.outcome.enum
        if not enum:
            message = "this step has no `outcome.enum`, so that no reply has an outcome"
            self.report.error("stop_outcome_unknown", message, path)
        elif leaf.outcome not in enum:
            message = f"`{leaf.outcome[:64]}` is no outcome of this step{nearest(leaf.outcome, enum)}"
            self.report.error("stop_outcome_unknown", message, path)

    def _check_expression(self, leaf: Expression, path: Path) -> None:
        if problem := self.expressions.check(leaf.cel):
            self.report.error("bad_expression", problem, path)
            return
        for members in sorted(self.expressions.members(leaf.cel)):
            if members[0] not in VARIABLES:
                message = (
                    f"there is no variable `{members[0][:64]}` here{nearest(members[0], VARIABLES)}; there "
                    f"are {', '.join(VARIABLES)}, and what steps wrote is in `context`"
                )
                self.report.error("bad_expression", message, path)
            else:
                check_names.check_stop_variable(self.plan, members, path, self.report)
        tools = callees(self.step.tools, self.plan, as_given=False)
        calls = CallCheck(callees=tools, expressions=self.expressions, report=self.report, path=path)
        calls.check_calls(leaf.cel)

    def _check_function(self, leaf: AskFunction, path: Path) -> None:
        described = self.functions.describe(leaf.function)
        if isinstance(described, str):
            self.report.error("unknown_function", described, path)
            return
        for parameter in _unfilled(described.parameters_json):
            message = (
                f"the function needs `{parameter[:64]}`; it is given what it names of {', '.join(VARIABLES)}"
            )
            self.report.error("bad_function", message, path)

    # --- always and never --------------------------------------------------------------------------

    def _value(self, condition: StopCondition) -> bool | None:
        match condition:
            case AnyOf():
                return self._combined(condition.conditions, deciding=True)
            case AllOf():
                return self._combined(condition.conditions, deciding=False)
            case Not():
                inner = self._value(condition.condition)
                return None if inner is None else not inner
            case _:
                known = self._known(condition)
                return None if known is None else known.value

    def _combined(self, inner: tuple[StopCondition, ...], *, deciding: bool) -> bool | None:
        values = [self._value(one) for one in inner]
        opposed = any(Not(condition=one) in inner for one in inner)
        if deciding in values or opposed:
            return deciding
        return None if None in values else not deciding

    def _known(self, leaf: Leaf) -> _Known | None:  # noqa: C901 - one case a leaf
        match leaf:
            case Iterations():
                return self._iterations(leaf)
            case Tokens():
                return self._tokens(leaf)
            case Cost():
                return self._cost(leaf)
            case Elapsed():
                return self._elapsed(leaf)
            case ToolCalled():
                return self._tool_called(leaf)
            case Expression():
                return self._expression(leaf)
            case Confidence():
                return _Known(value=True, why="there is no less than 0") if leaf.gte_permille == 0 else None
            case NoToolCalls() | TextMention() | OutcomeIs() | AskFunction():
                return None
            case _:
                assert_never(leaf)

    def _iterations(self, leaf: Iterations) -> _Known | None:
        most = self.step.bounds.max_iterations
        if leaf.gte <= 1:
            return _Known(value=True, why="it is first asked when one turn is over")
        if leaf.gte > most:
            return _Known(value=False, why=f"the step has at most {most} turns (`bounds.max_iterations`)")
        return None

    def _tokens(self, leaf: Tokens) -> _Known | None:
        if leaf.gte == 0:
            return _Known(value=True, why="there is no less than 0")
        budget = _least(self.step.bounds.token_budget, self.plan.bounds.token_budget)
        if budget is not None and leaf.gte > budget:
            return _Known(value=False, why=f"the token budget of {budget} ends the step before")
        return None

    def _cost(self, leaf: Cost) -> _Known | None:
        if leaf.gte_micros == 0:
            return _Known(value=True, why="there is no less than 0")
        models = askable(self.step, self.plan)
        if models and all(map(_is_free, models)):
            why = f"the model `{models[0].profile}` has no price, so that it costs 0"
            return _Known(value=False, why=why)
        budget = _least(self.step.bounds.cost_budget_micros, self.plan.bounds.cost_budget_micros)
        if budget is not None and leaf.gte_micros > budget:
            return _Known(value=False, why="the cost budget ends the step before")
        return None

    def _elapsed(self, leaf: Elapsed) -> _Known | None:
        timeout = _least(self.step.bounds.timeout_ms, self.plan.bounds.run_timeout_ms)
        if timeout is not None and leaf.gte_ms >= timeout:
            return _Known(value=False, why=f"after {timeout / 1000:g} s the timeout ends the step before")
        return None

    def _tool_called(self, leaf: ToolCalled) -> _Known | None:
        entry = next((one for one in self.step.tools if one.ref == leaf.name), None)
        if entry is None or leaf.success is not True:
            return None
        tool = self.plan.steps.get(leaf.name)
        if isinstance(tool, ToolStep) and tool.effect not in self.step.allow_effects:
            return _Known(value=False, why="the effect of that tool is not in `allow_effects`")
        if entry.max_calls == 0 or self.step.bounds.tool_calls == 0:
            return _Known(value=False, why="that tool may not be called")
        return None

    def _expression(self, leaf: Expression) -> _Known | None:
        if self.expressions.check(leaf.cel) or self.expressions.members(leaf.cel):
            return None
        try:
            value = self.expressions.is_true(leaf.cel, {})
        except ExpressionError as error:
            return _Known(value=False, why=f"it has no value: {error}")
        return _Known(value=value, why="it looks at nothing")


def _least(one: int | None, other: int | None) -> int | None:
    """The tighter of two caps."""
    given = [cap for cap in (one, other) if cap is not None]
    return min(given, default=None)


def _is_free(model: ModelPlan) -> bool:
    price = model.price
    return price is None or not (price.most_input or price.most_output)


def _unfilled(parameters_json: str) -> Iterator[str]:
    """The parameters that a call can't do without and that no variable fills."""
    schema: Mapping[str, Any] = json.loads(parameters_json)
    for name in cast("list[str]", schema.get("required", [])):
        if name not in VARIABLES:
            yield name

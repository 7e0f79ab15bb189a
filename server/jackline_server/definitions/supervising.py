"""The supervisor of a file, resolved for each of its agents.

Owns what of it watches which agent: the rules at the top come before an agent's own, and an agent's own judge
takes the place of the one at the top. Does not own what can never come to pass (`check_supervisor`).
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from jackline_server.core.gate_plans import ArgumentsView
from jackline_server.core.plan import ModelStep, StepPlan
from jackline_server.core.repetition_plans import RepeatBy
from jackline_server.core.supervisor_plans import (
    BudgetFraction,
    BudgetKind,
    ErrorRate,
    IterationReached,
    OnSupervisorError,
    RuleAction,
    RuleCondition,
    RuleExpression,
    RulePlan,
    RuleStage,
    SupervisorJudgePlan,
    SupervisorPlan,
    ToolRepeated,
)
from jackline_server.definitions import defaults
from jackline_server.definitions.reading import Draft
from jackline_server.definitions.report import Report
from jackline_server.definitions.shapes import AgentShape, RuleShape, SupervisorJudgeShape, SupervisorShape
from jackline_server.definitions.yaml_nodes import Path, path_text

_WHOLE = 1_000
_TOP: Path = ("supervisor",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Supervising:
    """The supervisors of one draft. `profile` is that of the resolver."""

    draft: Draft
    profile: Callable[[str, Path], str]
    report: Report

    def around(self, steps: Mapping[str, StepPlan]) -> dict[str, StepPlan]:
        """The steps with who watches each."""
        top = self.draft.top.supervisor
        rules = () if top is None else self._rules(top, _TOP)
        agents = [name for name, shape in self.draft.steps.items() if isinstance(shape, AgentShape)]
        if top is not None and not agents:
            message = "there is no agent here that a supervisor could watch"
            self.report.warning("supervisor_idle", message, _TOP, of_key=True)
        if top is not None and top.judge is not None and top.judge.model is not None:
            self.profile(top.judge.model, (*_TOP, "judge", "model"))
        return {name: self._around(name, step, top, rules) for name, step in steps.items()}

    def _around(
        self, name: str, step: StepPlan, top: SupervisorShape | None, rules: tuple[RulePlan, ...]
    ) -> StepPlan:
        shape = self.draft.steps[name]
        if not isinstance(shape, AgentShape) or not isinstance(step, ModelStep):
            return step
        own, path = shape.supervisor, ("steps", name, "supervisor")
        if own is not None:
            rules = (*rules, *self._rules(own, path))
        judge = None
        if own is not None and own.judge is not None:
            judge = self._judge(own.judge, (*path, "judge"), step)
        elif top is not None and top.judge is not None:
            judge = self._judge(top.judge, (*_TOP, "judge"), step)
        if not rules and judge is None:
            return step
        return dataclasses.replace(step, supervisor=SupervisorPlan(rules=rules, judge=judge))

    def _judge(self, shape: SupervisorJudgeShape, place: Path, step: ModelStep) -> SupervisorJudgePlan:
        name = step.model
        if shape.model is not None:
            name = shape.model if place[0] == "supervisor" else self.profile(shape.model, (*place, "model"))
        on_violation = RuleAction(shape.on_violation or defaults.JUDGE_ON_VIOLATION.value)
        self._check_expiry(shape.expiry, on_violation, place)
        return SupervisorJudgePlan(
            place=path_text(place),
            model=name,
            criteria=shape.criteria,
            every=shape.every or defaults.JUDGE_EVERY,
            on_violation=on_violation,
            on_error=OnSupervisorError(shape.on_error or defaults.JUDGE_ON_ERROR.value),
            view=ArgumentsView(shape.view or defaults.JUDGE_VIEW.value),
            timeout_ms=shape.timeout or defaults.JUDGE_TIMEOUT_MS,
            blocking=defaults.JUDGE_BLOCKING if shape.blocking is None else shape.blocking,
            expiry_ms=shape.expiry or defaults.SUPERVISOR_EXPIRY_MS,
        )

    def _rules(self, shape: SupervisorShape, path: Path) -> tuple[RulePlan, ...]:
        return tuple(self._rule(rule, (*path, "rules", index)) for index, rule in enumerate(shape.rules))

    def _rule(self, shape: RuleShape, place: Path) -> RulePlan:
        then = RuleAction(shape.then or defaults.RULE_THEN.value)
        usual = RuleStage.BEFORE_CALL if then is RuleAction.DENY_CALL else defaults.RULE_STAGE
        stage = RuleStage(shape.stage or usual.value)
        if then is RuleAction.DENY_CALL and stage is not RuleStage.BEFORE_CALL:
            message = "after a turn there is no call to deny: `deny_call` goes with `stage: before_call`"
            self.report.error("rule_stage", message, (*place, "stage"))
        if then is RuleAction.STEER and stage is RuleStage.BEFORE_CALL:
            message = (
                "a call waits for its result, and nothing is said before: take `deny_call` or `after_turn`"
            )
            self.report.error("rule_stage", message, (*place, "stage"))
        each = stage is RuleStage.BEFORE_CALL and shape.when == "expression"
        if shape.rearm is not None and (each or then is RuleAction.DENY_CALL):
            message = "the rule is asked about every call; leave `rearm` out"
            self.report.error("rule_stage", message, (*place, "rearm"))
        self._check_expiry(shape.expiry, then, place)
        when = _condition(shape)
        return RulePlan(
            place=path_text(place),
            when=when,
            stage=stage,
            then=then,
            message=shape.message or _words(when, then),
            rearm=shape.rearm or 0,
            expiry_ms=shape.expiry or defaults.SUPERVISOR_EXPIRY_MS,
        )

    def _check_expiry(self, expiry: int | None, then: RuleAction, place: Path) -> None:
        if expiry is not None and then is not RuleAction.ASK:
            message = "`expiry` is of a question, and nothing is asked here; take `ask`, or leave it out"
            self.report.error("rule_stage", message, (*place, "expiry"))


def _condition(shape: RuleShape) -> RuleCondition:
    match shape.when:
        case "tool_repeated":
            by = RepeatBy(shape.by or defaults.REPEAT_BY.value)
            return ToolRepeated(tool=shape.tool or "", by=by, count=shape.count or 0)
        case "budget_fraction":
            return BudgetFraction(of=BudgetKind(shape.of), gt_permille=shape.gt or 0)
        case "iteration_reached":
            return IterationReached(gte=shape.gte or 0)
        case "error_rate":
            return ErrorRate(window=shape.window or 0, gt_permille=shape.gt or 0)
        case "expression":
            return RuleExpression(cel=shape.expression or "")


def _words(when: RuleCondition, then: RuleAction) -> str:
    """What is said where the file does not say it."""
    why = _reason(when)
    match then:
        case RuleAction.STEER:
            return f"{why} Take another way, or come to an end."
        case RuleAction.DENY_CALL:
            return f"{why} The call is not made: take another way, or answer with what you have."
        case RuleAction.ASK:
            return f"{why} How shall it go on?"
        case RuleAction.PAUSE | RuleAction.ABORT:
            return why


def _reason(when: RuleCondition) -> str:
    match when:
        case ToolRepeated():
            return f"{when.tool or 'The same tool'} was called {when.count} times alike."
        case BudgetFraction():
            return f"More than {when.gt_permille / _WHOLE:g} of the bound on {when.of.value} is used."
        case IterationReached():
            return f"This step has come to turn {when.gte}."
        case ErrorRate():
            share = f"{when.gt_permille / _WHOLE:g}"
            return f"Of the last {when.window} tool calls more than {share} did not succeed."
        case RuleExpression():
            return "A rule of this workflow has come to hold."

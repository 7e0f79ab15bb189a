"""Checks of supervisors: rules that can't fire, judges that are never asked, names that are not there.

Owns these findings. A rule at the top is only judged by all the agents together that it watches. Does not own
whether an expression is sound CEL (`expressions`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jackline_server.core.deciding.stopping import VARIABLES
from jackline_server.core.plan import ModelStep, OnQuestion, Plan, RunBounds
from jackline_server.core.supervising.rules import CALL_VARIABLES
from jackline_server.core.supervisor_plans import (
    BudgetFraction,
    BudgetKind,
    ErrorRate,
    IterationReached,
    RuleAction,
    RuleExpression,
    RulePlan,
    RuleStage,
    SupervisorJudgePlan,
    ToolRepeated,
)
from jackline_server.definitions import check_names
from jackline_server.definitions.catalog import nearest
from jackline_server.definitions.check_calls import CallCheck, callees
from jackline_server.definitions.expression_checks import ExpressionChecker
from jackline_server.definitions.report import Report
from jackline_server.definitions.yaml_nodes import Path

_WHOLE = 1_000
_TOP: Path = ("supervisor",)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Check:
    plan: Plan
    expressions: ExpressionChecker
    report: Report

    def run(self) -> None:
        steps = self.plan.steps.values()
        agents = [step for step in steps if isinstance(step, ModelStep) and step.supervisor is not None]
        told = set[str]()
        for step in agents:
            for rule, path in _placed(step):
                if rule.place in told:
                    continue
                told.add(rule.place)
                watched = [one for one in agents if one.supervisor and rule in one.supervisor.rules]
                self._rule(rule, path, watched)
            if step.supervisor is not None and step.supervisor.judge is not None:
                self._judge(step.supervisor.judge, step, told)

    def _rule(self, rule: RulePlan, path: Path, watched: Sequence[ModelStep]) -> None:
        if rule.then is RuleAction.ASK:
            self._unasked((*path, "then"))
        when = rule.when
        if isinstance(when, RuleExpression):
            self._expression(when.cel, rule.stage, (*path, "expression"), watched)
            return
        refs = [entry.ref for step in watched for entry in step.tools]
        if isinstance(when, ToolRepeated) and when.tool and when.tool not in refs:
            message = f"`{when.tool[:64]}` is no tool of what this watches{nearest(when.tool, refs)}"
            self.report.error("rule_tool_unknown", message, (*path, "tool"))
            return
        whys = [_never(rule, step, self.plan.bounds) for step in watched]
        if whys and all(whys):
            self.report.warning("rule_never", f"this rule never fires: {whys[0]}", path)

    def _judge(self, judge: SupervisorJudgePlan, step: ModelStep, told: set[str]) -> None:
        path = _judge_path(judge, step)
        most = step.bounds.max_iterations
        if not judge.blocking and judge.every >= most:
            message = f"this judge is never asked: `{step.step_id}` has at most {most} turns"
            self.report.warning("rule_never", message, (*path, "every"))
        if judge.on_violation is RuleAction.ASK and judge.place not in told:
            told.add(judge.place)
            self._unasked((*path, "on_violation"))

    def _unasked(self, path: Path) -> None:
        if self.plan.on_question is OnQuestion.REVIEW:
            message = "nobody is asked under `on_question: review`: the run ends with `needs_review`"
            self.report.warning("question_unasked", message, path)

    def _expression(self, cel: str, stage: RuleStage, path: Path, watched: Sequence[ModelStep]) -> None:
        if problem := self.expressions.check(cel):
            self.report.error("bad_expression", problem, path)
            return
        known = (*VARIABLES, "call") if stage is RuleStage.BEFORE_CALL else VARIABLES
        entries = [entry for step in watched for entry in step.tools]
        calls = CallCheck(
            callees=callees(entries, self.plan, as_given=True),
            expressions=self.expressions,
            report=self.report,
            path=path,
        )
        for members in sorted(self.expressions.members(cel)):
            if members[0] not in known:
                hint = nearest(members[0], known)
                message = f"there is no variable `{members[0][:64]}` here{hint}; there are {', '.join(known)}"
                self.report.error("bad_expression", message, path)
            elif members[0] == "call" and len(members) > 1 and members[1] not in CALL_VARIABLES:
                message = f"`call` has no `{members[1][:64]}`{nearest(members[1], CALL_VARIABLES)}"
                self.report.warning("expression_unknown", f"{message}, so this counts as false", path)
            elif members[:2] == ("call", "arguments"):
                calls.check_arguments(members[2:])
            else:
                check_names.check_stop_variable(self.plan, members, path, self.report)
        calls.check_calls(cel)
        calls.check_texts(cel, tools=(("call", "tool"),), effect=("call", "effect"))


def check(plan: Plan, expressions: ExpressionChecker, report: Report) -> None:
    """Report rules and judges that can never do anything, and names that are not there."""
    _Check(plan=plan, expressions=expressions, report=report).run()


def _placed(step: ModelStep) -> Iterator[tuple[RulePlan, Path]]:
    """The rules that watch a step, each with where it stands in the file."""
    counts = {True: 0, False: 0}
    for rule in () if step.supervisor is None else step.supervisor.rules:
        own = not rule.place.startswith("supervisor.")
        where: Path = ("steps", step.step_id, *_TOP) if own else _TOP
        yield rule, (*where, "rules", counts[own])
        counts[own] += 1


def _judge_path(judge: SupervisorJudgePlan, step: ModelStep) -> Path:
    own = not judge.place.startswith("supervisor.")
    return ("steps", step.step_id, *_TOP, "judge") if own else (*_TOP, "judge")


def _never(rule: RulePlan, step: ModelStep, run: RunBounds) -> str:
    """Why a rule can't fire on a step; empty if it can."""
    when, most = rule.when, step.bounds.tool_calls
    looks_at_calls = rule.stage is RuleStage.BEFORE_CALL or isinstance(when, ToolRepeated | ErrorRate)
    if looks_at_calls and not step.tools:
        return f"`{step.step_id}` has no tools"
    match when:
        case ToolRepeated():
            return f"`{step.step_id}` may make {most} calls" if when.count > most else ""
        case ErrorRate():
            return _never_so_many(when, step)
        case BudgetFraction():
            return _never_used(when, step, run)
        case IterationReached():
            turns = step.bounds.max_iterations
            return f"`{step.step_id}` has at most {turns} turns" if when.gte > turns else ""
        case RuleExpression():
            return ""


def _never_so_many(when: ErrorRate, step: ModelStep) -> str:
    if when.gt_permille >= _WHOLE:
        return "no more than all calls can fail"
    most = step.bounds.tool_calls
    return f"`{step.step_id}` may make {most} calls" if when.window > most else ""


def _never_used(when: BudgetFraction, step: ModelStep, run: RunBounds) -> str:
    if when.gt_permille >= _WHOLE:
        return "nothing uses more than the whole"
    return "" if _has(when.of, step, run) else f"there is no bound on {when.of.value}"


def _has(of: BudgetKind, step: ModelStep, run: RunBounds) -> bool:
    match of:
        case BudgetKind.TOKENS:
            return step.bounds.token_budget is not None or run.token_budget is not None
        case BudgetKind.COST_USD:
            return step.bounds.cost_budget_micros is not None or run.cost_budget_micros is not None
        case BudgetKind.TIME:
            return step.bounds.timeout_ms is not None or run.run_timeout_ms is not None
        case BudgetKind.ITERATIONS | BudgetKind.MODEL_REQUESTS | BudgetKind.TOOL_CALLS:
            return True

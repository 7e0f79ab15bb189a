"""Supervisors for the agents of a simulated world, with dice of their own."""

import random
from dataclasses import replace

from jackline_server.core.gate_plans import ArgumentsView
from jackline_server.core.plan import ModelStep, Plan
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
from jackline_server.testing import plans

_SHARE = 0.15
"""So many of the workflows are watched."""

_CONDITIONS: tuple[RuleCondition, ...] = (
    ToolRepeated(tool="", by=RepeatBy.ARGS, count=2),
    ToolRepeated(tool="", by=RepeatBy.ARGS_RESULT, count=2),
    ToolRepeated(tool="put", by=RepeatBy.NAME, count=2),
    BudgetFraction(of=BudgetKind.TOKENS, gt_permille=200),
    BudgetFraction(of=BudgetKind.MODEL_REQUESTS, gt_permille=300),
    BudgetFraction(of=BudgetKind.TIME, gt_permille=100),
    IterationReached(gte=1),
    IterationReached(gte=2),
    ErrorRate(window=2, gt_permille=400),
    RuleExpression(cel="iterations >= 2"),
    RuleExpression(cel="context.nothing > 1"),
)
_AFTER = (RuleAction.STEER, RuleAction.STEER, RuleAction.PAUSE, RuleAction.ABORT, RuleAction.ASK)
_BEFORE = (RuleAction.DENY_CALL, RuleAction.DENY_CALL, RuleAction.PAUSE, RuleAction.ABORT, RuleAction.ASK)


def supervised(plan: Plan) -> Plan:
    """The plan with somebody who watches its agent, or as it is."""
    chance = random.Random(f"supervisor {plan.digest}")  # noqa: S311 - chance of a simulation
    step = plan.steps[plans.AGENT]
    if chance.random() >= _SHARE or not isinstance(step, ModelStep):
        return plan
    rules = tuple(_rule(chance, number) for number in range(chance.choice((1, 1, 2, 3))))
    judge = _judge(chance) if chance.random() < 0.5 else None  # noqa: PLR2004 - as often as not
    watched = replace(step, supervisor=SupervisorPlan(rules=rules, judge=judge))
    return replace(plan, steps={**plan.steps, plans.AGENT: watched})


def _rule(chance: random.Random, number: int) -> RulePlan:
    stage = chance.choice(tuple(RuleStage))
    return RulePlan(
        place=f"supervisor.rules[{number}]",
        when=chance.choice(_CONDITIONS),
        stage=stage,
        then=chance.choice(_BEFORE if stage is RuleStage.BEFORE_CALL else _AFTER),
        message="take another way",
        rearm=chance.choice((0, 0, 1, 2)),
        expiry_ms=chance.randint(500, 20_000),
    )


def _judge(chance: random.Random) -> SupervisorJudgePlan:
    return SupervisorJudgePlan(
        place="supervisor.judge",
        model=plans.MODEL,
        criteria="It is harmless.",
        every=chance.choice((1, 2, 5)),
        on_violation=chance.choice((RuleAction.STEER, RuleAction.PAUSE, RuleAction.ABORT, RuleAction.ASK)),
        on_error=chance.choice(tuple(OnSupervisorError)),
        view=chance.choice((ArgumentsView.REDACTED, ArgumentsView.FULL)),  # without content no mark is told
        timeout_ms=chance.choice((500, 30_000)),
        blocking=chance.random() < 0.5,  # noqa: PLR2004 - as often as not
        expiry_ms=chance.randint(500, 20_000),
    )

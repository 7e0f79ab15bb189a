"""Supervisors of tests, built with few words.

Owns what a rule and a judge are where a test does not say.
"""

from jackline_server.core.gate_plans import ArgumentsView
from jackline_server.core.supervisor_plans import (
    OnSupervisorError,
    RuleAction,
    RuleCondition,
    RulePlan,
    RuleStage,
    SupervisorJudgePlan,
)
from jackline_server.testing import plans

JUDGE = "supervisor.judge"


def rule(
    when: RuleCondition,
    then: RuleAction,
    *,
    stage: RuleStage | None = None,
    rearm: int = 0,
    at: int = 0,
    message: str = "take another way",
) -> RulePlan:
    """A rule; it denies before a call and does anything else after a turn unless the test says otherwise."""
    usual = RuleStage.BEFORE_CALL if then is RuleAction.DENY_CALL else RuleStage.AFTER_TURN
    return RulePlan(
        place=f"supervisor.rules[{at}]",
        when=when,
        stage=stage or usual,
        then=then,
        message=message,
        rearm=rearm,
        expiry_ms=plans.DAY_MS,
    )


def judge(
    on_violation: RuleAction = RuleAction.ABORT,
    *,
    on_error: OnSupervisorError = OnSupervisorError.IGNORE,
    every: int = 1,
    view: ArgumentsView = ArgumentsView.METADATA,
    blocking: bool = True,
    timeout_ms: int = 30_000,
) -> SupervisorJudgePlan:
    """A judge of the model of tests."""
    return SupervisorJudgePlan(
        place=JUDGE,
        model=plans.MODEL,
        criteria="Never refund twice.",
        every=every,
        on_violation=on_violation,
        on_error=on_error,
        view=view,
        timeout_ms=timeout_ms,
        blocking=blocking,
        expiry_ms=plans.DAY_MS,
    )

"""Who watches a step, and what they did, in protobuf: the plan of a supervisor and its two facts."""

from typing import assert_never

from jackline.v1 import event_pb2, plan_pb2
from jackline_server.codec.enums import (
    ARGUMENTS_VIEW,
    BUDGET_KIND,
    ON_SUPERVISOR_ERROR,
    REPEAT_BY,
    RULE_ACTION,
    RULE_STAGE,
)
from jackline_server.codec.fact_coder import FactCoder
from jackline_server.core.facts import JudgeReturned, RuleFired
from jackline_server.core.supervisor_plans import (
    BudgetFraction,
    ErrorRate,
    IterationReached,
    RuleCondition,
    RuleExpression,
    RulePlan,
    SupervisorJudgePlan,
    SupervisorPlan,
    ToolRepeated,
)
from jackline_server.runtime.ports.codec import UnknownFact


def set_supervisor(into: plan_pb2.ModelStepPlan, plan: SupervisorPlan | None) -> None:
    """Write it where there is one."""
    if plan is None:
        return
    into.supervisor.SetInParent()
    into.supervisor.rules.extend(_rule_message(rule) for rule in plan.rules)
    if plan.judge is not None:
        into.supervisor.judge.CopyFrom(_judge_message(plan.judge))


def read_supervisor(found: plan_pb2.ModelStepPlan) -> SupervisorPlan | None:
    """It back. Raises UnknownFact."""
    if not found.HasField("supervisor"):
        return None
    message = found.supervisor
    return SupervisorPlan(
        rules=tuple(_read_rule(rule) for rule in message.rules),
        judge=_read_judge(message.judge) if message.HasField("judge") else None,
    )


def _rule_message(rule: RulePlan) -> plan_pb2.RulePlan:
    message = plan_pb2.RulePlan(
        place=rule.place,
        stage=RULE_STAGE.wire[rule.stage],
        then=RULE_ACTION.wire[rule.then],
        message=rule.message,
        rearm=rule.rearm,
        expiry_ms=rule.expiry_ms,
    )
    when = rule.when
    match when:
        case ToolRepeated():
            message.tool_repeated.tool = when.tool
            message.tool_repeated.by = REPEAT_BY.wire[when.by]
            message.tool_repeated.count = when.count
        case BudgetFraction():
            message.budget_fraction.of = BUDGET_KIND.wire[when.of]
            message.budget_fraction.gt_permille = when.gt_permille
        case IterationReached():
            message.iteration_reached = when.gte
        case ErrorRate():
            message.error_rate.window = when.window
            message.error_rate.gt_permille = when.gt_permille
        case RuleExpression():
            message.expression = when.cel
        case _:
            assert_never(when)
    return message


def _read_rule(message: plan_pb2.RulePlan) -> RulePlan:
    return RulePlan(
        place=message.place,
        when=_read_condition(message),
        stage=RULE_STAGE.read(message.stage),
        then=RULE_ACTION.read(message.then),
        message=message.message,
        rearm=message.rearm,
        expiry_ms=message.expiry_ms,
    )


def _read_condition(message: plan_pb2.RulePlan) -> RuleCondition:
    match message.WhichOneof("when"):
        case "tool_repeated":
            repeated = message.tool_repeated
            return ToolRepeated(tool=repeated.tool, by=REPEAT_BY.read(repeated.by), count=repeated.count)
        case "budget_fraction":
            fraction = message.budget_fraction
            return BudgetFraction(of=BUDGET_KIND.read(fraction.of), gt_permille=fraction.gt_permille)
        case "iteration_reached":
            return IterationReached(gte=message.iteration_reached)
        case "error_rate":
            return ErrorRate(window=message.error_rate.window, gt_permille=message.error_rate.gt_permille)
        case "expression":
            return RuleExpression(cel=message.expression)
        case None:
            raise UnknownFact(f"the rule {message.place} is of a kind of a newer version")


def _judge_message(judge: SupervisorJudgePlan) -> plan_pb2.SupervisorJudgePlan:
    return plan_pb2.SupervisorJudgePlan(
        place=judge.place,
        model=judge.model,
        criteria=judge.criteria,
        every=judge.every,
        on_violation=RULE_ACTION.wire[judge.on_violation],
        on_error=ON_SUPERVISOR_ERROR.wire[judge.on_error],
        view=ARGUMENTS_VIEW.wire[judge.view],
        timeout_ms=judge.timeout_ms,
        blocking=judge.blocking,
        expiry_ms=judge.expiry_ms,
    )


def _read_judge(message: plan_pb2.SupervisorJudgePlan) -> SupervisorJudgePlan:
    return SupervisorJudgePlan(
        place=message.place,
        model=message.model,
        criteria=message.criteria,
        every=message.every,
        on_violation=RULE_ACTION.read(message.on_violation),
        on_error=ON_SUPERVISOR_ERROR.read(message.on_error),
        view=ARGUMENTS_VIEW.read(message.view),
        timeout_ms=message.timeout_ms,
        blocking=message.blocking,
        expiry_ms=message.expiry_ms,
    )


# --- facts -------------------------------------------------------------------------------------


def _pack_rule_fired(fact: RuleFired, event: event_pb2.StepEvent) -> None:
    into = event.rule_fired
    into.rule = fact.rule
    into.stage = RULE_STAGE.wire[fact.stage]
    into.action = RULE_ACTION.wire[fact.action]
    into.turn = fact.turn
    into.call_id = fact.call_id
    into.tool = fact.tool


def _fill_rule_fired(fact: RuleFired, content: event_pb2.Content) -> None:
    if fact.words:
        content.text = fact.words


def _unpack_rule_fired(event: event_pb2.StepEvent) -> RuleFired:
    found = event.rule_fired
    return RuleFired(
        rule=found.rule,
        stage=RULE_STAGE.read(found.stage),
        action=RULE_ACTION.read(found.action),
        turn=found.turn,
        call_id=found.call_id,
        tool=found.tool,
        words=event.content.text,
    )


def _pack_judge_returned(fact: JudgeReturned, event: event_pb2.StepEvent) -> None:
    into = event.judge_returned
    into.judge = fact.judge
    into.turn = fact.turn
    if fact.passed is not None:
        into.passed = fact.passed
    if fact.action is not None:
        into.action = RULE_ACTION.wire[fact.action]


def _fill_judge_returned(fact: JudgeReturned, content: event_pb2.Content) -> None:
    if fact.reason:
        content.judge.reason = fact.reason
    if fact.problem:
        content.judge.problem = fact.problem


def _unpack_judge_returned(event: event_pb2.StepEvent) -> JudgeReturned:
    found, content = event.judge_returned, event.content.judge
    return JudgeReturned(
        judge=found.judge,
        turn=found.turn,
        passed=found.passed if found.HasField("passed") else None,
        action=RULE_ACTION.read_optional(found.action),
        reason=content.reason,
        problem=content.problem,
    )


SUPERVISOR_FACTS = (
    FactCoder(
        fact=RuleFired,
        field="rule_fired",
        pack=_pack_rule_fired,
        fill=_fill_rule_fired,
        unpack=_unpack_rule_fired,
    ),
    FactCoder(
        fact=JudgeReturned,
        field="judge_returned",
        pack=_pack_judge_returned,
        fill=_fill_judge_returned,
        unpack=_unpack_judge_returned,
    ),
)

"""Further attempts at a tool call: they are given what the first was, whatever the context says by then."""

from dataclasses import replace

import pytest

from jackline_server.core.commands import Answer
from jackline_server.core.facts import CallStatus, InterruptRaised, ToolAsk, ToolCallFinished
from jackline_server.core.gate_plans import DenyPattern, GatesPlan, GuardrailPlan
from jackline_server.core.plan import Effect, Plan, ToolPolicy
from jackline_server.core.recorded.boundaries import Entry
from jackline_server.core.recorded.replaying import replayed
from jackline_server.core.steps import ToolAttempt
from jackline_server.core.supervisor_plans import RuleAction, RuleExpression, SupervisorPlan
from jackline_server.testing import plans
from jackline_server.testing.driving import STARTED_UNIX_MS, Call, Driver, Ends, Says, Scenario
from jackline_server.testing.instruments import instruments
from jackline_server.testing.supervisors import rule

DONE = Says(text="done")
BOTH = Says(calls=(Call("pay"), Call("peek")))
BUSY = Ends(status=CallStatus.FAILED, error="busy", may_pass=True)
PAID = Ends(output="paid")
AGAIN = ToolPolicy(retries=2, retry_base_ms=1_000, retry_cap_ms=1_500)
FORBIDDEN = GuardrailPlan(place="guardrails[0]", check=DenyPattern(pattern="evil"))
NEVER = rule(RuleExpression(cel='call.tool == "pay" && "who" in call.arguments'), RuleAction.DENY_CALL)


def paying(
    *, bind: bool, policy: ToolPolicy = AGAIN, effect: Effect = Effect.READ, guarded: bool = True
) -> Plan:
    """An agent with `pay`, that is given what `peek` writes, and a guardrail or a rule that looks at it."""
    given = {"who": "/peek_result"}
    pay = plans.tool("pay", effect, input={} if bind else given)
    entries = (
        plans.entry("pay", policy=policy, bind=given if bind else {}),
        plans.entry("peek", writes_context=True),
    )
    tools = (pay, plans.tool("peek", Effect.READ))
    if guarded:
        plan = plans.agent_plan(*tools, tools=entries, gates=GatesPlan(tools=(FORBIDDEN,)))
        return replace(plan, gates=GatesPlan())
    watch = SupervisorPlan(rules=(NEVER,), judge=None)
    return plans.agent_plan(*tools, tools=entries, supervisor=watch)


def scenario(plan: Plan, *pays: Ends, replies: tuple[Says, ...] = (BOTH, DONE)) -> Scenario:
    return Scenario(
        plan=plan, replies=replies, tools={"pay": pays, "peek": lambda _: Ends(output={"v": "evil"})}
    )


def evil(_: ToolAttempt) -> Ends:
    return Ends(output="evil")


def given(driver: Driver, tool: str = "pay") -> list[tuple[int, dict[str, object]]]:
    return [(one.started.attempt, dict(one.given)) for one in driver.attempts if one.started.tool == tool]


def check_same_again(driver: Driver) -> None:
    """The log alone gives the same state, and deciding it again meets no difference."""
    assert driver.replayed() == driver.state
    log = [Entry(fact=fact, active_ms=active_ms, unix_ms=STARTED_UNIX_MS) for fact, active_ms in driver.log]
    found = replayed("run-1", log, driver.state.plan, instruments=instruments())
    assert found.difference is None


@pytest.mark.parametrize("bind", [True, False])
@pytest.mark.parametrize("guarded", [True, False])
def test_a_retry_is_given_what_was_looked_at_before_the_first_attempt(*, bind: bool, guarded: bool) -> None:
    plan = paying(bind=bind, guarded=guarded)
    driver = Driver(scenario(plan, BUSY, PAID)).run_to_end()
    assert given(driver) == [(1, {}), (2, {})]
    assert driver.state.context["peek_result"] == {"v": "evil"}
    assert len({one.started.call_key for one in driver.attempts if one.started.tool == "pay"}) == 1
    check_same_again(driver)


@pytest.mark.parametrize("bind", [True, False])
@pytest.mark.parametrize("guarded", [True, False])
def test_a_call_that_is_asked_for_later_is_given_the_context_of_that_time_and_looked_at(
    *, bind: bool, guarded: bool
) -> None:
    plan = paying(bind=bind, guarded=guarded)
    driver = Driver(scenario(plan, BUSY, PAID, replies=(BOTH, Says(calls=(Call("pay"),)), DONE)))
    driver.run_to_end()
    assert [call.status for call in driver.state.calls.values()][-1] is CallStatus.DENIED
    assert len(given(driver)) == 2
    check_same_again(driver)


def test_a_retry_keeps_a_value_that_has_changed_meanwhile() -> None:
    plan = paying(bind=True)
    driver = Driver(
        Scenario(
            plan=plan,
            replies=(Says(calls=(Call("peek"),)), BOTH, DONE),
            tools={"pay": [BUSY, PAID], "peek": [Ends(output="fine"), Ends(output="evil")]},
        )
    ).run_to_end()
    assert given(driver) == [(1, {"who": "fine"}), (2, {"who": "fine"})]
    check_same_again(driver)


@pytest.mark.parametrize("bind", [True, False])
def test_an_attempt_after_a_crash_is_given_what_the_first_one_was(*, bind: bool) -> None:
    def pay(attempt: ToolAttempt) -> Ends:
        return BUSY if attempt.started.attempt == 1 else PAID

    tools = {"pay": pay, "peek": evil}
    most = 0
    for crash in range(2, 12):
        made = Scenario(
            plan=paying(bind=bind), replies=(BOTH, DONE), tools=tools, crash_after=frozenset({crash})
        )
        driver = Driver(made).run_to_end()
        assert all(values == {} for _, values in given(driver))
        most = max(most, driver.state.calls["call_1"].attempts)
        check_same_again(driver)
    assert most > 2


@pytest.mark.parametrize("bind", [True, False])
@pytest.mark.parametrize("effect", [Effect.READ, Effect.WRITE])
def test_a_tool_that_has_asked_a_person_is_called_again_with_what_it_had(
    effect: Effect, *, bind: bool
) -> None:
    def pay(attempt: ToolAttempt) -> Ends:
        if attempt.reply is None:
            return Ends(status=CallStatus.ASKING, ask=ToolAsk(text="Really?"))
        return PAID

    plan = paying(bind=bind, effect=effect)
    tools = {"pay": pay, "peek": evil}
    driver = Driver(Scenario(plan=plan, replies=(BOTH, DONE), tools=tools)).run()
    (asked,) = [fact for fact in driver.facts if isinstance(fact, InterruptRaised)]
    driver.send(Answer(interrupt_id=asked.interrupt_id, option=asked.options[0], text="yes"))
    driver.run_to_end()
    assert given(driver) == [(1, {}), (2, {})]
    check_same_again(driver)


def test_equal_calls_share_a_result_by_what_the_first_attempt_was_given() -> None:
    """The retried call was given nothing; the one of the next turn is given something else, and is made."""
    plan = paying(bind=True, policy=replace(AGAIN, reuse=True))
    plan = replace(plan, steps={**plan.steps, plans.AGENT: replace(plan.steps[plans.AGENT], gates=None)})  # type: ignore[arg-type]  # a model step
    twice = Says(calls=(Call("pay"),))
    driver = Driver(scenario(plan, BUSY, PAID, PAID, replies=(BOTH, twice, twice, DONE))).run_to_end()
    assert given(driver) == [(1, {}), (2, {}), (1, {"who": {"v": "evil"}})]
    ends = [fact for fact in driver.facts if isinstance(fact, ToolCallFinished) and fact.tool == "pay"]
    assert [bool(end.reused_from) for end in ends] == [False, False, False, True]
    check_same_again(driver)

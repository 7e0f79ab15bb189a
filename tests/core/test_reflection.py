"""Reflection: the confidence of a visit, when it looks back, and what the model is told."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jackline_server.core.facts import CallStatus, Pattern, Reflected
from jackline_server.core.messages import UserMessage
from jackline_server.core.plan import Effect, Plan, ReflectPlan
from jackline_server.core.reading.reflection import confidence
from jackline_server.core.repetition_plans import RepeatBy, RepeatPlan
from jackline_server.core.state import current
from jackline_server.testing import plans
from jackline_server.testing.driving import Call, Driver, Ends, Says, Scenario, drive

FAILED = Ends(status=CallStatus.FAILED, error="no")
DONE = Says(text="done")


def plan_of(every: int | None = 1, *, guidance: bool = True, loops: bool = True) -> Plan:
    return plans.agent_plan(
        plans.tool("send", Effect.WRITE),
        bounds=plans.step_bounds(max_iterations=30, model_requests=60, tool_calls=100),
        reflect=None if every is None else ReflectPlan(every=every, guidance=guidance),
        repeat=RepeatPlan(by=RepeatBy.ARGS, count=3, nudge=True) if loops else None,
    )


def turn(number: int = 0, calls: int = 1) -> Says:
    return Says(calls=tuple(Call("send", f'{{"n":{number},"of":{place}}}') for place in range(calls)))


def reflected(driver: Driver) -> list[Reflected]:
    return [fact for fact in driver.facts if isinstance(fact, Reflected)]


def confidences(plan: Plan, *replies: Says, ends: list[Ends]) -> list[float]:
    """The confidence at each model call."""
    driver = Driver(Scenario(plan=plan, replies=replies, tools={"send": ends}))
    found: list[float] = []
    while driver.state.finished is None:
        calls = len(driver.model_calls)
        driver.step()
        if len(driver.model_calls) > calls and driver.state.visit is not None:
            found.append(confidence(driver.state.visit))
    return found


# --- confidence --------------------------------------------------------------------------------


def test_confidence_begins_at_a_half_and_is_kept_without_reflection() -> None:
    found = confidences(plan_of(None), turn(1), turn(2), turn(3), DONE, ends=[Ends(), FAILED, Ends()])
    assert found[0] == 0.5
    after = [0.5 + 0.15 * 0.5]
    after.append(after[-1] - 0.2)
    after.append(after[-1] + 0.15 * (1 - after[-1]))
    assert found[1:] == pytest.approx(after)


def test_a_turn_that_did_both_gains_and_loses_once_each() -> None:
    found = confidences(plan_of(None), turn(1, calls=4), DONE, ends=[Ends(), Ends(), FAILED, FAILED])
    assert found[1] == pytest.approx(0.5 + 0.15 * 0.5 - 0.2)


def test_a_loop_costs_once_when_it_is_found() -> None:
    found = confidences(plan_of(None), *[turn()] * 4, ends=[Ends()] * 4)
    gains = [0.5]
    for _ in range(3):
        gains.append(gains[-1] + 0.15 * (1 - gains[-1]))
    assert found[2] == pytest.approx(gains[2])
    assert found[3] == pytest.approx(gains[3] - 0.3)


@given(st.lists(st.booleans(), max_size=25))
@settings(max_examples=50, deadline=None)
def test_confidence_stays_between_none_and_all(outcomes: list[bool]) -> None:
    ends = [Ends() if good else FAILED for good in outcomes]
    replies = [turn(number) for number in range(len(outcomes))]
    found = confidences(plan_of(None), *replies, DONE, ends=ends)
    assert all(0 <= one <= 1 for one in found)


# --- looking back ------------------------------------------------------------------------------


def test_without_a_reflect_block_nothing_is_recorded() -> None:
    assert reflected(drive(plan_of(None), turn(), DONE, send=[Ends()])) == []


def test_every_second_turn_with_calls_is_followed_by_a_look_back_at_both() -> None:
    ends = [Ends(), FAILED, FAILED, FAILED, Ends()]
    driver = drive(plan_of(2), *[turn(number) for number in range(5)], DONE, send=ends)
    first, second = reflected(driver)
    assert (first.pattern, first.succeeded, first.failed) == (Pattern.MIXED, 1, 1)
    assert (second.pattern, second.succeeded, second.failed) == (Pattern.FAILING, 0, 2)
    assert first.confidence_permille == round(1000 * (0.5 + 0.075 - 0.2))


def test_an_answer_without_calls_is_no_turn_to_look_back_at() -> None:
    assert reflected(drive(plan_of(1), DONE)) == []


@pytest.mark.parametrize(
    ("replies", "ends", "pattern"),
    [
        ([turn()], [Ends()], Pattern.ADVANCING),
        ([turn()], [FAILED], Pattern.FAILING),
        ([turn(calls=2)], [Ends(), FAILED], Pattern.MIXED),
        ([turn()] * 3, [Ends()] * 3, Pattern.LOOPING),
    ],
)
def test_each_pattern_has_its_own_guidance_behind_the_results(
    replies: list[Says], ends: list[Ends], pattern: Pattern
) -> None:
    driver = drive(plan_of(len(replies)), *replies, DONE, send=ends)
    (fact,) = reflected(driver)
    assert fact.pattern is pattern
    last = driver.model_calls[-1].messages[-1]
    assert isinstance(last, UserMessage)
    assert last.provenance == "notice"
    assert fact.guidance
    assert fact.guidance in last.text


def test_each_pattern_is_told_in_other_words() -> None:
    plan = plan_of(1)
    told = {
        one.guidance
        for ends in ([Ends()], [FAILED])
        for one in reflected(drive(plan, turn(), DONE, send=ends))
    }
    assert len(told) == 2


def test_without_guidance_the_fact_is_there_and_the_model_is_told_nothing() -> None:
    driver = drive(plan_of(1, guidance=False), turn(), DONE, send=[FAILED])
    assert [fact.guidance for fact in reflected(driver)] == [""]
    assert not isinstance(driver.model_calls[-1].messages[-1], UserMessage)


def test_a_look_back_uses_neither_a_request_nor_a_turn() -> None:
    driver = drive(plan_of(1), turn(), DONE, send=[Ends()])
    assert (driver.state.ledger.model_requests, driver.state.ledger.iterations) == (2, 2)


def test_a_crash_after_the_look_back_does_not_repeat_it() -> None:
    whole = drive(plan_of(1), turn(), DONE, send=[Ends()])
    (at,) = [n for n, facts in enumerate(whole.commits, 1) if any(isinstance(f, Reflected) for f in facts)]
    scenario = Scenario(plan=plan_of(1), replies=[turn(), DONE], tools={"send": [Ends()]}, crash_after={at})
    driver = Driver(scenario).run_to_end()
    assert len(reflected(driver)) == 1
    assert driver.finished.signal == "default"


def test_the_confidence_of_a_visit_is_that_of_its_log() -> None:
    driver = Driver(Scenario(plan=plan_of(1), replies=[turn()], tools={"send": [FAILED]}))
    driver.run(until=lambda here: bool(reflected(here)))
    assert confidence(current(driver.replayed())) == confidence(current(driver.state)) == pytest.approx(0.3)

"""Repeated tool calls: what counts as a loop, the word to the model, the end, and what begins anew."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jackline_server.core.commands import Steer
from jackline_server.core.facts import CallStatus, NoticeCode, Noticed, Phase, Purpose, StopReason
from jackline_server.core.messages import UserMessage
from jackline_server.core.plan import Effect, OnLimit, Plan
from jackline_server.core.repetition_plans import RepeatBy, RepeatPlan
from jackline_server.testing import plans
from jackline_server.testing.driving import Call, Driver, Ends, Reply, Says, Scenario, drive

SEND = plans.tool("send", Effect.WRITE)
LOOK = plans.tool("look", Effect.READ)
LIST = plans.tool("list", Effect.READ)
DONE = Says(text="done")


def plan_of(
    by: RepeatBy | None = RepeatBy.ARGS_RESULT,
    *,
    count: int = 3,
    nudge: bool = True,
    poll: bool = False,
    on_limit: OnLimit = OnLimit.EXIT,
) -> Plan:
    return plans.agent_plan(
        SEND,
        LOOK,
        LIST,
        tools=(plans.entry("send", poll=poll), plans.entry("look"), plans.entry("list")),
        bounds=plans.step_bounds(max_iterations=40, model_requests=80, tool_calls=200),
        repeat=None if by is None else RepeatPlan(by=by, count=count, nudge=nudge),
        on_limit=on_limit,
    )


def turn(*calls: str | tuple[str, str]) -> Says:
    asked = tuple(Call(call) if isinstance(call, str) else Call(*call) for call in calls)
    return Says(calls=asked)


def same(_: object) -> Ends:
    return Ends(output={"ok": True})


def looped(plan: Plan, *replies: Reply) -> Driver:
    return drive(plan, *replies, send=same, look=same, list=same)


def nudges(driver: Driver) -> list[int]:
    """After how many model calls the model was told of a loop."""
    told: list[int] = []
    calls = 0
    for fact in driver.facts:
        calls += type(fact).__name__ == "ModelCallStarted"
        if isinstance(fact, Noticed) and fact.code is NoticeCode.REPETITION:
            told.append(calls)
    return told


def ending(driver: Driver) -> tuple[str, StopReason, str]:
    end = driver.finished
    return end.signal, end.stop_reason, end.stop_leaf


# --- nudge first, exit second ------------------------------------------------------------------


def test_the_same_write_is_pointed_out_at_the_third_time_and_ends_the_step_at_the_fourth() -> None:
    driver = looped(plan_of(), *[turn("send")] * 4)
    assert nudges(driver) == [3]
    assert ending(driver) == ("tool_loop", StopReason.TOOL_LOOP, "repeat.args_result")
    assert driver.finished.phase is Phase.EXHAUSTED
    assert len(driver.attempts) == 4


def test_the_word_stands_in_the_next_prompt_as_a_notice_behind_the_results() -> None:
    driver = looped(plan_of(), *[turn("send")] * 3, DONE)
    last = driver.model_calls[-1].messages[-1]
    assert isinstance(last, UserMessage)
    assert last.provenance == "notice"
    assert driver.finished.signal == "default"


def test_without_a_nudge_the_third_time_ends_the_step() -> None:
    driver = looped(plan_of(nudge=False), *[turn("send")] * 3)
    assert nudges(driver) == []
    assert driver.finished.stop_reason is StopReason.TOOL_LOOP


def test_a_step_that_asks_for_closing_answers_gets_one_and_keeps_the_exit() -> None:
    driver = looped(
        plan_of(on_limit=OnLimit.FINAL_ANSWER), *[turn("send")] * 4, Says(text="as far as I came")
    )
    assert driver.model_calls[-1].started.purpose is Purpose.FINAL_ANSWER
    assert driver.model_calls[-1].started.limit is StopReason.TOOL_LOOP
    assert ending(driver) == ("tool_loop", StopReason.TOOL_LOOP, "repeat.args_result")
    assert (driver.finished.partial, driver.finished.result_json) == (True, '"as far as I came"')


def test_without_repeat_nothing_is_a_loop() -> None:
    driver = looped(plan_of(None), *[turn("send")] * 20, DONE)
    assert driver.finished.signal == "default"
    assert nudges(driver) == []


# --- patience ----------------------------------------------------------------------------------


def test_reads_may_be_repeated_twice_more() -> None:
    driver = looped(plan_of(), *[turn("look")] * 6)
    assert nudges(driver) == [5]
    assert driver.finished.stop_reason is StopReason.TOOL_LOOP


def test_a_declared_poller_may_be_repeated_twice_more_whatever_its_effect() -> None:
    driver = looped(plan_of(poll=True), *[turn("send")] * 5, DONE)
    assert nudges(driver) == [5]


def test_one_write_among_reads_ends_their_patience() -> None:
    driver = looped(plan_of(), *[turn("look", "send")] * 3, DONE)
    assert nudges(driver) == [3]


def test_calls_of_tools_that_do_not_exist_have_no_patience() -> None:
    driver = looped(plan_of(), *[turn("nothing")] * 4)
    assert driver.finished.stop_reason is StopReason.TOOL_LOOP


# --- cycles ------------------------------------------------------------------------------------


@pytest.mark.parametrize("period", [2, 3])
def test_a_cycle_of_turns_counts_when_it_has_come_three_times(period: int) -> None:
    cycle = [turn(("send", f'{{"n":{place}}}')) for place in range(period)]
    driver = looped(plan_of(), *cycle * 4)
    assert nudges(driver) == [3 * period]
    assert driver.finished.stop_reason is StopReason.TOOL_LOOP
    assert len(driver.model_calls) == 4 * period


def test_a_cycle_of_four_turns_is_left_to_the_bounds() -> None:
    cycle = [turn(("send", f'{{"n":{place}}}')) for place in range(4)]
    driver = looped(plan_of(), *cycle * 10)
    assert driver.finished.stop_reason is StopReason.MAX_ITERATIONS


def test_a_different_turn_begins_the_count_anew() -> None:
    other = turn(("send", '{"n":1}'))
    driver = looped(plan_of(), *[turn("send")] * 2, other, *[turn("send")] * 2, other, DONE)
    assert nudges(driver) == []
    again = looped(plan_of(), *[turn("send")] * 3, other, *[turn("send")] * 3, DONE)
    assert nudges(again) == [3, 7]
    assert again.finished.signal == "default"


def test_guidance_from_a_person_begins_the_count_anew() -> None:
    plan = plan_of()
    told = Driver(
        Scenario(
            plan=plan,
            replies=[turn("send")] * 5 + [DONE],
            tools={"send": same},
            sent={8: Steer(text="again")},
        )
    ).run_to_end()
    assert told.finished.signal == "default"


def test_a_rejected_answer_between_the_same_calls_changes_nothing() -> None:
    plan = plan_of()
    agent = replace(plans.agent(), **vars(plan.step(plans.AGENT)))
    step = replace(agent, outcome=plans.outcome(enum=("ok",), repairs=5))
    plan = replace(plan, steps={**plan.steps, step.step_id: step})
    driver = looped(
        plan, turn("send"), Says(text="no"), turn("send"), Says(text="no"), turn("send"), turn("send")
    )
    assert driver.finished.stop_reason is StopReason.TOOL_LOOP


# --- what is compared --------------------------------------------------------------------------

ONE, TWO = ("send", '{"a":1,"b":[2]}'), ("send", '{"a":2}')
ALIKE: dict[str, list[Says]] = {
    "calls in any order": [turn(ONE, TWO), turn(TWO, ONE), turn(ONE, TWO)],
    "keys in any order": [turn(ONE), turn(("send", '{"b":[2],"a":1}')), turn(ONE)],
    "space and numbers": [turn(ONE), turn(("send", ' { "a": 1.0, "b": [ 2 ] } ')), turn(ONE)],
    "escapes": [turn(("send", '{"a":"é"}')), turn(("send", '{"a":"\\u00e9"}')), turn(("send", '{"a":"é"}'))],
    "no arguments": [turn(("send", "")), turn(("send", "{}")), turn(("send", " "))],
    "broken arguments": [turn(("send", "{x")), turn(("send", "{x")), turn(("send", "{x"))],
    "ids": [Says(calls=(Call("send", "{}", f"id-{n}"),)) for n in range(3)],
}
DIFFERENT: dict[str, list[Says]] = {
    "arguments": [turn(("send", f'{{"a":{n}}}')) for n in range(3)],
    "the number of calls": [turn(*[ONE] * n) for n in (1, 2, 3)],
    "tools": [turn("send"), turn("look"), turn("list")],
    "true and one": [turn(("send", '{"a":1}')), turn(("send", '{"a":true}')), turn(("send", '{"a":1}'))],
    "a list in another order": [turn(("send", f'{{"a":{a}}}')) for a in ("[1,2]", "[2,1]", "[1,2]")],
    "one call that looks like two": [
        turn("send"),
        turn(("send", '{"a":"{}\\n4:send2:{}"}')),
        turn("send"),
    ],
}


@pytest.mark.parametrize("replies", ALIKE.values(), ids=ALIKE.keys())
def test_turns_that_mean_the_same_are_the_same(replies: list[Says]) -> None:
    assert nudges(looped(plan_of(), *replies, DONE)) == [3]


@pytest.mark.parametrize("replies", DIFFERENT.values(), ids=DIFFERENT.keys())
def test_turns_that_mean_something_else_are_not(replies: list[Says]) -> None:
    assert nudges(looped(plan_of(), *replies, DONE)) == []


def test_a_result_that_changes_is_progress_unless_only_arguments_count() -> None:
    def counting(by: RepeatBy) -> list[int]:
        results = [Ends(output={"n": n}) for n in range(3)]
        return nudges(drive(plan_of(by), *[turn("send")] * 3, DONE, send=results))

    assert counting(RepeatBy.ARGS_RESULT) == []
    assert counting(RepeatBy.ARGS) == [3]


def test_a_failure_and_a_success_are_two_results() -> None:
    ends = [Ends(), Ends(status=CallStatus.FAILED, error="no"), Ends()]
    assert nudges(drive(plan_of(), *[turn("send")] * 3, DONE, send=ends)) == []


def test_by_name_only_the_tools_count() -> None:
    replies = [turn(("send", f'{{"a":{n}}}')) for n in range(3)]
    driver = looped(plan_of(RepeatBy.NAME), *replies, turn("send"))
    assert nudges(driver) == [3]
    assert driver.finished.stop_leaf == "repeat.name"


def test_what_the_engine_binds_counts_as_an_argument() -> None:
    plan = plans.agent_plan(
        SEND,
        plans.tool("look", Effect.READ, output_key="seen"),
        tools=(plans.entry("send", bind={"of": "/seen"}), plans.entry("look", writes_context=True)),
        repeat=RepeatPlan(by=RepeatBy.ARGS, count=3, nudge=True),
    )
    results = [Ends(output=n) for n in range(3)]
    driver = drive(plan, *[turn("look", "send")] * 3, DONE, send=same, look=results)
    assert nudges(driver) == []


# --- for any script ----------------------------------------------------------------------------

TURNS = st.lists(st.sampled_from(["send", "look", "list"]), min_size=1, max_size=3)


def slow_answer(turns: list[tuple[str, ...]], count: int) -> int | None:
    """The first turn at which something has repeated, found by looking back over all of them."""
    for end in range(1, len(turns) + 1):
        for period in (1, 2, 3):
            last = turns[end - period : end]
            patient = all("send" not in one for one in last)
            times = count + 2 * patient
            if end >= period * times and turns[end - period * times : end] == last * times:
                return end
    return None


@given(st.lists(TURNS, max_size=14), st.integers(2, 3))
@settings(max_examples=300, deadline=None)
def test_what_is_counted_on_the_way_is_what_looking_back_finds(script: list[list[str]], count: int) -> None:
    turns = [tuple(sorted(one)) for one in script]
    driver = Driver(
        Scenario(
            plan=plan_of(count=count, nudge=False),
            replies=[*(turn(*one) for one in script), DONE],
            tools=dict.fromkeys(("send", "look", "list"), same),
        )
    ).run()
    ended_at = slow_answer(turns, count)
    looped_at = len(driver.model_calls) if driver.finished.stop_reason is StopReason.TOOL_LOOP else None
    assert looped_at == ended_at
    assert driver.replayed() == driver.state

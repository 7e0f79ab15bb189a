"""Steps that ask a person: the answer is the output, an option the signal, and nobody is asked twice."""

from dataclasses import replace

import pytest

from jackline_server.core.commands import Abort, Answer, Pause, Resume
from jackline_server.core.facts import (
    AbortMode,
    CallStatus,
    InterruptKind,
    InterruptRaised,
    Phase,
    StopReason,
    ToolAsk,
    ToolCallFinished,
)
from jackline_server.core.messages import ToolMessage
from jackline_server.core.plan import END, HumanAction, HumanOption, OnQuestion, Plan, ToolStep
from jackline_server.core.reading.timing import wake_unix_ms
from jackline_server.core.steps import Wait
from jackline_server.testing import plans
from jackline_server.testing.driving import Call, Driver, Ends, Says, Scenario

OPTIONS = ("approve", "cancel", "failed")
FORM = '{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}'
WORDS = '{"type":"string","minLength":1}'
CHOOSES = Ends(status=CallStatus.ASKING, ask=ToolAsk(text="Pay?", options=OPTIONS))
FILLS = Ends(status=CallStatus.ASKING, ask=ToolAsk(text="Who?", schema_json=FORM))
SAYS = Ends(status=CallStatus.ASKING, ask=ToolAsk(text="Why?", schema_json=WORDS))


def human(
    step_id: str = "ask", *, default: str | None = None, options: tuple[str, ...] = OPTIONS
) -> ToolStep:
    action = HumanAction(
        question="Pay?",
        options=tuple(HumanOption(value=value) for value in options),
        default_json=default,
    )
    return plans.tool(step_id, kind="human", action=action, unknown_expiry_ms=1_000)


def flow(ask: ToolStep) -> Driver:
    """A flow that asks, then does one of two things."""
    routes = {"approve": "pay", "cancel": "drop", "failed": "drop"}
    steps = [replace(ask, routes=routes), plans.tool("pay", routes={"*": END}), plans.tool("drop")]
    scenario = Scenario(
        plan=plans.plan_of(*steps, flow=("ask",)),
        tools={
            "ask": [CHOOSES],
            "pay": lambda _: Ends(output="paid"),
            "drop": lambda _: Ends(output="dropped"),
        },
    )
    return Driver(scenario).run()


def called(*asks: Ends, tools: tuple[ToolStep, ...] = (), plan: Plan | None = None) -> Driver:
    """An agent that asks once by each of its tools."""
    own = tools or (human(options=()),)
    scenario = Scenario(
        plan=plan or plans.agent_plan(*own),
        replies=[Says(calls=tuple(Call(tool.step_id) for tool in own)), Says(text="done")],
        tools={tool.step_id: [ask] for tool, ask in zip(own, asks, strict=True)},
    )
    return Driver(scenario).run()


def open_ones(driver: Driver) -> list[str]:
    return list(driver.state.oversight.interrupts)


def raised(driver: Driver) -> list[InterruptRaised]:
    return [fact for fact in driver.facts if isinstance(fact, InterruptRaised)]


def answer(driver: Driver, option: str, text: str = "", interrupt: int = 0) -> None:
    driver.send(Answer(interrupt_id=open_ones(driver)[interrupt], option=option, text=text))


def visited(driver: Driver) -> list[str]:
    return [one.step_id for one in driver.state.summaries]


def told(driver: Driver) -> list[str]:
    return [one.text for one in driver.model_calls[-1].messages if isinstance(one, ToolMessage)]


def expire(driver: Driver) -> None:
    driver.pass_time(unix_ms=wake_unix_ms(driver.state) or 0)


def test_a_step_that_asks_opens_one_question_with_its_options_and_waits() -> None:
    driver = flow(human())
    (question,) = raised(driver)
    assert (question.kind, question.options, question.question) == (InterruptKind.QUESTION, OPTIONS, "Pay?")
    assert question.expires_unix_ms == driver.unix_ms + 1_000
    assert driver.state.phase is Phase.WAITING
    assert driver.step() == Wait(until_active_ms=None)


@pytest.mark.parametrize(("option", "target"), [("approve", "pay"), ("cancel", "drop"), ("failed", "drop")])
def test_the_option_that_is_chosen_is_the_signal_of_the_step(option: str, target: str) -> None:
    driver = flow(human())
    answer(driver, option)
    driver.run_to_end()
    assert next((one.step_id, one.signal) for one in driver.state.summaries) == ("ask", option)
    assert visited(driver) == ["ask", target]
    assert driver.state.context["ask_result"] == {"option": option}
    assert len([one for one in driver.attempts if one.step.step_id == "ask"]) == 1
    assert driver.replayed() == driver.state


def test_what_is_said_to_an_option_is_part_of_the_output() -> None:
    driver = flow(human())
    answer(driver, "approve", "but quickly")
    driver.run_to_end()
    assert driver.state.context["ask_result"] == {"option": "approve", "text": "but quickly"}


def test_a_question_that_nobody_answers_in_time_takes_its_default_and_the_route_of_that() -> None:
    driver = flow(human(default='{"option":"cancel"}'))
    expire(driver)
    driver.run_to_end()
    assert visited(driver) == ["ask", "drop"]
    assert driver.state.context["ask_result"] == {"option": "cancel"}


def test_without_a_default_a_question_that_nobody_answers_ends_the_run_for_review() -> None:
    driver = flow(human())
    expire(driver)
    driver.run()
    assert driver.finished.phase is Phase.NEEDS_REVIEW
    assert (driver.finished.stop_reason, driver.finished.stop_leaf) == (StopReason.REVIEW, "ask")
    assert visited(driver) == ["ask"]


@pytest.mark.parametrize("default", [None, '{"option":"cancel"}'])
def test_where_nobody_is_there_no_question_is_opened_and_the_run_ends_for_review(default: str | None) -> None:
    ask = replace(human(default=default), routes={"*": END})
    plan = replace(plans.plan_of(ask), on_question=OnQuestion.REVIEW)
    driver = Driver(Scenario(plan=plan, tools={"ask": [CHOOSES]})).run()
    assert raised(driver) == []
    assert (driver.finished.phase, driver.finished.stop_reason) == (Phase.NEEDS_REVIEW, StopReason.REVIEW)


@pytest.mark.parametrize(
    ("asks", "option", "text", "shown"),
    [
        (FILLS, "accept", '{"name":"Ann"}', '{"name":"Ann"}'),
        (SAYS, "accept", "because", '"because"'),
        (SAYS, "accept", '{"a":1}', '"{\\"a\\":1}"'),
    ],
)
def test_the_answer_is_the_result_of_the_call(asks: Ends, option: str, text: str, shown: str) -> None:
    driver = called(asks)
    answer(driver, option, text)
    driver.run_to_end()
    assert told(driver) == [shown]
    assert len(driver.attempts) == 1


@pytest.mark.parametrize(("asks", "text"), [(FILLS, "{}"), (FILLS, "Ann"), (SAYS, "")])
def test_an_answer_that_does_not_fit_is_asked_for_again(asks: Ends, text: str) -> None:
    driver = called(asks)
    answer(driver, "accept", text)
    driver.run()
    assert len(raised(driver)) == 2
    assert driver.state.phase is Phase.WAITING
    assert not any(isinstance(one, ToolCallFinished) and one.output_json for one in driver.facts)


def test_somebody_who_declines_is_an_error_for_whoever_asked() -> None:
    driver = called(SAYS)
    answer(driver, "decline", "not now")
    driver.run_to_end()
    assert "declined" in told(driver)[0]
    assert "not now" in told(driver)[0]
    assert driver.state.phase is Phase.SUCCEEDED


def test_the_questions_of_one_turn_are_open_together_and_each_has_its_own_answer() -> None:
    tools = (human("first", options=()), human("second", options=()))
    driver = called(SAYS, SAYS, tools=tools)
    assert len(open_ones(driver)) == 2
    answer(driver, "accept", "two", interrupt=1)
    driver.run()
    assert driver.state.phase is Phase.WAITING
    answer(driver, "accept", "one")
    driver.run_to_end()
    assert told(driver) == ['"one"', '"two"']


def test_a_run_that_is_paused_while_it_asks_keeps_its_question_and_takes_the_answer() -> None:
    driver = flow(human())
    driver.send(Pause())
    driver.run()
    answer(driver, "approve")
    driver.run()
    assert driver.state.phase is Phase.PAUSED
    driver.send(Resume())
    driver.run_to_end()
    assert visited(driver) == ["ask", "pay"]


def test_a_run_that_is_aborted_while_it_asks_closes_its_question() -> None:
    driver = flow(human())
    driver.send(Abort(mode=AbortMode.NOW, skip_routes=False))
    driver.run()
    assert driver.state.phase is Phase.ABORTED
    assert next(iter(driver.state.calls.values())).status is CallStatus.CANCELLED


@pytest.mark.parametrize("commit", range(1, 12))
def test_whenever_the_worker_goes_away_a_question_is_asked_once_and_answered_once(commit: int) -> None:
    ask = replace(human(), routes={"*": END})
    scenario = Scenario(
        plan=plans.plan_of(ask), tools={"ask": lambda _: CHOOSES}, crash_after=frozenset({commit})
    )
    driver = Driver(scenario).run()
    assert len(raised(driver)) == 1
    answer(driver, "approve")
    driver.run_to_end()
    assert len(raised(driver)) == 1
    assert driver.finished.signal == "approve"


@pytest.mark.parametrize("cap", ["tool", "step"])
@pytest.mark.parametrize("commit", range(1, 12))
def test_a_question_counts_as_one_call_whenever_the_worker_goes_away(commit: int, cap: str) -> None:
    ask = human(options=())
    most = 1 if cap == "tool" else None
    plan = plans.agent_plan(
        ask,
        tools=(plans.entry("ask", max_calls=most),),
        bounds=plans.step_bounds(tool_calls=32 if most else 1),
    )
    scenario = Scenario(
        plan=plan,
        replies=[Says(calls=(Call("ask"),)), Says(text="done")],
        tools={"ask": lambda _: SAYS},
        crash_after=frozenset({commit}),
    )
    driver = Driver(scenario).run()
    assert len(raised(driver)) == 1
    answer(driver, "accept", "so")
    driver.run_to_end()
    assert driver.state.ledger.tool_calls == 1
    assert told(driver) == ['"so"']

"""Tools that ask a person before they go on: the question is open, the answer goes to the tool, once."""

from dataclasses import replace

import pytest

from jackline_server.core.calling.tool_questions import MOST_QUESTIONS
from jackline_server.core.commands import Abort, Answer, SubmitToolResult
from jackline_server.core.facts import (
    AbortMode,
    CallStatus,
    CommandRejected,
    InterruptKind,
    InterruptRaised,
    Phase,
    Rejection,
    StopReason,
    ToolAsk,
    ToolReply,
)
from jackline_server.core.messages import ToolMessage
from jackline_server.core.plan import Effect, OnQuestion, Plan, ToolStep
from jackline_server.core.reading.timing import wake_unix_ms
from jackline_server.core.steps import Wait
from jackline_server.testing import plans
from jackline_server.testing.driving import Call, Driver, Ends, Says, Scenario

FORM = '{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}'
ASKS = Ends(status=CallStatus.ASKING, ask=ToolAsk(text="Who?", schema_json=FORM, state_json='{"a":1}'))
BOOK = plans.tool("book", Effect.WRITE, unknown_expiry_ms=1_000)


def asking(*ends: Ends, tool: ToolStep = BOOK, plan: Plan | None = None) -> Driver:
    """A run whose one call asks."""
    scenario = Scenario(
        plan=plan or plans.agent_plan(tool),
        replies=[Says(calls=(Call("book"),)), Says(text="done")],
        tools={"book": [*(ends or (ASKS, Ends(output="booked")))]},
    )
    return Driver(scenario).run()


def questions(driver: Driver) -> list[InterruptRaised]:
    raised = [fact for fact in driver.facts if isinstance(fact, InterruptRaised)]
    return [fact for fact in raised if fact.kind is InterruptKind.QUESTION]


def answer(driver: Driver, option: str, text: str = "") -> None:
    driver.send(Answer(interrupt_id=questions(driver)[-1].interrupt_id, option=option, text=text))


def replies(driver: Driver) -> list[ToolReply | None]:
    return [attempt.reply for attempt in driver.attempts]


def test_a_tool_that_asks_opens_a_question_with_its_form_and_the_run_waits() -> None:
    driver = asking()
    (raised,) = questions(driver)
    assert (raised.kind, raised.options) == (InterruptKind.QUESTION, ("accept", "decline"))
    assert (raised.schema_json, raised.expires_unix_ms) == (FORM, driver.unix_ms + 1_000)
    assert "Who?" in raised.question
    assert driver.state.phase is Phase.WAITING
    assert driver.step() == Wait(until_active_ms=None)


@pytest.mark.parametrize("effect", [Effect.READ, Effect.WRITE])
@pytest.mark.parametrize(("option", "text"), [("accept", '{"name":"Ann"}'), ("decline", "no")])
def test_the_answer_goes_to_the_tool_with_the_next_attempt(effect: Effect, option: str, text: str) -> None:
    driver = asking(tool=replace(BOOK, effect=effect))
    answer(driver, option, text)
    driver.run_to_end()
    assert replies(driver) == [None, ToolReply(option=option, text=text, state_json='{"a":1}')]
    assert len({attempt.started.call_key for attempt in driver.attempts}) == 1
    told = driver.model_calls[-1].messages[-1]
    assert isinstance(told, ToolMessage)
    assert told.text == '"booked"'


@pytest.mark.parametrize("text", ["", "Ann", "[]", "{}", '{"name":7}'])
def test_an_answer_that_does_not_fit_the_form_is_asked_for_again_and_never_reaches_the_tool(
    text: str,
) -> None:
    driver = asking()
    answer(driver, "accept", text)
    driver.run()
    first, second = questions(driver)
    assert first.interrupt_id != second.interrupt_id
    assert driver.state.phase is Phase.WAITING
    assert replies(driver) == [None]
    answer(driver, "accept", '{"name":"Ann"}')
    driver.run_to_end()
    assert len(driver.attempts) == 2


def test_a_question_that_nobody_answers_in_time_is_put_away_and_the_tool_hears_so() -> None:
    driver = asking()
    driver.pass_time(unix_ms=wake_unix_ms(driver.state) or 0)
    driver.run_to_end()
    (_, reply) = replies(driver)
    assert reply is not None
    assert reply.option == "cancel"
    assert driver.state.phase is Phase.SUCCEEDED


def test_a_tool_that_never_stops_asking_comes_to_an_end() -> None:
    driver = asking(*[ASKS] * (MOST_QUESTIONS + 1))
    for _ in range(MOST_QUESTIONS):
        answer(driver, "decline")
        driver.run()
    assert len(questions(driver)) == MOST_QUESTIONS
    assert next(iter(driver.state.calls.values())).status is CallStatus.UNKNOWN


def test_where_nobody_is_there_a_tool_that_asks_ends_the_run_for_review() -> None:
    plan = replace(plans.agent_plan(BOOK), on_question=OnQuestion.REVIEW)
    driver = asking(ASKS, plan=plan)
    assert questions(driver) == []
    assert driver.finished.phase is Phase.NEEDS_REVIEW
    assert driver.finished.stop_reason is StopReason.UNKNOWN_OUTCOME


def test_a_run_that_is_aborted_while_it_is_asked_starts_no_further_attempt() -> None:
    driver = asking()
    driver.send(Abort(mode=AbortMode.NOW, skip_routes=False))
    driver.run()
    assert driver.state.phase is Phase.ABORTED
    assert len(driver.attempts) == 1
    assert next(iter(driver.state.calls.values())).status is CallStatus.UNKNOWN


def test_a_question_of_a_tool_takes_no_result_in_its_place() -> None:
    driver = asking()
    call_id = next(iter(driver.state.calls))
    driver.send(SubmitToolResult(call_id=call_id, output_json="1", error=""))
    driver.run()
    rejected = [fact.rejection for fact in driver.facts if isinstance(fact, CommandRejected)]
    assert rejected == [Rejection.CALL_NOT_OPEN]
    assert driver.state.phase is Phase.WAITING

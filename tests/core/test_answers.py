"""Answers: what meets the contract, what is mended and how often, and what a step leaves behind."""

from dataclasses import replace

import pytest

from jackline_server.core.deciding import outcome as reading
from jackline_server.core.deciding.outcome import Accepted, Wrong
from jackline_server.core.facts import (
    AnswerProblem,
    AnswerRejected,
    CallStatus,
    FinishReason,
    Phase,
    Purpose,
    StepFinished,
    StopReason,
)
from jackline_server.core.plan import (
    AnswerForm,
    ChoiceMode,
    JsonValue,
    OnLimit,
    OutcomePlan,
    Plan,
    ToolChoice,
)
from jackline_server.core.state import Reply
from jackline_server.testing import plans
from jackline_server.testing.driving import Call, Driver, Ends, Says, drive
from jackline_server.testing.instruments import instruments

SCHEMAS = instruments().schemas
ENUM = plans.outcome(enum=("resolved", "escalate"))
NUMBER = plans.outcome(schema_json='{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}')
TEXT = plans.outcome(form=AnswerForm.TEXT)
LOOK = plans.tool("look")
ANY_TOOL = ToolChoice(mode=ChoiceMode.REQUIRED)
ONE_TOOL = ToolChoice(mode=ChoiceMode.NAMED, name="look")


def read(text: str, plan: OutcomePlan, finish: FinishReason = FinishReason.STOP) -> Accepted | Wrong:
    return reading.read(Reply(text=text, finish=finish), plan, SCHEMAS)


ACCEPTED: dict[str, tuple[OutcomePlan, str, str, JsonValue]] = {
    "an outcome with its result": (ENUM, '{"outcome":"resolved","result":{"a":1}}', "resolved", {"a": 1}),
    "an outcome whose result is null": (ENUM, '{"outcome":"resolved","result":null}', "resolved", None),
    "an outcome alone is the whole object": (
        ENUM,
        '{"outcome":"escalate"}',
        "escalate",
        {"outcome": "escalate"},
    ),
    "a fenced object": (ENUM, '```json\n{"outcome":"resolved","result":1}\n```', "resolved", 1),
    "an object in a fence among words": (
        ENUM,
        'So:\n```\n{"outcome":"resolved","result":1}\n```',
        "resolved",
        1,
    ),
    "words with a fence in them where nothing is asked for": (
        plans.outcome(),
        "Try this:\n```json\n{}\n```",
        "default",
        "Try this:\n```json\n{}\n```",
    ),
    "a fence without a language": (NUMBER, '```\n{"n":1}\n```\n', "default", {"n": 1}),
    "a result that fits its schema": (NUMBER, '{"result":{"n":1}}', "default", {"n": 1}),
    "text where nothing is asked for": (plans.outcome(), "hello", "default", "hello"),
    "an object where nothing is asked for": (plans.outcome(), '{"a":[1]}', "default", {"a": [1]}),
    "text as text, even if it is JSON": (TEXT, '{"a":1}', "default", '{"a":1}'),
    "one of the words, with space around": (
        replace(ENUM, form=AnswerForm.TEXT),
        " resolved\n",
        "resolved",
        " resolved\n",
    ),
}

WRONG: dict[str, tuple[OutcomePlan, str, AnswerProblem]] = {
    "no JSON": (ENUM, "It is resolved.", AnswerProblem.NOT_JSON),
    "JSON among words": (ENUM, 'Here: {"outcome":"resolved"}', AnswerProblem.NOT_JSON),
    "not JSON where a schema is": (NUMBER, "n is 1", AnswerProblem.NOT_JSON),
    "an outcome that is not listed": (ENUM, '{"outcome":"aborted"}', AnswerProblem.OUTCOME),
    "an outcome in other letters": (ENUM, '{"outcome":"Resolved"}', AnswerProblem.OUTCOME),
    "an outcome that is no string": (ENUM, '{"outcome":["resolved"]}', AnswerProblem.OUTCOME),
    "no outcome": (ENUM, '{"result":1}', AnswerProblem.OUTCOME),
    "an array": (ENUM, "[1]", AnswerProblem.OUTCOME),
    "a number as a string": (NUMBER, '{"n":"1"}', AnswerProblem.SCHEMA),
    "a part missing": (NUMBER, "{}", AnswerProblem.SCHEMA),
    "NaN": (NUMBER, '{"n":NaN}', AnswerProblem.NOT_JSON),
    "a key twice": (ENUM, '{"outcome":"resolved","outcome":"escalate"}', AnswerProblem.NOT_JSON),
    "space alone": (TEXT, " \n\t", AnswerProblem.EMPTY),
    "a word that is not listed": (replace(ENUM, form=AnswerForm.TEXT), "resolved!", AnswerProblem.OUTCOME),
}


@pytest.mark.parametrize(("plan", "text", "signal", "result"), ACCEPTED.values(), ids=ACCEPTED.keys())
def test_an_answer_that_meets_its_contract_is_accepted(
    plan: OutcomePlan, text: str, signal: str, result: JsonValue
) -> None:
    assert read(text, plan) == Accepted(signal=signal, result=result)


@pytest.mark.parametrize(("plan", "text", "problem"), WRONG.values(), ids=WRONG.keys())
def test_an_answer_that_does_not_is_wrong_in_a_named_way(
    plan: OutcomePlan, text: str, problem: AnswerProblem
) -> None:
    verdict = read(text, plan)
    assert isinstance(verdict, Wrong)
    assert verdict.problem is problem


@pytest.mark.parametrize("finish", [FinishReason.LENGTH, FinishReason.CONTENT_FILTER])
@pytest.mark.parametrize("plan", [ENUM, TEXT, plans.outcome()])
def test_a_reply_that_was_cut_or_filtered_is_no_answer_even_if_it_reads_like_one(
    plan: OutcomePlan, finish: FinishReason
) -> None:
    verdict = read('{"outcome":"resolved"}', plan, finish)
    assert isinstance(verdict, Wrong)
    assert verdict.problem is AnswerProblem.TRUNCATED


# --- repairs -----------------------------------------------------------------------------------


def enum_plan(repairs: int) -> Plan:
    return plans.agent_plan(LOOK, outcome=replace(ENUM, repairs=repairs))


@pytest.mark.parametrize("repairs", [0, 1, 2, 5])
def test_an_answer_is_mended_exactly_as_often_as_it_may_be(repairs: int) -> None:
    driver = drive(enum_plan(repairs), *[Says(text="no")] * (repairs + 1))
    end = driver.finished
    assert (end.signal, end.stop_reason, end.phase) == (
        "invalid_output",
        StopReason.INVALID_OUTPUT,
        Phase.FAILED,
    )
    rejected = [fact.repair for fact in driver.facts if isinstance(fact, AnswerRejected)]
    assert rejected == [*range(1, repairs + 1), 0]
    assert driver.state.ledger.iterations == 1


def test_the_raw_text_of_an_answer_that_was_never_right_is_kept() -> None:
    driver = drive(enum_plan(1), Says(text="first"), Says(text="second"))
    assert (driver.finished.partial, driver.finished.result_json) == (True, '"second"')
    assert "answer_result" not in driver.state.context


def test_a_mended_answer_counts_as_if_it_had_been_right() -> None:
    driver = drive(enum_plan(1), Says(text="no"), Says(text='{"outcome":"escalate","result":7}'))
    assert driver.finished.signal == "escalate"
    assert driver.state.context["answer_result"] == 7


def test_a_repair_may_call_tools_and_answer_in_the_next_turn() -> None:
    right = Says(text='{"outcome":"resolved"}')
    driver = drive(enum_plan(1), Says(text="no"), Says(calls=(Call("look"),)), right, look=[Ends()])
    purposes = [call.started.purpose for call in driver.model_calls]
    assert purposes == [Purpose.TURN, Purpose.REPAIR, Purpose.TURN]
    assert driver.state.ledger.iterations == 2


# --- empty replies -----------------------------------------------------------------------------


def test_an_empty_reply_is_asked_for_again_once_then_closed_then_an_error() -> None:
    driver = drive(plans.agent_plan(), Says(), Says(text="  "), Says())
    assert [call.started.purpose for call in driver.model_calls] == [
        Purpose.TURN,
        Purpose.REPAIR,
        Purpose.FINAL_ANSWER,
    ]
    end = driver.finished
    assert (end.signal, end.stop_reason, end.stop_leaf) == (
        "error",
        StopReason.MODEL_ERROR,
        "MODEL_EMPTY_REPLY",
    )


def test_the_closing_answer_after_empty_replies_is_the_partial_result_of_an_error() -> None:
    driver = drive(plans.agent_plan(), Says(), Says(), Says(text="here"))
    assert driver.finished.signal == "error"
    assert (driver.finished.partial, driver.finished.result_json) == (True, '"here"')


def test_an_answer_after_one_empty_reply_is_an_answer_and_no_repair_is_used() -> None:
    driver = drive(enum_plan(1), Says(), Says(text="no"), Says(text='{"outcome":"resolved"}'))
    assert driver.finished.signal == "resolved"


def test_an_empty_reply_after_calls_of_tools_is_asked_for_again_once_more() -> None:
    looks = Says(calls=(Call("look"),))
    driver = drive(enum_plan(0), Says(), looks, Says(), Says(text='{"outcome":"resolved"}'), look=[Ends()])
    assert driver.finished.signal == "resolved"


def test_an_old_text_is_no_answer_when_the_reply_is_empty() -> None:
    looks = Says(text='{"outcome":"resolved"}', calls=(Call("look"),))
    driver = drive(enum_plan(0), looks, Says(), Says(), Says(), look=[Ends()])
    assert (driver.finished.signal, driver.finished.partial) == ("error", True)


# --- a schema that the provider is asked for ---------------------------------------------------

CONTRACT = '{"type":"object"}'
NATIVE = replace(ENUM, form=AnswerForm.NATIVE_SCHEMA, contract_json=CONTRACT)


def test_the_provider_is_asked_for_the_contract_and_the_answer_is_read_as_json() -> None:
    driver = drive(plans.agent_plan(LOOK, outcome=NATIVE), Says(text='{"outcome":"resolved","result":1}'))
    assert driver.model_calls[0].reply_schema == CONTRACT
    assert [tool.ref for tool in driver.model_calls[0].tools] == ["look"]
    assert (driver.finished.signal, driver.finished.result_json) == ("resolved", "1")


def test_what_the_provider_did_not_keep_to_is_mended_as_in_any_text() -> None:
    driver = drive(plans.agent_plan(outcome=NATIVE), Says(text="sure"), Says(text='{"outcome":"resolved"}'))
    assert [call.reply_schema for call in driver.model_calls] == [CONTRACT, CONTRACT]
    assert driver.finished.signal == "resolved"


def test_no_schema_is_asked_for_while_a_tool_has_to_be_called_first() -> None:
    plan = plans.agent_plan(LOOK, outcome=NATIVE, tool_choice=ANY_TOOL)
    driver = drive(plan, Says(calls=(Call("look"),)), Says(text='{"outcome":"resolved"}'), look=[Ends()])
    assert [call.reply_schema for call in driver.model_calls] == [None, CONTRACT]


def test_a_closing_answer_is_asked_for_in_the_schema_too() -> None:
    plan = plans.agent_plan(
        LOOK, outcome=NATIVE, on_limit=OnLimit.FINAL_ANSWER, bounds=plans.step_bounds(max_iterations=0)
    )
    driver = drive(plan, Says(text='{"outcome":"resolved","result":1}'))
    assert driver.model_calls[0].reply_schema == CONTRACT
    assert driver.finished.result_json == "1"


@pytest.mark.parametrize("form", [AnswerForm.JSON_TEXT, AnswerForm.TEXT])
def test_the_other_forms_ask_for_no_schema(form: AnswerForm) -> None:
    driver = drive(plans.agent_plan(outcome=plans.outcome(form=form)), Says(text="done"))
    assert driver.model_calls[0].reply_schema is None


# --- a tool that has to be called --------------------------------------------------------------


def required(choice: ToolChoice, repairs: int = 1) -> Plan:
    return plans.agent_plan(
        LOOK, plans.tool("other_tool"), tool_choice=choice, outcome=plans.outcome(repairs=repairs)
    )


@pytest.mark.parametrize("choice", [ANY_TOOL, ONE_TOOL])
def test_an_answer_before_the_required_call_is_rejected(choice: ToolChoice) -> None:
    driver = drive(required(choice), Says(text="done"), Says(text="done"))
    end = driver.finished
    assert (end.signal, end.stop_reason) == ("invalid_output", StopReason.NO_TOOL_SUCCEEDED)


@pytest.mark.parametrize("choice", [ANY_TOOL, ONE_TOOL])
def test_once_the_required_call_has_succeeded_the_model_is_free_to_answer(choice: ToolChoice) -> None:
    driver = drive(required(choice), Says(calls=(Call("look"),)), Says(text="done"), look=[Ends()])
    assert driver.finished.signal == "default"
    assert [call.tool_choice for call in driver.model_calls] == [choice, ToolChoice()]


def test_until_the_required_call_has_succeeded_no_answer_is_read() -> None:
    """Not even a wrong one: that a tool has to be called is what the model has to hear."""
    plan = plans.agent_plan(LOOK, tool_choice=ANY_TOOL, outcome=replace(ENUM, repairs=1))
    driver = drive(plan, Says(text="no JSON"), Says(text="no JSON"))
    problems = [fact.problem for fact in driver.facts if isinstance(fact, AnswerRejected)]
    assert problems == [AnswerProblem.TOOL_REQUIRED] * 2
    assert driver.finished.stop_reason is StopReason.NO_TOOL_SUCCEEDED


def test_a_failed_call_does_not_meet_the_requirement() -> None:
    failed = Ends(status=CallStatus.FAILED, error="no")
    driver = drive(required(ANY_TOOL, 0), Says(calls=(Call("look"),)), Says(text="done"), look=[failed])
    assert driver.finished.stop_reason is StopReason.NO_TOOL_SUCCEEDED


def test_another_tool_does_not_stand_for_the_named_one() -> None:
    driver = drive(
        required(ONE_TOOL, 0), Says(calls=(Call("other_tool"),)), Says(text="done"), other_tool=[Ends()]
    )
    assert driver.finished.stop_reason is StopReason.NO_TOOL_SUCCEEDED


# --- what a step leaves behind -----------------------------------------------------------------


def left(driver: Driver) -> StepFinished:
    return next(fact for fact in driver.facts if isinstance(fact, StepFinished))


def test_an_answer_is_written_under_its_key_and_named_in_the_exit() -> None:
    plan = plans.agent_plan(outcome=plans.outcome(output_key="refund"))
    driver = drive(plan, Says(text='{"amount":3}'))
    assert driver.state.context["refund"] == {"amount": 3}
    assert left(driver).writes == ("refund",)
    assert driver.finished.result_json == '{"amount":3}'


def test_an_abnormal_exit_writes_no_answer_but_says_what_was_wrong() -> None:
    driver = drive(enum_plan(0), Says(text="no"))
    assert left(driver).writes == ()
    assert driver.state.context["_last_error_type"] == "invalid_output"
    assert driver.state.context["_last_error"]

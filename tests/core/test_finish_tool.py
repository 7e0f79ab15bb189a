"""`answer: finish_tool`: the answer is a call of `finish`, which no toolbox ever sees."""

from dataclasses import replace

import pytest

from jackline_server.core import json_text
from jackline_server.core.commands import Abort, Steer
from jackline_server.core.facts import (
    AbortMode,
    AnswerProblem,
    AnswerRejected,
    CallProblem,
    CallStatus,
    FinishReason,
    Purpose,
    StopReason,
    ToolCallFinished,
    ToolCallRequested,
    ToolCallStarted,
)
from jackline_server.core.messages import AssistantMessage, SystemMessage, ToolMessage, UserMessage
from jackline_server.core.plan import (
    FINISH,
    AnswerForm,
    ChoiceMode,
    Completion,
    Effect,
    OnLimit,
    OnUnknown,
    Plan,
    ToolChoice,
)
from jackline_server.testing import plans
from jackline_server.testing.driving import Call, Driver, Ends, Fails, Says, Scenario, drive

LOOK = plans.tool("look")
SEND = plans.tool("send", Effect.WRITE)
CONTRACT = (
    '{"type":"object","properties":{"outcome":{"type":"string","enum":["resolved","escalate"]},'
    '"result":{"type":"object"}},"required":["outcome","result"],"additionalProperties":false}'
)
OUTCOME = plans.outcome(
    enum=("resolved", "escalate"),
    schema_json='{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}',
    form=AnswerForm.FINISH_TOOL,
    contract_json=CONTRACT,
)
RIGHT = '{"outcome":"resolved","result":{"n":1}}'
FREE = plans.outcome(form=AnswerForm.FINISH_TOOL, contract_json='{"type":"object"}')


def finishes(arguments: str = RIGHT, *, call_id: str = "", text: str = "") -> Says:
    return Says(text=text, calls=(Call(FINISH, arguments, call_id),))


def plan(repairs: int = 1, completion: Completion = Completion.AUTO, **bounds: int) -> Plan:
    return plans.agent_plan(
        LOOK,
        SEND,
        outcome=replace(OUTCOME, repairs=repairs),
        completion=completion,
        bounds=replace(plans.step_bounds(), **bounds),
    )


def rejections(driver: Driver) -> list[tuple[AnswerProblem, int]]:
    return [(fact.problem, fact.repair) for fact in driver.facts if isinstance(fact, AnswerRejected)]


def finished_calls(driver: Driver) -> list[ToolCallFinished]:
    return [fact for fact in driver.facts if isinstance(fact, ToolCallFinished) and fact.tool == FINISH]


def is_paired(driver: Driver) -> bool:
    """True if in every request each call has its result right behind it, in order."""
    for request in driver.model_calls:
        owed: list[str] = []
        for message in request.messages:
            if isinstance(message, ToolMessage):
                if not owed or owed.pop(0) != message.call_id:
                    return False
            elif owed:
                return False
            elif isinstance(message, AssistantMessage):
                owed = [call.call_id for call in message.calls]
        if owed:
            return False
    return True


# --- an answer by call -------------------------------------------------------------------------


def test_a_call_of_finish_is_the_answer() -> None:
    driver = drive(plan(), finishes())
    end = driver.finished
    assert (end.signal, end.stop_reason, end.partial) == ("resolved", StopReason.FINISH_TOOL, False)
    assert json_text.parse(end.result_json or "") == {"n": 1}
    assert driver.state.context["answer_result"] == {"n": 1}


def test_finish_is_never_sent_to_a_toolbox_and_uses_no_tool_call() -> None:
    driver = drive(plan(tool_calls=0), finishes())
    assert driver.attempts == []
    assert not any(isinstance(fact, ToolCallStarted) for fact in driver.facts)
    assert driver.state.ledger.tool_calls == 0


def test_the_call_is_in_the_registry_under_its_own_name_and_is_settled() -> None:
    driver = drive(plan(), finishes())
    (asked,) = [fact for fact in driver.facts if isinstance(fact, ToolCallRequested)]
    assert asked.tool == FINISH
    assert [(call.tool, call.status) for call in driver.state.calls.values()] == [
        (FINISH, CallStatus.COMPLETED)
    ]


def test_without_an_enum_the_signal_is_default() -> None:
    driver = drive(plans.agent_plan(outcome=FREE), finishes('{"result":[1,2]}'))
    assert (driver.finished.signal, driver.finished.result_json) == ("default", "[1,2]")


def test_the_model_is_offered_finish_beside_the_tools_of_the_step() -> None:
    driver = drive(plan(), finishes())
    (request,) = driver.model_calls
    assert [tool.ref for tool in request.tools] == ["look", "send", FINISH]
    assert request.tools[-1].parameters_json == CONTRACT
    assert request.tool_choice == ToolChoice()
    system = request.messages[0]
    assert isinstance(system, SystemMessage)
    assert f"`{FINISH}`" in system.text


def test_where_nothing_else_is_offered_the_call_of_finish_is_forced() -> None:
    driver = drive(plans.agent_plan(outcome=OUTCOME), finishes())
    assert driver.model_calls[0].tool_choice == ToolChoice(mode=ChoiceMode.NAMED, name=FINISH)


def test_what_declaring_finish_costs_is_in_the_estimate() -> None:
    forms = (AnswerForm.FINISH_TOOL, AnswerForm.NATIVE_SCHEMA)
    plain = drive(plans.agent_plan(), Says(text="done")).model_calls[0].started.prompt_tokens
    for form in forms:
        outcome = replace(
            FREE, form=form, contract_json='{"type":"object","description":"%s"}' % ("x" * 4_000)
        )
        said = finishes('{"result":1}') if form is AnswerForm.FINISH_TOOL else Says(text="done")
        started = drive(plans.agent_plan(outcome=outcome), said).model_calls[0].started
        assert started.prompt_tokens > plain + 1_000


def test_a_tool_of_that_name_in_another_form_is_a_tool() -> None:
    own = plans.tool(FINISH)
    driver = drive(plans.agent_plan(own), finishes("{}"), Says(text="done"), finish=[Ends(output=1)])
    assert len(driver.attempts) == 1
    assert driver.finished.result_json == '"done"'


# --- calls beside it ---------------------------------------------------------------------------


def beside(*others: Call, arguments: str = RIGHT) -> Says:
    return Says(calls=(Call(FINISH, arguments, "f"), *others))


def test_the_calls_beside_it_are_made_first_then_the_call_counts() -> None:
    driver = drive(plan(), beside(Call("look"), Call("send")), look=[Ends()], send=[Ends()])
    ended = [fact.tool for fact in driver.facts if isinstance(fact, ToolCallFinished)]
    assert ended == ["look", "send", FINISH]
    assert driver.finished.stop_reason is StopReason.FINISH_TOOL


@pytest.mark.parametrize(
    "other",
    [
        Call("look"),  # fails
        Call("look", "not JSON"),
        Call("made_up"),
    ],
)
def test_if_a_call_beside_it_does_not_succeed_the_model_sees_that_before_it_answers(other: Call) -> None:
    failed = [Ends(status=CallStatus.FAILED, error="no")] if other == Call("look") else []
    driver = drive(plan(repairs=0), beside(other), finishes(call_id="again"), look=failed)
    assert rejections(driver) == [(AnswerProblem.CALL_FAILED, 0)]
    first = finished_calls(driver)[0]
    assert (first.call_id, first.status, first.problem) == ("f", CallStatus.DENIED, CallProblem.NOT_ALLOWED)
    assert driver.finished.stop_reason is StopReason.FINISH_TOOL
    assert [call.started.purpose for call in driver.model_calls] == [Purpose.TURN, Purpose.TURN]
    assert is_paired(driver)


def test_calls_that_fail_beside_it_for_ever_end_at_the_bound_with_what_was_said() -> None:
    failed = Ends(status=CallStatus.FAILED, error="no")
    again = beside(Call("look"))
    driver = drive(plan(max_iterations=3), again, again, again, look=[failed] * 3)
    assert (driver.finished.signal, driver.finished.partial) == ("max_iterations", True)
    assert json_text.parse(driver.finished.result_json or "") == {"n": 1}


def test_the_answer_waits_until_somebody_says_what_became_of_a_write_beside_it() -> None:
    lost = Ends(status=CallStatus.UNKNOWN, error="lost")
    driver = Driver(Scenario(plan=plan(), replies=[beside(Call("send"))], tools={"send": [lost]}))
    driver.run()
    assert driver.state.oversight.interrupts
    assert driver.state.finished is None


def test_a_write_of_unknown_outcome_beside_it_is_no_success() -> None:
    send = plans.tool("send", Effect.WRITE, on_unknown=OnUnknown.FAIL)
    lost = Ends(status=CallStatus.UNKNOWN, error="lost")
    driver = drive(plans.agent_plan(send, outcome=OUTCOME), beside(Call("send")), finishes(), send=[lost])
    assert rejections(driver) == [(AnswerProblem.CALL_FAILED, 0)]


def test_of_several_calls_in_one_reply_the_first_is_looked_at() -> None:
    other = '{"outcome":"escalate","result":{"n":2}}'
    driver = drive(plan(), Says(calls=(Call(FINISH, RIGHT, "a"), Call(FINISH, other, "b"))))
    assert driver.finished.signal == "resolved"
    assert [(call.call_id, call.status) for call in driver.state.calls.values()] == [
        ("a", CallStatus.COMPLETED),
        ("b", CallStatus.DENIED),
    ]


def test_if_the_first_of_several_is_wrong_all_of_them_are_answered() -> None:
    twice = Says(calls=(Call(FINISH, "{}", "a"), Call(FINISH, RIGHT, "b")))
    driver = drive(plan(), twice, finishes(call_id="c"))
    assert [(fact.call_id, fact.status) for fact in finished_calls(driver)] == [
        ("a", CallStatus.DENIED),
        ("b", CallStatus.DENIED),
        ("c", CallStatus.COMPLETED),
    ]
    assert rejections(driver) == [(AnswerProblem.OUTCOME, 1)]
    assert is_paired(driver)


def test_a_batch_over_the_bound_starts_nothing_and_keeps_the_answer_as_partial() -> None:
    driver = drive(plan(tool_calls=1), beside(Call("look"), Call("look")))
    assert driver.attempts == []
    assert driver.finished.stop_reason is StopReason.TOOL_CALL_BUDGET
    assert driver.finished.partial
    assert json_text.parse(driver.finished.result_json or "") == {"n": 1}


# --- wrong arguments ---------------------------------------------------------------------------

WRONG = {
    "no JSON": ("{", AnswerProblem.NOT_JSON, CallProblem.MALFORMED_ARGUMENTS),
    "nothing": ("", AnswerProblem.NOT_JSON, CallProblem.MALFORMED_ARGUMENTS),
    "no object": ("[1]", AnswerProblem.NOT_JSON, CallProblem.MALFORMED_ARGUMENTS),
    "a text": ('"resolved"', AnswerProblem.NOT_JSON, CallProblem.MALFORMED_ARGUMENTS),
    "a key twice": (
        '{"outcome":"resolved","outcome":"escalate"}',
        AnswerProblem.NOT_JSON,
        CallProblem.MALFORMED_ARGUMENTS,
    ),
    "NaN": (
        '{"outcome":"resolved","result":{"n":NaN}}',
        AnswerProblem.NOT_JSON,
        CallProblem.MALFORMED_ARGUMENTS,
    ),
    "an empty object": ("{}", AnswerProblem.OUTCOME, CallProblem.INVALID_ARGUMENTS),
    "no such outcome": (
        '{"outcome":"aborted","result":{"n":1}}',
        AnswerProblem.OUTCOME,
        CallProblem.INVALID_ARGUMENTS,
    ),
    "a number as a text": (
        '{"outcome":"resolved","result":{"n":"1"}}',
        AnswerProblem.SCHEMA,
        CallProblem.INVALID_ARGUMENTS,
    ),
    "no result": ('{"outcome":"resolved"}', AnswerProblem.SCHEMA, CallProblem.INVALID_ARGUMENTS),
}


@pytest.mark.parametrize(("arguments", "problem", "refused_as"), WRONG.values(), ids=WRONG.keys())
def test_wrong_arguments_are_sent_back_as_the_error_of_the_call(
    arguments: str, problem: AnswerProblem, refused_as: CallProblem
) -> None:
    driver = drive(plan(repairs=1), finishes(arguments, call_id="one"), finishes(call_id="two"))
    assert rejections(driver) == [(problem, 1)]
    assert [(fact.status, fact.problem) for fact in finished_calls(driver)] == [
        (CallStatus.DENIED, refused_as),
        (CallStatus.COMPLETED, None),
    ]
    again = driver.model_calls[1]
    assert again.started.purpose is Purpose.REPAIR
    assert isinstance(again.messages[-1], ToolMessage)
    assert (again.messages[-1].call_id, again.messages[-1].is_error) == ("one", True)
    assert driver.finished.signal == "resolved"
    assert driver.state.ledger.iterations == 1
    assert is_paired(driver)


@pytest.mark.parametrize("repairs", [0, 1, 3])
def test_wrong_arguments_are_mended_exactly_as_often_as_they_may_be(repairs: int) -> None:
    driver = drive(plan(repairs), *[finishes('{"outcome":"no"}')] * (repairs + 1))
    assert driver.finished.stop_reason is StopReason.INVALID_OUTPUT
    assert [repair for _, repair in rejections(driver)] == [*range(1, repairs + 1), 0]
    assert {call.status for call in driver.state.calls.values()} == {CallStatus.DENIED}
    assert driver.state.visit is None


def test_arguments_that_were_cut_off_are_no_answer_even_if_they_fit() -> None:
    cut = replace(finishes(), finish=FinishReason.LENGTH)
    driver = drive(plan(repairs=0), cut)
    assert rejections(driver) == [(AnswerProblem.TRUNCATED, 0)]
    assert driver.finished.signal == "invalid_output"


def test_an_empty_call_says_nothing_even_where_any_answer_will_do() -> None:
    outcome = replace(FREE, repairs=0)
    for arguments in ("", "{}"):
        driver = drive(plans.agent_plan(outcome=outcome), finishes(arguments))
        assert driver.finished.signal == "invalid_output"
        assert driver.finished.result_json is None


@pytest.mark.parametrize("arguments", ["{" + "x" * 500_000, "[" * 100_000, '"' + "y" * 500_000 + '"'])
def test_a_huge_broken_answer_is_neither_persisted_as_it_is_nor_echoed_whole(arguments: str) -> None:
    """A history with arguments that are no object is refused by providers for ever after."""
    driver = drive(plan(), finishes(arguments), finishes())
    sent = driver.model_calls[1].messages
    (asked,) = [call for message in sent if isinstance(message, AssistantMessage) for call in message.calls]
    assert json_text.parse_object(asked.arguments)
    assert sum(len(message.text) for message in sent) + len(asked.arguments) < 20_000


# --- text in place of a call -------------------------------------------------------------------


def test_a_text_that_is_no_answer_is_told_to_call_finish() -> None:
    driver = drive(plan(), Says(text="It is resolved."), finishes())
    assert rejections(driver) == [(AnswerProblem.NOT_JSON, 1)]
    last = driver.model_calls[1].messages[-1]
    assert isinstance(last, UserMessage)
    assert f"`{FINISH}`" in last.text
    assert driver.finished.signal == "resolved"


def test_a_text_that_meets_the_contract_is_an_answer_unless_completion_is_explicit() -> None:
    driver = drive(plan(), Says(text=RIGHT))
    assert (driver.finished.signal, driver.finished.stop_reason) == ("resolved", StopReason.OUTCOME)


def test_with_explicit_completion_the_loop_goes_on_until_finish_is_called() -> None:
    driver = drive(plan(0, Completion.EXPLICIT), Says(text=RIGHT), Says(text="still at it"), finishes())
    assert rejections(driver) == [(AnswerProblem.NOT_FINISHED, 0)] * 2
    assert driver.finished.stop_reason is StopReason.FINISH_TOOL
    assert driver.state.ledger.iterations == 3
    assert {call.started.purpose for call in driver.model_calls} == {Purpose.TURN}


def test_with_explicit_completion_each_text_costs_a_turn_and_the_bound_ends_it() -> None:
    driver = drive(plan(5, Completion.EXPLICIT, max_iterations=3), *[Says(text="thinking")] * 3)
    assert (driver.finished.signal, driver.finished.result_json) == ("max_iterations", '"thinking"')
    assert len(driver.model_calls) == 3


def test_a_notice_that_the_step_is_not_finished_uses_no_repair() -> None:
    replies = (Says(text="hm"), finishes("{}"), finishes())
    driver = drive(plan(1, Completion.EXPLICIT), *replies)
    assert rejections(driver) == [(AnswerProblem.NOT_FINISHED, 0), (AnswerProblem.OUTCOME, 1)]
    assert driver.finished.signal == "resolved"


def test_with_explicit_completion_a_cut_off_text_is_one_more_turn() -> None:
    driver = drive(plan(0, Completion.EXPLICIT), Says(text="and", finish=FinishReason.LENGTH), finishes())
    assert rejections(driver) == [(AnswerProblem.NOT_FINISHED, 0)]


def test_with_explicit_completion_empty_replies_end_as_they_do_everywhere() -> None:
    driver = drive(plan(0, Completion.EXPLICIT), Says(), Says(), Says())
    assert driver.finished.stop_leaf == "MODEL_EMPTY_REPLY"
    assert len(driver.model_calls) == 3


# --- a call that has to succeed first ----------------------------------------------------------


def required(repairs: int) -> Plan:
    return plans.agent_plan(
        LOOK, outcome=replace(OUTCOME, repairs=repairs), tool_choice=ToolChoice(mode=ChoiceMode.REQUIRED)
    )


def test_finish_does_not_stand_for_the_tool_that_has_to_succeed() -> None:
    driver = drive(required(1), finishes(), finishes())
    assert rejections(driver) == [(AnswerProblem.TOOL_REQUIRED, 1), (AnswerProblem.TOOL_REQUIRED, 0)]
    end = driver.finished
    assert (end.signal, end.stop_reason) == ("invalid_output", StopReason.NO_TOOL_SUCCEEDED)
    assert json_text.parse(end.result_json or "") == {"n": 1}


def test_a_required_call_beside_finish_is_enough() -> None:
    driver = drive(required(0), beside(Call("look")), look=[Ends()])
    assert driver.finished.stop_reason is StopReason.FINISH_TOOL


# --- a closing answer --------------------------------------------------------------------------


def closing(**bounds: int) -> Plan:
    return plans.agent_plan(
        LOOK,
        outcome=OUTCOME,
        on_limit=OnLimit.FINAL_ANSWER,
        bounds=replace(plans.step_bounds(), **bounds),
    )


def test_a_closing_answer_is_offered_finish_alone_and_keeps_the_limits_signal() -> None:
    driver = drive(closing(max_iterations=1), Says(calls=(Call("look"),)), finishes(), look=[Ends()])
    request = driver.model_calls[-1]
    assert request.started.purpose is Purpose.FINAL_ANSWER
    assert [tool.ref for tool in request.tools] == [FINISH]
    assert request.tool_choice == ToolChoice(mode=ChoiceMode.NAMED, name=FINISH)
    end = driver.finished
    assert (end.signal, end.partial) == ("max_iterations", True)
    assert json_text.parse(end.result_json or "") == {"n": 1}


def test_a_wrong_closing_call_is_not_mended_and_kept_as_it_is() -> None:
    driver = drive(closing(max_iterations=0), finishes('{"outcome":"no","result":7}'))
    assert len(driver.model_calls) == 1
    assert (driver.finished.signal, driver.finished.result_json) == ("max_iterations", "7")


def test_a_closing_call_that_fails_is_not_taken_for_an_answer_to_the_batch_before_it() -> None:
    over = Says(calls=(Call(FINISH, RIGHT), Call("look"), Call("look")))
    later = finishes('{"outcome":"escalate","result":{"n":2}}')
    driver = drive(closing(tool_calls=1), over, Fails(), later)
    assert driver.finished.stop_reason is StopReason.TOOL_CALL_BUDGET
    assert json_text.parse(driver.finished.result_json or "") == {"n": 2}


# --- a worker that goes away, commands ---------------------------------------------------------


@pytest.mark.parametrize("commit", range(2, 14))
def test_a_crash_after_any_commit_leaves_one_answer(commit: int) -> None:
    driver = Driver(
        Scenario(
            plan=plan(),
            replies=[beside(Call("look"), arguments="{}"), finishes(call_id="g")],
            tools={"look": lambda _: Ends()},
            crash_after={commit},
        )
    )
    driver.run_to_end()
    assert driver.finished.signal == "resolved"
    assert [fact.status for fact in finished_calls(driver)] == [CallStatus.DENIED, CallStatus.COMPLETED]
    assert driver.replayed() == driver.state
    assert is_paired(driver)


def test_an_abort_beside_an_open_call_keeps_the_answer_as_partial() -> None:
    abort = Abort(mode=AbortMode.GRACEFUL, skip_routes=False)
    driver = Driver(
        Scenario(plan=plan(), replies=[beside(Call("look"))], tools={"look": []}, sent={2: abort})
    )
    driver.run_to_end()
    assert (driver.finished.signal, driver.finished.partial) == ("aborted", True)
    assert json_text.parse(driver.finished.result_json or "") == {"n": 1}


def test_guidance_that_comes_with_the_answer_is_too_late_and_the_answer_stands() -> None:
    driver = Driver(Scenario(plan=plan(), replies=[finishes()], sent={2: Steer(text="wait")}))
    driver.run_to_end()
    assert driver.finished.signal == "resolved"

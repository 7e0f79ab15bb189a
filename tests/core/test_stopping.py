"""Stop conditions in the loop: when a leaf holds, what follows when one fires; a replay asks nobody."""

import time
from dataclasses import replace

import pytest

from jackline_server.core.commands import Steer
from jackline_server.core.conditions import (
    AllOf,
    AnyOf,
    AskFunction,
    Confidence,
    Cost,
    Elapsed,
    Expression,
    Iterations,
    Not,
    NoToolCalls,
    OutcomeIs,
    StopCondition,
    TextMention,
    Tokens,
    ToolCalled,
)
from jackline_server.core.deciding.stopping import MOST_RESULT_CHARS, VARIABLES
from jackline_server.core.exits import STOPPED
from jackline_server.core.facts import (
    CallStatus,
    ConsultAnswer,
    Consulted,
    ModelCallStarted,
    NoticeCode,
    Noticed,
    Phase,
    Purpose,
    StepFinished,
    StepStarted,
    StopReason,
    Usage,
)
from jackline_server.core.plan import AnswerForm, ChoiceMode, Completion, OnLimit, Plan, Price, ToolChoice
from jackline_server.testing import plans
from jackline_server.testing.driving import Answers, Call, Driver, Ends, Fails, Reply, Says, Scenario, drive

LOOK = plans.tool("look")
LOOKS = Says(text="Let me look.", calls=(Call(name="look", arguments='{"at":1}'),))
SILENT = Says(calls=(Call(name="look"),))
ASKS = AskFunction(function="shop.checks:enough", timeout_ms=2_000)
WHO = "stop_when.function(shop.checks:enough)"
SOUND = '{"outcome":"ok","result":7}'


def stops(condition: StopCondition, **fields: object) -> Plan:
    """An agent with one tool, stopped by this condition."""
    plan = plans.agent_plan(LOOK, stop_when=condition)
    step = replace(plan.steps[plans.AGENT], **fields)
    price = Price(input_per_million=1_000_000, output_per_million=1_000_000)
    return replace(
        plan,
        steps={**plan.steps, plans.AGENT: step},
        models={plans.MODEL: plans.model(price=price)},
    )


def looking(_: object) -> Ends:
    return Ends(output={"found": True})


def run(plan: Plan, *replies: Reply) -> Driver:
    return drive(plan, *replies, look=looking)


def turns(driver: Driver) -> int:
    return sum(isinstance(fact, ModelCallStarted) and fact.purpose is Purpose.TURN for fact in driver.facts)


def stopped(driver: Driver) -> str:
    """The leaf that ended the run, which is all that ended it."""
    end = driver.finished
    assert (end.signal, end.stop_reason, end.phase) == (STOPPED, StopReason.STOP_CONDITION, Phase.SUCCEEDED)
    (left,) = [fact for fact in driver.facts if isinstance(fact, StepFinished)]
    assert (left.signal, left.stop_leaf, left.error) == (STOPPED, end.stop_leaf, "")
    assert driver.replayed() == driver.state
    return end.stop_leaf


# --- leaves ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "after", "leaf"),
    [
        (Iterations(gte=1), 1, "iterations(1)"),
        (Iterations(gte=3), 3, "iterations(3)"),
        (Tokens(gte=300), 2, "tokens(300)"),
        (Cost(gte_micros=450), 3, "cost_usd(0.00045)"),
        (Elapsed(gte_ms=400), 3, "elapsed(0.4s)"),
        (Confidence(gte_permille=600), 2, "confidence(0.6)"),
        (ToolCalled(name="look", success=None), 1, "tool_called(look)"),
        (ToolCalled(name="look", success=True), 1, "tool_called(look)"),
        (TextMention(text="LOOK", case=False), 1, "text_mention"),
        (Expression(cel="iterations >= 2 && calls[0].success"), 2, "expression"),
    ],
)
def test_a_step_stops_at_the_top_of_the_first_turn_at_which_a_leaf_holds(
    condition: StopCondition, after: int, leaf: str
) -> None:
    """A turn takes 150 ms, 150 tokens and 150 millionths here."""
    looks = replace(LOOKS, usage=Usage(prompt_tokens=100, completion_tokens=50))
    driver = run(stops(condition), *[looks] * after)
    assert stopped(driver) == f"stop_when.{leaf}"
    assert turns(driver) == after


@pytest.mark.parametrize(
    "condition",
    [
        Iterations(gte=3),
        Tokens(gte=10_000),
        Cost(gte_micros=10_000),
        Elapsed(gte_ms=10_000),
        NoToolCalls(),
        ToolCalled(name="look", success=False),
        ToolCalled(name="other", success=None),
        TextMention(text="LOOK", case=True),
        OutcomeIs(outcome="ok"),
        Expression(cel="reply == 'done'"),
    ],
)
def test_a_leaf_that_does_not_hold_changes_nothing(condition: StopCondition) -> None:
    driver = run(stops(condition), LOOKS, LOOKS, Says(text="done"))
    assert (driver.finished.signal, driver.finished.result_json) == ("default", '"done"')
    assert turns(driver) == 3


def test_an_unsuccessful_call_is_told_from_a_successful_one() -> None:
    plan = stops(ToolCalled(name="look", success=False))
    ends = [Ends(output=1), Ends(status=CallStatus.FAILED, error="no")]
    assert stopped(drive(plan, LOOKS, LOOKS, look=ends)) == "stop_when.tool_called(look)"


def test_a_call_that_was_refused_is_an_unsuccessful_one() -> None:
    plan = stops(ToolCalled(name="look", success=False))
    driver = drive(plan, Says(calls=(Call(name="look", arguments="{broken"),)))
    assert stopped(driver) == "stop_when.tool_called(look)"


def test_a_call_of_an_earlier_visit_does_not_count() -> None:
    agent = plans.agent(
        tools=(plans.entry("look"),),
        stop_when=ToolCalled(name="look", success=True),
        routes={STOPPED: plans.AGENT, "default": "end"},
    )
    driver = drive(plans.plan_of(agent, LOOK), LOOKS, Says(text="done"), look=looking)
    assert sum(isinstance(fact, StepStarted) for fact in driver.facts) == 2
    assert driver.finished.signal == "default"


def test_a_reply_without_tool_calls_where_only_finish_ends_the_step_stops_it_with_that_reply() -> None:
    plan = stops(
        NoToolCalls(),
        completion=Completion.EXPLICIT,
        outcome=plans.outcome(form=AnswerForm.FINISH_TOOL, contract_json='{"type":"object"}'),
    )
    driver = run(plan, Says(text='{"result":"done"}'))
    assert stopped(driver) == "stop_when.no_tool_calls"
    assert driver.finished.result_json == '"done"'


def test_guidance_that_overtakes_an_answer_is_answered_before_the_step_stops() -> None:
    plan = stops(NoToolCalls())
    driver = Driver(Scenario(plan=plan, replies=[Says(text="done"), Says(text="more")])).run(
        lambda one: one.state.visit is not None and one.state.visit.answer is not None
    )
    driver.send(Steer(text="More, please."))
    driver.run_to_end()
    assert (driver.finished.signal, driver.finished.result_json) == ("default", '"more"')


def test_an_outcome_counts_only_if_the_reply_is_a_sound_answer() -> None:
    plan = stops(OutcomeIs(outcome="ok"), outcome=plans.outcome(enum=("ok", "no"), output_key="found"))
    replies = [replace(LOOKS, text=text) for text in ("ok", '{"outcome":"no"}', SOUND)]
    driver = run(plan, *replies)
    assert stopped(driver) == "stop_when.outcome_is(ok)"
    assert (driver.finished.result_json, driver.state.context["found"]) == ("7", 7)


# --- when it is asked --------------------------------------------------------------------------


def test_a_condition_is_not_asked_before_the_first_turn() -> None:
    driver = run(stops(Not(condition=ToolCalled(name="look", success=True))), LOOKS, Says(text="done"))
    assert driver.finished.signal == "default"


def test_an_answer_is_judged_before_the_condition() -> None:
    driver = run(stops(Iterations(gte=1)), Says(text="done"))
    assert driver.finished.signal == "default"


def test_a_repair_and_a_retry_belong_to_the_turn_that_is_under_way() -> None:
    plan = stops(AnyOf(conditions=(Iterations(gte=1),)), outcome=plans.outcome(enum=("ok",)))
    repaired = run(plan, Says(text="what?"), Says(text=SOUND))
    assert repaired.finished.signal == "ok"
    retried = run(stops(Elapsed(gte_ms=500)), LOOKS, Fails(takes_ms=1_000), Says(text="done"))
    assert retried.finished.signal == "default"


def test_a_condition_comes_before_the_limit_that_the_same_turn_reaches() -> None:
    plan = stops(Iterations(gte=2), bounds=plans.step_bounds(max_iterations=2))
    assert stopped(run(plan, LOOKS, LOOKS)) == "stop_when.iterations(2)"


def test_time_comes_before_a_condition() -> None:
    plan = stops(Iterations(gte=1), bounds=plans.step_bounds(timeout_ms=100))
    assert run(plan, LOOKS).finished.signal == "time_exceeded"


# --- what follows ------------------------------------------------------------------------------


def test_the_last_reply_is_the_result_if_it_is_a_sound_answer() -> None:
    plan = stops(Iterations(gte=2), outcome=plans.outcome(output_key="found"), on_limit=OnLimit.FINAL_ANSWER)
    driver = run(plan, SILENT, LOOKS)
    stopped(driver)
    assert (driver.finished.result_json, driver.finished.partial) == ('"Let me look."', False)
    assert driver.state.context["found"] == "Let me look."
    assert "_last_error" not in driver.state.context


def test_else_the_closing_answer_that_was_kept_free_is_asked_for() -> None:
    outcome = plans.outcome(enum=("ok",), output_key="found")
    driver = run(
        stops(Iterations(gte=2), outcome=outcome, on_limit=OnLimit.FINAL_ANSWER),
        LOOKS,
        LOOKS,
        Says(text=SOUND),
    )
    stopped(driver)
    assert turns(driver) == 2
    assert (driver.model_calls[-1].tools, driver.model_calls[-1].started.limit) == (
        (),
        StopReason.STOP_CONDITION,
    )
    assert (driver.finished.result_json, driver.finished.partial) == ("7", False)
    assert driver.state.context["found"] == 7


@pytest.mark.parametrize(
    ("on_limit", "closing"),
    [
        (OnLimit.EXIT, []),
        (OnLimit.FINAL_ANSWER, [Says(text="no answer")]),
        (OnLimit.FINAL_ANSWER, [Says(text="", calls=(Call(name="look"),))]),
        (OnLimit.FINAL_ANSWER, [Fails()] * 4),
    ],
)
def test_else_there_is_no_output(on_limit: OnLimit, closing: list[Reply]) -> None:
    outcome = plans.outcome(enum=("ok",), output_key="found")
    driver = run(stops(Iterations(gte=1), outcome=outcome, on_limit=on_limit), LOOKS, *closing)
    stopped(driver)
    assert (driver.finished.result_json, driver.finished.partial) == (None, False)
    assert "found" not in driver.state.context


def test_a_closing_answer_that_no_budget_has_room_for_is_left_out() -> None:
    plan = stops(
        Iterations(gte=1),
        outcome=plans.outcome(enum=("ok",)),
        on_limit=OnLimit.FINAL_ANSWER,
        bounds=plans.step_bounds(token_budget=2_000),
    )
    looks = replace(LOOKS, usage=Usage(prompt_tokens=1_990, completion_tokens=10))
    driver = run(plan, looks)
    stopped(driver)
    assert driver.finished.result_json is None


def test_an_answer_counts_only_once_the_required_tool_has_succeeded() -> None:
    plan = stops(Iterations(gte=1), tool_choice=ToolChoice(mode=ChoiceMode.REQUIRED))
    driver = drive(plan, LOOKS, look=[Ends(status=CallStatus.FAILED, error="no")])
    stopped(driver)
    assert driver.finished.result_json is None


def test_stopped_leads_along_its_route_and_falls_back_to_any_but_not_to_error() -> None:
    def following(routes: dict[str, str]) -> list[str]:
        agent = plans.agent(tools=(plans.entry("look"),), stop_when=Iterations(gte=1), routes=routes)
        plan = plans.plan_of(agent, LOOK, plans.router("next", {}, {}))
        return [fact.step_id for fact in run(plan, LOOKS).facts if isinstance(fact, StepStarted)]

    assert following({STOPPED: "next"}) == [plans.AGENT, "next"]
    assert following({"*": "next"}) == [plans.AGENT, "next"]
    assert following({"error": "next"}) == [plans.AGENT]


def test_the_leaf_that_fired_is_named_by_its_way_through_the_tree() -> None:
    tree = AnyOf(
        conditions=(
            AllOf(conditions=(TextMention(text="look", case=False), ToolCalled(name="look", success=True))),
            Iterations(gte=6),
        )
    )
    assert stopped(run(stops(tree), LOOKS)) == "stop_when.any[0].all[1].tool_called(look)"


# --- expressions -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cel",
    [
        "input.limit == 3 && context.input.limit == 3",
        "tokens == 150 && run.tokens == 150 && run.steps == 1",
        "cost_usd > 0 && cost_usd < 0.001 && run.cost_usd == cost_usd",
        "elapsed_s >= 0.15 && run.elapsed_s >= elapsed_s",
        "reply.contains('look') && size(calls) == 1",
        "calls[0].name == 'look' && calls[0].arguments.at == 1 && calls[0].error == ''",
        "calls.exists(call, call.success && call.result.found)",
        "iterations > 0.5",
    ],
)
def test_an_expression_reads_each_of_its_variables(cel: str) -> None:
    plan = stops(Expression(cel=cel))
    looks = replace(LOOKS, usage=Usage(prompt_tokens=100, completion_tokens=50))
    scenario = Scenario(
        plan=plan,
        started=plans.started(plan, input_json='{"limit":3}'),
        replies=[looks],
        tools={"look": looking},
    )
    assert stopped(Driver(scenario).run_to_end()) == "stop_when.expression"


def test_an_expression_without_a_value_is_false_and_noticed_once_a_visit() -> None:
    driver = run(stops(Expression(cel="context.missing > 1")), LOOKS, LOOKS, Says(text="done"))
    assert driver.finished.signal == "default"
    notices = [fact for fact in driver.facts if isinstance(fact, Noticed)]
    asked = [fact for fact in driver.facts if isinstance(fact, Consulted)]
    assert [fact.code for fact in notices] == [NoticeCode.CONDITION_FAILED]
    assert [(fact.who, fact.answer) for fact in asked] == [("stop_when.expression", ConsultAnswer.FAILED)]


def test_what_is_false_because_it_has_no_value_is_true_when_negated() -> None:
    driver = run(stops(Not(condition=Expression(cel="context.missing"))), LOOKS)
    assert stopped(driver) == "stop_when.not.expression"


def test_an_expression_is_evaluated_anew_in_each_turn_though_it_failed_before() -> None:
    driver = run(
        stops(Expression(cel="calls[0].arguments.n == 2")), LOOKS, Says(calls=(Call("look", '{"n":2}'),))
    )
    assert stopped(driver) == "stop_when.expression"


def test_a_result_that_is_too_large_and_arguments_that_are_none_are_null_to_an_expression() -> None:
    plan = stops(Expression(cel="calls[0].result == null && calls[1].arguments == null && calls[2].success"))
    calls = (Call("look"), Call("look", "{broken"), Call("look"))
    ends = [Ends(output="x" * MOST_RESULT_CHARS), Ends(output=1)]
    assert stopped(drive(plan, Says(calls=calls), look=ends)) == "stop_when.expression"


@pytest.mark.parametrize(
    ("cel", "reply"),
    [
        (
            "reply.matches('x+y') || reply.matches('(x+)+y')",
            Says(text="x" * 900_000, calls=(Call("look"),)),
        ),
        ("calls[0].arguments.l.all(i, i >= 0)", Says(calls=(Call("look", f'{{"l":{list(range(1_001))}}}'),))),
        ("calls.all(c, c.arguments == calls)", Says(calls=(Call("look", '{"l":[1,2,3]}'),) * 250)),
        ("calls[0].arguments.n < 0", Says(calls=(Call("look", f'{{"n":1{"0" * 300}}}'),))),
        ("calls[0].arguments.l == []", Says(calls=(Call("look", '{"l":' + "[" * 98 + "]" * 98 + "}"),))),
    ],
    ids=["long reply", "long list", "many calls", "large number", "deep arguments"],
)
def test_no_reply_of_a_model_makes_an_expression_costly_or_the_run_fail(cel: str, reply: Says) -> None:
    plan = stops(
        Expression(cel=cel),
        outcome=plans.outcome(form=AnswerForm.TEXT),
        bounds=plans.step_bounds(tool_calls=1_000),
    )
    began = time.perf_counter()
    driver = run(plan, reply, Says(text="done"))
    assert time.perf_counter() - began < 5
    assert driver.finished.phase is Phase.SUCCEEDED
    assert driver.finished.result_json == '"done"'


# --- functions ---------------------------------------------------------------------------------


def asking(
    condition: StopCondition,
    answers: list[Answers],
    *replies: Reply,
    crash_after: frozenset[int] = frozenset(),
) -> Driver:
    scenario = Scenario(
        plan=stops(condition),
        replies=replies,
        tools={"look": looking},
        consultants=answers,
        crash_after=crash_after,
    )
    return Driver(scenario).run_to_end()


def test_a_function_is_asked_once_a_turn_and_its_answer_is_a_fact() -> None:
    driver = asking(ASKS, [Answers(), Answers(answer=ConsultAnswer.YES)], LOOKS, LOOKS)
    assert stopped(driver) == WHO
    assert [fact.answer for fact in driver.facts if isinstance(fact, Consulted)] == [
        ConsultAnswer.NO,
        ConsultAnswer.YES,
    ]
    assert [set(asked.variables) for asked in driver.consulted] == [set(VARIABLES)] * 2
    assert [asked.variables["iterations"] for asked in driver.consulted] == [1, 2]


def test_a_function_that_the_other_leaves_make_needless_is_not_asked() -> None:
    driver = asking(AnyOf(conditions=(ASKS, Iterations(gte=1))), [], LOOKS)
    assert stopped(driver) == "stop_when.any[1].iterations(1)"
    driver = asking(AllOf(conditions=(ASKS, Iterations(gte=9))), [], LOOKS, Says(text="done"))
    assert driver.finished.signal == "default"


def test_a_failing_function_is_false_and_noticed_once_a_visit() -> None:
    fails = Answers(answer=ConsultAnswer.FAILED, error="no")
    driver = asking(ASKS, [fails, fails], LOOKS, LOOKS, Says(text="done"))
    assert driver.finished.signal == "default"
    assert [fact.code for fact in driver.facts if isinstance(fact, Noticed)] == [NoticeCode.CONDITION_FAILED]


def test_a_function_is_given_no_more_time_than_the_visit_has_left() -> None:
    plan = stops(ASKS, bounds=plans.step_bounds(timeout_ms=1_000))
    scenario = Scenario(plan=plan, replies=[LOOKS], tools={"look": looking}, consultants=[Answers()])
    driver = Driver(scenario).run(lambda one: bool(one.consulted))
    assert driver.consulted[0].timeout_ms == 1_000 - 150


def test_a_crash_after_any_commit_ends_in_the_same_place() -> None:
    """Before the answer is durable the function is asked again; after it, the answer is what was said."""
    yes = Answers(answer=ConsultAnswer.YES)
    commits = len(asking(ASKS, [yes], LOOKS).commits)
    for number in range(1, commits):
        scenario = Scenario(
            plan=stops(ASKS),
            replies=[LOOKS, LOOKS],
            tools={"look": looking},
            consultants=lambda _: yes,
            crash_after={number},
        )
        driver = Driver(scenario).run()
        assert stopped(driver) == WHO
        assert sum(isinstance(fact, Consulted) for fact in driver.facts) == 1

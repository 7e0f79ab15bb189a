"""Hooks, guardrails, policies and judges around the loop: when each is asked, and what follows."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Unpack

import pytest

from jackline_server.core import json_text
from jackline_server.core.commands import Abort, EditAndApprove, Steer
from jackline_server.core.facts import (
    AbortMode,
    AnswerProblem,
    AnswerRejected,
    CallProblem,
    CallStatus,
    ConsultAnswer,
    Consulted,
    ConsultKind,
    ModelCallStarted,
    Phase,
    Purpose,
    StopReason,
    ToolCallStarted,
)
from jackline_server.core.gate_plans import (
    HOOK_POINTS,
    ArgumentsView,
    DenyPattern,
    FitsSchema,
    GatesPlan,
    GuardrailPlan,
    HookPlan,
    Judged,
    MaxChars,
    OnHookError,
    Point,
    PolicyPlan,
)
from jackline_server.core.plan import AnswerForm, Effect, ModelStep, OnLimit, Plan
from jackline_server.core.recorded.boundaries import Entry
from jackline_server.core.recorded.replaying import replayed
from jackline_server.core.steps import Question
from jackline_server.testing import plans
from jackline_server.testing.driving import Answers, Call, Driver, Ends, Fails, Reply, Says, Scenario
from jackline_server.testing.instruments import instruments

GO = Answers(answer=ConsultAnswer.PROCEED)
VETO = Answers(answer=ConsultAnswer.VETO, reason="not today")
RETRY = Answers(answer=ConsultAnswer.RETRY)
DENY = Answers(answer=ConsultAnswer.DENY, reason="too much money")
FAILED = Answers(answer=ConsultAnswer.FAILED, error="no answer in time")

PASSED = Says(text='{"passed": true, "reason": "fine"}')
NOT_PASSED = Says(text='{"passed": false, "reason": "it promises a refund"}')


def hook(name: str = "audit", *points: Point, on_error: OnHookError = OnHookError.VETO) -> HookPlan:
    return HookPlan(name=name, points=frozenset(points or HOOK_POINTS), timeout_ms=1_000, on_error=on_error)


def policy(*, fails_open: bool = False, ends: bool = False) -> PolicyPlan:
    return PolicyPlan(name="guard", view=ArgumentsView.FULL, timeout_ms=500, fails_open=fails_open, ends=ends)


def gated(
    gates_of_step: GatesPlan, effect: Effect = Effect.READ, **fields: Unpack[plans.ModelStepFields]
) -> Plan:
    """One agent with the tool `look`, and these gates around the step; the hooks around the run too."""
    fields["gates"] = gates_of_step
    plan = plans.agent_plan(plans.tool("look", effect), **fields)
    return replace(plan, gates=GatesPlan(hooks=gates_of_step.hooks))


def drive(
    plan: Plan,
    *replies: Reply,
    answers: Callable[[Question], Answers] | None = None,
    crash_after: frozenset[int] = frozenset(),
) -> Driver:
    scenario = Scenario(
        plan=plan,
        replies=replies,
        tools={"look": lambda _: Ends(output={"found": 1})},
        consultants=answers or (lambda _: GO),
        crash_after=crash_after,
    )
    return Driver(scenario).run_to_end()


def at(point: Point, answer: Answers) -> Callable[[Question], Answers]:
    """This answer at one point, and no objection anywhere else."""
    return lambda question: answer if question.point is point else GO


def once(point: Point, answer: Answers) -> Callable[[Question], Answers]:
    """The same, but only for the first question there."""
    left = [answer]
    return lambda question: left.pop() if question.point is point and left else GO


def asked(driver: Driver) -> list[tuple[Point | None, str]]:
    return [(question.point, question.target) for question in driver.consulted]


def check_same_again(driver: Driver) -> None:
    """The log alone gives the same state, and deciding it again meets no difference."""
    assert driver.replayed() == driver.state
    log = [Entry(fact=fact, active_ms=active_ms, unix_ms=0) for fact, active_ms in driver.log]
    found = replayed("run-1", log, driver.state.plan, instruments=instruments())
    assert found.difference is None


LOOK = Says(calls=(Call("look"),))
DONE = Says(text="done")


# --- hooks ---------------------------------------------------------------------------------------


def test_a_hook_is_asked_at_each_of_its_points_in_their_order() -> None:
    driver = drive(gated(GatesPlan(hooks=(hook(),))), LOOK, DONE)
    assert [point for point, _ in asked(driver)] == [
        Point.BEFORE_RUN,
        Point.BEFORE_TURN,
        Point.BEFORE_MODEL_CALL,
        Point.AFTER_MODEL_CALL,
        Point.BEFORE_TOOL_CALL,
        Point.AFTER_TOOL_CALL,
        Point.AFTER_TURN,
        Point.BEFORE_TURN,
        Point.BEFORE_MODEL_CALL,
        Point.AFTER_MODEL_CALL,
        Point.AFTER_TURN,
        Point.AFTER_RUN,
    ]
    assert driver.finished.phase is Phase.SUCCEEDED
    check_same_again(driver)


@pytest.mark.parametrize("point", [point for point in HOOK_POINTS if point is not Point.AFTER_RUN])
def test_a_veto_ends_the_run_at_every_point(point: Point) -> None:
    driver = drive(
        gated(GatesPlan(hooks=(hook("audit", point),))), *replies_until(point), answers=at(point, VETO)
    )
    assert driver.finished.stop_reason is StopReason.HOOK_VETO
    assert (driver.finished.signal, driver.finished.stop_leaf) == ("error", "hooks.audit")
    assert driver.finished.error == "not today"
    check_same_again(driver)


def test_a_run_that_is_vetoed_before_it_begins_visits_no_step() -> None:
    driver = drive(gated(GatesPlan(hooks=(hook(),))), answers=at(Point.BEFORE_RUN, VETO))
    assert not driver.state.summaries
    assert driver.state.ledger.steps == 0


def replies_until(point: Point) -> tuple[Says, ...]:
    before = (Point.BEFORE_RUN, Point.BEFORE_TURN, Point.BEFORE_MODEL_CALL)
    return () if point in before else (LOOK,)


def test_the_end_of_a_run_can_not_be_vetoed() -> None:
    driver = drive(gated(GatesPlan(hooks=(hook(),))), DONE, answers=at(Point.AFTER_RUN, VETO))
    assert driver.finished.phase is Phase.SUCCEEDED


def test_a_vetoed_tool_call_never_starts() -> None:
    driver = drive(gated(GatesPlan(hooks=(hook(),))), LOOK, answers=at(Point.BEFORE_TOOL_CALL, VETO))
    assert not driver.attempts
    assert not any(isinstance(fact, ToolCallStarted) for fact in driver.facts)
    assert [call.status for call in driver.state.calls.values()] == [CallStatus.DENIED]


def test_the_first_veto_spares_the_other_hooks() -> None:
    gates = GatesPlan(hooks=(hook("first", Point.BEFORE_TURN), hook("second", Point.BEFORE_TURN)))
    driver = drive(gated(gates), answers=at(Point.BEFORE_TURN, VETO))
    assert asked(driver) == [(Point.BEFORE_TURN, "first")]


@pytest.mark.parametrize(
    ("on_error", "reason"),
    [(OnHookError.VETO, StopReason.HOOK_VETO), (OnHookError.IGNORE, StopReason.DEFAULT)],
)
def test_a_failing_hook_follows_its_declared_mode(on_error: OnHookError, reason: StopReason) -> None:
    gates = GatesPlan(hooks=(hook("audit", Point.BEFORE_TURN, on_error=on_error),))
    replies = (DONE,) if on_error is OnHookError.IGNORE else ()
    driver = drive(gated(gates), *replies, answers=lambda _: FAILED)
    assert driver.finished.stop_reason is reason
    check_same_again(driver)


def test_metadata_of_hooks_is_gathered_over_the_whole_run() -> None:
    def answers(question: Question) -> Answers:
        assert question.point is not None
        said: Mapping[str, str] = {"last": question.point.value, question.point.value: "seen"}
        return Answers(answer=ConsultAnswer.PROCEED, metadata=said)

    driver = drive(gated(GatesPlan(hooks=(hook(),))), DONE, answers=answers)
    gates = driver.state.gates
    assert gates is not None
    assert gates.metadata["last"] == "after_run"
    assert gates.metadata["before_run"] == "seen"
    check_same_again(driver)


def test_a_reply_that_a_hook_wants_anew_leaves_no_trace_in_the_conversation() -> None:
    gates = GatesPlan(hooks=(hook("audit", Point.AFTER_MODEL_CALL),))
    driver = drive(gated(gates), LOOK, DONE, answers=once(Point.AFTER_MODEL_CALL, RETRY))
    assert driver.finished.stop_reason is StopReason.DEFAULT
    assert not driver.attempts
    started = [fact for fact in driver.facts if isinstance(fact, ModelCallStarted)]
    assert [(one.iteration, one.attempt) for one in started] == [(1, 1), (1, 2)]
    assert driver.model_calls[0].messages == driver.model_calls[1].messages
    (call,) = driver.state.calls.values()
    assert (call.status, call.problem) == (CallStatus.DENIED, CallProblem.REPLY_DISCARDED)
    assert driver.state.ledger.iterations == 1
    assert driver.state.ledger.model_requests == 2
    check_same_again(driver)


def test_a_hook_can_not_have_a_reply_made_anew_for_ever() -> None:
    gates = GatesPlan(hooks=(hook("audit", Point.AFTER_MODEL_CALL),))
    driver = drive(gated(gates), DONE, DONE, DONE, answers=lambda _: RETRY)
    assert driver.finished.stop_reason is StopReason.DEFAULT
    answers = [fact.answer for fact in driver.facts if isinstance(fact, Consulted)]
    assert answers == [ConsultAnswer.RETRY, ConsultAnswer.RETRY, ConsultAnswer.PROCEED]
    check_same_again(driver)


@pytest.mark.parametrize(
    ("effect", "attempts"), [(Effect.READ, 3), (Effect.IDEMPOTENT, 3), (Effect.WRITE, 1)]
)
def test_a_tool_call_is_made_again_within_its_caps_and_a_write_never(effect: Effect, attempts: int) -> None:
    gates = GatesPlan(hooks=(hook("audit", Point.AFTER_TOOL_CALL),))
    driver = drive(gated(gates, effect), LOOK, DONE, answers=lambda _: RETRY)
    assert [one.started.attempt for one in driver.attempts] == list(range(1, attempts + 1))
    assert len({one.started.call_key for one in driver.attempts}) == 1
    assert driver.state.ledger.tool_calls == attempts
    assert driver.finished.phase is Phase.SUCCEEDED
    check_same_again(driver)


def test_a_run_that_a_call_started_is_never_started_again() -> None:
    gates = GatesPlan(hooks=(hook("audit", Point.AFTER_TOOL_CALL),))
    plan = gated(gates)
    plan = replace(plan, steps={**plan.steps, "look": plans.child("look", "below")})
    driver = drive(plan, LOOK, DONE, answers=lambda _: RETRY)
    assert [one.started.attempt for one in driver.attempts] == [1]
    assert driver.finished.phase is Phase.SUCCEEDED
    check_same_again(driver)


def test_a_retry_that_no_cap_leaves_room_for_is_no_objection() -> None:
    gates = GatesPlan(hooks=(hook("audit", Point.AFTER_TOOL_CALL),))
    plan = gated(gates, bounds=plans.step_bounds(tool_calls=1))
    driver = drive(plan, LOOK, DONE, answers=lambda _: RETRY)
    assert len(driver.attempts) == 1
    assert [call.status for call in driver.state.calls.values()] == [CallStatus.COMPLETED]
    assert driver.finished.phase is Phase.SUCCEEDED


def test_calls_that_start_together_are_asked_about_together() -> None:
    gates = GatesPlan(hooks=(hook("audit", Point.BEFORE_TOOL_CALL),), policy=policy())
    driver = drive(gated(gates), Says(calls=(Call("look"), Call("look"))), DONE)
    answers = [fact for fact in driver.facts if isinstance(fact, Consulted)]
    assert [(fact.kind, fact.subject) for fact in answers] == [
        (ConsultKind.HOOK, "call_1"),
        (ConsultKind.HOOK, "call_2"),
        (ConsultKind.POLICY, "call_1"),
        (ConsultKind.POLICY, "call_2"),
    ]
    assert len([commit for commit in driver.commits if isinstance(commit[0], Consulted)]) == 2


def test_a_call_over_a_limit_is_refused_before_anybody_is_asked() -> None:
    gates = GatesPlan(hooks=(hook("audit", Point.BEFORE_TOOL_CALL),), policy=policy())
    driver = drive(gated(gates, bounds=plans.step_bounds(tool_calls=0)), LOOK)
    assert driver.finished.stop_reason is StopReason.TOOL_CALL_BUDGET
    assert not driver.consulted


# --- policy --------------------------------------------------------------------------------------


def test_a_denied_call_is_an_error_result_that_says_why() -> None:
    driver = drive(gated(GatesPlan(policy=policy())), LOOK, DONE, answers=lambda _: DENY)
    (call,) = driver.state.calls.values()
    assert (call.status, call.problem) == (CallStatus.DENIED, CallProblem.POLICY_DENIED)
    assert "too much money" in driver.model_calls[1].messages[-1].text
    assert not driver.attempts
    assert driver.finished.phase is Phase.SUCCEEDED
    check_same_again(driver)


def test_a_denial_may_end_the_step() -> None:
    driver = drive(gated(GatesPlan(policy=policy(ends=True))), LOOK, answers=lambda _: DENY)
    assert driver.finished.stop_reason is StopReason.POLICY_DENIED
    assert (driver.finished.signal, driver.finished.stop_leaf) == ("guardrail_violation", "policy.guard")
    check_same_again(driver)


@pytest.mark.parametrize("fails_open", [True, False])
def test_a_policy_that_gives_no_answer_denies_unless_it_fails_open(*, fails_open: bool) -> None:
    plan = gated(GatesPlan(policy=policy(fails_open=fails_open)))
    driver = drive(plan, LOOK, DONE, answers=lambda _: FAILED)
    assert len(driver.attempts) == fails_open
    check_same_again(driver)


def test_a_tool_step_of_the_flow_is_asked_about_too_and_a_denial_ends_it() -> None:
    gates = GatesPlan(policy=policy())
    plan = plans.plan_of(plans.tool("look", gates=gates), gates=GatesPlan())
    driver = drive(plan, answers=lambda _: DENY)
    assert driver.finished.stop_reason is StopReason.POLICY_DENIED
    assert not driver.attempts
    check_same_again(driver)


def test_a_second_attempt_is_not_asked_about_again() -> None:
    gates = GatesPlan(policy=policy(), hooks=(hook("audit", Point.BEFORE_TOOL_CALL),))
    driver = drive(gated(gates), LOOK, DONE, crash_after=frozenset({7}))
    assert [one.started.attempt for one in driver.attempts][-1] == 2 or len(driver.attempts) == 1
    subjects = [(fact.kind, fact.subject) for fact in driver.facts if isinstance(fact, Consulted)]
    assert len(subjects) == len(set(subjects))


# --- guardrails ----------------------------------------------------------------------------------


def rail(check: MaxChars | DenyPattern | FitsSchema | Judged, *, ends: bool = False) -> GuardrailPlan:
    return GuardrailPlan(place="guardrails[0]", check=check, ends=ends)


JUDGE = Judged(model=plans.MODEL, criteria="It promises nothing.")


def test_an_answer_that_breaks_a_guardrail_is_repaired() -> None:
    driver = drive(gated(GatesPlan(output=(rail(MaxChars(most=5)),))), Says(text="far too long"), DONE)
    rejected = [fact for fact in driver.facts if isinstance(fact, AnswerRejected)]
    assert [(one.problem, one.repair) for one in rejected] == [(AnswerProblem.GUARDRAIL, 1)]
    assert driver.finished.result_json == '"done"'
    check_same_again(driver)


def test_an_answer_that_stays_wrong_ends_as_a_violation_and_is_kept_nowhere_in_the_exit() -> None:
    plan = gated(GatesPlan(output=(rail(DenyPattern(pattern=r"(?i)secret")),)))
    driver = drive(plan, Says(text="a Secret"), Says(text="SECRET"))
    end = driver.finished
    assert (end.stop_reason, end.signal) == (StopReason.GUARDRAIL, "guardrail_violation")
    assert (end.result_json, end.partial) == (None, False)
    assert "secret" not in end.error.lower().replace("guardrails", "")
    assert not driver.state.context.get("answer_result")
    check_same_again(driver)


def test_a_violation_may_end_the_step_at_once() -> None:
    plan = gated(GatesPlan(output=(rail(MaxChars(most=5), ends=True),)))
    assert drive(plan, Says(text="far too long")).finished.stop_reason is StopReason.GUARDRAIL


def test_an_answer_given_by_a_call_of_finish_is_checked_too() -> None:
    outcome = plans.outcome(form=AnswerForm.FINISH_TOOL, contract_json=plans.ANY_OBJECT)
    plan = gated(GatesPlan(output=(rail(MaxChars(most=5)),)), outcome=outcome)
    long = Says(calls=(Call("finish", json_text.write({"result": "far too long"})),))
    short = Says(calls=(Call("finish", json_text.write({"result": "done"})),))
    driver = drive(plan, long, short)
    assert [call.status for call in driver.state.calls.values()] == [CallStatus.DENIED, CallStatus.COMPLETED]
    assert driver.finished.result_json == '"done"'
    check_same_again(driver)


def test_a_closing_answer_that_breaks_a_guardrail_is_left_out() -> None:
    plan = gated(
        GatesPlan(output=(rail(MaxChars(most=5)),)),
        bounds=plans.step_bounds(max_iterations=1),
        on_limit=OnLimit.FINAL_ANSWER,
    )
    driver = drive(plan, LOOK, Says(text="far too long"))
    end = driver.finished
    assert (end.stop_reason, end.result_json, end.partial) == (StopReason.MAX_ITERATIONS, None, False)


def test_no_unfinished_answer_leaves_a_guarded_step() -> None:
    plan = gated(
        GatesPlan(output=(rail(DenyPattern(pattern="secret")),)), bounds=plans.step_bounds(max_iterations=1)
    )
    driver = drive(plan, Says(text="the secret", calls=(Call("look"),)))
    assert driver.finished.stop_reason is StopReason.MAX_ITERATIONS
    assert driver.finished.result_json is None


def test_an_abort_leaves_nothing_that_no_guardrail_has_seen() -> None:
    plan = gated(GatesPlan(output=(rail(DenyPattern(pattern="secret")),)))
    leaky = Says(text="the secret", calls=(Call("look"),))
    abort = Abort(mode=AbortMode.NOW, skip_routes=False)
    driver = Driver(
        Scenario(
            plan=plan, replies=(leaky,), tools={"look": lambda _: Ends(output={"found": 1})}, sent={3: abort}
        )
    ).run_to_end()
    assert driver.finished.phase is Phase.ABORTED
    assert driver.model_calls
    assert (driver.finished.result_json, driver.finished.partial) == (None, False)


def test_the_input_of_a_run_has_to_pass_before_any_step() -> None:
    plan = replace(gated(GatesPlan()), gates=GatesPlan(input=(rail(MaxChars(most=5)),)))
    scenario = Scenario(plan=plan, started=plans.started(plan, input_json='{"text":"far too long"}'))
    driver = Driver(scenario).run_to_end()
    assert driver.finished.stop_reason is StopReason.GUARDRAIL
    assert not driver.state.summaries
    check_same_again(driver)


def test_the_input_of_a_step_has_to_pass_before_its_model_sees_it() -> None:
    plan = gated(GatesPlan(input=(rail(MaxChars(most=1)),)))
    driver = drive(plan)
    assert driver.finished.stop_reason is StopReason.GUARDRAIL
    assert not driver.model_calls


@pytest.mark.parametrize("ends", [True, False])
def test_a_call_that_breaks_a_guardrail_is_denied_or_ends_the_step(*, ends: bool) -> None:
    gates = GatesPlan(tools=(rail(DenyPattern(pattern="etc/passwd"), ends=ends),))
    calls = Says(calls=(Call("look", '{"path":"/etc/passwd"}'), Call("look", '{"path":"notes"}')))
    driver = drive(gated(gates), calls, *(() if ends else (DONE,)))
    assert next(iter(driver.state.calls.values())).problem is CallProblem.GUARDRAIL
    assert len(driver.attempts) == (0 if ends else 1)
    assert (driver.finished.stop_reason is StopReason.GUARDRAIL) is ends
    check_same_again(driver)


def test_an_escaped_text_in_arguments_hides_nothing_from_a_pattern() -> None:
    gates = GatesPlan(tools=(rail(DenyPattern(pattern=r"a\nb")),))
    driver = drive(gated(gates), Says(calls=(Call("look", '{"text":"a\\nb"}'),)), DONE)
    assert not driver.attempts


def test_a_guardrail_may_be_about_some_tools_only() -> None:
    other = GuardrailPlan(place="g", check=MaxChars(most=0), tools=frozenset({"send"}))
    assert len(drive(gated(GatesPlan(tools=(other,))), LOOK, DONE).attempts) == 1


def test_a_schema_holds_back_what_does_not_fit() -> None:
    schema = '{"type":"object","required":["why"]}'
    driver = drive(gated(GatesPlan(tools=(rail(FitsSchema(schema_json=schema)),))), LOOK, DONE)
    assert not driver.attempts


# --- judges --------------------------------------------------------------------------------------


def test_a_judge_lets_an_answer_pass_and_its_words_enter_no_conversation() -> None:
    driver = drive(gated(GatesPlan(output=(rail(JUDGE),))), LOOK, DONE, PASSED)
    assert driver.finished.result_json == '"done"'
    assert [call.started.purpose for call in driver.model_calls] == [
        Purpose.TURN,
        Purpose.TURN,
        Purpose.JUDGE,
    ]
    assert driver.state.ledger.iterations == 2
    assert driver.state.ledger.model_requests == 3
    assert not driver.model_calls[-1].tools
    check_same_again(driver)


def test_an_answer_that_a_judge_does_not_pass_is_repaired_and_judged_again() -> None:
    driver = drive(gated(GatesPlan(output=(rail(JUDGE),))), Says(text="money!"), NOT_PASSED, DONE, PASSED)
    assert driver.finished.result_json == '"done"'
    assert "it promises a refund" in driver.model_calls[2].messages[-1].text
    check_same_again(driver)


@pytest.mark.parametrize(
    "word", [Says(text="It seems fine."), Says(text='{"passed": 1}'), Says(text='{"passed":true,"x":1}')]
)
def test_a_judge_that_gives_no_usable_word_has_passed_nothing(word: Says) -> None:
    driver = drive(gated(GatesPlan(output=(rail(JUDGE, ends=True),))), DONE, word)
    assert driver.finished.stop_reason is StopReason.GUARDRAIL
    assert driver.finished.result_json is None


def test_a_judge_that_fails_is_asked_again_and_then_has_passed_nothing() -> None:
    plan = gated(GatesPlan(output=(rail(JUDGE, ends=True),)))
    plan = replace(plan, models={plans.MODEL: plans.model(retries=1)})
    driver = drive(plan, DONE, Fails(), Fails())
    assert driver.finished.stop_reason is StopReason.GUARDRAIL
    assert [call.started.attempt for call in driver.model_calls] == [1, 1, 2]
    check_same_again(driver)


def test_a_judge_without_room_has_passed_nothing() -> None:
    plan = gated(GatesPlan(output=(rail(JUDGE, ends=True),)), bounds=plans.step_bounds(model_requests=1))
    driver = drive(plan, DONE)
    assert driver.finished.stop_reason is StopReason.GUARDRAIL
    assert driver.state.ledger.model_requests == 1


def test_a_judge_approves_each_call_before_it_starts() -> None:
    driver = drive(
        gated(GatesPlan(tools=(rail(JUDGE),))),
        Says(calls=(Call("look", '{"n":1}'), Call("look", '{"n":2}'))),
        NOT_PASSED,
        PASSED,
        DONE,
    )
    assert [call.status for call in driver.state.calls.values()] == [CallStatus.DENIED, CallStatus.COMPLETED]
    check_same_again(driver)


def test_arguments_that_a_person_puts_in_place_come_by_the_guardrails_of_the_call_again() -> None:
    plan = gated(GatesPlan(tools=(rail(DenyPattern(pattern="north")), rail(JUDGE)), hooks=(hook(),)))
    agent = plan.steps[plans.AGENT]
    assert isinstance(agent, ModelStep)
    entry = replace(agent.tools[0], approval=plans.approval())
    plan = replace(plan, steps={**plan.steps, plans.AGENT: replace(agent, tools=(entry,))})
    driver = Driver(Scenario(plan=plan, replies=(LOOK, PASSED, DONE), consultants=lambda _: GO)).run()
    (asked_,) = driver.state.oversight.interrupts.values()
    consulted = len(driver.consulted)
    driver.send(
        EditAndApprove(
            interrupt_id=asked_.interrupt_id, digest=asked_.digest, arguments_json='{"to":"north"}'
        )
    )
    driver.run()
    (call,) = driver.state.calls.values()
    assert (call.status, call.problem) == (CallStatus.DENIED, CallProblem.GUARDRAIL)
    assert not [one for one in driver.consulted[consulted:] if one.point is Point.BEFORE_TOOL_CALL]
    driver.run_to_end()
    assert driver.replayed() == driver.state


def taking(plan: Plan) -> Plan:
    """The plan with a `look` that takes the `shop` of the run's input."""
    look = plans.tool("look", Effect.READ, input={"shop": "/input/shop"})
    return replace(plan, steps={**plan.steps, "look": look})


@pytest.mark.parametrize(("shop", "status"), [("south", CallStatus.COMPLETED), ("north", CallStatus.DENIED)])
def test_a_guardrail_of_calls_looks_at_what_the_tool_takes_of_the_context(
    shop: str, status: CallStatus
) -> None:
    plan = taking(gated(GatesPlan(tools=(rail(DenyPattern(pattern="north")),))))
    scenario = Scenario(
        plan=plan,
        replies=(LOOK, DONE),
        tools={"look": lambda _: Ends(output=1)},
        started=plans.started(plan, input_json=json_text.write({"shop": shop})),
    )
    driver = Driver(scenario).run_to_end()
    assert [call.status for call in driver.state.calls.values()] == [status]
    check_same_again(driver)


def test_a_judge_of_calls_is_shown_what_the_tool_takes_of_the_context() -> None:
    plan = taking(gated(GatesPlan(tools=(rail(JUDGE),))))
    started = plans.started(plan, input_json='{"shop":"north"}')
    driver = Driver(Scenario(plan=plan, replies=(LOOK, NOT_PASSED, DONE), started=started)).run_to_end()
    assert '{"shop":"north"}' in driver.model_calls[1].messages[-1].text.split("# Call of the tool look")[1]
    check_same_again(driver)


def test_a_judge_looks_at_what_a_step_is_given() -> None:
    driver = drive(gated(GatesPlan(input=(rail(JUDGE),))), NOT_PASSED)
    assert driver.finished.stop_reason is StopReason.GUARDRAIL
    assert [call.started.purpose for call in driver.model_calls] == [Purpose.JUDGE]
    driver = drive(gated(GatesPlan(input=(rail(JUDGE),))), PASSED, LOOK, DONE)
    assert driver.finished.phase is Phase.SUCCEEDED
    check_same_again(driver)


def test_guidance_withdraws_a_judge_and_the_next_answer_is_judged_anew() -> None:
    plan = gated(GatesPlan(output=(rail(JUDGE),)))
    scenario = Scenario(plan=plan, replies=(DONE, PASSED, DONE, PASSED), sent={3: Steer(text="mind")})
    driver = Driver(scenario).run_to_end()
    assert driver.finished.phase is Phase.SUCCEEDED
    check_same_again(driver)


# --- crashes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("crash", range(1, 24))
def test_a_crash_after_any_commit_changes_neither_the_answer_nor_who_was_heard(crash: int) -> None:
    gates = GatesPlan(
        hooks=(hook(),),
        policy=policy(),
        input=(rail(JUDGE),),
        output=(GuardrailPlan(place="out", check=JUDGE),),
        tools=(GuardrailPlan(place="tools", check=JUDGE),),
    )

    plan = gated(gates, bounds=plans.step_bounds(model_requests=40))
    whole = drive(plan, PASSED, LOOK, PASSED, DONE, PASSED)
    assert crash <= len(whole.commits)

    driver = drive(plan, PASSED, LOOK, PASSED, DONE, PASSED, crash_after=frozenset({crash}))
    assert driver.finished.result_json == whole.finished.result_json
    assert {call.status for call in driver.state.calls.values()} == {CallStatus.COMPLETED}
    check_same_again(driver)

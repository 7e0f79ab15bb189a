"""Rules of the loop that meet: guidance, stop conditions, judges, retries, deadlines, each beside another."""

from dataclasses import replace

from jackline_server.core.commands import Steer
from jackline_server.core.conditions import Iterations, ToolCalled
from jackline_server.core.facts import (
    AnswerProblem,
    AnswerRejected,
    CallProblem,
    CallStatus,
    CommandRejected,
    FailureClass,
    FinishReason,
    Purpose,
    Rejection,
    StepFinished,
    StopReason,
    ToolCallFinished,
)
from jackline_server.core.plan import (
    FINISH,
    Effect,
    GroundPlan,
    OnFailure,
    OnJudgeError,
    ToolPolicy,
)
from jackline_server.core.recorded.boundaries import is_boundary
from jackline_server.testing import plans
from jackline_server.testing.driving import Call, Driver, Ends, Fails, Says, Scenario, drive

LOOK = plans.tool("look")
SEND = plans.tool("send", Effect.WRITE)
ANSWER = Says(text='{"result": "done"}')
BROKEN = Ends(status=CallStatus.FAILED, error="broken")
GROUND = GroundPlan(model=plans.MODEL, threshold_permille=650, max_replans=2, on_error=OnJudgeError.EXIT)
UNSUPPORTED = Says(text='{"score": 0, "unsupported": ["that it is done"]}')


def asks(*names: str) -> Says:
    return Says(calls=tuple(Call(name) for name in names))


def rejections(driver: Driver) -> list[Rejection]:
    return [fact.rejection for fact in driver.facts if isinstance(fact, CommandRejected)]


def test_guidance_during_a_call_does_not_save_a_step_that_its_failure_ends() -> None:
    policy = ToolPolicy(on_error=OnFailure.FAIL)
    plan = plans.agent_plan(LOOK, tools=(plans.entry("look", policy=policy),))
    driver = Driver(
        Scenario(plan=plan, replies=[asks("look")], tools={"look": [BROKEN]}, sent={2: Steer(text="hurry")})
    )
    driver.run()
    assert driver.state.finished is not None
    assert driver.state.finished.stop_reason is StopReason.TOOL_ERROR
    assert rejections(driver) == [Rejection.TOO_LATE]


def test_guidance_is_answered_before_a_stop_condition_is_asked() -> None:
    plan = plans.agent_plan(LOOK, stop_when=ToolCalled(name="look", success=None))
    scenario = Scenario(
        plan=plan, replies=[asks("look"), ANSWER], tools={"look": [Ends()]}, sent={2: Steer(text="in Dutch")}
    )
    driver = Driver(scenario).run_to_end()
    assert len(driver.model_calls) == 2
    assert rejections(driver) == []


def test_an_answer_that_the_judge_sent_back_is_no_result_of_a_stop_condition() -> None:
    plan = plans.agent_plan(LOOK, ground=GROUND, stop_when=Iterations(gte=2))
    driver = drive(plan, asks("look"), Says(text='{"result": "made up"}'), UNSUPPORTED, look=[Ends()])
    assert driver.state.finished is not None
    assert (driver.state.finished.signal, driver.state.finished.result_json) == ("stopped", None)


def test_a_result_that_was_used_again_is_evidence_as_well() -> None:
    shared = (plans.entry("look", policy=ToolPolicy(reuse=True)),)
    first = plans.agent(step_id="one", tools=shared, next_step="two", routes={})
    second = plans.agent(step_id="two", tools=shared, ground=replace(GROUND, max_replans=0))
    plan = plans.plan_of(first, second, LOOK)
    driver = drive(plan, asks("look"), ANSWER, asks("look"), ANSWER, UNSUPPORTED, look=[Ends()])
    assert [call.started.purpose for call in driver.model_calls][-1] is Purpose.GROUND
    assert driver.state.finished is not None
    assert driver.state.finished.signal == "grounding_failed"


def test_a_wait_for_a_model_ends_with_the_time_of_the_run() -> None:
    plan = replace(plans.agent_plan(), bounds=plans.run_bounds(run_timeout_ms=1_000))
    busy = Fails(failure=FailureClass.RATE_LIMITED, retry_after_ms=5_000)
    driver = drive(plan, busy)
    assert driver.state.finished is not None
    assert driver.state.finished.signal == "time_exceeded"
    assert driver.state.active_ms <= 1_001


def test_what_a_call_of_finish_leads_to_is_one_with_its_end() -> None:
    accepted = ToolCallFinished(call_id="c", tool=FINISH, status=CallStatus.COMPLETED)
    refused = ToolCallFinished(call_id="c", tool=FINISH, status=CallStatus.DENIED)
    sent_back = AnswerRejected(problem=AnswerProblem.SCHEMA, repair=1, explanation="wrong")
    driver = drive(plans.agent_plan(), ANSWER)
    left = next(fact for fact in driver.facts if isinstance(fact, StepFinished))
    assert not is_boundary(driver.state, accepted, left)
    assert not is_boundary(driver.state, refused, sent_back)
    assert is_boundary(driver.state, replace(accepted, tool="look"), sent_back)


def test_a_call_whose_arguments_were_cut_off_is_never_made_without_them() -> None:
    cut = Says(calls=(Call("send", ""),), finish=FinishReason.LENGTH)
    driver = drive(plans.agent_plan(SEND), cut, ANSWER)
    (call,) = driver.state.calls.values()
    assert (call.status, call.problem) == (CallStatus.DENIED, CallProblem.MALFORMED_ARGUMENTS)

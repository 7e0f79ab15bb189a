"""What a person reads of a run that was cut, answered or aborted."""

from collections.abc import Iterable

import pytest

from jackline.v1.control_pb2 import CommandKind
from jackline.v1.event_pb2 import (
    AnswerContent,
    AnswerProblem,
    AnswerRejected,
    CallContent,
    CommandApplied,
    ConsultAnswer,
    ConsultContent,
    Consulted,
    Content,
    InterruptRaised,
    InterruptResolved,
    ModelCallFailed,
    ModelCallStarted,
    ModelFailureClass,
    Paused,
    RecoveryCause,
    ResultContent,
    RunFinished,
    RunRecovered,
    Steered,
    StepEvent,
    StepFinished,
    ToolCallFinished,
    ToolCallRequested,
    ToolCallStarted,
)
from jackline.v1.run_pb2 import GatePoint, InterruptKind, RunState, StopReason, ToolCallStatus, Usage
from jackline_client.cli.event_lines import EventLines


def lines(events: Iterable[StepEvent]) -> list[str]:
    made = EventLines()
    return [line.text for event in events for line in made.of(event)]


CRASHED = StepEvent(run_recovered=RunRecovered(epoch=2, cause=RecoveryCause.RECOVERY_CAUSE_CRASH))
CALLED = StepEvent(model_call_started=ModelCallStarted(model="fast", attempt=1, reserved_tokens=4_321))


def test_a_call_that_died_with_its_worker_is_said_to_cost_what_it_had_reserved() -> None:
    assert lines([CALLED, CRASHED])[-1].endswith("charged 4,321 tokens (estimated)")


def test_a_recovery_between_calls_costs_nothing() -> None:
    failed = StepEvent(
        model_call_failed=ModelCallFailed(failure=ModelFailureClass.MODEL_FAILURE_CLASS_CONNECTION)
    )
    assert not any("charged" in line for line in lines([CALLED, failed, CRASHED]))


def test_a_failed_attempt_says_what_it_is_charged_and_that_this_is_an_estimate() -> None:
    failed = StepEvent(
        model_call_failed=ModelCallFailed(
            failure=ModelFailureClass.MODEL_FAILURE_CLASS_CANCELLED,
            usage=Usage(prompt_tokens=100, completion_tokens=23, estimated=True),
        )
    )
    assert "charged 123 tokens (estimated)" in lines([CALLED, failed])[-1]


def test_a_result_that_was_used_again_took_no_time_and_says_so() -> None:
    ok = ToolCallStatus.TOOL_CALL_STATUS_COMPLETED
    (line,) = lines(
        [
            StepEvent(
                tool_call_finished=ToolCallFinished(
                    call_id="c2", tool="look", status=ok, reused_from="c1", duration_ms=0
                )
            )
        ]
    )
    assert "used again" in line
    assert " ms" not in line


def test_a_call_that_a_person_answered_for_says_so_and_keeps_its_arguments() -> None:
    unknown, ok = ToolCallStatus.TOOL_CALL_STATUS_UNKNOWN, ToolCallStatus.TOOL_CALL_STATUS_COMPLETED
    shown = lines(
        [
            StepEvent(
                tool_call_requested=ToolCallRequested(call_id="c1", tool="book"),
                content=Content(call=CallContent(tool="book", arguments=b'{"seat":7}')),
            ),
            StepEvent(tool_call_finished=ToolCallFinished(call_id="c1", tool="book", status=unknown)),
            StepEvent(
                interrupt_raised=InterruptRaised(interrupt_id="int_1", call_id="c1", options=["succeeded"])
            ),
            StepEvent(
                interrupt_resolved=InterruptResolved(
                    interrupt_id="int_1", option="succeeded", principal="local"
                ),
                content=Content(answer=AnswerContent(text="seen")),
            ),
            StepEvent(tool_call_finished=ToolCallFinished(call_id="c1", tool="book", status=ok)),
        ]
    )
    assert shown[-1] == "  book(seat=7) → ok, as answered by local"


def test_a_call_is_shown_with_the_arguments_that_an_approval_has_put_in_place() -> None:
    shown = lines(
        [
            StepEvent(
                tool_call_requested=ToolCallRequested(call_id="c1", tool="wipe"),
                content=Content(call=CallContent(tool="wipe", arguments=b'{"host":"web-1"}')),
            ),
            StepEvent(
                interrupt_raised=InterruptRaised(interrupt_id="int_1", call_id="c1", options=["reject"])
            ),
            StepEvent(
                interrupt_resolved=InterruptResolved(
                    interrupt_id="int_1",
                    option="edit_and_approve",
                    principal="ann",
                    arguments_digest="ab" * 32,
                ),
                content=Content(answer=AnswerContent(output_json=b'{"host":"web-2"}')),
            ),
            StepEvent(tool_call_started=ToolCallStarted(call_id="c1", tool="wipe", attempt=1)),
            StepEvent(
                tool_call_finished=ToolCallFinished(
                    call_id="c1", tool="wipe", status=ToolCallStatus.TOOL_CALL_STATUS_COMPLETED, duration_ms=3
                )
            ),
        ]
    )
    assert shown[-1] == "  wipe(host=web-2) → ok 3 ms"


def test_words_of_a_judge_for_the_model_are_not_shown_beside_the_judge_s_own() -> None:
    by_judge, by_schema = (
        StepEvent(answer_rejected=AnswerRejected(problem=problem), content=Content(text="it looks\n<data>"))
        for problem in (AnswerProblem.ANSWER_PROBLEM_SUPERVISOR, AnswerProblem.ANSWER_PROBLEM_SCHEMA)
    )
    assert lines([by_judge]) == ["  answer rejected (supervisor)"]
    assert "it looks" in lines([by_schema])[0]


def test_an_abort_is_said_once_with_its_reason() -> None:
    operator, words = StopReason.STOP_REASON_OPERATOR, ResultContent(error="no more")
    shown = lines(
        [
            StepEvent(
                command_applied=CommandApplied(kind=CommandKind.COMMAND_KIND_ABORT, principal="local"),
                content=Content(text="no more"),
            ),
            StepEvent(
                step_id="handle",
                step_finished=StepFinished(signal="aborted", stop_reason=operator, stop_leaf="control.abort"),
                content=Content(result=words),
            ),
            StepEvent(
                run_finished=RunFinished(
                    state=RunState.RUN_STATE_ABORTED,
                    signal="aborted",
                    stop_reason=operator,
                    stop_leaf="control.abort",
                ),
                content=Content(result=words),
            ),
        ]
    )
    assert shown == [
        "  abort by local: no more",
        "step handle → aborted (by a command)",
        "run aborted (by a command)",
    ]


PAUSE, STEER = CommandKind.COMMAND_KIND_PAUSE, CommandKind.COMMAND_KIND_STEER


def test_a_command_and_what_it_did_are_one_line_with_its_reason() -> None:
    shown = lines(
        [
            StepEvent(
                sequence=4,
                command_applied=CommandApplied(kind=STEER, principal="local"),
                content=Content(text="the skipper asked"),
            ),
            StepEvent(sequence=5, steered=Steered(principal="local"), content=Content(text="Slowly.")),
            StepEvent(sequence=6, command_applied=CommandApplied(kind=PAUSE, principal="local")),
            StepEvent(sequence=7, paused=Paused(principal="local")),
        ]
    )
    assert shown[:2] == ["  guidance by local (the skipper asked): Slowly.", "paused by local"]
    assert sum("local" in line for line in shown) == 2


def test_a_run_that_woke_up_was_not_taken_over() -> None:
    woke = StepEvent(run_recovered=RunRecovered(epoch=2, cause=RecoveryCause.RECOVERY_CAUSE_WAKE))
    assert lines([woke]) == []
    assert len(lines([CRASHED])) == 1


def test_a_failed_call_does_not_promise_another_attempt() -> None:
    failed = ModelCallFailed(failure=ModelFailureClass.MODEL_FAILURE_CLASS_CONNECTION, retry_in_ms=554)
    (line,) = lines([StepEvent(model_call_failed=failed)])
    assert "may be repeated in 554 ms" in line


def test_each_answer_to_an_unknown_outcome_says_what_it_means() -> None:
    raised = InterruptRaised(
        interrupt_id="int_1",
        call_id="c1",
        kind=InterruptKind.INTERRUPT_KIND_UNKNOWN_OUTCOME,
        options=["succeeded", "failed", "retry", "later"],
    )
    shown = lines([StepEvent(run_id="run_1", interrupt_raised=raised)])
    meanings = [line for line in shown if line.startswith("      ")]
    assert len(meanings) == 3
    assert "jackline submit run_1 c1 --output JSON" in meanings[0]


@pytest.mark.parametrize(
    ("leaf", "raise_to", "words"),
    [
        ("step.max_iterations", 1600, "raise step.max_iterations to 1,600 and go on"),
        ("run.cost_budget_usd", 1_250_000, "raise run.cost_budget_usd to $1.25 and go on"),
        ("run.token_budget", 0, "raise the bound and go on"),
    ],
)
def test_a_question_at_a_limit_says_how_far_the_bound_would_be_raised(
    leaf: str, raise_to: int, words: str
) -> None:
    raised = InterruptRaised(
        interrupt_id="limit-1",
        kind=InterruptKind.INTERRUPT_KIND_LIMIT_REACHED,
        options=["raise", "give_up"],
        limit_leaf=leaf,
        raise_to=raise_to,
    )
    shown = lines([StepEvent(run_id="run_1", interrupt_raised=raised)])
    assert any(line.strip().startswith(words) for line in shown)


def test_an_objection_says_who_made_it_where_and_why() -> None:
    vetoed = StepEvent(
        consulted=Consulted(
            who="hooks.audit",
            answer=ConsultAnswer.CONSULT_ANSWER_VETO,
            point=GatePoint.GATE_POINT_BEFORE_TOOL_CALL,
            call_id="call_1",
        ),
        content=Content(consult=ConsultContent(reason="too much")),
    )
    (line,) = lines([vetoed])
    assert line.strip() == "hooks.audit (before_tool_call of call_1) → veto 0 ms: too much"


def test_a_question_to_a_function_says_who_was_asked_and_what_came_of_it() -> None:
    who = "stop_when.any[1].function(shop.checks:enough)"
    no = StepEvent(
        consulted=Consulted(who=who, answer=ConsultAnswer.CONSULT_ANSWER_NO, duration_ms=1_200),
    )
    failed = StepEvent(
        consulted=Consulted(who=who, answer=ConsultAnswer.CONSULT_ANSWER_FAILED),
        content=Content(consult=ConsultContent(error="It broke.")),
    )
    assert lines([no, failed]) == [f"  {who} → no 1,200 ms", f"  {who} → failed 0 ms: It broke."]

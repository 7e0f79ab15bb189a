"""What a person reads of a run that was cut, answered or aborted."""

from collections.abc import Iterable

from jackline.v1.control_pb2 import CommandKind
from jackline.v1.event_pb2 import (
    AnswerContent,
    CallContent,
    CommandApplied,
    Content,
    InterruptRaised,
    InterruptResolved,
    ModelCallFailed,
    ModelCallStarted,
    ModelFailureClass,
    RecoveryCause,
    ResultContent,
    RunFinished,
    RunRecovered,
    StepEvent,
    StepFinished,
    ToolCallFinished,
    ToolCallRequested,
)
from jackline.v1.run_pb2 import RunState, StopReason, ToolCallStatus, Usage
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

"""`jackline approve` and `reject`: which call is meant, what is sent, and all that is shown before."""

import json

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from jackline.v1 import run_service_pb2 as wire
from jackline.v1.event_pb2 import InterruptRaised, StepEvent
from jackline.v1.run_pb2 import ApprovalExpiry, ChildRun, Interrupt, InterruptKind, Run
from jackline_client.cli.event_lines import EventLines
from jackline_client.cli.wording import answer_commands
from tests.cli.console import Console
from tests.support.scripted_service import RUN_ID, ScriptedService, receipt

DIGEST = "ab" * 32


def asked(number: int = 1) -> Interrupt:
    return Interrupt(
        interrupt_id=f"approval-{number}-1",
        run_id=RUN_ID,
        kind=InterruptKind.INTERRUPT_KIND_APPROVAL,
        call_id=f"call_{number}",
        tool="pay",
        options=["approve", "edit_and_approve", "reject"],
        arguments_json=json.dumps({"to": "A\u202e7", "cents": 7000}).encode(),
        arguments_digest=DIGEST,
        on_expiry=ApprovalExpiry.APPROVAL_EXPIRY_REJECT,
        started_by="ann",
    )


def waiting(count: int = 1) -> wire.GetRunResponse:
    interrupts = [asked(number) for number in range(1, count + 1)]
    return wire.GetRunResponse(run=Run(run_id=RUN_ID, interrupts=interrupts))


@pytest.mark.parametrize("call", [(), ("call_1",), ("approval-1-1",)])
async def test_an_approval_is_of_the_digest_that_was_shown(
    console: Console, service: ScriptedService, call: tuple[str, ...]
) -> None:
    service.script("GetRun", waiting())
    service.script("Control", receipt())
    done = await console.run("approve", RUN_ID, *call)
    assert done.code == 0, done.err
    (request,) = service.requests(wire.ControlRequest)
    assert (request.approve.interrupt_id, request.approve.arguments_digest) == ("approval-1-1", DIGEST)


async def test_other_arguments_are_sent_with_the_digest_of_those_shown(
    console: Console, service: ScriptedService
) -> None:
    service.script("GetRun", waiting(count=2))
    service.script("Control", receipt())
    done = await console.run("approve", RUN_ID, "call_2", "--edit-json", '{"cents": 5}')
    assert done.code == 0, done.err
    edit = service.requests(wire.ControlRequest)[0].edit_and_approve
    assert (edit.interrupt_id, edit.arguments_digest) == ("approval-2-1", DIGEST)
    assert json.loads(edit.arguments_json) == {"cents": 5}


async def test_the_reason_of_a_rejection_is_for_the_model(console: Console, service: ScriptedService) -> None:
    service.script("GetRun", waiting())
    service.script("Control", receipt())
    assert (await console.run("reject", RUN_ID, "--reason", "too much")).code == 0
    assert service.requests(wire.ControlRequest)[0].reject.text == "too much"


async def test_where_several_calls_wait_each_is_listed_and_none_approved(
    console: Console, service: ScriptedService
) -> None:
    service.script("GetRun", waiting(count=2))
    done = await console.run("approve", RUN_ID)
    assert done.code != 0
    assert f"jackline approve {RUN_ID} approval-2-1" in done.err
    assert service.requests(wire.ControlRequest) == []


EXPIRES = Timestamp(seconds=1_800_000_000)


async def test_a_question_is_shown_with_the_same_words_wherever_it_is_listed(
    console: Console, service: ScriptedService
) -> None:
    open_one = asked()
    open_one.expires_at.CopyFrom(EXPIRES)
    own = Run(run_id=RUN_ID, interrupts=[open_one])
    below = Run(run_id="run_above", children=[ChildRun(run_id=RUN_ID)])
    told: list[str] = []
    service.script("GetRun", wire.GetRunResponse(run=own), wire.GetRunResponse(run=below))
    service.script("ListInterrupts", *[wire.ListInterruptsResponse(interrupts=[open_one])] * 2)
    for words in (("get", RUN_ID), ("get", "run_above"), ("inbox",)):
        done = await console.run(*words)
        assert done.code == 0, done.err
        told.append(done.out)
    around = "    the run was started by ann\n    until 2027-01-15 08:00:00 UTC, then it is rejected\n"
    assert [around in one for one in told] == [True] * 3


@pytest.mark.parametrize(
    ("kind", "follows"),
    [
        (InterruptKind.INTERRUPT_KIND_SUPERVISION, ", then the step ends for review"),
        (InterruptKind.INTERRUPT_KIND_UNKNOWN_OUTCOME, ", then the step ends for review"),
        (InterruptKind.INTERRUPT_KIND_LIMIT_REACHED, ", then the step ends with what there is"),
        (InterruptKind.INTERRUPT_KIND_QUESTION, ""),
    ],
)
def test_a_question_says_what_follows_once_its_time_is_over(
    kind: InterruptKind.ValueType, follows: str
) -> None:
    raised = InterruptRaised(interrupt_id="int_1", kind=kind, expires_at=EXPIRES)
    first, *_ = EventLines().of(StepEvent(run_id=RUN_ID, interrupt_raised=raised))
    assert first.text.endswith(f"(until 2027-01-15 08:00:00 UTC{follows})")


def test_a_rejection_promises_no_model_to_a_step_of_the_flow() -> None:
    (line,) = (text for text in answer_commands(RUN_ID, asked(), "") if "the reason" in text)
    assert "a step of the flow ends with `error`" in line


async def test_the_inbox_shows_all_that_is_decided_about_and_nothing_invisible(
    console: Console, service: ScriptedService
) -> None:
    service.script("ListInterrupts", wire.ListInterruptsResponse(interrupts=[asked()]))
    done = await console.run("inbox", "--kind", "approval")
    assert done.code == 0, done.err
    (request,) = service.requests(wire.ListInterruptsRequest)
    assert request.kind == InterruptKind.INTERRUPT_KIND_APPROVAL
    assert "\u202e" not in done.out
    assert [word in done.out for word in ("7000", f"sha256 {DIGEST}", "ann", "--edit-json")] == [True] * 4

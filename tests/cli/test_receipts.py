"""What a command says of its receipt, through the console script: what was reached, and what was not."""

import grpc
import pytest

from jackline.v1 import run_service_pb2 as wire
from jackline.v1.control_pb2 import Expectation, Receipt, ReceiptStage
from jackline.v1.event_pb2 import (
    Paused,
    Resumed,
    StepEvent,
    StepStarted,
)
from jackline.v1.run_pb2 import Run, RunState
from jackline_client.cli.exit_codes import ExitCode
from tests.cli.console import Console
from tests.support.scripted_service import (
    RUN_ID,
    Failure,
    ScriptedService,
    StreamScript,
    frame_of,
    receipt,
)


def at(head: int, state: RunState.ValueType) -> wire.GetRunResponse:
    return wire.GetRunResponse(run=Run(run_id=RUN_ID, state=state, head_sequence=head))


def stream(event: StepEvent) -> StreamScript:
    return StreamScript(frames=[frame_of(event)], hang=True)


@pytest.mark.parametrize(
    ("name", "event"),
    [
        ("pause", StepEvent(run_id=RUN_ID, sequence=4, paused=Paused())),
        ("resume", StepEvent(run_id=RUN_ID, sequence=4, resumed=Resumed())),
    ],
)
async def test_a_pause_or_resume_that_changed_something_is_in_effect(
    console: Console, service: ScriptedService, name: str, event: StepEvent
) -> None:
    service.script("Control", receipt())
    service.script("GetRun", *[at(4, RunState.RUN_STATE_RUNNING)] * (2 if name == "resume" else 1))
    service.streams.append(stream(event))
    done = await console.run(name, RUN_ID)
    assert (done.code, done.out) == (0, f"{name}: in effect (event 3)\n")


@pytest.mark.parametrize(
    ("name", "state", "next_command"),
    [
        ("resume", RunState.RUN_STATE_WAITING, "jackline inbox"),
        ("pause", RunState.RUN_STATE_PAUSED, "jackline resume"),
    ],
)
async def test_a_command_that_changed_nothing_says_so_and_what_the_run_waits_for(
    console: Console, service: ScriptedService, name: str, state: RunState.ValueType, next_command: str
) -> None:
    service.script("Control", receipt())
    service.script("GetRun", *[at(3, state)] * 2)
    done = await console.run(name, RUN_ID)
    assert done.code == 0
    assert "nothing to do" in done.out
    assert f"{next_command} {RUN_ID}" in done.out


async def test_a_later_event_of_another_kind_does_not_make_a_resume_one_that_did_something(
    console: Console, service: ScriptedService
) -> None:
    service.script("Control", receipt())
    service.script("GetRun", *[at(4, RunState.RUN_STATE_RUNNING)] * 2)
    service.streams.append(stream(StepEvent(run_id=RUN_ID, sequence=4, step_started=StepStarted())))
    assert "nothing to do" in (await console.run("resume", RUN_ID)).out


async def test_a_receipt_is_shown_even_where_the_run_can_not_be_read(
    console: Console, service: ScriptedService
) -> None:
    service.script("Control", receipt())
    denied = Failure(code=grpc.StatusCode.PERMISSION_DENIED, reason="SCOPE_MISSING")
    service.script("GetRun", denied)
    done = await console.run("pause", RUN_ID)
    assert (done.code, done.out) == (0, "pause: in effect (event 3)\n")


async def test_what_was_waited_for_in_vain_is_named(console: Console, service: ScriptedService) -> None:
    pending = Receipt(command_id="c1", stage=ReceiptStage.RECEIPT_STAGE_ACCEPTED)
    service.script(
        "Control", wire.ControlResponse(receipt=pending), wire.ControlResponse(receipt=pending, reached=True)
    )
    service.script("GetRun", at(3, RunState.RUN_STATE_PAUSED))
    waited = await console.run("steer", RUN_ID, "slowly", "--wait", "settled")
    at_once = await console.run("steer", RUN_ID, "slowly", "--wait", "accepted")
    assert "not settled" in waited.out
    assert f"jackline resume {RUN_ID}" in waited.out
    assert "not settled" not in at_once.out
    assert (waited.code, at_once.code) == (ExitCode.UNFINISHED, ExitCode.OK)


async def test_guidance_for_a_run_that_has_not_begun_says_when_it_begins_or_what_it_waits_for(
    console: Console, service: ScriptedService
) -> None:
    pending = Receipt(command_id="c1", stage=ReceiptStage.RECEIPT_STAGE_ACCEPTED)
    service.script("Control", *[wire.ControlResponse(receipt=pending)] * 2)
    queued, delayed = (Run(run_id=RUN_ID, state=RunState.RUN_STATE_QUEUED) for _ in range(2))
    delayed.start_time.FromSeconds(1_800_000_000)
    service.script("GetRun", wire.GetRunResponse(run=delayed), wire.GetRunResponse(run=queued))
    later = await console.run("steer", RUN_ID, "slowly")
    waits = await console.run("steer", RUN_ID, "slowly")
    assert "begins at 2027-01-15 08:00:00 UTC" in later.out
    assert "waits for a place" in waits.out
    assert (later.code, waits.code) == (ExitCode.UNFINISHED, ExitCode.UNFINISHED)


@pytest.mark.parametrize(
    ("words", "stage"),
    [
        (("pause", RUN_ID, "--json"), ReceiptStage.RECEIPT_STAGE_ACCEPTED),
        (("abort", RUN_ID), ReceiptStage.RECEIPT_STAGE_EFFECTIVE),
    ],
)
async def test_a_script_can_tell_a_command_that_took_effect_from_one_that_has_not_yet(
    console: Console, service: ScriptedService, words: tuple[str, ...], stage: ReceiptStage.ValueType
) -> None:
    service.script("Control", wire.ControlResponse(receipt=Receipt(command_id="c1", stage=stage)))
    assert (await console.run(*words)).code == ExitCode.UNFINISHED


async def test_a_run_that_had_ended_before_is_nothing_to_wait_for(
    console: Console, service: ScriptedService
) -> None:
    service.script("Control", wire.ControlResponse(receipt=Receipt(command_id="c1", already_terminal=True)))
    assert (await console.run("abort", RUN_ID)).code == ExitCode.OK


@pytest.mark.parametrize(
    "typed",
    [("pause",), ("resume",), ("steer", "slowly"), ("abort",), ("adjust", "--steps", "9")],
    ids=lambda typed: typed[0],
)
async def test_a_command_says_what_it_takes_the_run_for_if_it_is_told(
    console: Console, service: ScriptedService, typed: tuple[str, ...]
) -> None:
    name, *rest = typed
    service.script("Control", receipt())
    await console.run(name, RUN_ID, *rest, "--expect-state", "paused", "--expect-sequence", "0", "--json")
    (asked,) = service.requests(wire.ControlRequest)
    assert asked.expect == Expectation(state=RunState.RUN_STATE_PAUSED, sequence=0)


async def test_a_run_that_is_another_than_a_command_expects_is_shown_and_exit_65(
    console: Console, service: ScriptedService
) -> None:
    metadata = {"state": "running", "sequence": "9"}
    service.script(
        "Control",
        Failure(code=grpc.StatusCode.FAILED_PRECONDITION, reason="EXPECTATION_FAILED", metadata=metadata),
    )
    done = await console.run("abort", RUN_ID, "--expect-sequence", "8")
    assert (done.code, "running, event 9" in done.err) == (65, True)
    (asked,) = service.requests(wire.ControlRequest)
    assert asked.expect == Expectation(sequence=8)
    assert (await console.run("abort", RUN_ID, "--expect-state", "pausd")).code == 2
    assert len(service.requests(wire.ControlRequest)) == 1

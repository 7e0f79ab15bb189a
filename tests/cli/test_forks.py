"""`jackline fork`, and `jackline watch` of some kinds of events."""

import json

import grpc

from jackline.v1 import run_service_pb2 as wire
from tests.cli.console import Console
from tests.cli.test_runs import refund_log
from tests.support.scripted_service import (
    ORIGIN_ID,
    RUN_ID,
    Failure,
    ScriptedService,
    ended_run,
    forked,
)


async def test_a_fork_prints_its_id_and_leaves(console: Console, service: ScriptedService) -> None:
    service.script("ForkRun", forked(4))
    done = await console.run(
        *("fork", ORIGIN_ID, "--at", "4", "--bound", "steps=3", "--steer", "Be brief."),
        *("--workflow", "refunds@next", "--label", "team=a", "--request-id", "once"),
    )
    [asked] = service.requests(wire.ForkRunRequest)
    assert (done.code, done.out) == (0, f"{RUN_ID}\n")
    assert (asked.run_id, asked.sequence, asked.request_id) == (ORIGIN_ID, 4, "once")
    assert (asked.changes.workflow, asked.changes.steer) == ("refunds@next", "Be brief.")
    assert (asked.changes.bounds.steps, dict(asked.changes.labels)) == (3, {"team": "a"})


async def test_a_watched_fork_is_shown_from_where_it_goes_on(
    console: Console, service: ScriptedService
) -> None:
    service.log = refund_log()
    service.script("ForkRun", forked(4))
    service.script("GetRun", ended_run(service.log))
    done = await console.run("fork", ORIGIN_ID, "--at", "4", "--watch")
    assert done.code == 0
    assert f"run {RUN_ID} goes on from event 4 of {ORIGIN_ID}\n" in done.out
    assert "turn 1" not in done.out
    assert "run succeeded: resolved\n" in done.out
    assert service.requests(wire.StreamProgressRequest)[0].after_sequence == 4


async def test_a_fork_as_json_is_the_answer_and_then_its_events(
    console: Console, service: ScriptedService
) -> None:
    service.log = refund_log()
    service.script("ForkRun", forked(7))
    done = await console.run("fork", ORIGIN_ID, "--at", "7", "--watch", "--json")
    first, *events = [json.loads(line) for line in done.out.splitlines()]
    assert first["run"]["forked_from"] == {"run_id": ORIGIN_ID, "sequence": "7"}
    assert [event["sequence"] for event in events] == ["8", "9"]


async def test_a_place_that_can_not_be_forked_is_a_refusal(
    console: Console, service: ScriptedService
) -> None:
    service.script(
        "ForkRun",
        Failure(
            code=grpc.StatusCode.FAILED_PRECONDITION,
            reason="FORK_POINT",
            message="No fork can be made at event 4. Fork at 2 or 6.",
        ),
    )
    done = await console.run("fork", ORIGIN_ID, "--at", "4")
    assert (done.code, done.out) == (65, "")
    assert "Fork at 2 or 6." in done.err


async def test_a_fork_needs_its_place(console: Console, service: ScriptedService) -> None:
    for words in (("fork", ORIGIN_ID), ("fork", ORIGIN_ID, "--at", "0"), ("fork", "--at", "1")):
        assert (await console.run(*words)).code == 2
    assert service.asked == []


async def test_only_the_kinds_that_are_named_are_shown(console: Console, service: ScriptedService) -> None:
    service.log = refund_log()
    done = await console.run("watch", RUN_ID, "--kind", "tool-call-finished", "--kind", "steered", "--json")
    kinds = [set(json.loads(line)) & {"tool_call_finished", "run_finished"} for line in done.out.splitlines()]
    assert (done.code, kinds) == (0, [{"tool_call_finished"}, {"run_finished"}])
    [asked] = service.requests(wire.StreamProgressRequest)
    assert list(asked.kinds) == ["tool_call_finished", "steered"]


async def test_what_can_be_no_kind_is_refused_before_a_server_is_asked(
    console: Console, service: ScriptedService
) -> None:
    done = await console.run("watch", RUN_ID, "--kind", "Tool Call")
    assert done.code == 2
    assert service.asked == []


async def test_kinds_are_completed(console: Console) -> None:
    assert await console.complete("watch", RUN_ID, "--kind", "tool_call_f") == ["tool_call_finished"]

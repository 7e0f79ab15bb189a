"""Forks through the library, and streams of some kinds of events, whose position the server gives."""

import asyncio
from datetime import UTC, datetime

import grpc
import pytest

from jackline.v1 import run_service_pb2 as wire
from jackline.v1.event_pb2 import Steered, StepEvent, ToolCallFinished
from jackline.v1.run_pb2 import RunBounds
from jackline_client import Frame, JacklineClient
from jackline_client.errors import ForkPoint, PrefixMisfit, SequenceBroken
from tests.support.scripted_service import (
    ORIGIN_ID,
    RUN_ID,
    Failure,
    ScriptedService,
    StreamScript,
    ended_run,
    forked,
    frame_of,
    small_log,
)


async def test_a_fork_is_asked_for_with_an_id_so_that_it_can_be_repeated(
    service: ScriptedService, client: JacklineClient
) -> None:
    service.script("ForkRun", Failure(code=grpc.StatusCode.UNAVAILABLE), forked(4))
    answer = await client.fork_run(
        ORIGIN_ID,
        4,
        workflow="refunds@next",
        bounds=RunBounds(steps=3),
        labels={"team": "a"},
        steer="Be brief.",
        deadline=datetime(2030, 1, 1, tzinfo=UTC),
    )
    first, second = service.requests(wire.ForkRunRequest)
    assert first == second
    assert first.request_id
    assert (first.run_id, first.sequence) == (ORIGIN_ID, 4)
    assert (first.changes.workflow, first.changes.steer) == ("refunds@next", "Be brief.")
    assert (first.changes.bounds.steps, dict(first.changes.labels)) == (3, {"team": "a"})
    assert first.changes.deadline.seconds == 1_893_456_000
    assert answer.run.forked_from.run_id == ORIGIN_ID


@pytest.mark.parametrize(
    ("reason", "code", "error"),
    [
        ("FORK_POINT", grpc.StatusCode.FAILED_PRECONDITION, ForkPoint),
        ("PREFIX_MISFIT", grpc.StatusCode.INVALID_ARGUMENT, PrefixMisfit),
    ],
)
async def test_a_refused_fork_is_an_error_by_its_reason(
    service: ScriptedService,
    client: JacklineClient,
    reason: str,
    code: grpc.StatusCode,
    error: type[ForkPoint] | type[PrefixMisfit],
) -> None:
    service.script("ForkRun", Failure(code=code, reason=reason, metadata={"sequence": "4", "before": "2"}))
    with pytest.raises(error) as caught:
        await client.fork_run(ORIGIN_ID, 4)
    assert caught.value.details.metadata["before"] == "2"


async def test_an_option_that_a_fork_does_not_have_is_a_type_error(
    service: ScriptedService, client: JacklineClient
) -> None:
    with pytest.raises(TypeError, match="steer"):
        await client.fork_run(ORIGIN_ID, 4, steering="x")  # pyright: ignore[reportCallIssue] - what is tested
    assert service.asked == []


# --- kinds -------------------------------------------------------------------------------------


def mixed_log() -> list[StepEvent]:
    def make(number: int) -> StepEvent:
        if number % 3 == 0:
            return StepEvent(tool_call_finished=ToolCallFinished(call_id=str(number)))
        return StepEvent(steered=Steered())

    return small_log(12, make=make)


async def watched(client: JacklineClient, *kinds: str) -> list[Frame]:
    async with asyncio.timeout(30):
        return [frame async for frame in client.watch(RUN_ID, kinds=kinds)]


async def test_only_the_kinds_asked_for_come_and_the_position_goes_on_over_the_rest(
    service: ScriptedService, client: JacklineClient
) -> None:
    service.log = mixed_log()
    frames = await watched(client, "tool_call_finished")
    assert [event.sequence for frame in frames for event in frame.events] == [3, 6, 9, 12]
    positions = [frame.sent_through for frame in frames]
    assert positions == sorted(positions)
    assert positions[-1] == 12
    assert list(service.requests(wire.StreamProgressRequest)[0].kinds) == ["tool_call_finished"]


@pytest.mark.parametrize("at", range(1, 12))
async def test_a_cut_stream_of_some_kinds_goes_on_where_the_server_had_come_to(
    service: ScriptedService, client: JacklineClient, at: int
) -> None:
    service.log = mixed_log()
    service.streams.append(StreamScript(through=at, end=Failure(code=grpc.StatusCode.UNAVAILABLE)))
    frames = await watched(client, "tool_call_finished")
    assert [event.sequence for frame in frames for event in frame.events] == [3, 6, 9, 12]
    asked = service.requests(wire.StreamProgressRequest)
    assert [request.after_sequence for request in asked] == [0, at]
    assert all(list(request.kinds) == ["tool_call_finished"] for request in asked)


async def test_events_of_some_kinds_still_never_go_back(
    service: ScriptedService, client: JacklineClient
) -> None:
    log = mixed_log()
    service.streams.append(StreamScript(frames=[frame_of(log[5]), frame_of(log[2])]))
    with pytest.raises(SequenceBroken):
        await watched(client, "tool_call_finished")


async def test_a_stream_of_some_kinds_that_ends_early_is_not_a_finished_run(
    service: ScriptedService, client: JacklineClient
) -> None:
    service.log = mixed_log()
    service.streams.append(StreamScript(through=5))
    service.script("GetRun", ended_run(service.log))
    frames = await watched(client, "tool_call_finished")
    assert frames[-1].events[-1].HasField("run_finished")

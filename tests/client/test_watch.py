"""The resuming stream: proves the client's side of O2, O3 and F17, F69."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing

import grpc
import pytest

from jackline.v1 import run_service_pb2 as wire
from jackline.v1.event_pb2 import Delta, Reset, StepEvent
from jackline.v1.run_service_pb2_grpc import add_RunServiceServicer_to_server
from jackline_client import Cut, Frame, JacklineClient, WatchPolicy
from jackline_client.errors import (
    EventsExpired,
    RunNotFound,
    SequenceBroken,
    StreamCut,
    Unauthenticated,
    Unavailable,
)
from tests.client.conftest import HASTY
from tests.support.scripted_service import (
    RUN_ID,
    TOKEN,
    Failure,
    ScriptedService,
    StreamScript,
    ended_run,
    frame_of,
    receipt,
    serving,
    small_log,
)

MakeFrames = Callable[[list[StepEvent]], list[wire.StreamProgressResponse]]

CUTS = [
    Failure(code=grpc.StatusCode.UNAVAILABLE),
    Failure(code=grpc.StatusCode.UNAVAILABLE, reason="DRAINING", metadata={"sent_through": "1"}),
    Failure(code=grpc.StatusCode.CANCELLED),
    Failure(code=grpc.StatusCode.INTERNAL),
    Failure(code=grpc.StatusCode.UNKNOWN),
    Failure(code=grpc.StatusCode.DEADLINE_EXCEEDED),
    Failure(code=grpc.StatusCode.RESOURCE_EXHAUSTED, reason="SLOW_CONSUMER"),
    Failure(code=grpc.StatusCode.RESOURCE_EXHAUSTED, reason="STREAM_LIMIT", retry_after_s=0.01),
]


async def sequences(client: JacklineClient, after: int = 0) -> list[int]:
    async with asyncio.timeout(30):
        return [
            event.sequence
            async for frame in client.watch(RUN_ID, after_sequence=after)
            for event in frame.events
        ]


async def test_a_run_is_watched_from_its_first_event_to_its_last(
    service: ScriptedService, client: JacklineClient
) -> None:
    service.log = small_log(6)
    assert await sequences(client) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: f"{cut.code.name}-{cut.reason}")
@pytest.mark.parametrize("at", range(6))
async def test_a_stream_cut_at_any_event_goes_on_without_hole_or_double(
    service: ScriptedService, client: JacklineClient, cut: Failure, at: int
) -> None:
    service.log = small_log(6)
    service.streams.append(StreamScript(through=at, end=cut))
    assert await sequences(client) == [1, 2, 3, 4, 5, 6]
    assert [request.after_sequence for request in service.requests(wire.StreamProgressRequest)] == [0, at]


async def test_a_stream_cut_after_every_event_still_ends_because_progress_renews_the_attempts(
    service: ScriptedService, client: JacklineClient
) -> None:
    service.log = small_log(20)
    service.streams.extend(StreamScript(through=at, end=CUTS[0]) for at in range(1, 20))
    assert await sequences(client) == list(range(1, 21))


async def test_a_stream_that_ends_with_ok_before_the_last_event_is_resumed(
    service: ScriptedService, client: JacklineClient
) -> None:
    service.log = small_log(4)
    service.streams.append(StreamScript(through=2))
    service.script("GetRun", ended_run(small_log(4)))
    assert await sequences(client) == [1, 2, 3, 4]


async def test_a_stream_that_always_ends_early_is_a_cut_and_never_success(
    service: ScriptedService, client: JacklineClient
) -> None:
    service.log = small_log(4)
    service.streams.extend(StreamScript(through=2) for _ in range(HASTY.attempts))
    service.script("GetRun", *[ended_run(small_log(4)) for _ in range(HASTY.attempts)])
    with pytest.raises(StreamCut) as cut:
        await sequences(client)
    assert (cut.value.run_id, cut.value.sent_through) == (RUN_ID, 2)


async def test_a_stream_that_can_not_be_resumed_is_a_cut(
    service: ScriptedService, client: JacklineClient
) -> None:
    service.log = small_log(4)
    service.streams.extend(StreamScript(through=3, end=CUTS[0]) for _ in range(HASTY.attempts))
    with pytest.raises(StreamCut) as cut:
        await sequences(client)
    assert cut.value.sent_through == 3
    assert isinstance(cut.value.__cause__, Unavailable)


async def test_watching_after_the_last_event_of_a_finished_run_ends_at_once(
    service: ScriptedService, client: JacklineClient
) -> None:
    service.log = small_log(4)
    service.script("GetRun", ended_run(service.log))
    assert await sequences(client, after=4) == []


async def test_a_hole_is_an_error_and_the_event_behind_it_is_not_handed_out(
    service: ScriptedService, client: JacklineClient
) -> None:
    log = small_log(5)
    service.streams.append(StreamScript(frames=[frame_of(log[0]), frame_of(log[2])]))
    async with aclosing(client.watch(RUN_ID)) as frames:
        assert (await anext(frames)).events[0].sequence == 1
        with pytest.raises(SequenceBroken) as broken:
            await anext(frames)
    assert broken.value.sent_through == 1


DISORDERS: dict[str, MakeFrames] = {
    "double": lambda log: [frame_of(log[0]), frame_of(log[0])],
    "overlap": lambda log: [frame_of(log[0], log[1]), frame_of(log[1], log[2])],
    "claims-more-than-it-sent": lambda log: [frame_of(log[0]), wire.StreamProgressResponse(sent_through=3)],
    "starts-late": lambda log: [frame_of(log[4])],
}


@pytest.mark.parametrize("disorder", DISORDERS)
async def test_a_stream_out_of_order_is_an_error(
    service: ScriptedService, client: JacklineClient, disorder: str
) -> None:
    service.streams.append(StreamScript(frames=DISORDERS[disorder](small_log(5))))
    with pytest.raises(SequenceBroken):
        await sequences(client)


async def test_an_event_after_the_last_one_is_an_error(
    service: ScriptedService, client: JacklineClient
) -> None:
    log = small_log(3)
    extra = small_log(4)[3]
    service.streams.append(StreamScript(frames=[frame_of(*log, extra)]))
    with pytest.raises(SequenceBroken):
        await sequences(client)


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (Failure(code=grpc.StatusCode.NOT_FOUND, reason="RUN_NOT_FOUND"), RunNotFound),
        (Failure(code=grpc.StatusCode.OUT_OF_RANGE, reason="EVENTS_EXPIRED"), EventsExpired),
        (Failure(code=grpc.StatusCode.UNAUTHENTICATED, reason="UNAUTHENTICATED"), Unauthenticated),
    ],
)
async def test_an_error_that_waiting_does_not_mend_is_raised_at_once(
    service: ScriptedService, client: JacklineClient, failure: Failure, error: type[Exception]
) -> None:
    service.streams.append(StreamScript(frames=[], end=failure))
    with pytest.raises(error):
        await sequences(client)


async def test_a_server_that_is_not_there_is_unavailable_after_a_few_attempts() -> None:
    async with serving(ScriptedService()) as address:
        pass
    async with JacklineClient(address, token=TOKEN, watch_policy=HASTY) as client:
        with pytest.raises(Unavailable):
            await sequences(client)


async def test_a_silent_stream_is_given_up_and_resumed(service: ScriptedService) -> None:
    service.log = small_log(4)
    service.streams.append(StreamScript(through=2, hang=True))
    policy = WatchPolicy(first_delay_s=0.0, silence_s=0.3)
    async with (
        serving(service) as address,
        JacklineClient(address, token=TOKEN, watch_policy=policy) as client,
    ):
        assert await sequences(client) == [1, 2, 3, 4]


async def test_a_server_that_comes_back_on_its_port_is_found_again() -> None:
    service = ScriptedService()
    service.log = small_log(4)
    service.streams.append(StreamScript(through=2, hang=True))
    server, port = await _start(service, 0)
    policy = WatchPolicy(first_delay_s=0.05, longest_delay_s=0.2)
    async with JacklineClient(f"127.0.0.1:{port}", token=TOKEN, watch_policy=policy) as client:
        seen: list[int] = []
        async with asyncio.timeout(60), aclosing(client.watch(RUN_ID)) as frames:
            async for frame in frames:
                seen += [event.sequence for event in frame.events]
                if seen == [1, 2]:
                    await server.stop(None)
                    server, _ = await _start(service, port)
    await server.stop(None)
    assert seen == [1, 2, 3, 4]


async def _start(service: ScriptedService, port: int) -> tuple[grpc.aio.Server, int]:
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    add_RunServiceServicer_to_server(service, server)
    bound = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    return server, bound


async def test_deltas_and_resets_are_handed_out_and_the_first_frame_after_a_cut_says_so(
    service: ScriptedService, client: JacklineClient
) -> None:
    service.log = small_log(3)
    live = wire.StreamProgressResponse(
        deltas=[Delta(attempt_id=2, text="Hel")], sent_through=1, head_sequence=1
    )
    reset = wire.StreamProgressResponse(reset=Reset(attempt_id=2), sent_through=1, head_sequence=1)
    service.streams.append(StreamScript(frames=[frame_of(service.log[0]), live, reset], end=CUTS[0]))
    frames: list[Frame] = [frame async for frame in client.watch(RUN_ID, deltas=True)]
    assert [delta.text for frame in frames for delta in frame.deltas] == ["Hel"]
    assert [frame.reset.attempt_id for frame in frames if frame.reset] == [2]
    assert [frame.resumed for frame in frames].index(True) == 3
    assert sum(frame.resumed for frame in frames) == 1


async def test_as_many_streams_as_a_connection_holds_leave_room_for_control(service: ScriptedService) -> None:
    streams = 8
    service.log = small_log(3)
    service.streams.extend(StreamScript(through=1, hang=True) for _ in range(streams))
    service.script("Control", receipt())
    async with (
        serving(service, max_streams=streams) as address,
        JacklineClient(address, token=TOKEN) as client,
    ):
        watchers = [asyncio.create_task(sequences(client)) for _ in range(streams)]
        async with asyncio.timeout(20):
            await service.until_streams(streams)
            await client.pause(RUN_ID, timeout_s=5)
        for watcher in watchers:
            watcher.cancel()
        assert await asyncio.gather(*watchers, return_exceptions=True)
    assert len(service.requests(wire.ControlRequest)) == 1


async def test_cancelling_a_watcher_cancels_it_and_is_not_taken_for_a_cut(
    service: ScriptedService, client: JacklineClient
) -> None:
    service.log = small_log(3)
    service.streams.append(StreamScript(through=1, hang=True))
    watcher = asyncio.create_task(sequences(client))
    await service.until_streams(1)
    watcher.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watcher
    assert len(service.requests(wire.StreamProgressRequest)) == 1


async def test_a_server_that_stays_away_is_given_up_when_the_time_is_over_however_few_the_attempts() -> None:
    service = ScriptedService()
    service.log = small_log(4)
    service.streams.append(StreamScript(through=2, end=CUTS[0]))
    cuts: list[Cut] = []
    policy = WatchPolicy(first_delay_s=0.2, reconnect_for_s=0.0)
    async with (
        serving(service) as address,
        JacklineClient(address, token=TOKEN, watch_policy=policy) as client,
        asyncio.timeout(30),
    ):
        with pytest.raises(StreamCut) as cut:
            async for _ in client.watch(RUN_ID, on_cut=cuts.append):
                pass
    assert (cut.value.sent_through, cuts) == (2, [])


async def test_each_cut_is_told_with_its_cause_and_position_before_the_next_attempt(
    service: ScriptedService, client: JacklineClient
) -> None:
    service.log = small_log(4)
    service.streams.append(StreamScript(through=2, end=CUTS[0]))
    service.streams.append(StreamScript(through=2, end=CUTS[0]))
    cuts: list[Cut] = []
    async with asyncio.timeout(30):
        async for _ in client.watch(RUN_ID, on_cut=cuts.append):
            pass
    assert [(cut.failures, cut.sent_through) for cut in cuts] == [(1, 2), (2, 2)]
    assert all(isinstance(cut.cause, Unavailable) for cut in cuts)

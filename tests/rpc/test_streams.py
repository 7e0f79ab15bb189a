"""StreamProgress: stored bytes to every watcher, and an end that says what it means."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import grpc
import grpc.aio
import pytest
from google.rpc import error_details_pb2  # pyright: ignore[reportMissingTypeStubs]  # ships its own types

from jackline.v1 import event_pb2, run_pb2
from jackline.v1.run_service_pb2 import StreamOwner, StreamProgressRequest, StreamProgressResponse
from jackline_server.api.limits import LIMITS, Limits
from jackline_server.identity.principals import Scope
from jackline_server.runtime.ports.store_errors import StoreUnavailable
from jackline_server.runtime.ports.tool_reports import ToolProgress
from jackline_server.runtime.refusals import Reason, Refused
from jackline_server.runtime.use_cases import Frame, LiveDelta
from tests.rpc.doubles import RUN_ID, event, frame_of
from tests.rpc.harness import ALL, SECONDS, Harness, ended, token_for

FULL = StreamProgressRequest(run_id=RUN_ID, view=run_pb2.VIEW_FULL)
META = StreamProgressRequest(run_id=RUN_ID)


def lay(door: Harness, *frames: Frame, then: BaseException | None = None) -> None:
    """Let `watch` give these frames, then end or raise."""

    async def watch(*_: object) -> AsyncIterator[Frame]:
        for frame in frames:
            yield frame
        if then is not None:
            raise then

    door.script.on("watch", watch)


async def read(
    door: Harness, request: StreamProgressRequest, token: str = ALL
) -> list[StreamProgressResponse]:
    return [StreamProgressResponse.FromString(data) async for data in door.stream(request, token=token)]


async def test_a_full_view_carries_the_stored_bytes_and_a_metadata_view_their_first_part(
    door: Harness,
) -> None:
    events = [event(1), event(2, words=300), event(3)]
    lay(door, frame_of(*events))
    full = await read(door, FULL)
    meta = await read(door, META)
    whole = [event_pb2.StepEvent.FromString(one.meta + one.content) for one in events]
    assert [list(frame.events) for frame in full] == [whole]
    assert [one.SerializeToString() for one in full[0].events] == [one.meta + one.content for one in events]
    assert [one.SerializeToString() for one in meta[0].events] == [one.meta for one in events]
    assert (full[0].sent_through, full[0].head_sequence) == (3, 3)


async def test_a_frame_says_all_that_it_has_to_say(door: Harness) -> None:
    deltas = (
        LiveDelta(4, "answer", 1, text="a"),
        LiveDelta(4, "answer", 1, reasoning="b"),
        LiveDelta(4, "answer", 1, fragment="{", tool="refund", index=2),
    )
    lay(door, replace(frame_of(event(1), head=9), deltas=deltas, reset=3, degraded=True))
    [frame] = await read(door, StreamProgressRequest(run_id=RUN_ID, include_deltas=True))
    assert [delta.WhichOneof("part") for delta in frame.deltas] == ["text", "reasoning", "tool_arguments"]
    assert (frame.deltas[2].tool_arguments.tool, frame.deltas[2].tool_arguments.index) == ("refund", 2)
    assert (frame.reset.attempt_id, frame.store_degraded, frame.head_sequence) == (3, True, 9)
    assert door.script.asked[0][1][1:] == (RUN_ID, 0, True, False)


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (StreamProgressRequest(run_id=RUN_ID, include_progress=True), ""),
        (StreamProgressRequest(run_id=RUN_ID, include_progress=True, include_deltas=True), "page 3"),
        (StreamProgressRequest(run_id=RUN_ID, include_progress=True, view=run_pb2.VIEW_FULL), "page 3"),
    ],
    ids=["metadata", "deltas", "full"],
)
async def test_who_sees_no_content_is_shown_numbers_of_how_far_a_call_is_and_no_words(
    door: Harness, request_: StreamProgressRequest, words: str
) -> None:
    far = ToolProgress(call_id="call_1", tool="look", attempt=2, text="page 3", done=3, total=None)
    lay(door, replace(frame_of(), deltas=(LiveDelta(0, "answer", 1, progress=far),)))
    [frame] = await read(door, request_)
    [delta] = frame.deltas
    shown = delta.tool_progress
    assert (shown.call_id, shown.tool, shown.attempt, shown.done) == ("call_1", "look", 2, 3)
    assert (shown.text, shown.HasField("total")) == (words, False)
    assert door.script.asked[0][1][-1] is True


async def test_how_far_calls_are_needs_no_scope_beyond_that_of_watching(door: Harness) -> None:
    lay(door, frame_of())
    request = StreamProgressRequest(run_id=RUN_ID, include_progress=True)
    assert await read(door, request, token=token_for(Scope.RUNS_OBSERVE))


async def test_a_heartbeat_has_no_events(door: Harness) -> None:
    lay(door, replace(frame_of(), sent_through=7, head=7))
    [frame] = await read(door, replace_after(META, 7))
    assert (len(frame.events), frame.sent_through) == (0, 7)


def replace_after(request: StreamProgressRequest, sequence: int) -> StreamProgressRequest:
    copy = StreamProgressRequest()
    copy.CopyFrom(request)
    copy.after_sequence = sequence
    return copy


async def test_a_large_frame_is_sent_in_pieces_of_256_kib_or_one_event(door: Harness) -> None:
    sizes = [100_000, 100_000, 100_000, 300_000, 10, 10]
    events = [event(index + 1, words=size) for index, size in enumerate(sizes)]
    lay(door, frame_of(*events))
    pieces = [data async for data in door.stream(FULL)]
    parsed = [StreamProgressResponse.FromString(data) for data in pieces]
    assert [[one.sequence for one in piece.events] for piece in parsed] == [[1, 2], [3], [4], [5, 6]]
    assert [piece.sent_through for piece in parsed] == [2, 3, 4, 6]
    assert all(
        len(data) <= LIMITS.frame_bytes + 64 or len(piece.events) == 1
        for data, piece in zip(pieces, parsed, strict=True)
    )
    assert len(await read(door, META)) == 1


async def test_many_watchers_of_one_run_are_given_the_same_bytes(door: Harness) -> None:
    lay(door, *(frame_of(*(event(sequence) for sequence in range(first, first + 8))) for first in (1, 9, 17)))
    async with asyncio.timeout(SECONDS):
        streams = await asyncio.gather(*(_collect(door, view) for view in (FULL, META, FULL, META, FULL)))
    assert streams[0] == streams[2] == streams[4]
    assert streams[1] == streams[3] != streams[0]


async def _collect(door: Harness, request: StreamProgressRequest) -> list[bytes]:
    return [data async for data in door.stream(request)]


@pytest.mark.parametrize(
    "request_",
    [FULL, StreamProgressRequest(run_id=RUN_ID, include_deltas=True)],
    ids=["full", "deltas"],
)
async def test_content_needs_its_scope(door: Harness, request_: StreamProgressRequest) -> None:
    refused = await door.stream_refused(request_, token=token_for(Scope.RUNS_OBSERVE))
    assert refused.code is grpc.StatusCode.PERMISSION_DENIED
    assert (refused.reason, refused.info.metadata["scope"]) == ("SCOPE_MISSING", "runs:content")


async def test_metadata_needs_no_content_scope(door: Harness) -> None:
    lay(door, frame_of(event(1)))
    assert len(await read(door, META, token_for(Scope.RUNS_OBSERVE))) == 1


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (Refused(Reason.RUN_NOT_FOUND, "No such run."), grpc.StatusCode.NOT_FOUND, "RUN_NOT_FOUND"),
        (Refused(Reason.DRAINING, "Going down."), grpc.StatusCode.UNAVAILABLE, "DRAINING"),
        (StoreUnavailable("gone"), grpc.StatusCode.UNAVAILABLE, "STORE_UNAVAILABLE"),
        (RuntimeError("secret"), grpc.StatusCode.INTERNAL, "INTERNAL"),
        (asyncio.CancelledError(), grpc.StatusCode.INTERNAL, "INTERNAL"),
        (TimeoutError("secret"), grpc.StatusCode.INTERNAL, "INTERNAL"),
    ],
    ids=lambda value: getattr(value, "name", None) or str(type(value).__name__),
)
async def test_a_stream_that_breaks_ends_by_a_status(
    door: Harness, error: BaseException, code: grpc.StatusCode, reason: str
) -> None:
    lay(door, frame_of(event(1), event(2)), then=error)
    refused = await door.stream_refused(META)
    assert (refused.code, refused.reason) == (code, reason)
    assert "secret" not in str(refused.status)


async def test_a_drain_ends_every_stream_with_its_position(door: Harness) -> None:
    forever = asyncio.Event()
    seen = asyncio.Semaphore(0)

    async def watch(*_: object) -> AsyncIterator[Frame]:
        yield frame_of(event(1), event(2))
        await forever.wait()

    async def follow() -> grpc.aio.AioRpcError:
        try:
            async for _ in door.stream(META):
                seen.release()
        except grpc.aio.AioRpcError as error:
            return error
        raise AssertionError("the stream ended OK")

    door.script.on("watch", watch)
    async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as group:
        streams = [group.create_task(follow()) for _ in range(3)]
        for _ in streams:
            await seen.acquire()
        await door.server.drain()
    for stream in streams:
        found = ended(stream.result())
        assert (found.code, found.reason) == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
        assert found.info.metadata["sent_through"] == "2"
    assert door.runs.closed_watches == 3
    again = await door.stream_refused(replace_after(META, 2))
    assert (again.reason, again.info.metadata["sent_through"]) == ("DRAINING", "2")
    await door.check_health(serving=False)
    await door.server.set_serving(serving=True)


async def test_a_client_that_goes_away_frees_its_stream(door: Harness) -> None:
    freed = asyncio.Event()
    forever = asyncio.Event()

    async def watch(*_: object) -> AsyncIterator[Frame]:
        try:
            yield frame_of(event(1))
            await forever.wait()
        finally:
            freed.set()

    door.script.on("watch", watch)
    call = door.unary_stream("/jackline.v1.RunService/StreamProgress")(
        META.SerializeToString(), metadata=door.metadata(ALL)
    )
    async with asyncio.timeout(SECONDS):
        await call.read()
        call.cancel()
        await freed.wait()


async def test_a_client_that_goes_away_during_a_write_leaves_no_error_behind(
    door: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    freed, begun = asyncio.Event(), asyncio.Event()

    async def watch(*_: object) -> AsyncIterator[Frame]:
        try:
            for sequence in range(1, 400):
                yield frame_of(event(sequence, words=200_000))
                if sequence > 8:
                    begun.set()
        finally:
            freed.set()

    door.script.on("watch", watch)
    async with asyncio.timeout(SECONDS), grpc.aio.insecure_channel(door.address) as channel:
        away: Any = channel
        call = away.unary_stream("/jackline.v1.RunService/StreamProgress")(
            FULL.SerializeToString(), metadata=door.metadata(ALL)
        )
        await call.read()
        await begun.wait()
        call.cancel()
        await freed.wait()
    await door.check_health()
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


async def _read_all(call: Any) -> None:
    while await call.read() is not grpc.aio.EOF:
        pass


@pytest.fixture
def limits(request: pytest.FixtureRequest) -> Limits:
    return getattr(request, "param", LIMITS)


@pytest.mark.parametrize("limits", [replace(LIMITS, stall_seconds=1)], indirect=True)
async def test_a_watcher_that_takes_nothing_is_let_go(door: Harness) -> None:
    freed = asyncio.Event()

    async def watch(*_: object) -> AsyncIterator[Frame]:
        try:
            for sequence in range(1, 400):
                yield frame_of(event(sequence, words=200_000))
        finally:
            freed.set()

    door.script.on("watch", watch)
    call = door.unary_stream("/jackline.v1.RunService/StreamProgress")(
        FULL.SerializeToString(), metadata=door.metadata(ALL)
    )
    async with asyncio.timeout(SECONDS):
        await call.read()
        await freed.wait()
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await _read_all(call)
    found = ended(failed.value)
    assert (found.code, found.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "SLOW_CONSUMER")
    assert int(found.info.metadata["sent_through"]) > 0
    assert found.detail(error_details_pb2.RetryInfo).retry_delay.ToMilliseconds() == 1_000


@pytest.mark.parametrize("limits", [replace(LIMITS, principal_streams_count=2)], indirect=True)
async def test_a_caller_has_so_many_streams_and_gets_their_places_back(door: Harness) -> None:
    go = asyncio.Event()
    seen = asyncio.Semaphore(0)

    async def watch(*_: object) -> AsyncIterator[Frame]:
        yield frame_of(event(1))
        await go.wait()

    async def follow() -> None:
        async for _ in door.stream(META):
            seen.release()

    door.script.on("watch", watch)
    async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(follow())
        for _ in range(2):
            await seen.acquire()
        refused = await door.stream_refused(META)
        assert (refused.code, refused.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "STREAM_LIMIT")
        assert refused.info.metadata["limit"] == "2"
        go.set()
    assert len(await read(door, META)) == 1


async def test_a_stream_that_owns_its_run_says_for_how_long_it_may_be_away_and_leaves_with_its_client(
    door: Harness,
) -> None:
    began = asyncio.Event()

    async def watch(*_: object) -> AsyncIterator[Frame]:
        yield frame_of(event(1))
        began.set()
        await asyncio.Event().wait()

    door.script.on("watch", watch)
    door.script.always("own", None)
    request = StreamProgressRequest(run_id=RUN_ID, after_sequence=4, owner=StreamOwner())
    request.owner.grace.FromMilliseconds(2_500)

    async def follow() -> None:
        async for _ in door.stream(request):
            pass

    async with asyncio.timeout(SECONDS):
        client = asyncio.create_task(follow())
        await began.wait()
        client.cancel()
        await asyncio.gather(client, return_exceptions=True)
        while not door.runs.left_owners:  # noqa: ASYNC110 - the server's task ends when it does
            await asyncio.sleep(0)
    [asked] = [given for name, given in door.script.asked if name == "own"]
    assert asked[1:] == (RUN_ID, 4, 2_500)


async def test_an_owner_that_says_no_time_has_ten_seconds_and_may_control_the_run(door: Harness) -> None:
    lay(door, frame_of(event(1)))
    door.script.always("own", None)
    request = StreamProgressRequest(run_id=RUN_ID, owner=StreamOwner())
    await read(door, request)
    [asked] = [given for name, given in door.script.asked if name == "own"]
    refused = await door.stream_refused(request, token=token_for(Scope.RUNS_OBSERVE))
    assert asked[3] == 10_000
    assert (refused.reason, refused.info.metadata["scope"]) == ("SCOPE_MISSING", "runs:control")


async def test_a_grace_below_zero_is_no_grace(door: Harness) -> None:
    request = StreamProgressRequest(run_id=RUN_ID, owner=StreamOwner())
    request.owner.grace.FromMilliseconds(-1)
    refused = await door.stream_refused(request)
    assert refused.fields == ["owner.grace"]

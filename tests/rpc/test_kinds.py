"""StreamProgress of some kinds of events: stored bytes, a last event, and a position without holes."""

import grpc
import pytest
from google.rpc import error_details_pb2  # pyright: ignore[reportMissingTypeStubs]  # ships its own types

from jackline.v1 import event_pb2, run_pb2
from jackline.v1.run_service_pb2 import StreamProgressRequest, StreamProgressResponse
from jackline_server.api.kinds import KINDS
from jackline_server.runtime.ports.journal import StoredEvent
from tests.rpc.doubles import FINISHED, RUN_ID, fold_events, frame_of
from tests.rpc.harness import Harness
from tests.rpc.test_streams import lay


def asked(*kinds: str, full: bool = True) -> StreamProgressRequest:
    view = run_pb2.VIEW_FULL if full else run_pb2.VIEW_METADATA
    return StreamProgressRequest(run_id=RUN_ID, view=view, kinds=kinds)


def kind_of(event: StoredEvent) -> str:
    return str(event_pb2.StepEvent.FromString(event.meta).WhichOneof("fact"))


async def read(door: Harness, request: StreamProgressRequest) -> list[StreamProgressResponse]:
    return [StreamProgressResponse.FromString(data) async for data in door.stream(request)]


@pytest.mark.parametrize("full", [True, False])
async def test_only_the_kinds_that_are_asked_for_come_as_their_stored_bytes(
    door: Harness, full: bool
) -> None:
    events = fold_events(*FINISHED)
    lay(door, frame_of(*events))
    [frame] = await read(door, asked("tool_call_finished", full=full))
    wanted = [one for one in events if kind_of(one) in ("tool_call_finished", "run_finished")]
    assert 1 < len(wanted) < len(events)
    assert [one.SerializeToString() for one in frame.events] == [
        one.meta + (one.content if full else b"") for one in wanted
    ]
    assert (frame.sent_through, frame.head_sequence) == (events[-1].sequence, events[-1].sequence)


async def test_a_frame_of_which_nothing_is_left_still_says_how_far_it_came(door: Harness) -> None:
    first, *rest = fold_events(*FINISHED)
    lay(door, frame_of(first, *rest[:1], head=len(rest) + 1), frame_of(*rest[1:]))
    frames = await read(door, asked("steered"))
    assert [[one.WhichOneof("fact") for one in frame.events] for frame in frames] == [[], ["run_finished"]]
    assert [frame.sent_through for frame in frames] == [2, len(rest) + 1]


async def test_watchers_with_and_without_kinds_do_not_get_each_others_frames(door: Harness) -> None:
    events = fold_events(*FINISHED)
    lay(door, frame_of(*events))
    whole = [one.sequence for frame in await read(door, asked()) for one in frame.events]
    first_and_last = [
        one.sequence for frame in await read(door, asked("run_started")) for one in frame.events
    ]
    again = [one.sequence for frame in await read(door, asked()) for one in frame.events]
    assert whole == again == list(range(1, len(events) + 1))
    assert first_and_last == [1, len(events)]


@pytest.mark.parametrize("kind", ["", "RunStarted", "run-started", "content", "step_id", "run_started\0"])
async def test_a_kind_that_is_none_is_refused(door: Harness, kind: str) -> None:
    refused = await door.stream_refused(asked("run_started", kind))
    assert refused.code is grpc.StatusCode.INVALID_ARGUMENT
    assert "kinds[1]" in refused.fields


async def test_a_kind_that_is_nearly_one_is_told_which(door: Harness) -> None:
    refused = await door.stream_refused(asked("tool_call_finish"))
    (violation,) = refused.detail(error_details_pb2.BadRequest).field_violations
    assert "`tool_call_finished`" in violation.description


async def test_more_kinds_than_there_could_be_are_refused(door: Harness) -> None:
    refused = await door.stream_refused(asked(*["run_started"] * 65))
    assert refused.fields == ["kinds"]


async def test_every_kind_of_the_contract_may_be_asked_for(door: Harness) -> None:
    lay(door, frame_of(*fold_events(*FINISHED)))
    [frame] = await read(door, asked(*sorted(KINDS)))
    assert [one.sequence for one in frame.events] == list(range(1, len(fold_events(*FINISHED)) + 1))

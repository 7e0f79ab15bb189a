"""Frames as bytes: stored events are copied into a `StreamProgressResponse`, never encoded again.

Field 1 of the frame is length-delimited, so an event in it is its tag, its length and the stored bytes; the
other fields follow, and protobuf reads them in any order. A frame has at most `most` bytes, or one event.
Watchers of one run share the bytes of the frames that went out last.
"""

from collections.abc import Iterator, Sequence

from jackline.v1 import event_pb2, run_service_pb2
from jackline_server.runtime.store_ports import StoredEvent
from jackline_server.runtime.use_cases import Frame, LiveDelta

_EVENTS_TAG = b"\x0a"
_SEVEN_BITS = 0x7F
_MORE = 0x80


class FrameCache:
    """The event bytes of recent frames, by run, range and view: events never change."""

    __slots__ = ("_kept", "_most_bytes", "_room")

    def __init__(self, *, room: int = 64, most_bytes: int = 64 * 1024) -> None:
        self._room = room
        self._most_bytes = most_bytes
        self._kept: dict[tuple[str, int, int, bool], bytes] = {}

    def events(self, run_id: str, events: Sequence[StoredEvent], *, full: bool) -> bytes:
        """The events as field 1 of a frame; `events` is a gapless range of the run's log."""
        if not events:
            return b""
        key = (run_id, events[0].sequence, events[-1].sequence, full)
        found = self._kept.get(key)
        if found is None:
            found = _joined(events, full=full)
            if len(found) <= self._most_bytes:
                if len(self._kept) >= self._room:
                    del self._kept[next(iter(self._kept))]
                self._kept[key] = found
        return found


def frame_bytes(run_id: str, frame: Frame, *, full: bool, cache: FrameCache, most: int) -> Iterator[tuple[bytes, int]]:
    """The frame in as many pieces as its size asks for, each with what it is sent through."""
    pieces = list(_pieces(frame.events, full=full, most=most))
    for index, piece in enumerate(pieces[:-1]):
        through = piece[-1].sequence
        tail = run_service_pb2.StreamProgressResponse(sent_through=through, head_sequence=frame.head)
        yield cache.events(run_id, piece, full=full) + tail.SerializeToString(), through
        del index
    tail = run_service_pb2.StreamProgressResponse(
        deltas=[_delta(delta) for delta in frame.deltas],
        sent_through=frame.sent_through,
        head_sequence=frame.head,
        store_degraded=frame.degraded,
    )
    if frame.reset:
        tail.reset.attempt_id = frame.reset
    last = pieces[-1] if pieces else ()
    yield cache.events(run_id, last, full=full) + tail.SerializeToString(), frame.sent_through

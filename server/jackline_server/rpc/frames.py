"""Frames as bytes: stored events are copied into a `StreamProgressResponse`, never encoded again.

Field 1 of the frame is length-delimited, so an event in it is its tag, its length and the stored bytes; the
other fields follow, and protobuf reads them in any order. A frame has at most `most` bytes, or one event.
Watchers of one run share the bytes of the frames that went out last.
"""

from collections.abc import Iterator, Sequence

from jackline.v1 import event_pb2, run_service_pb2
from jackline_server.api.wait_views import tool_waiting_message
from jackline_server.runtime.ports.journal import StoredEvent
from jackline_server.runtime.ports.tool_reports import ToolProgress
from jackline_server.runtime.use_cases import Frame, LiveDelta

_EVENTS_TAG = b"\x0a"
_SEVEN_BITS = 0x7F
_MORE = 0x80
_ENTRY_BYTES = 400
"""What an entry of the cache takes beside its bytes."""


class FrameCache:
    """The event bytes of recent frames, by run, range and view: events never change."""

    __slots__ = ("_kept", "_kept_bytes", "_most_bytes")

    def __init__(self, *, most_bytes: int = 4 * 1024 * 1024) -> None:
        self._most_bytes = most_bytes
        self._kept: dict[tuple[str, int, int, bool], bytes] = {}
        self._kept_bytes = 0

    def kept(self, run_id: str, events: Sequence[StoredEvent], *, full: bool) -> bytes | None:
        """The events as field 1 of a frame, if they are at hand; `events` is a gapless range, not empty."""
        return self._kept.get((run_id, events[0].sequence, events[-1].sequence, full))

    def made(self, run_id: str, events: Sequence[StoredEvent], *, full: bool) -> bytes:
        """The same, made if need be, and kept for a while."""
        found = self.kept(run_id, events, full=full)
        if found is None:
            found = _joined(events, full=full)
            self._kept[run_id, events[0].sequence, events[-1].sequence, full] = found
            self._kept_bytes += _ENTRY_BYTES + len(found)
            while self._kept_bytes > self._most_bytes:
                self._kept_bytes -= _ENTRY_BYTES + len(self._kept.pop(next(iter(self._kept))))
        return found


class FrameWriter:
    """Turns the frames of one watcher into bytes."""

    __slots__ = ("_cache", "_full", "_kinds", "_most", "_run_id", "_words")

    def __init__(
        self,
        *,
        run_id: str,
        full: bool,
        cache: FrameCache,
        most: int,
        kinds: frozenset[str] | None = None,
        words: bool = True,
    ) -> None:
        """`kinds` are the events that are sent; None for all. The rest is sent through all the same.

        Without `words` nothing is sent of what tools say of how far they are but numbers.
        """
        self._run_id = run_id
        self._full = full
        self._cache = cache
        self._most = most
        self._kinds = kinds
        self._words = words

    def write(self, frame: Frame) -> Iterator[tuple[bytes, int]]:
        """The frame in as many pieces as its size asks for, each with the event it is sent through."""
        events = self._wanted(frame.events)
        if not events:
            yield self._tail(frame).SerializeToString(), frame.sent_through
            return
        whole = self._kept(events, frame.run_id)
        if whole is None:
            *pieces, last = self._pieces(events)
            for piece in pieces:
                through = frame.sent_through if frame.run_id else piece[-1].sequence
                tail = run_service_pb2.StreamProgressResponse(sent_through=through, head_sequence=frame.head)
                if frame.run_id:
                    tail.positions[frame.run_id] = piece[-1].sequence
                yield self._events(piece, frame.run_id) + tail.SerializeToString(), through
            whole = self._events(last, frame.run_id)
        yield whole + self._tail(frame).SerializeToString(), frame.sent_through

    def _wanted(self, events: Sequence[StoredEvent]) -> Sequence[StoredEvent]:
        """The events of the kinds that are sent: looked into for their kind, and sent as they are stored."""
        kinds = self._kinds
        if kinds is None:
            return events
        return [event for event in events if _kind(event) in kinds]

    def _kept(self, events: Sequence[StoredEvent], child: str) -> bytes | None:
        """A range with holes is not kept: its ends say nothing of what is between."""
        if self._kinds is not None:
            return None
        return self._cache.kept(child or self._run_id, events, full=self._full)

    def _events(self, events: Sequence[StoredEvent], child: str) -> bytes:
        if self._kinds is not None:
            return _joined(events, full=self._full)
        return self._cache.made(child or self._run_id, events, full=self._full)

    def _tail(self, frame: Frame) -> run_service_pb2.StreamProgressResponse:
        """Everything of a frame but its events."""
        tail = run_service_pb2.StreamProgressResponse(
            sent_through=frame.sent_through, head_sequence=frame.head, store_degraded=frame.degraded
        )
        tail.deltas.extend(_delta(delta, words=self._words) for delta in frame.deltas)
        if frame.positions:
            tail.positions.update(frame.positions)
        if frame.reset:
            tail.reset.attempt_id = frame.reset
        return tail

    def _pieces(self, events: Sequence[StoredEvent]) -> list[Sequence[StoredEvent]]:
        sizes = [len(event.meta) + (len(event.content) if self._full else 0) for event in events]
        if sum(sizes) <= self._most:
            return [events]
        pieces: list[Sequence[StoredEvent]] = []
        start = held = 0
        for index, size in enumerate(sizes):
            if held and held + size > self._most:
                pieces.append(events[start:index])
                start, held = index, 0
            held += size
        pieces.append(events[start:])
        return pieces


def _kind(event: StoredEvent) -> str | None:
    return event_pb2.StepEvent.FromString(event.meta).WhichOneof("fact")


def _delta(delta: LiveDelta, *, words: bool) -> event_pb2.Delta:
    message = event_pb2.Delta(attempt_id=delta.attempt_id, step_id=delta.step_id, iteration=delta.iteration)
    if delta.text:
        message.text = delta.text
    elif delta.reasoning:
        message.reasoning = delta.reasoning
    elif delta.waits_for:
        message.waiting_for_model = delta.waits_for
    elif delta.waiting is not None:
        message.tool_waiting.CopyFrom(tool_waiting_message(delta.waiting))
    elif delta.progress is not None:
        message.tool_progress.CopyFrom(_progress(delta.progress, words=words))
    else:
        part = message.tool_arguments
        part.index, part.tool, part.fragment = delta.index, delta.tool, delta.fragment
    return message


def _progress(progress: ToolProgress, *, words: bool) -> event_pb2.ToolProgress:
    return event_pb2.ToolProgress(
        call_id=progress.call_id,
        tool=progress.tool,
        attempt=progress.attempt,
        done=progress.done,
        total=progress.total,
        text=progress.text if words else "",
    )


def _joined(events: Sequence[StoredEvent], *, full: bool) -> bytes:
    parts: list[bytes] = []
    for event in events:
        size = len(event.meta) + (len(event.content) if full else 0)
        parts += (_EVENTS_TAG, _varint(size), event.meta)
        if full:
            parts.append(event.content)
    return b"".join(parts)


def _varint(number: int) -> bytes:
    """A length as protobuf writes it."""
    groups = bytearray()
    while number > _SEVEN_BITS:
        groups.append(number & _SEVEN_BITS | _MORE)
        number >>= 7
    groups.append(number)
    return bytes(groups)

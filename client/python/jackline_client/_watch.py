"""The stream that resumes by itself.

Owns the position in a run's log, the check of what the server sends against it, and when to try again. Does
not own the channel, nor what a frame means to whoever looks at it.

The position is the last event handed out. A stream may end at any moment; the next one starts after the
position, so nothing is lost and nothing comes twice. Only the run's last event, or the server's word that the
position is the end of a finished run, ends the iteration: a cut stream never looks like a finished run. Where
only some kinds of events are asked for, the position is what the server says it has come to.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass

import grpc.aio

from jackline.v1.event_pb2 import Delta, Reset, StepEvent
from jackline.v1.run_service_pb2 import StreamProgressRequest, StreamProgressResponse
from jackline_client._statuses import in_our_words
from jackline_client.errors import (
    CallError,
    Cancelled,
    DeadlineExceeded,
    Internal,
    SequenceBroken,
    SlowConsumer,
    StreamCut,
    StreamLimit,
    Unavailable,
    Unknown,
)

_LONGEST_ASKED_DELAY_S = 30.0
_FAREWELL_S = 2.0

_Stream = grpc.aio.UnaryStreamCall[StreamProgressRequest, StreamProgressResponse]


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchPolicy:
    """How a stream is resumed. Time and attempts are counted anew after progress only.

    Progress is an event, or a stream that lived for `healthy_s`: a run may wait for a person for days.
    """

    reconnect_for_s: float = 60.0
    """After something was received: how long after the cut another attempt may still begin."""
    attempts: int = 10_000
    """After something was received: at most this many in a row."""
    first_attempts: int = 4
    """Before anything was ever received: a server that is not there should be said to be so soon."""
    first_delay_s: float = 0.2
    longest_delay_s: float = 5.0
    silence_s: float = 45.0
    """A stream without a frame for this long is dead: three heartbeats are missing."""
    healthy_s: float = 60.0

    def delay_s(self, failures: int, asked_s: float | None) -> float:
        """Seconds before the next attempt after so many failures in a row, with jitter."""
        backoff = min(self.longest_delay_s, self.first_delay_s * 2 ** min(failures - 1, 16))
        jittered = backoff * random.uniform(0.5, 1.0)  # noqa: S311 - spreads clients out; no secret
        return max(jittered, min(asked_s or 0.0, _LONGEST_ASKED_DELAY_S))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A stream ended before the run did, and another attempt follows."""

    cause: CallError | None
    """None for a stream that the server ended in good order."""
    failures: int
    """Attempts in a row without progress, the one that ended included."""
    sent_through: int
    """Every event up to this one was handed out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What the server had ready: events in order, live deltas, or neither (a heartbeat)."""

    events: tuple[StepEvent, ...]
    deltas: tuple[Delta, ...]
    reset: Reset | None
    """This attempt was given up: drop what its deltas showed."""
    sent_through: int
    """Every event up to this one was handed out, or left out by the kinds that were asked for."""
    head_sequence: int
    store_degraded: bool
    resumed: bool
    """The first frame after a cut: deltas may be missing, so drop what they showed. Events never are."""
    positions: Mapping[str, int]
    """With children: the last event that was handed out of each child so far."""


class Watch:
    """One watcher of one run, over as many streams as it takes."""

    def __init__(
        self,
        *,
        request: StreamProgressRequest,
        open_stream: Callable[[StreamProgressRequest], _Stream],
        is_over: Callable[[int], Awaitable[bool]],
        policy: WatchPolicy,
        on_cut: Callable[[Cut], None] | None = None,
    ) -> None:
        """`is_over` says whether the run has ended and its last event is the one given."""
        self._request = request
        self._open_stream = open_stream
        self._is_over = is_over
        self._policy = policy
        self._on_cut = on_cut
        self._position = request.after_sequence
        self._positions = dict(request.positions)
        self._filtered = bool(request.kinds)
        self._finished = False
        self._received = False
        self._failures = 0
        self._cut_at = 0.0
        self._resumed = False

    async def frames(self) -> AsyncGenerator[Frame]:
        """Yields frames until the run's last event.

        Raises CallError, StreamCut. Closing it cancels the stream.
        """
        while True:
            cause: CallError | None = None
            request = StreamProgressRequest()
            request.CopyFrom(self._request)
            request.after_sequence = self._position
            request.positions.update(self._positions)
            stream = self._open_stream(request)
            opened = asyncio.get_running_loop().time()
            try:
                while (frame := await self._read(stream)) is not None:
                    yield frame
                    if self._finished and not self._request.include_children:
                        await self._expect_end(stream)
                        return
                if await self._is_over(self._position):
                    return
            except CallError as error:
                cause = error
            finally:
                stream.cancel()
            if self._received and asyncio.get_running_loop().time() - opened >= self._policy.healthy_s:
                self._failures = 0
            await self._wait_before_next(cause)

    async def _read(self, stream: _Stream) -> Frame | None:
        response = await self._response(stream)
        if response is None:
            return None
        return self._accept(response)

    async def _response(self, stream: _Stream) -> StreamProgressResponse | None:
        """Reads one frame; None at an end with OK. Every other end is a CallError."""
        try:
            with in_our_words():
                async with asyncio.timeout(self._policy.silence_s):
                    response = await stream.read()
        except TimeoutError:
            raise Unavailable(f"the server sent nothing for {self._policy.silence_s:g} s") from None
        return response if isinstance(response, StreamProgressResponse) else None

    def _accept(self, response: StreamProgressResponse) -> Frame:
        """Checks a frame against the position and moves it. A frame is taken whole or not at all."""
        position, finished = self._position, self._finished
        positions = self._of_children(response)
        for event in response.events:
            if event.run_id != self._request.run_id:
                continue
            if finished:
                raise self._broken(f"event {event.sequence} follows the last one")
            if event.sequence != position + 1 and (not self._filtered or event.sequence <= position):
                raise self._broken(f"event {event.sequence} follows event {position}")
            position = event.sequence
            finished = event.HasField("run_finished")
        if self._filtered and not finished:
            position = max(position, response.sent_through)
        if response.sent_through > position:
            raise self._broken(
                f"event {response.sent_through} is said to be sent, and {position} was the last"
            )
        if position > self._position or positions != self._positions:
            self._failures = 0
        self._position, self._finished, self._received = position, finished, True
        self._positions = positions
        resumed, self._resumed = self._resumed, False
        return Frame(
            events=tuple(response.events),
            deltas=tuple(response.deltas),
            reset=response.reset if response.HasField("reset") else None,
            sent_through=position,
            head_sequence=max(response.head_sequence, position),
            store_degraded=response.store_degraded,
            resumed=resumed,
            positions=dict(positions),
        )

    def _of_children(self, response: StreamProgressResponse) -> dict[str, int]:
        """Where a frame leaves each child, checked against where it was."""
        if not self._request.include_children:
            return self._positions
        positions = dict(self._positions)
        for event in response.events:
            if event.run_id == self._request.run_id:
                continue
            before = positions.get(event.run_id, 0)
            if event.sequence != before + 1 and (not self._filtered or event.sequence <= before):
                raise self._broken(f"event {event.sequence} of {event.run_id} follows event {before}")
            positions[event.run_id] = event.sequence
        for run_id, sequence in response.positions.items():
            positions[run_id] = max(sequence, positions.get(run_id, 0))
        return positions

    async def _expect_end(self, stream: _Stream) -> None:
        """Lets the server end the stream after the last event, for a moment.

        How it ends changes nothing any more.
        """
        try:
            async with asyncio.timeout(_FAREWELL_S):
                while (response := await self._response(stream)) is not None:
                    self._accept(response)
        except (CallError, TimeoutError):
            return

    async def _wait_before_next(self, cause: CallError | None) -> None:
        """Waits for the next attempt, or raises what ended the last one."""
        if cause is not None and not _may_resume(cause):
            raise cause
        now = asyncio.get_running_loop().time()
        if not self._failures:
            self._cut_at = now
        self._failures += 1
        if self._is_hopeless(now - self._cut_at):
            if cause is not None and not self._received:
                raise cause
            raise StreamCut(
                f"the stream ended after event {self._position}, before the run did, and could not be resumed"
                + (f": {cause.message}" if cause else ""),
                run_id=self._request.run_id,
                sent_through=self._position,
            ) from cause
        self._resumed = self._received
        if self._on_cut is not None:
            self._on_cut(Cut(cause=cause, failures=self._failures, sent_through=self._position))
        await asyncio.sleep(self._policy.delay_s(self._failures, cause.retry_after_s if cause else None))

    def _is_hopeless(self, cut_for_s: float) -> bool:
        """True if no further attempt is to be made."""
        if not self._received:
            return self._failures >= self._policy.first_attempts
        return cut_for_s >= self._policy.reconnect_for_s or self._failures >= self._policy.attempts

    def _broken(self, what: str) -> SequenceBroken:
        return SequenceBroken(
            f"the server broke the order of the stream: {what}",
            run_id=self._request.run_id,
            sent_through=self._position,
        )


def _may_resume(error: CallError) -> bool:
    """True for an end that says nothing about the run: the way to the server broke, or the server let go."""
    if isinstance(error, Unavailable | Cancelled | DeadlineExceeded | SlowConsumer):
        return True
    if isinstance(error, StreamLimit):
        return error.retry_after_s is not None
    # A proxy or a reset connection shows as INTERNAL or UNKNOWN without a reason of ours.
    return isinstance(error, Internal | Unknown) and not error.reason

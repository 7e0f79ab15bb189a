"""The live side of runs: who watches which run here, and what just became durable.

Owns one channel a run: the newest durable events, the sequence they reach, and the watchers to wake. Nothing
in here is a source of truth: a watcher that finds a gap reads the store. Wake-ups are coalesced: however
many events come, a watcher that has not run yet is woken once.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from jackline_server.runtime.ports.journal import READ_BYTES, StoredEvent
from jackline_server.runtime.ports.tool_waits import WaitingCall
from jackline_server.runtime.use_cases import LiveDelta, wait_shown

TAIL_EVENTS = 128
"""So many of a run's newest events are kept at hand, as long as they come to no more than one read."""

MAX_DELTA_CHARS = 64 * 1024
"""A watcher that takes none of its deltas loses the oldest beyond this: they are never promised."""


@dataclass(slots=True, eq=False)
class Watcher:
    """One consumer of one channel. Closed by whoever opened it."""

    wants_deltas: bool
    wants_progress: bool = False
    deltas: deque[LiveDelta] = field(default_factory=deque[LiveDelta])
    progress: dict[str, LiveDelta] = field(default_factory=dict[str, LiveDelta])
    """The newest of each call, until it is taken."""

    reset: int = 0
    _held_chars: int = 0
    _signalled: bool = False
    _sleeper: asyncio.Future[None] | None = None

    def wake(self) -> None:
        """Let `wait` return, now or the next time it is called."""
        self._signalled = True
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)

    async def wait(self, timeout_ms: int) -> bool:
        """Return True once woken since the last wait, or False after so long."""
        if not self._signalled:
            loop = asyncio.get_running_loop()
            self._sleeper = loop.create_future()
            timer = loop.call_later(timeout_ms / 1000, _expire, self._sleeper)
            try:
                await self._sleeper
            finally:
                timer.cancel()
                self._sleeper = None
        woken, self._signalled = self._signalled, False
        return woken

    def offer(self, delta: LiveDelta) -> None:
        """Keep a live piece until it is taken, at the cost of the oldest ones."""
        self.deltas.append(delta)
        self._held_chars += delta.chars
        while self._held_chars > MAX_DELTA_CHARS and len(self.deltas) > 1:
            self._held_chars -= self.deltas.popleft().chars
        self.wake()

    def tell(self, delta: LiveDelta) -> None:
        """Keep how far a call is until it is taken, in the place of what was kept of that call."""
        if delta.progress is not None:
            self.progress[delta.progress.call_id] = delta
            self.wake()

    def void(self, attempt_id: int) -> None:
        """Drop what is kept of an attempt that was given up, and say so."""
        self._drop_pieces()
        self.reset = attempt_id
        self.wake()

    @property
    def has_live(self) -> bool:
        """True if there is something to take, or an attempt to drop."""
        return bool(self.deltas or self.progress or self.reset)

    def take_deltas(self) -> Sequence[LiveDelta]:
        """What has come since the last call."""
        taken = (*self.deltas, *self.progress.values())
        self._drop_pieces()
        self.progress.clear()
        return taken

    def _drop_pieces(self) -> None:
        self.deltas.clear()
        self._held_chars = 0


def _expire(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)


@dataclass(slots=True, eq=False)
class Channel:
    """One run's live side. `driven` is true while this process drives the run.

    `waits` are its tool calls that wait before anything is called, by call.
    """

    head: int = 0
    ended: bool = False
    driven: bool = False
    last_reset: int = 0
    tail: deque[StoredEvent] = field(default_factory=deque[StoredEvent])
    _tail_bytes: int = 0
    watchers: dict[Watcher, None] = field(default_factory=dict[Watcher, None])
    waits: dict[str, WaitingCall] = field(default_factory=dict[str, WaitingCall])
    reports: dict[str, Callable[[], LiveDelta | None]] = field(
        default_factory=dict[str, Callable[[], LiveDelta | None]]
    )
    """By call: how far each is that is under way and has said so."""

    def publish(self, events: Sequence[StoredEvent], *, ended: bool) -> None:
        """Tell the watchers of events that are durable."""
        if self.tail and self.tail[-1].sequence + 1 != events[0].sequence:
            self.tail.clear()
            self._tail_bytes = 0
        for event in events:
            self.tail.append(event)
            self._tail_bytes += _bytes(event)
        while self.tail and (self._tail_bytes > READ_BYTES or len(self.tail) > TAIL_EVENTS):
            self._tail_bytes -= _bytes(self.tail.popleft())
        self.head = events[-1].sequence
        self.ended = ended
        self.wake()

    def after(self, sequence: int, limit: int) -> Sequence[StoredEvent] | None:
        """The events right after that one as far as they are kept here; None if the store must be read."""
        if sequence >= self.head and self.head:
            return ()
        if not self.tail or self.tail[0].sequence > sequence + 1:
            return None
        skip = sequence + 1 - self.tail[0].sequence
        return [self.tail[index] for index in range(skip, min(skip + limit, len(self.tail)))]

    def publish_delta(self, delta: LiveDelta) -> None:
        """Show a live piece to those who want it."""
        for watcher in self.watchers:
            if watcher.wants_deltas:
                watcher.offer(delta)

    @property
    def shows_progress(self) -> bool:
        """True if somebody wants to know how far calls are."""
        return any(watcher.wants_progress for watcher in self.watchers)

    def publish_progress(self, delta: LiveDelta) -> None:
        """Show how far a call is to those who want to know."""
        for watcher in self.watchers:
            if watcher.wants_progress:
                watcher.tell(delta)

    def hush(self, call_id: str) -> None:
        """An attempt at a call has ended: nobody is shown any more how far it is."""
        self.reports.pop(call_id, None)
        for watcher in self.watchers:
            watcher.progress.pop(call_id, None)

    def reset(self, attempt_id: int) -> None:
        """Tell those who saw an attempt's deltas that they are void."""
        self.last_reset = attempt_id
        for watcher in self.watchers:
            if watcher.wants_deltas:
                watcher.void(attempt_id)

    def wake(self) -> None:
        """Wake every watcher."""
        for watcher in self.watchers:
            watcher.wake()


def _bytes(event: StoredEvent) -> int:
    return len(event.meta) + len(event.content)


class Feed:
    """All channels of this process. A channel lives as long as a driver or a watcher holds it."""

    def __init__(self) -> None:
        self._channels: dict[str, Channel] = {}
        self.closing = False

    def drive(self, run_id: str) -> Channel:
        """The channel of a run that this process begins to drive; `leave` gives it back."""
        channel = self._channels.setdefault(run_id, Channel())
        channel.driven = True
        return channel

    def leave(self, run_id: str) -> None:
        """This process no longer drives the run."""
        channel = self._channels.get(run_id)
        if channel is not None:
            channel.driven = False
            channel.wake()
            self._drop_if_idle(run_id, channel)

    def subscribe(self, run_id: str, *, deltas: bool, progress: bool = False) -> tuple[Channel, Watcher]:
        """Begin to watch; `unsubscribe` ends it.

        Who wants progress is told how far each call is already, who wants deltas what waits.
        """
        channel = self._channels.setdefault(run_id, Channel())
        watcher = Watcher(
            wants_deltas=deltas, wants_progress=progress, reset=channel.last_reset if deltas else 0
        )
        if deltas:
            for call in channel.waits.values():
                watcher.offer(wait_shown(call))
        channel.watchers[watcher] = None
        if progress:
            for newest in channel.reports.values():
                if (delta := newest()) is not None:
                    watcher.tell(delta)
        return channel, watcher

    def unsubscribe(self, run_id: str, watcher: Watcher) -> None:
        """Stop watching."""
        channel = self._channels.get(run_id)
        if channel is not None:
            channel.watchers.pop(watcher, None)
            self._drop_if_idle(run_id, channel)

    def waits(self, run_id: str) -> Sequence[WaitingCall]:
        """The tool calls of a run that wait, as far as this process drives it."""
        channel = self._channels.get(run_id)
        return () if channel is None else tuple(channel.waits.values())

    def close(self) -> None:
        """Let every watcher end: the server is going down."""
        self.closing = True
        for channel in self._channels.values():
            channel.wake()

    def _drop_if_idle(self, run_id: str, channel: Channel) -> None:
        if not channel.driven and not channel.watchers:
            del self._channels[run_id]

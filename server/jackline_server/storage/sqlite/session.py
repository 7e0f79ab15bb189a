"""What operations work with while the writer thread carries them out.

Owns the writer's connection, the cached heads of runs, and the rows of appends that wait to be written
together. The thread that uses a session is the store's only writer, so a cached head is the truth until a
rollback, after which `forget` must be called. Does not own transactions: the writer does.
"""

from dataclasses import dataclass
from typing import cast

from jackline_server.core.facts import Phase
from jackline_server.runtime.ports.journal import RunHead
from jackline_server.storage.clocks import StoreClock
from jackline_server.storage.sqlite.database import Database

_CACHED_HEADS = 4_096

_LOAD = """
SELECT run_key, epoch, (SELECT max(sequence) FROM events WHERE events.run_key = runs.run_key),
  pending_commands, terminal, owner, phase, wake_unix_ms, open_interrupts, is_delayed,
  (SELECT thread_key FROM run_threads WHERE run_threads.run_key = runs.run_key),
  (SELECT place FROM run_threads WHERE run_threads.run_key = runs.run_key)
FROM runs WHERE run_id = ?
"""

_INSERT_EVENT = "INSERT INTO events (run_key, sequence, epoch, meta, content) VALUES (?, ?, ?, ?, ?)"

_UPDATE_PLAIN = """
UPDATE runs SET summary = ?, seen_ms = ?, seen_unix_ms = ? WHERE run_key = ?
"""

_UPDATE_WHOLE = """
UPDATE runs SET summary = coalesce(?, summary), seen_ms = ?, seen_unix_ms = ?, phase = ?, terminal = ?,
  ready = ?, wake_unix_ms = ?, is_delayed = ?, open_interrupts = ?, pending_commands = ?, owner = ?,
  finished_unix_ms = ?
WHERE run_key = ?
"""

_BUSY_PHASES = (Phase.QUEUED, Phase.RUNNING)


@dataclass(slots=True, kw_only=True)
class Head:
    """What the writer has to know of a run to judge a write. `waits` for its turn in its thread."""

    run_id: str
    run_key: int
    epoch: int
    sequence: int
    pending: int
    terminal: bool
    owner: str | None
    phase: Phase
    wake_unix_ms: int | None
    open_interrupts: int
    thread_key: int | None
    waits: bool
    is_delayed: bool


class Session:
    """The writer thread's workplace."""

    def __init__(self, *, connection: Database, clock: StoreClock, lease_ms: int) -> None:
        self.connection = connection
        self.clock = clock
        self.lease_ms = lease_ms
        self._heads: dict[str, Head] = {}
        self._events: list[tuple[int, int, int, bytes, bytes]] = []
        self._plain: list[tuple[bytes, int | None, int | None, int]] = []

    def head(self, run_id: str) -> Head | None:
        """The run's head, None if there is no such run."""
        head = self._heads.get(run_id)
        if head is None:
            row = self.connection.execute(_LOAD, (run_id,)).fetchone()
            if row is not None:
                head = self._heads[run_id] = _head(run_id, row)
        return head

    def forget(self) -> None:
        """Drop all that is not in the database: what was cached and what waited."""
        self._heads.clear()
        self._events.clear()
        self._plain.clear()

    def drop(self, run_id: str) -> None:
        """Read the run's head anew next time: something changed it in the database."""
        self._heads.pop(run_id, None)

    def add_event(self, head: Head, sequence: int, meta: bytes, content: bytes) -> None:
        """Let an event wait for `flush`."""
        self._events.append((head.run_key, sequence, head.epoch, meta, content))

    def advance(self, head: Head, summary: bytes) -> None:
        """Note the summary of an append that changes nothing else of the row; waits for `flush`."""
        seen, seen_unix = self.sign_of_life(head)
        self._plain.append((summary, seen, seen_unix, head.run_key))

    def rewrite(
        self, head: Head, told: RunHead, *, summary: bytes | None, finished_unix_ms: int | None
    ) -> None:
        """Write the whole row from the cached head and what an append says."""
        self.flush()
        waits = head.waits or told.is_delayed
        ready = not head.terminal and self.is_ready(told.phase, pending=head.pending, waits=waits)
        seen, seen_unix = self.sign_of_life(head)
        self.connection.execute(
            _UPDATE_WHOLE,
            (
                summary,
                seen,
                seen_unix,
                told.phase.value,
                head.terminal,
                ready,
                None if head.terminal else told.wake_unix_ms,
                told.is_delayed,
                told.open_interrupts,
                head.pending,
                head.owner,
                finished_unix_ms,
                head.run_key,
            ),
        )
        head.phase = told.phase
        head.wake_unix_ms = told.wake_unix_ms
        head.open_interrupts = told.open_interrupts
        head.is_delayed = told.is_delayed

    @staticmethod
    def is_ready(phase: Phase, *, pending: int, waits: bool) -> bool:
        """True if a run in that phase, with so many commands waiting, needs a worker now.

        One that waits for its turn in a thread, or for its time, needs none but for a command.
        """
        return (phase in _BUSY_PHASES and not waits) or pending > 0

    def sign_of_life(self, head: Head) -> tuple[int | None, int | None]:
        """When the owner was seen, by both clocks: now, or never if there is none."""
        if head.owner is None:
            return None, None
        return self.clock.monotonic_ms(), self.clock.unix_ms()

    def flush(self) -> None:
        """Write what waits. Every operation but a plain append does so before it reads or writes."""
        if self._events:
            self.connection.executemany(_INSERT_EVENT, self._events)
            self._events.clear()
        if self._plain:
            self.connection.executemany(_UPDATE_PLAIN, self._plain)
            self._plain.clear()

    def trim(self) -> None:
        """Keep the cache bounded. Only between transactions."""
        while len(self._heads) > _CACHED_HEADS:
            del self._heads[next(iter(self._heads))]


def _head(run_id: str, row: object) -> Head:
    *found, thread, place = cast("tuple[object, ...]", row)
    run_key, epoch, sequence, pending, terminal, owner, phase, wake, interrupts, delayed = cast(
        "tuple[int, int, int, int, int, str | None, str, int | None, int, int]", found
    )
    return Head(
        run_id=run_id,
        run_key=run_key,
        epoch=epoch,
        sequence=sequence,
        pending=pending,
        terminal=bool(terminal),
        owner=owner,
        phase=Phase(phase),
        wake_unix_ms=wake,
        open_interrupts=interrupts,
        thread_key=cast("int | None", thread),
        waits=place is not None,
        is_delayed=bool(delayed),
    )

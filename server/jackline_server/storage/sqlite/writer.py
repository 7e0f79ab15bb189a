"""The one writer of a SQLite store: a thread that commits operations in groups.

Owns the queue, the transaction around a group and what becomes of its errors. Does not own what an
operation does.

What is asked for in one iteration of the event loop goes to the thread together, and a commit takes whatever
queued while the last one ran, at most 256 operations; nobody lingers. Operations
check first and write after, so a refused one leaves nothing behind and the group goes on without it. Any
other error rolls the whole group back and carries its operations out one by one, so that only the guilty
fail. A failed write or sync of the disk breaks the store for good: nobody knows what the disk holds then,
so nothing is acknowledged from there on.
"""

import asyncio
import errno
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import apsw

from jackline_server.failpoints import Dropped, hit
from jackline_server.runtime.ports.store_errors import StoreDamaged, StoreError, StoreFull, StoreUnavailable
from jackline_server.storage.sqlite.database import Database
from jackline_server.storage.sqlite.folder import DataFolder
from jackline_server.storage.sqlite.session import Session

_GROUP = 256
_BATCH = 128
"""So many operations go to the thread at once; a group is one or more batches, below `_GROUP`."""
_IDLE_S = 2.0
_CHECKPOINT_PAGES = 4_000
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)

A = TypeVar("A")
R = TypeVar("R")

# Operations of all argument and result types share one queue; `Writer.run` keeps each pair honest.
_Entry = tuple[Callable[[Session, Any], Any], Any, "asyncio.Future[Any]"]
_Outcome = tuple["asyncio.Future[Any]", Any, Exception | None]


class Writer:
    """Runs operations on the writer thread, once `start` was called and until `close`.

    `on_broken` is called once, on the event loop, if the store breaks; `broken` says why from then on.
    """

    def __init__(
        self, *, session: Session, folder: DataFolder, on_broken: Callable[[StoreError], None]
    ) -> None:
        self._session = session
        self._folder = folder
        self._on_broken = on_broken
        self._loop = asyncio.get_running_loop()
        self._gathered: list[_Entry] = []
        self._queue: SimpleQueue[list[_Entry] | None] = SimpleQueue()
        self._in_hand: list[_Entry] = []
        self._log_pages = 0
        self._closing = False
        self._ended = asyncio.Event()
        self.broken: StoreError | None = None
        self._thread = threading.Thread(target=self._work, name="jackline-store-writer", daemon=True)

    def start(self) -> None:
        """Start the thread. From here on the session belongs to it."""
        self._session.connection.set_wal_hook(self._note_log)
        self._thread.start()

    async def run(self, operation: Callable[[Session, A], R], argument: A) -> R:
        """Carry out an operation in the next commit and return its result when it is durable.

        Cancelling the call does not take the operation back.

        Raises:
            StoreError: what the operation raised, or what kept the store from carrying it out.
        """
        if self.broken is not None:
            raise type(self.broken)(*self.broken.args)
        if self._closing:
            raise StoreUnavailable("the store is closed")
        future: asyncio.Future[R] = self._loop.create_future()
        if not self._gathered:
            self._loop.call_soon(self._send)
        self._gathered.append((operation, argument, future))
        return await future

    def _send(self) -> None:
        """Give what was gathered in this iteration of the loop to the thread."""
        gathered, self._gathered = self._gathered, []
        for start in range(0, len(gathered), _BATCH):
            self._queue.put(gathered[start : start + _BATCH])

    async def close(self, *, within_ms: int) -> None:
        """Finish the commit in hand, fail what queues with StoreUnavailable, end the thread. Idempotent.

        A disk that hangs is waited for no longer than `within_ms`; the thread then ends with the process.
        """
        self._closing = True
        self._send()
        self._queue.put(None)
        try:
            async with asyncio.timeout(within_ms / 1000):
                await self._ended.wait()
        except TimeoutError:
            self._settle(self._refuse(self._in_hand))
        self._settle(self._refuse(self._rest()))

    # --- the thread ----------------------------------------------------------------------------

    def _work(self) -> None:
        """Commit group after group until told to stop; then close the connection."""
        while (group := self._take()) is not None:
            if not group:
                self._look_after_files()
                continue
            self._in_hand = group
            self._hand_over(self._refuse(group) if self.broken is not None else self._commit(group))
            self._in_hand = []
            self._session.trim()
            if self._log_pages >= _CHECKPOINT_PAGES and self.broken is None:
                self._checkpoint()
        try:
            self._session.connection.close()
        except apsw.Error as error:
            # What was acknowledged is in the log already; only its checkpoint failed.
            self._break(StoreUnavailable(f"closing the store failed: {error}"))
        self._tell(self._ended.set)

    def _take(self) -> list[_Entry] | None:
        """The next group; empty when nothing came for a while, None at the end."""
        queue = self._queue
        try:
            group = queue.get(timeout=_IDLE_S)
        except Empty:
            return []
        if group is None or self._closing:
            self._hand_over(self._refuse(group or []))
            return None
        while len(group) <= _GROUP - _BATCH and not queue.empty():
            more = queue.get_nowait()
            if more is None:
                queue.put(None)
                break
            group += more
        return group

    def _commit(self, group: list[_Entry]) -> list[_Outcome]:
        """Carry out a group in one transaction; if that fails, each operation in one of its own."""
        session, connection = self._session, self._session.connection
        outcomes: list[_Outcome] = []
        try:
            self._folder.check()
            connection.execute("BEGIN IMMEDIATE")
        except (apsw.Error, OSError, StoreDamaged) as error:
            return self._fail(group, error)
        try:
            for operation, argument, future in group:
                try:
                    outcomes.append((future, operation(session, argument), None))
                except StoreError as refusal:
                    outcomes.append((future, None, refusal))
            session.flush()
            hit("store.sync")
            connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - whatever one operation met must not end the store
            self._roll_back()
            if len(group) > 1 and _breakage(error) is None:
                return [outcome for entry in group for outcome in self._commit([entry])]
            return self._fail(group, error)
        try:
            hit("store.after_send_before_reply")
        except (Dropped, OSError) as error:
            return [
                (future, None, StoreUnavailable(f"the reply was lost: {error}")) for _, _, future in group
            ]
        return outcomes

    def _fail(self, group: list[_Entry], error: Exception) -> list[_Outcome]:
        """One error for all of a group; it may break the store."""
        breakage = _breakage(error)
        if breakage is not None:
            self._break(breakage)
        return [(future, None, as_port_error(error)) for _, _, future in group]

    def _refuse(self, group: list[_Entry]) -> list[_Outcome]:
        """Fail operations that were not tried."""
        why = self.broken or StoreUnavailable("the store was closed before the operation was carried out")
        return [(future, None, type(why)(*why.args)) for _, _, future in group]

    def _rest(self) -> list[_Entry]:
        rest: list[_Entry] = []
        while not self._queue.empty():
            rest += self._queue.get_nowait() or []
        return rest

    def _roll_back(self) -> None:
        self._session.forget()
        try:
            if self._session.connection.in_transaction:
                self._session.connection.execute("ROLLBACK")
        except apsw.Error as error:
            self._break(StoreUnavailable(f"a rollback failed: {error}"))

    def _note_log(self, _connection: Database, _name: str, pages: int) -> int:
        self._log_pages = pages
        return apsw.SQLITE_OK

    def _checkpoint(self) -> None:
        """Move the log into the database file: after replying, and seeing the errors SQLite would hide."""
        self._log_pages = 0
        try:
            self._session.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except (apsw.BusyError, apsw.LockedError, apsw.FullError):
            return
        except apsw.Error as error:
            self._break(_breakage(error) or StoreUnavailable(f"a checkpoint failed: {error}"))

    def _look_after_files(self) -> None:
        try:
            self._folder.check()
        except (StoreDamaged, OSError) as error:
            self._break(_breakage(error) or StoreUnavailable(str(error)))

    def break_off(self, why: StoreError) -> None:
        """Stop acknowledging for good: somebody found the database damaged. Callable from any thread."""
        self._break(why)

    def _break(self, why: StoreError) -> None:
        if self.broken is None:
            self.broken = why
            self._tell(lambda: self._on_broken(why))

    # --- back to the event loop ------------------------------------------------------------------

    def _hand_over(self, outcomes: list[_Outcome]) -> None:
        """Resolve all waiters of a group in one step of the event loop."""
        self._tell(lambda: self._settle(outcomes))

    def _tell(self, callback: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:
            # The loop is closed: nobody is left to be told.
            return

    @staticmethod
    def _settle(outcomes: list[_Outcome]) -> None:
        for future, result, error in outcomes:
            if future.done():
                continue
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)


def _breakage(error: Exception) -> StoreError | None:
    """What the store is from now on, if this error ends it."""
    if isinstance(error, StoreDamaged):
        return error
    if isinstance(error, (apsw.CorruptError, apsw.NotADBError)):
        return StoreDamaged(f"the database is damaged: {error}")
    broke_disk = isinstance(error, OSError) and error.errno not in _NO_ROOM
    if broke_disk or isinstance(error, (apsw.IOError, apsw.ReadOnlyError, apsw.CantOpenError)):
        return StoreUnavailable(f"the disk failed: {error}; restart when it is sound")
    return None


def as_port_error(error: Exception) -> Exception:
    """The error as the port names it; a caller's own mistake stays what it is."""
    if isinstance(error, (StoreError, ValueError, TypeError, OverflowError)):
        return error
    breakage = _breakage(error)
    if breakage is not None:
        return breakage
    if isinstance(error, (apsw.FullError, OSError)):
        return StoreFull("the disk that holds the store is full")
    if isinstance(error, apsw.ConstraintError):
        return StoreDamaged(f"the store holds what it should not: {error}")
    if isinstance(error, (apsw.Error, Dropped)):
        return StoreUnavailable(f"the store can't be reached: {error}")
    return error

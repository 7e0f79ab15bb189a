"""A statement under way in a thread, and the one who waits for it.

Owns the moment after which a transaction may be committed: until then whoever waits can give the job up, and
knows that nothing is changed. From then on nobody can say so but the database.
"""

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress


class Job:
    """One statement. `deadline` is of `time.monotonic`."""

    def __init__(self, *, deadline: float) -> None:
        self.deadline = deadline
        self._lock = threading.Lock()
        self._interrupting = threading.Lock()
        self._given_up = False
        self._committing = False
        self._interrupt: Callable[[], None] | None = None
        self._has_connection = False

    @property
    def has_connection(self) -> bool:
        """True once it has been at the database, whatever became of it there."""
        return self._has_connection

    @property
    def is_over(self) -> bool:
        """True if nobody waits for it any more, or not for long."""
        return self._given_up or time.monotonic() >= self.deadline

    @property
    def left_ms(self) -> int:
        """What is left of its time, at least one."""
        return max(1, int((self.deadline - time.monotonic()) * 1000))

    @contextmanager
    def interrupted_by(self, interrupt: Callable[[], None]) -> Generator[None]:
        """While the block runs, giving up calls this, in a thread of its own. It must not raise.

        For whoever has a connection: what the job waited for before was the database's to answer.

        The block does not end while that is under way: whatever comes next on the connection is spared.
        """
        with self._lock:
            self._interrupt = interrupt
            self._has_connection = True
        try:
            yield
        finally:
            with self._interrupting, self._lock:
                self._interrupt = None

    def may_commit(self) -> bool:
        """Ask before a commit is sent. False: it was given up, so roll back."""
        with self._lock:
            if not self._given_up:
                self._committing = True
            return self._committing

    def give_up(self) -> bool:
        """Stop it. True: nothing it did will be committed. False: a commit is on its way."""
        with self._lock:
            self._given_up = True
            runs, committing = self._interrupt is not None, self._committing
        if runs and not committing:
            with suppress(RuntimeError):  # no thread can be started: the server ends
                threading.Thread(target=self._stop, name="jackline-sql-interrupt", daemon=True).start()
        return not committing

    def _stop(self) -> None:
        with self._interrupting:
            with self._lock:
                interrupt = self._interrupt
            if interrupt is not None:
                interrupt()

"""How many streams one caller may hold open at a time."""

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from jackline_server.api.refusals import DoorReason, DoorRefused


class StreamLimit:
    """Counts open streams by caller."""

    __slots__ = ("_most", "_open")

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._open: Counter[str] = Counter()

    @property
    def open(self) -> int:
        """How many streams are open in all."""
        return self._open.total()

    @contextmanager
    def take(self, caller: str) -> Generator[None]:
        """Hold a place for a stream. Raises DoorRefused (STREAM_LIMIT) if the caller has none left."""
        if self._open[caller] >= self._most:
            raise DoorRefused(
                DoorReason.STREAM_LIMIT,
                f"This caller has {self._most} streams open, the most there may be. Close one and try again.",
                metadata={"limit": str(self._most)},
            )
        self._open[caller] += 1
        try:
            yield
        finally:
            self._open[caller] -= 1
            if not self._open[caller]:
                del self._open[caller]

"""A cache with a bound of memory: what was used longest ago makes room.

Owns nothing but the order of use. What an entry weighs is said by whoever makes it, in bytes, roughly.
"""

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")


class SizedCache(Generic[T]):
    """What `make` makes of a text, kept up to so many entries and bytes. Safe to share between threads.

    Two threads may make the same entry at once; what `make` raises is not kept.
    """

    def __init__(self, make: Callable[[str], tuple[T, int]], *, entries: int, most_bytes: int) -> None:
        self._make = make
        self._entries = entries
        self._most_bytes = most_bytes
        self._kept: OrderedDict[str, tuple[T, int]] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    @property
    def size_bytes(self) -> int:
        """What the entries weigh together."""
        return self._bytes

    def __call__(self, text: str) -> T:
        """The entry of a text, made now if it is not there."""
        with self._lock:
            found = self._kept.get(text)
            if found is not None:
                self._kept.move_to_end(text)
                return found[0]
        made = self._make(text)
        with self._lock:
            if text not in self._kept:
                self._kept[text] = made
                self._bytes += made[1]
            while self._bytes > self._most_bytes or len(self._kept) > self._entries:
                _, (_, weight) = self._kept.popitem(last=False)
                self._bytes -= weight
        return made[0]

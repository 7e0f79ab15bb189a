"""Time and chance, which the core is given as values."""

from typing import Protocol


class Clock(Protocol):
    """Time. Nothing is decided by `unix_ms` but deadlines and expiries that people set."""

    def unix_ms(self) -> int:
        """Wall-clock time."""
        ...

    def monotonic_ms(self) -> int:
        """Time that never jumps; only differences mean anything."""
        ...

    async def sleep(self, ms: int) -> None:
        """Return after so long."""
        ...


class Chance(Protocol):
    """Ids and jitter."""

    def new_id(self, prefix: str) -> str:
        """A fresh id: the prefix and 26 lower-case letters and digits, sortable by time."""
        ...

    def fraction(self) -> float:
        """A number from 0 up to 1."""
        ...

"""How a connection of the operator's is spared: the shapes between the config and who takes calls to it."""

from typing import Protocol

from jackline_server.core.frozen import frozen

FAILURES = 5
COOL_OFF_MS = 30_000


@frozen
class Breaker:
    """After `failures` failures of the connection in a row it is left alone for `cool_off_ms`; 0 is never."""

    failures: int = FAILURES
    cool_off_ms: int = COOL_OFF_MS


class GuardedConnection(Protocol):
    """What is said of every connection, whatever its kind: `concurrency` caps the calls in flight.

    `calls_per_minute` caps those that begin in any minute; None does not.
    """

    @property
    def name(self) -> str:
        """As the config names it."""
        ...

    @property
    def concurrency(self) -> int:
        """See above."""
        ...

    @property
    def calls_per_minute(self) -> int | None:
        """See above."""
        ...

    @property
    def breaker(self) -> Breaker:
        """When it is left alone."""
        ...

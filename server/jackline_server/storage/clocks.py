"""The clocks of a store: which time it counts leases by, and which it labels with.

Owns nothing but the pair of functions, so that tests and simulations can hand in their own time.
"""

import time
from collections.abc import Callable

from jackline_server.core.frozen import frozen

LEASE_MS = 15_000
"""How long a lease lives without being renewed."""


def _unix_ms() -> int:
    return time.time_ns() // 1_000_000


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


@frozen
class StoreClock:
    """Milliseconds: `monotonic_ms` counts leases, `unix_ms` only bridges a restart."""

    unix_ms: Callable[[], int] = _unix_ms
    monotonic_ms: Callable[[], int] = _monotonic_ms


def silence_ms(*, now_ms: int, seen_ms: int, lease_ms: int) -> int:
    """How long an owner has been silent, kept between nothing and the lease time."""
    return min(max(now_ms - seen_ms, 0), lease_ms)

"""Nudges within one process.

Owns the subscribers. The store was written before a nudge is given, so a nudge only says what is worth a
look; whoever misses it polls.
"""

from collections.abc import Callable


class InProcessSignals:
    """Implements `runtime.ports.signals.Signals` for the embedded server."""

    def __init__(self) -> None:
        self._subscribers: list[Callable[[str], None]] = []

    def nudge(self, run_id: str) -> None:
        """Tell everybody that something about the run has changed in the store."""
        for subscriber in self._subscribers:
            subscriber(run_id)

    def subscribe(self, subscriber: Callable[[str], None]) -> None:
        """Call `subscriber` with the run's id at every nudge, for as long as this object lives."""
        self._subscribers.append(subscriber)

"""Telling other workers that there is news: losing one loses no fact."""

from collections.abc import Callable
from typing import Protocol


class Signals(Protocol):
    """Nudges across a deployment. May be lost, doubled or late: the store is the truth."""

    def nudge(self, run_id: str) -> None:
        """Say that something about a run has changed in the store."""
        ...

    def subscribe(self, subscriber: Callable[[str], None]) -> None:
        """Call `subscriber` with the run's id at every nudge."""
        ...

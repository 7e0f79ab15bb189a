"""Owners of runs in a simulated world: who is one, for how long, and how long it is away.

Owns the dice of owners, which are their own, so that worlds without any stay as they are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jackline_server.core.plan import Plan
from jackline_server.testing.simulation.dice import dice_for

_SHARE = 0.15
"""So many of the worlds have owners."""

_GRACES_MS = (300, 1_000, 2_000)
_LONGEST_MS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """One stream of a watcher: how long it lasts at most, and how long nobody comes back behind it.

    `grace_ms` is set for an owner.
    """

    grace_ms: int | None
    for_ms: int
    away_ms: int = 0


ALWAYS = Stay(grace_ms=None, for_ms=90_000)
"""A stream that only watches, to the end of the run."""


class Ownership:
    """Who owns what, in one world."""

    def __init__(self, plans: Mapping[str, Plan]) -> None:
        self._chance = dice_for("owners ", plans)
        self.are_there = self._chance.random() < _SHARE

    def of_a_run(self) -> Sequence[Sequence[Stay]]:
        """The stays of each owner of the next run: of none, one or two."""
        if not self.are_there:
            return []
        return [self._stays() for _ in range(self._chance.choice((0, 1, 1, 2)))]

    def _stays(self) -> Sequence[Stay]:
        """Most come back in time; some come too late, and all go away for good."""
        chance, grace_ms = self._chance, self._chance.choice(_GRACES_MS)
        return [
            Stay(
                grace_ms=grace_ms,
                for_ms=chance.randint(100, _LONGEST_MS),
                away_ms=int(grace_ms * chance.choice((0.1, 0.5, 0.8, 1.5))),
            )
            for _ in range(chance.choice((1, 2, 3)))
        ]

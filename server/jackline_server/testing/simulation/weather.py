"""What the world does to a simulated deployment: how slow, how faulty, how mad its clocks are.

Owns the dice of one seed. A calm world is a little slow and nothing else.
"""

import asyncio
import random
from dataclasses import dataclass, field
from enum import Enum

from jackline_server.runtime.ports.store_errors import StoreFull, StoreUnavailable

START_UNIX_MS = 1_700_000_000_000


class Kind(Enum):
    """How bad a world is: a little slow; with a bad store; with everything."""

    CALM = "calm"
    GUSTS = "gusts"
    CHAOS = "chaos"


@dataclass(slots=True, kw_only=True)
class Weather:
    """The state of the world, which `chaos` changes. `fault` is the chance that a store call fails.

    `clocks_jumped` says that a wall clock was wrong at some time.
    """

    chance: random.Random
    kind: Kind
    fault: float = 0.0
    down: bool = False
    full: bool = False
    wall_ms: dict[str, int] = field(default_factory=dict[str, int])
    clocks_jumped: bool = False

    @property
    def calm(self) -> bool:
        """True in a world without faults."""
        return self.kind is Kind.CALM

    def happens(self, probability: float) -> bool:
        """True that often."""
        return self.chance.random() < probability

    def pick(self, **weights: int) -> str:
        """One of these names, each as likely as its weight says."""
        return self.chance.choices(list(weights), list(weights.values()))[0]

    def heal(self) -> None:
        """No more faults from now on; clocks stay as wrong as they are."""
        self.fault = 0.0
        self.down = False
        self.full = False

    async def before(self, *, mutates: bool) -> None:
        """The way to the store. Raises StoreUnavailable, StoreFull: the call has no effect."""
        await self._delay()
        if self.down or self.happens(self.fault):
            raise StoreUnavailable("the request was lost")
        if mutates and self.full:
            raise StoreFull("no room")

    async def after(self) -> None:
        """The way back. Raises StoreUnavailable: the call had its effect, and nobody learns of it."""
        if self.happens(self.fault):
            await self._delay()
            raise StoreUnavailable("the answer was lost")
        if self.happens(0.3):
            await self._delay()

    async def _delay(self) -> None:
        if self.calm or self.happens(0.5):
            await asyncio.sleep(self.chance.random() * 0.005)
        elif self.happens(0.1):
            await asyncio.sleep(self.chance.random() * 1.5)
        else:
            await asyncio.sleep(self.chance.random() * 0.1)


@dataclass(slots=True, kw_only=True)
class SimulatedClock:
    """A process's clock: the wall may jump, the rest is the loop's. Implements `ports.Clock`."""

    weather: Weather
    slot: str

    def unix_ms(self) -> int:
        """Wall-clock time as this machine has it."""
        jump = self.weather.wall_ms.get(self.slot, 0)
        return START_UNIX_MS + jump + self.monotonic_ms()

    def monotonic_ms(self) -> int:
        """Virtual time."""
        return int(asyncio.get_running_loop().time() * 1000)

    async def sleep(self, ms: int) -> None:
        """Return after so long."""
        await asyncio.sleep(ms / 1000)


@dataclass(slots=True, kw_only=True)
class SimulatedChance:
    """Ids in order, jitter from the seed. Implements `ports.Chance`."""

    chance: random.Random
    number: int = 0

    def new_id(self, prefix: str) -> str:
        """The next id of the whole simulation."""
        self.number += 1
        return f"{prefix}{self.number:026d}"

    def fraction(self) -> float:
        """A number from 0 up to 1."""
        return self.chance.random()

"""What happens to a simulated deployment while its clients work: crashes, freezes, storms, mad clocks.

Owns the course of the disturbances of one world, and its healing.
"""

import asyncio

from jackline_server.testing.simulation.weather import Kind
from jackline_server.testing.simulation.workers import LEASE_MS, Deployment, Worker

LASTS_S = 6.0
DAY_MS = 86_400_000


class Chaos:
    """The disturbances of one world."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._weather = deployment.weather
        self._chance = deployment.weather.chance

    async def rage(self) -> None:
        """Disturb the deployment for a while, as badly as the world's kind says. May be cancelled."""
        loop = asyncio.get_running_loop()
        until = loop.time() + LASTS_S
        while self._weather.kind is not Kind.CALM and loop.time() < until:
            await asyncio.sleep(self._chance.random() * 1.5)
            if self._weather.kind is Kind.GUSTS:
                await self._storm()
            else:
                await self._strike(self._chance.choice(self._deployment.workers))

    async def heal(self) -> None:
        """Undo everything: the store is well, the clocks are right, and both workers run."""
        self._weather.heal()
        self._weather.wall_ms.clear()
        for worker in self._deployment.workers:
            if not worker.up:
                await worker.boot()
            elif worker.process.frozen:
                worker.thaw()

    async def _strike(self, worker: Worker) -> None:
        """Do one terrible thing, to a worker or to the store."""
        if not worker.up:
            await worker.boot()
            return
        match self._weather.pick(crash=25, freeze=25, storm=20, clock=10, drain=10, nothing=10):
            case "crash":
                worker.crash()
            case "freeze":
                await self._freeze(worker)
            case "storm":
                await self._storm()
            case "clock":
                self._weather.clocks_jumped = True
                self._weather.wall_ms[worker.slot] = self._chance.randint(-DAY_MS, DAY_MS)
            case "drain":
                await worker.drain()
            case _:
                pass

    async def _freeze(self, worker: Worker) -> None:
        """Stop a process, often for longer than its leases live, and let it go on as a zombie."""
        process = worker.process
        worker.freeze()
        await asyncio.sleep(self._chance.random() * LEASE_MS * 2.5 / 1000)
        if worker.process is process:
            worker.thaw()

    async def _storm(self) -> None:
        """The store can't be reached for a while, or has no room."""
        down = self._weather.happens(0.5)
        self._weather.down, self._weather.full = down, not down
        await asyncio.sleep(self._chance.random() * 2)
        self._weather.down = self._weather.full = False

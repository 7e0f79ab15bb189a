"""An operator of a simulated world who engages the kill switch once or twice, and releases it.

Owns the dice of the switch, which are their own, so that worlds without it stay as they are.
"""

import asyncio

from jackline_server.runtime.assembly import Runtime
from jackline_server.runtime.service.kill_switch import Switched
from jackline_server.testing.simulation.clients import Client, Notebook
from jackline_server.testing.simulation.dice import dice_for
from jackline_server.testing.simulation.wishes import caller, draw_wish
from jackline_server.testing.simulation.workers import Deployment
from jackline_server.testing.validators.acts import Switching
from jackline_server.testing.validators.history import OK

_SHARE = 0.12
"""In so many of the worlds the switch is engaged."""

_AGAIN = 0.3
"""How often somebody engages, or releases, what they have."""


class Killing:
    """What the operator does, in one world."""

    def __init__(self, deployment: Deployment, notebook: Notebook) -> None:
        self._chance = dice_for("kill switch ", deployment.plans)
        self._deployment = deployment
        self._notebook = notebook
        self.happens = self._chance.random() < _SHARE

    async def act(self) -> None:
        """Engage and release it, as often as the dice say, then see whether a run can be started."""
        chance = self._chance
        for number in range(chance.choice((1, 1, 2))):
            await asyncio.sleep(0.3 + chance.random() * 3)
            operator = Client(f"killer-{number}", self._deployment, self._notebook)
            await self._move(operator, engages=True)
            await asyncio.sleep(chance.random() * 3)
            await self._move(operator, engages=False)
        starter = Client("after", self._deployment, self._notebook)
        await starter.start(draw_wish(self._deployment, chance.randrange(3)), tries=4)

    async def _move(self, operator: Client, *, engages: bool) -> None:
        """Move the switch, again if no answer came, and sometimes if one did."""
        while True:
            begin = self._deployment.now_ms()
            ending, _, _ = await operator.call(
                lambda runtime: _moved(runtime, operator.name, engages=engages), timeout_ms=4_000
            )
            self._notebook.switchings.append(
                Switching(
                    client=operator.name,
                    engages=engages,
                    begin_ms=begin,
                    end_ms=self._deployment.now_ms(),
                    ending=ending,
                )
            )
            if ending == OK and self._chance.random() >= _AGAIN:
                return
            await asyncio.sleep(self._chance.random() * 0.5)


async def _moved(runtime: Runtime, name: str, *, engages: bool) -> Switched:
    switch = runtime.kill_switch
    if engages:
        return await switch.engage(caller(name), reason="it spends")
    return await switch.release(caller(name), reason="mended")

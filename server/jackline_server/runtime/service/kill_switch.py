"""The kill switch as use cases: engage it, release it, say where it stands.

Owns the command that it gives to every run of the tenant. It is one for all of them, so that no run's plan
says what is masked in its reason: every kind of personal data is. That no run begins, and that none is
missed, is the store's: one commit engages the switch and tells all of them, so that no crash comes between.
"""

from jackline_server.core.commands import Abort, Command, halting_id
from jackline_server.core.facts import AbortMode, Phase, StopReason
from jackline_server.core.frozen import frozen
from jackline_server.runtime.driving.masking import EVERY_KIND, masked_words
from jackline_server.runtime.ports.codec import Codec
from jackline_server.runtime.ports.machine import Chance, Clock
from jackline_server.runtime.ports.masks import Masks
from jackline_server.runtime.ports.run_rows import RunQuery, Runs
from jackline_server.runtime.ports.signals import Signals
from jackline_server.runtime.ports.switches import Engagement, Engaging, Releasing, Switches
from jackline_server.runtime.ports.tenants import Tenant
from jackline_server.runtime.store_refusals import refusing_store_errors
from jackline_server.runtime.use_cases import Caller

LIVING = frozenset(phase for phase in Phase if not phase.terminal)


@frozen
class SwitchView:
    """Where a switch stands, and how many runs live. `engagement` is None if it was never engaged."""

    engagement: Engagement | None
    living: int


@frozen
class Switched:
    """What became of an action: where the switch stands now, and how many runs were told to end."""

    engagement: Engagement | None
    changed: bool
    told: int = 0


class KillSwitch:
    """Implements `service.ports.KillSwitchUseCases`."""

    def __init__(  # noqa: PLR0913 - one for each thing the switch touches
        self,
        *,
        switches: Switches,
        runs: Runs,
        codec: Codec,
        masks: Masks,
        signals: Signals,
        clock: Clock,
        chance: Chance,
    ) -> None:
        self._switches = switches
        self._runs = runs
        self._codec = codec
        self._masks = masks
        self._signals = signals
        self._clock = clock
        self._chance = chance

    async def engage(self, caller: Caller, *, reason: str) -> Switched:
        """Let no run of the tenant begin and tell every one to end; durable when it returns."""
        given = halting_id(self._chance.new_id(""))
        command = Command(
            command_id=given,
            ordinal=0,
            principal=caller.principal,
            reason=await masked_words(reason, EVERY_KIND, self._masks),
            expect_phase=None,
            expect_sequence=None,
            action=Abort(mode=AbortMode.NOW, skip_routes=True, cause=StopReason.KILL_SWITCH),
        )
        with refusing_store_errors():
            engaged = await self._switches.engage(
                Engaging(
                    tenant=caller.tenant,
                    unix_ms=self._clock.unix_ms(),
                    principal=caller.principal,
                    reason=reason,
                    command_id=given,
                    payload=self._codec.encode_command(command),
                )
            )
        for run_id in engaged.living:
            self._signals.nudge(run_id)
        return Switched(engagement=engaged.engagement, changed=engaged.fresh, told=len(engaged.living))

    async def release(self, caller: Caller, *, reason: str) -> Switched:
        """Let runs begin again."""
        with refusing_store_errors():
            ended = await self._switches.release(
                Releasing(
                    tenant=caller.tenant,
                    unix_ms=self._clock.unix_ms(),
                    principal=caller.principal,
                    reason=reason,
                )
            )
            if ended is not None:
                return Switched(engagement=ended, changed=True)
            return Switched(engagement=await self._switches.newest(caller.tenant), changed=False)

    async def engaged(self, tenant: Tenant) -> bool:
        """True while no run of the tenant begins."""
        with refusing_store_errors():
            newest = await self._switches.newest(tenant)
        return newest is not None and newest.engaged

    async def look(self, tenant: Tenant) -> SwitchView:
        """Where the switch stands."""
        with refusing_store_errors():
            page = await self._runs.page(RunQuery(tenant=tenant, phases=LIVING, labels={}, limit=1))
            return SwitchView(engagement=await self._switches.newest(tenant), living=page.total)

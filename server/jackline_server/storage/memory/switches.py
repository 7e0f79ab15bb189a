"""The Switches role of the memory store."""

from dataclasses import replace

from jackline_server.runtime.ports.switches import Engaged, Engagement, Engaging, Releasing
from jackline_server.runtime.ports.tenants import Tenant
from jackline_server.storage.memory.commands import deliver
from jackline_server.storage.memory.tables import MemorySwitch, MemoryTables


def halted(tables: MemoryTables, tenant: Tenant) -> MemorySwitch | None:
    """The tenant's switch, if it is engaged."""
    switch = tables.switches.get(tenant.id)
    return switch if switch is not None and switch.engagement.engaged else None


class MemorySwitches:
    """The kill switches of all tenants. No method awaits, so each is one atomic step."""

    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    async def engage(self, engaging: Engaging) -> Engaged:
        """As the port says."""
        held = halted(self._tables, engaging.tenant)
        switch = held or MemorySwitch(
            engagement=Engagement(
                tenant=engaging.tenant,
                engaged_unix_ms=engaging.unix_ms,
                engaged_by=engaging.principal,
                reason=engaging.reason,
            ),
            command_id=engaging.command_id,
            payload=engaging.payload,
        )
        self._tables.switches[engaging.tenant.id] = switch
        living = [
            run
            for run in self._tables.runs.values()
            if run.new.tenant == engaging.tenant and not run.terminal
        ]
        for run in living:
            deliver(run, switch.command_id, switch.payload)
        return Engaged(
            engagement=switch.engagement, fresh=held is None, living=[run.new.run_id for run in living]
        )

    async def release(self, releasing: Releasing) -> Engagement | None:
        """As the port says."""
        switch = halted(self._tables, releasing.tenant)
        if switch is None:
            return None
        switch.engagement = replace(
            switch.engagement,
            released_unix_ms=releasing.unix_ms,
            released_by=releasing.principal,
            release_reason=releasing.reason,
        )
        return switch.engagement

    async def newest(self, tenant: Tenant) -> Engagement | None:
        """As the port says."""
        switch = self._tables.switches.get(tenant.id)
        return None if switch is None else switch.engagement

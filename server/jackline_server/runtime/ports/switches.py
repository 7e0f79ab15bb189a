"""The kill switch of a tenant, as the runtime needs it from a store.

Owns those shapes and that port. While the switch is engaged no run of the tenant begins, and every run that
lives has been told to end by the commit that engaged it. Does not own what a run makes of that (`control`).
"""

from collections.abc import Sequence
from typing import Protocol

from jackline_server.core.frozen import frozen
from jackline_server.runtime.ports.tenants import Tenant


@frozen
class Engagement:
    """One time that the switch was engaged: since when, by whom and why, and the same of its release.

    `released_unix_ms` is None while it is engaged.
    """

    tenant: Tenant
    engaged_unix_ms: int
    engaged_by: str
    reason: str
    released_unix_ms: int | None = None
    released_by: str = ""
    release_reason: str = ""

    @property
    def engaged(self) -> bool:
        """True if no run of the tenant may begin."""
        return self.released_unix_ms is None


@frozen
class Engaging:
    """The switch to engage. `command_id` and `payload` are the command that every run is given."""

    tenant: Tenant
    unix_ms: int
    principal: str
    reason: str
    command_id: str
    payload: bytes


@frozen
class Releasing:
    """The switch to release."""

    tenant: Tenant
    unix_ms: int
    principal: str
    reason: str


@frozen
class Engaged:
    """The engagement that holds now, and the runs that live. `fresh` is False if it held before."""

    engagement: Engagement
    fresh: bool
    living: Sequence[str]


class Switches(Protocol):
    """The kill switches of all tenants."""

    async def engage(self, engaging: Engaging) -> Engaged:
        """Engage the switch and put the command into the table of every run that lives, in one commit.

        From then on `Journal.create` answers HALTED, and a run that an append brings forth has the command
        from its birth. If the switch is engaged already, its command comes to those that lack it, and nothing
        else changes.
        """
        ...

    async def release(self, releasing: Releasing) -> Engagement | None:
        """Let runs begin again; the engagement that this ended, None if there was none.

        Commands that were put into tables stay there.
        """
        ...

    async def newest(self, tenant: Tenant) -> Engagement | None:
        """The engagement that holds, or the last one that did; None if the switch was never engaged."""
        ...

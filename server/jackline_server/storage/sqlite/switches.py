"""The Switches role of the SQLite store: when kill switches were engaged, and what the runs were given.

Owns that table. The Journal asks inside its own operations: `is_halted` before a run is created,
`halt_newborn` for one that another run has brought forth.
"""

from typing import cast

from jackline_server.runtime.ports.journal import Message
from jackline_server.runtime.ports.switches import Engaged, Engagement, Engaging, Releasing
from jackline_server.runtime.ports.tenants import Tenant
from jackline_server.storage.sqlite.commands import deliver
from jackline_server.storage.sqlite.database import Database
from jackline_server.storage.sqlite.readers import Readers
from jackline_server.storage.sqlite.session import Session
from jackline_server.storage.sqlite.writing import Writing

_ENGAGED = "SELECT command_id, payload FROM kill_switches WHERE tenant = ? AND released_unix_ms IS NULL"
_INSERT = """
INSERT INTO kill_switches (tenant, engaged_unix_ms, engaged_by, reason, command_id, payload, released_by,
  release_reason)
VALUES (?, ?, ?, ?, ?, ?, '', '')
"""
_RELEASE = """
UPDATE kill_switches SET released_unix_ms = ?, released_by = ?, release_reason = ?
WHERE tenant = ? AND released_unix_ms IS NULL
"""
_NEWEST = """
SELECT engaged_unix_ms, engaged_by, reason, released_unix_ms, released_by, release_reason FROM kill_switches
WHERE tenant = ? ORDER BY switch_key DESC LIMIT 1
"""
_LIVING = "SELECT run_id FROM runs WHERE tenant = ? AND terminal = 0"


class SqliteSwitches:
    """The kill switches of all tenants, in SQLite."""

    def __init__(self, *, writer: Writing, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def engage(self, engaging: Engaging) -> Engaged:
        """As the port says."""
        return await self._writer.run(_engage, engaging)

    async def release(self, releasing: Releasing) -> Engagement | None:
        """As the port says."""
        return await self._writer.run(_release, releasing)

    async def newest(self, tenant: Tenant) -> Engagement | None:
        """As the port says."""
        return await self._readers.run(_newest, tenant.id)


def is_halted(session: Session, tenant: str) -> bool:
    """True if no run of the tenant may begin."""
    return _command(session, tenant) is not None


def halt_newborn(session: Session, tenant: str, run_id: str) -> None:
    """Give a run that was just inserted the command of an engaged switch."""
    command = _command(session, tenant)
    if command is not None:
        deliver(session, [Message(run_id=run_id, command_id=command[0], payload=command[1])])


def _command(session: Session, tenant: str) -> tuple[str, bytes] | None:
    return cast("tuple[str, bytes] | None", session.connection.execute(_ENGAGED, (tenant,)).fetchone())


def _engage(session: Session, engaging: Engaging) -> Engaged:
    session.flush()
    connection, tenant = session.connection, engaging.tenant.id
    command = _command(session, tenant)
    fresh = command is None
    if command is None:
        command = (engaging.command_id, engaging.payload)
        connection.execute(_INSERT, (tenant, engaging.unix_ms, engaging.principal, engaging.reason, *command))
    rows = cast("list[tuple[str]]", connection.execute(_LIVING, (tenant,)).fetchall())
    living = [run_id for (run_id,) in rows]
    deliver(session, [Message(run_id=one, command_id=command[0], payload=command[1]) for one in living])
    engagement = _newest(connection, tenant)
    if engagement is None:
        raise AssertionError("the switch was just engaged")
    return Engaged(engagement=engagement, fresh=fresh, living=living)


def _release(session: Session, releasing: Releasing) -> Engagement | None:
    session.flush()
    tenant = releasing.tenant.id
    session.connection.execute(_RELEASE, (releasing.unix_ms, releasing.principal, releasing.reason, tenant))
    return _newest(session.connection, tenant) if session.connection.changes() else None


def _newest(connection: Database, tenant: str) -> Engagement | None:
    row = connection.execute(_NEWEST, (tenant,)).fetchone()
    if row is None:
        return None
    engaged, by, reason, released, released_by, why = cast("tuple[int, str, str, int | None, str, str]", row)
    return Engagement(
        tenant=Tenant(tenant),
        engaged_unix_ms=engaged,
        engaged_by=by,
        reason=reason,
        released_unix_ms=released,
        released_by=released_by,
        release_reason=why,
    )

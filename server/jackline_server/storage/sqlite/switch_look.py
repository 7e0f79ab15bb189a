"""Which kill switches of a store are engaged, seen from outside: for `jackline doctor`.

Owns reading that from a data folder which a server may have, without changing anything in it.
"""

from pathlib import Path

import apsw

from jackline_server.runtime.ports.switches import Engagement
from jackline_server.runtime.ports.tenants import Tenant
from jackline_server.storage.sqlite.database import connect_frozen, connect_looking
from jackline_server.storage.sqlite.folder import DATABASE, log_of
from jackline_server.storage.sqlite.restore import prepared_restore

_ENGAGED = """
SELECT tenant, engaged_unix_ms, engaged_by, reason FROM kill_switches WHERE released_unix_ms IS NULL
ORDER BY tenant
"""


def engaged_switches(path: Path) -> tuple[Engagement, ...]:
    """The engaged switches of the store in a data folder; none where they can't be read just now."""
    prepared = prepared_restore(path)
    database = prepared or path / DATABASE
    logged = prepared is None and log_of(database).exists()
    try:
        connection = connect_looking(database) if logged else connect_frozen(database)
        try:
            return tuple(_engagement(*row) for row in connection.execute(_ENGAGED).fetchall())
        finally:
            connection.close()
    except apsw.Error:
        return ()  # a store from before there were switches, or one that is written anew this moment


def _engagement(tenant: str, engaged_unix_ms: int, engaged_by: str, reason: str) -> Engagement:
    return Engagement(
        tenant=Tenant(tenant), engaged_unix_ms=engaged_unix_ms, engaged_by=engaged_by, reason=reason
    )

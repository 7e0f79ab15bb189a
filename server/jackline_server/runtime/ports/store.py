"""What the runtime needs from a store, in its own words.

A store holds facts as bytes and understands none of them. Every method is one atomic step; a mutation
that returned is durable in the store's class. Every method takes the tenant, or acts on a run id that
the caller obtained under a tenant. Wall-clock times are Unix milliseconds; lease times are counted by
the store's own clock. Cancelling a call does not undo it: it was applied wholly or not at all.

Shared errors: `StoreUnavailable`, `StoreFull`.
"""

from enum import Enum

from jackline_server.core.frozen import frozen
from jackline_server.runtime.ports.blobs import Blobs
from jackline_server.runtime.ports.command_table import Commands
from jackline_server.runtime.ports.journal import Journal
from jackline_server.runtime.ports.leases import Leases
from jackline_server.runtime.ports.owners import Owners
from jackline_server.runtime.ports.revisions import Revisions
from jackline_server.runtime.ports.run_rows import Runs
from jackline_server.runtime.ports.switches import Switches
from jackline_server.runtime.ports.threads import Threads
from jackline_server.runtime.ports.webhooks import Deliveries


class Durability(Enum):
    """What an acknowledgement is worth."""

    FSYNC = "fsync"
    PROCESS = "process"
    NONE = "none"


@frozen
class Store:
    """All of it, as bootstrap hands it around; one object a role."""

    journal: Journal
    runs: Runs
    commands: Commands
    leases: Leases
    revisions: Revisions
    blobs: Blobs
    threads: Threads
    deliveries: Deliveries
    switches: Switches
    owners: Owners
    durability: Durability

"""Principals and what they may do.

Owns the closed set of scopes. Which call needs which is the doors' table.
"""

from enum import Enum

from jackline_server.core.frozen import frozen
from jackline_server.runtime.ports.tenants import Tenant


class Scope(Enum):
    """One thing that a credential allows."""

    RUNS_START = "runs:start"
    RUNS_OBSERVE = "runs:observe"
    RUNS_CONTENT = "runs:content"
    RUNS_CONTROL = "runs:control"
    RUNS_APPROVE = "runs:approve"
    RUNS_BOUNDS = "runs:bounds"
    WORKFLOWS_READ = "workflows:read"
    WORKFLOWS_WRITE = "workflows:write"
    TOOLS_SERVE = "tools:serve"
    ADMIN = "admin"


ALL_SCOPES = frozenset(Scope)


@frozen
class Principal:
    """A verified caller. `name` is what facts and receipts show."""

    tenant: Tenant
    name: str
    scopes: frozenset[Scope]

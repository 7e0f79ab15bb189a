"""One call as the servicers see it: who makes it, and how much of its time is left."""

from typing import Any, TypeAlias, cast

import grpc.aio

from jackline_server.core.frozen import frozen
from jackline_server.identity.principals import Principal
from jackline_server.runtime.ports.tenants import Tenant
from jackline_server.runtime.use_cases import Caller

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"  # generic in the stubs only
Transport = Any
"""What a handler of a library is given as its context."""


@frozen
class Call:
    """A call that was let in. `context` belongs to the transport; only streams write to it."""

    method: str
    principal: Principal
    context: Context

    @property
    def tenant(self) -> Tenant:
        """Whose data the call may touch."""
        return self.principal.tenant

    @property
    def caller(self) -> Caller:
        """Who facts will name."""
        return Caller(tenant=self.principal.tenant, principal=self.principal.name)

    @property
    def remaining_ms(self) -> int | None:
        """What is left of the caller's own deadline; None without one."""
        return remaining_ms(self.context)


def remaining_ms(context: Context) -> int | None:
    """What is left of the caller's own deadline; None without one."""
    left = cast("float | None", context.time_remaining())  # the stubs leave out that there may be none
    return None if left is None else int(left * 1000)

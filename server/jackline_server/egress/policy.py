"""Who may reach what: the judgement about an origin and about the addresses it resolved to.

Pure. Owns no socket and no resolver.
"""

from jackline_server.egress.addresses import AddressKind, kind_of_address
from jackline_server.runtime.ports.http import Origin, Reach

_STANDARD_PORTS = frozenset({80, 443})


def problem_of_origin(origin: Origin, reach: Reach, own_ports: frozenset[int]) -> str | None:
    """Say why the origin is refused whatever its address, or None. An origin the operator wrote is not."""
    if origin.scheme not in ("http", "https"):
        return f"scheme {origin.scheme!r}"
    if not origin.host or not 0 < origin.port < 65_536:  # noqa: PLR2004 - the ports that exist
        return "no host or port"
    if origin in reach.trusted:
        return None
    if origin.port in own_ports:
        return f"port {origin.port} is this server's own"
    if origin.port not in _STANDARD_PORTS:
        return f"port {origin.port} is not 80 or 443"
    if (reach.trusted or reach.hosts) and origin.host not in _hosts(reach):
        return f"host {origin.host!r} is not one of the connection's"
    return None


def problem_of_address(address: str, origin: Origin, reach: Reach) -> str | None:
    """Say why an address is refused for the origin, or None."""
    match kind_of_address(address):
        case AddressKind.PUBLIC:
            return None
        case AddressKind.PRIVATE:
            named = origin in reach.trusted and reach.trusted_private
            if named or (reach.allow_private and origin.host in _hosts(reach)):
                return None
            return f"{address} is a private address"
        case AddressKind.FORBIDDEN:
            return f"{address} is never reached"


def may_redirect(origin: Origin, to: Origin, reach: Reach) -> bool:
    """True if a redirect may lead from `origin` to `to`: the same or a listed host, never down to http."""
    if (origin.scheme, to.scheme) == ("https", "http"):
        return False
    return to.host == origin.host or to.host in reach.hosts


def _hosts(reach: Reach) -> frozenset[str]:
    return reach.hosts | {origin.host for origin in reach.trusted}

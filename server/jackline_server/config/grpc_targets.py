"""Where a gRPC server is, and by what it is known: the keys that every section has that names one."""

import re
from ipaddress import ip_address

from jackline_server.config.problems import ProblemCode
from jackline_server.config.section import Section
from jackline_server.runtime.ports.grpc import GrpcTls

_TARGET = re.compile(
    r"(?:dns:///)?(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9._-]+)):(?P<port>\d{1,5})", re.ASCII
)
_SOCKET = re.compile(r"unix:/[^\s\x00]{1,100}")
_LAST_PORT = 65_535


def read_target(table: Section, *, example: str) -> tuple[str, GrpcTls | None]:
    """The keys `target`, `tls`, `ca`, `certificate` and `key`: the target, and how it is secured.

    In the clear to a server on this machine, and to others only where `tls = false` says so.
    """
    target = table.text("target") or ""
    if not target and not table.has_seen("target"):
        table.missing("target", f"say where the service is, such as {example}")
    near = _is_near(target, table) if target else True
    secure = table.boolean("tls", default=not near)
    roots, certificate, key = table.path("ca"), table.path("certificate"), table.path("key")
    for option, given in (("ca", roots), ("certificate", certificate), ("key", key)):
        if given is not None and not secure:
            table.problem(ProblemCode.BAD_VALUE, option, "belongs to TLS; set tls = true")
    if (certificate is None) is not (key is None):
        table.problem(ProblemCode.BAD_VALUE, "certificate", "certificate and key come together")
    return target, GrpcTls(roots=roots, certificate=certificate, key=key) if secure else None


def _is_near(target: str, table: Section) -> bool:
    """True for a target on this machine, to which plain text is the default."""
    if _SOCKET.fullmatch(target) is not None:
        return True
    match = _TARGET.fullmatch(target)
    if match is None or int(match["port"]) > _LAST_PORT:
        table.problem(ProblemCode.BAD_VALUE, "target", "must be HOST:PORT, dns:///HOST:PORT or unix:/PATH")
        return True
    host = match["six"] or match["host"]
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"

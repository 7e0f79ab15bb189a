"""Sections `[hooks]` and `[policies]`: whom workflows may have asked around their runs, by name alone.

Owns what an operator says about each. A hook's class is named here and nowhere else: this is the list of what
may run in the server.
"""

import re
from collections.abc import Mapping
from ipaddress import ip_address

from jackline_server.config.headers import read_headers
from jackline_server.config.problems import ProblemCode
from jackline_server.config.section import Section
from jackline_server.config.sections import NAME
from jackline_server.core.gate_plans import OnHookError
from jackline_server.runtime.gate_ports import HookDeclaration, PolicyTarget, PolicyTls

_CLASS = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
_TARGET = re.compile(
    r"(?:dns:///)?(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9._-]+)):(?P<port>\d{1,5})", re.ASCII
)
_SOCKET = re.compile(r"unix:/[^\s\x00]{1,100}")
_LAST_PORT = 65_535


def read_hooks(section: Section) -> Mapping[str, HookDeclaration]:
    """The hooks by name. One that is not well described is reported."""
    return {name: _hook(name, table) for name, table in _named(section, "hook")}


def read_policies(section: Section) -> Mapping[str, PolicyTarget]:
    """The policy services by name. One that is not well described is reported."""
    return {name: _policy(name, table) for name, table in _named(section, "policy service")}


def _named(section: Section, what: str) -> list[tuple[str, Section]]:
    tables = list(section.tables())
    for name, _ in tables:
        if NAME.fullmatch(name) is None:
            section.problem(ProblemCode.BAD_VALUE, name, f"a {what}'s name is letters, digits, _ and -")
    return tables


def _hook(name: str, table: Section) -> HookDeclaration:
    class_path, entry_point = table.text("class"), table.text("entry_point")
    if class_path is None and entry_point is None and not table.has_seen("class"):
        table.missing("class", "name the class as package.module:Class, or an entry_point")
    if class_path is not None and _CLASS.fullmatch(class_path) is None:
        table.problem(ProblemCode.BAD_VALUE, "class", "must be package.module:Class")
    if class_path is not None and entry_point is not None:
        table.problem(ProblemCode.BAD_VALUE, "entry_point", "a hook has a class or an entry_point, not both")
    on_error = table.text("on_error", default=OnHookError.VETO.value) or ""
    modes = [mode.value for mode in OnHookError]
    if on_error not in modes:
        table.problem(ProblemCode.BAD_VALUE, "on_error", f"must be {' or '.join(modes)}")
        on_error = OnHookError.VETO.value
    options = table.table("options")
    declaration = HookDeclaration(
        name=name,
        class_path=class_path or "",
        entry_point=entry_point or "",
        options={} if options is None else options.free(),
        timeout_ms=table.span("timeout", default_ms=2_000, most_ms=600_000),
        on_error=OnHookError(on_error),
    )
    table.finish()
    return declaration


def _policy(name: str, table: Section) -> PolicyTarget:
    target = table.text("target") or ""
    if not target and not table.has_seen("target"):
        table.missing("target", "say where the service is, such as policy.internal:443")
    near = _is_near(target, table) if target else True
    secure = table.boolean("tls", default=not near)
    roots, certificate, key = table.path("ca"), table.path("certificate"), table.path("key")
    for option, given in (("ca", roots), ("certificate", certificate), ("key", key)):
        if given is not None and not secure:
            table.problem(ProblemCode.BAD_VALUE, option, "belongs to TLS; set tls = true")
    if (certificate is None) is not (key is None):
        table.problem(ProblemCode.BAD_VALUE, "certificate", "certificate and key come together")
    policy = PolicyTarget(
        name=name,
        target=target,
        tls=PolicyTls(roots=roots, certificate=certificate, key=key) if secure else None,
        headers=read_headers(table, of="policy service"),
    )
    table.finish()
    return policy


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

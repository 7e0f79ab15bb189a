"""Sections `[hooks]` and `[policies]`: whom workflows may have asked around their runs, by name alone.

Owns what an operator says about each. A hook's class is named here and nowhere else: this is the list of what
may run in the server.
"""

import re
from collections.abc import Mapping

from jackline_server.config.grpc_targets import read_target
from jackline_server.config.headers import read_headers
from jackline_server.config.problems import ProblemCode
from jackline_server.config.section import Section
from jackline_server.config.sections import NAME
from jackline_server.core.gate_plans import OnHookError
from jackline_server.runtime.ports.gates import HookDeclaration, PolicyTarget

_CLASS = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)


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
    target, tls = read_target(table, example="policy.internal:443")
    policy = PolicyTarget(
        name=name,
        target=target,
        tls=tls,
        headers=read_headers(table, of="policy service"),
    )
    table.finish()
    return policy

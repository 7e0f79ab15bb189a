"""The environment of a program that the server starts: all of it, nothing is inherited."""

import re
from collections.abc import Mapping

from jackline_server.config.problems import ProblemCode
from jackline_server.config.section import Section
from jackline_server.runtime.ports.secrets import Secret

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)


def read_environment(table: Section) -> Mapping[str, Secret]:
    """The table `env`: the variables by name."""
    variables = table.table("env")
    if variables is None:
        return {}
    read: dict[str, Secret] = {}
    for name in variables.keys():  # noqa: SIM118 - a section is no mapping
        value = variables.secret(name)
        if _VARIABLE.fullmatch(name) is None:
            variables.problem(ProblemCode.BAD_VALUE, name, "is not the name of a variable")
        elif value is not None:
            read[name] = value
    return read

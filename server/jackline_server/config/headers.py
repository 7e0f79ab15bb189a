"""Headers that an operator has sent with every request to a server: a table of names and hidden values."""

import re
from collections.abc import Mapping

from jackline_server.config.problems import ProblemCode
from jackline_server.config.section import Section
from jackline_server.runtime.ports.secrets import Secret

_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}", re.ASCII)
_NOT_A_HEADER = frozenset(
    {
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "cookie",
        "accept-encoding",
        "idempotency-key",
    }
)


def read_headers(table: Section, *, of: str) -> Mapping[str, Secret]:
    """The table `headers`, empty without one. `of` names in messages what they belong to."""
    headers = table.table("headers")
    if headers is None:
        return {}
    read: dict[str, Secret] = {}
    for name in headers.keys():  # noqa: SIM118 - a section is no mapping
        value = headers.secret(name)
        if _HEADER.fullmatch(name) is None or name.lower() in _NOT_A_HEADER:
            headers.problem(ProblemCode.BAD_VALUE, name, f"is not a header that a {of} may set")
        elif value is not None:
            read[name] = value
    return read

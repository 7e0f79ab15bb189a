"""The request of an HTTP step, checked as far as it can be before it is sent.

Owns what a workflow may write as path, query, headers and body: never a scheme, a host, or a header that the
engine or the connection sets. Does not own encoding of values (`tools`).
"""

import re

from jackline_server.core import templates
from jackline_server.core.plan import HttpAction
from jackline_server.definitions.catalog import Catalog, nearest
from jackline_server.definitions.parameters import json_text
from jackline_server.definitions.report import Report
from jackline_server.definitions.shapes import HttpShape
from jackline_server.definitions.yaml_nodes import Path

_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
_LITERAL_PATH = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*")
_HIDDEN_PATH = re.compile(r"%(?:2[eEfF]|5[cC]|00)")
_FORBIDDEN_HEADERS = frozenset(
    {
        "authorization",
        "connection",
        "content-length",
        "cookie",
        "expect",
        "host",
        "idempotency-key",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_NO_BODY = ("GET", "HEAD")


def build(step: HttpShape, path: Path, catalog: Catalog, report: Report) -> HttpAction:
    """The action of the plan; what is wrong with it is in the report."""
    if step.connection not in catalog.http_connections:
        hint = nearest(step.connection, catalog.http_connections)
        message = f"there is no HTTP connection `{step.connection[:64]}` in the server's config{hint}"
        report.error("unknown_connection", message, (*path, "connection"))
    if problem := _path_problem(step.path):
        report.error("bad_path", problem, (*path, "path"))
    for name, value in step.headers.items():
        if problem := _header_problem(name, value):
            report.error("bad_header", problem, (*path, "headers", name), of_key=True)
    has_body = "body" in step.model_fields_set
    if has_body and step.method in _NO_BODY:
        report.error("bad_body", f"a {step.method} request has no body", (*path, "body"))
    return HttpAction(
        connection=step.connection,
        method=step.method,
        path=step.path,
        query=dict(step.query),
        headers=dict(step.headers),
        body_json=json_text(step.body) if has_body else None,
    )


def _path_problem(text: str) -> str | None:
    """Why a path can't be sent. A template stands inside one segment; its value is encoded there."""
    try:
        parts = templates.parse(text)
    except templates.TemplateError:
        return None  # reported with all templates
    literal = "".join(part.text if isinstance(part, templates.Literal) else "x" for part in parts)
    if not isinstance(parts[0] if parts else None, templates.Literal) or not literal.startswith("/"):
        return "a path begins with `/`; scheme and host are the connection's"
    if literal.startswith("//") or any(segment in (".", "..") for segment in literal.split("/")):
        return "a path has no `//` at its start and no segments `.` or `..`"
    if not _LITERAL_PATH.fullmatch(literal) or _HIDDEN_PATH.search(literal):
        return "a path holds letters, digits and `-._~!$&'()*+,;=:@/`; query parameters go under `query`"
    return None


def _header_problem(name: str, value: str) -> str | None:
    lower = name.lower()
    if not _HEADER.fullmatch(name):
        return "this is not the name of a header"
    if lower in _FORBIDDEN_HEADERS or lower.startswith(("proxy-", "x-forwarded-")):
        return f"the header `{lower}` is set by the engine or the connection, not by a workflow"
    if not value.isprintable():
        return f"the value of the header `{lower}` holds a control character"
    return None

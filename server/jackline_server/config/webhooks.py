"""Section `[webhooks]`: whom the server tells of ends and open questions by itself.

Owns what an operator says of each endpoint. The address is the operator's own word; that its name leads to a
private address is not, unless it says so.
"""

import re
from collections.abc import Collection, Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from jackline_server.config.connections import NOWHERE, read_origin
from jackline_server.config.problems import ProblemCode
from jackline_server.config.section import Section
from jackline_server.config.sections import NAME
from jackline_server.core.facts import Phase
from jackline_server.runtime.ports.http import Origin, Reach
from jackline_server.runtime.ports.secrets import Secret
from jackline_server.runtime.ports.webhooks import WebhookEndpoint, WebhookEvent, signing_key

EVENTS = tuple(event.value for event in WebhookEvent)
ENDS = tuple(phase.value for phase in Phase if phase.terminal)
VIEWS = ("metadata", "full")
MOST_TIMEOUT_MS = 25_000
"""So that a test by hand comes to its end within the time of one call."""

_TARGET = re.compile(r"(/[A-Za-z0-9%!$&'()*+,;=:@._~-]*)*(\?[A-Za-z0-9%!$&'()*+,;=:@._~/?-]*)?", re.ASCII)


def read_webhooks(section: Section) -> Mapping[str, WebhookEndpoint]:
    """The endpoints by name. One that is not well described is reported."""
    endpoints: dict[str, WebhookEndpoint] = {}
    for name, table in section.tables():
        if NAME.fullmatch(name) is None:
            section.problem(ProblemCode.BAD_VALUE, name, "a webhook's name is letters, digits, _ and -")
        endpoints[name] = _endpoint(name, table)
    return endpoints


def _endpoint(name: str, table: Section) -> WebhookEndpoint:
    origin, target = _url(table)
    secrets = tuple(filter(None, (_secret(table, "secret"), _secret(table, "previous_secret"))))
    if not table.has_seen("secret"):
        table.missing("secret", "say with what messages are signed: whsec_ and 24 to 64 bytes in base64")
    labels = table.table("labels")
    allow_private = table.boolean("allow_private", default=False) or False
    endpoint = WebhookEndpoint(
        name=name,
        origin=origin,
        target=target,
        secrets=secrets,
        events=frozenset(map(WebhookEvent, _chosen(table, "events", EVENTS, default=EVENTS))),
        states=frozenset(map(Phase, _chosen(table, "states", ENDS))),
        signals=frozenset(table.texts("signals")),
        workflows=frozenset(table.texts("workflows")),
        labels={} if labels is None else _labels(labels),
        children=table.boolean("children", default=False) or False,
        full=_view(table) == "full",
        timeout_ms=table.span("timeout", default_ms=10_000, most_ms=MOST_TIMEOUT_MS),
        concurrency=table.integer("concurrency", default=4, least=1, most=64),
        reach=Reach(trusted=frozenset({origin}), trusted_private=allow_private or _names_private(origin)),
    )
    table.finish()
    return endpoint


def _url(table: Section) -> tuple[Origin, str]:
    url = table.text("url")
    if url is None:
        if not table.has_seen("url"):
            table.missing("url", "say where messages go, such as https://hooks.example.com/jackline")
        return NOWHERE, "/"
    try:
        parts = urlsplit(url)
        origin = read_origin(parts)
    except ValueError:
        origin, parts = None, urlsplit("")
    target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    if origin is None or "#" in url or _TARGET.fullmatch(target) is None:
        table.problem(ProblemCode.BAD_VALUE, "url", "must be an http or https URL without a user or fragment")
        return NOWHERE, "/"
    if any(segment in (".", "..") for segment in parts.path.split("/")):
        table.problem(ProblemCode.BAD_VALUE, "url", "its path holds . or ..")
    return origin, target


def _names_private(origin: Origin) -> bool:
    """True for an address, and for this machine: whoever writes it knows where it leads."""
    try:
        ip_address(origin.host)
    except ValueError:
        return origin.host == "localhost"
    return True


def _secret(table: Section, key: str) -> Secret | None:
    secret = table.secret(key)
    if secret is None:
        return None
    try:
        signing_key(secret)
    except ValueError as error:
        table.problem(ProblemCode.BAD_VALUE, key, f"is no secret of a webhook: {error}")
        return None
    return secret


def _chosen(
    table: Section, key: str, known: Collection[str], *, default: Collection[str] = ()
) -> tuple[str, ...]:
    chosen = table.texts(key, default=default)
    if unknown := [one for one in chosen if one not in known]:
        said = f"{table.quoted(key, unknown[0])} is none of {', '.join(known)}"
        table.problem(ProblemCode.BAD_VALUE, key, said)
    return tuple(one for one in chosen if one in known)


def _labels(labels: Section) -> Mapping[str, str]:
    read: dict[str, str] = {}
    for key, value in labels.free().items():
        if isinstance(value, str):
            read[key] = value
        else:
            labels.problem(ProblemCode.BAD_VALUE, key, "a label's value is a string")
    return read


def _view(table: Section) -> str:
    view = table.text("view", default="metadata") or ""
    if view not in VIEWS:
        table.problem(ProblemCode.BAD_VALUE, "view", f"must be {' or '.join(VIEWS)}")
    return view

"""Endpoints of tests: what an operator would have written, and who is there."""

import base64
import hashlib
import hmac
from typing import Any

from jackline_server.runtime.ports.http import Origin, Reach
from jackline_server.runtime.ports.secrets import Secret
from jackline_server.runtime.ports.webhooks import WebhookEndpoint, WebhookEvent

KEY = b"k" * 24
SECRET = Secret("whsec_" + base64.b64encode(KEY).decode())
OLD_KEY = b"o" * 32
OLD_SECRET = Secret("whsec_" + base64.b64encode(OLD_KEY).decode())
NOWHERE = Origin(scheme="https", host="hooks.example", port=443)


def endpoint(name: str = "ops", *, origin: Origin = NOWHERE, **more: Any) -> WebhookEndpoint:
    """One that is told everything, unless the test says otherwise."""
    fields: dict[str, Any] = {
        "target": "/jackline?x=1",
        "secrets": (SECRET,),
        "events": frozenset(WebhookEvent),
        "states": frozenset(),
        "signals": frozenset(),
        "workflows": frozenset(),
        "labels": {},
        "children": False,
        "full": False,
        "timeout_ms": 5_000,
        "concurrency": 4,
        "reach": Reach(trusted=frozenset({origin})),
        **more,
    }
    return WebhookEndpoint(name=name, origin=origin, **fields)


def is_signed(headers: dict[str, str], body: bytes, *, key: bytes = KEY) -> bool:
    """What a receiver does: the signature is that of id, time and body."""
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    wanted = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return any(hmac.compare_digest(one, wanted) for one in headers["webhook-signature"].split())

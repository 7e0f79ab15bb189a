"""Page tokens: where a page ended, bound to who asked and for what.

A token is `version · mac · position`, in URL-safe Base64. The MAC covers the method, the tenant and the
filters, so that a token of another tenant, another query or another server is none. It carries no authority:
what it leads to is looked up under the caller's tenant.
"""

import base64
import binascii
import hashlib
import hmac
import json
from typing import cast

from google.protobuf.message import Message

from jackline_server.api.refusals import DoorReason, DoorRefused
from jackline_server.core.plan import JsonValue
from jackline_server.runtime.ports.tenants import Tenant
from jackline_server.runtime.refusals import Violation

_VERSION = b"\x01"
_MAC_BYTES = 16
_LONGEST = 1024


class PageTokens:
    """Makes and reads tokens with one key; a server keeps it with its data."""

    __slots__ = ("_key",)

    def __init__(self, *, key: bytes) -> None:
        self._key = key

    def make(self, tenant: Tenant, query: Message, position: JsonValue) -> str:
        """The token for the page after `position`. `query` is the request, its paging fields aside."""
        payload = json.dumps(position, separators=(",", ":")).encode()
        mac = self._mac(tenant, query, payload)
        return base64.urlsafe_b64encode(_VERSION + mac + payload).decode().rstrip("=")

    def read(self, tenant: Tenant, query: Message, token: str) -> JsonValue:
        """The position back. Raises DoorRefused (BAD_PAGE_TOKEN)."""
        if len(token) > _LONGEST or not token.isascii():
            raise _bad()
        try:
            data = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            raise _bad() from None
        mac, payload = data[1 : 1 + _MAC_BYTES], data[1 + _MAC_BYTES :]
        if data[:1] != _VERSION or not hmac.compare_digest(mac, self._mac(tenant, query, payload)):
            raise _bad()
        return cast(JsonValue, json.loads(payload))

    def _mac(self, tenant: Tenant, query: Message, payload: bytes) -> bytes:
        scope = _filters(query)
        parts = (tenant.id.encode(), query.DESCRIPTOR.full_name.encode(), scope, payload)
        framed = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        return hmac.new(self._key, framed, hashlib.sha256).digest()[:_MAC_BYTES]


def _filters(query: Message) -> bytes:
    filters = type(query)()
    filters.CopyFrom(query)
    for name in ("page_size", "page_token"):
        filters.ClearField(name)
    filters.DiscardUnknownFields()  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]  # missing in the stubs
    return filters.SerializeToString(deterministic=True)


def _bad() -> DoorRefused:
    return DoorRefused(
        DoorReason.BAD_PAGE_TOKEN,
        "The page token is not one of this server for this query. Start again without a token.",
        violations=(Violation(field="page_token", description="not valid for this query", reason="TOKEN"),),
    )

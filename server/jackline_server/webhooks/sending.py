"""One attempt at one endpoint: a signed POST, and what its answer means.

Owns the headers of Standard Webhooks and the reading of an answer's head. Of an answer's body nothing is
kept. Does not own when there is another attempt (`delivering`) nor what may be reached (`egress`).
"""

import asyncio
import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence

from jackline_server.runtime.ports.http import (
    HttpFailure,
    HttpLate,
    HttpRefused,
    HttpUnreadable,
    HttpUnsent,
    retry_after_ms,
)
from jackline_server.runtime.ports.http_streams import HttpPool, HttpPools, PoolSettings
from jackline_server.runtime.ports.machine import Clock
from jackline_server.runtime.ports.webhooks import AttemptOutcome, Tried, WebhookEndpoint, signing_key

RETRY_AFTER_MOST_MS = 3_600_000
"""No endpoint makes us wait longer."""

_OK = range(200, 300)
_REDIRECT = range(300, 400)
_GONE = 410
_SERVER_ERRORS = range(500, 600)


class EndpointSender:
    """Sends to one endpoint over kept connections. Used in one event loop; whoever made it closes it."""

    def __init__(self, endpoint: WebhookEndpoint, *, pools: HttpPools, clock: Clock) -> None:
        self._endpoint = endpoint
        self._keys = tuple(signing_key(secret) for secret in endpoint.secrets)
        self._pools = pools
        self._clock = clock
        self._pool: HttpPool | None = None
        self._making = asyncio.Lock()

    async def send(self, message_id: str, body: bytes) -> Tried:
        """Make one attempt, within the endpoint's time. Cancelling it closes the connection."""
        began = self._clock.monotonic_ms()
        status, asked = 0, None
        try:
            async with asyncio.timeout(self._endpoint.timeout_ms / 1000):
                pool = await self._ready()
                headers = signed_headers(
                    message_id, body, keys=self._keys, unix_s=self._clock.unix_ms() // 1000
                )
                async with pool.post(self._endpoint.target, headers=headers, body=body) as answer:
                    status = answer.status
                    asked = retry_after_ms(
                        answer.headers.get("Retry-After"),
                        now_unix_s=self._clock.unix_ms() / 1000,
                        most_ms=RETRY_AFTER_MOST_MS,
                    )
            outcome = _meaning(status)
        except HttpFailure as failure:
            outcome = _failed(failure)
        except TimeoutError:
            # With a status the endpoint has answered, and only the connection took its time to end.
            outcome = _meaning(status) if status else AttemptOutcome.TIMED_OUT
        took_ms = self._clock.monotonic_ms() - began
        return Tried(outcome=outcome, status=status, took_ms=took_ms, retry_after_ms=asked)

    async def close(self) -> None:
        """Close every connection."""
        if self._pool is not None:
            await self._pool.close()

    async def _ready(self) -> HttpPool:
        async with self._making:
            if self._pool is None:
                self._pool = await self._pools.pool(
                    PoolSettings(
                        origin=self._endpoint.origin,
                        reach=self._endpoint.reach,
                        connections=self._endpoint.concurrency + 1,  # one for tests by hand
                        connect_ms=self._endpoint.timeout_ms,
                        reads_bodies=False,
                    )
                )
            return self._pool


def signed_headers(message_id: str, body: bytes, *, keys: Sequence[bytes], unix_s: int) -> Mapping[str, str]:
    """The headers of Standard Webhooks: id, time, and a signature of both and the body for each key."""
    signed = f"{message_id}.{unix_s}.".encode() + body
    signatures = (hmac.new(key, signed, hashlib.sha256).digest() for key in keys)
    return {
        "Content-Type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": str(unix_s),
        "webhook-signature": " ".join(f"v1,{base64.b64encode(one).decode()}" for one in signatures),
    }


def _meaning(status: int) -> AttemptOutcome:
    if status in _OK:
        return AttemptOutcome.DELIVERED
    if status in _REDIRECT:
        return AttemptOutcome.REDIRECTED
    if status == _GONE:
        return AttemptOutcome.GONE
    return AttemptOutcome.SERVER_ERROR if status in _SERVER_ERRORS else AttemptOutcome.REFUSED


def _failed(failure: HttpFailure) -> AttemptOutcome:
    match failure:
        case HttpRefused():
            return AttemptOutcome.FORBIDDEN
        case HttpUnsent():
            return AttemptOutcome.UNREACHABLE
        case HttpLate():
            return AttemptOutcome.TIMED_OUT
        case HttpUnreadable():
            return AttemptOutcome.NOT_HTTP
        case _:
            return AttemptOutcome.BROKEN_OFF

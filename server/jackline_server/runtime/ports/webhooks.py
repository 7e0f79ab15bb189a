"""Webhooks: what an operator has told to whom, and the deliveries that a store owes.

Owns the shapes and the ports. A delivery is written by the commit of the fact that it tells of
(`Append.deliveries`), under an id that follows from both, so that neither is there without the other, and
what is sent twice is known by its id. Does not own what a message says or how it is sent (`webhooks`). Times
are Unix milliseconds.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Protocol

from jackline_server.core.facts import Phase
from jackline_server.core.frozen import frozen
from jackline_server.runtime.ports.http import Origin, Reach
from jackline_server.runtime.ports.secrets import Secret
from jackline_server.runtime.ports.tenants import Tenant

SECRET_PREFIX = "whsec_"  # noqa: S105 - how secrets begin, not one
_KEY_BYTES = range(24, 65)


class WebhookEvent(Enum):
    """What is told; the value is the `type` of the message."""

    INTERRUPT_RAISED = "interrupt.raised"
    INTERRUPT_RESOLVED = "interrupt.resolved"
    RUN_FINISHED = "run.finished"


@frozen
class WebhookEndpoint:
    """Whom an operator has told what.

    `target` is the path with its query. A message is signed with each of `secrets`, the newest first. Empty
    `states`, `signals`, `workflows` and `labels` do not filter; the first two are of ends alone. `children`
    has the ends of child runs told as well. `full` sends what was asked, said and came out too. `timeout_ms`
    bounds one attempt, `concurrency` how many there are at once.
    """

    name: str
    origin: Origin
    target: str
    secrets: tuple[Secret, ...]
    events: frozenset[WebhookEvent]
    states: frozenset[Phase]
    signals: frozenset[str]
    workflows: frozenset[str]
    labels: Mapping[str, str]
    children: bool
    full: bool
    timeout_ms: int
    concurrency: int
    reach: Reach


def signing_key(secret: Secret) -> bytes:
    """The key that a secret stands for: `whsec_` and 24 to 64 bytes in base64. Raises ValueError."""
    text = secret.reveal()
    if not text.startswith(SECRET_PREFIX):
        raise ValueError("it does not begin with whsec_")
    try:
        key = base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
    except binascii.Error:
        raise ValueError("what follows whsec_ is not base64") from None
    if len(key) not in _KEY_BYTES:
        raise ValueError(f"what follows whsec_ is {len(key)} bytes, not 24 to 64")
    return key


# --- what is owed ------------------------------------------------------------------------------


@frozen
class NewDelivery:
    """A message that a fact of the run being committed owes to an endpoint. `body` is sent as it is."""

    delivery_id: str
    endpoint: str
    event: str
    sequence: int
    created_unix_ms: int
    body: bytes


class DeliveryState(Enum):
    """Where a delivery stands."""

    PENDING = "pending"
    DELIVERED = "delivered"
    DEAD = "dead"


class AttemptOutcome(Enum):
    """What became of one attempt."""

    DELIVERED = "delivered"
    FORBIDDEN = "forbidden"
    UNREACHABLE = "unreachable"
    TIMED_OUT = "timed_out"
    BROKEN_OFF = "broken_off"
    NOT_HTTP = "not_http"
    REDIRECTED = "redirected"
    GONE = "gone"
    REFUSED = "refused"
    SERVER_ERROR = "server_error"


@frozen
class DueDelivery:
    """A delivery that was claimed. `attempt` counts from 1, `tries` those since it was last (re)sent."""

    delivery_id: str
    event: str
    attempt: int
    tries: int
    body: bytes


@frozen
class Claimed:
    """What was due, and when the next one of the endpoint is; None if none waits."""

    due: Sequence[DueDelivery]
    next_unix_ms: int | None


@frozen
class Settled:
    """The end of one attempt. `status` is 0 without an answer; `due_unix_ms` is the next one's."""

    delivery_id: str
    attempt: int
    ended_unix_ms: int
    took_ms: int
    outcome: AttemptOutcome
    status: int
    state: DeliveryState
    due_unix_ms: int | None = None


@frozen
class AttemptRow:
    """One attempt as the log has it."""

    attempt: int
    ended_unix_ms: int
    took_ms: int
    outcome: AttemptOutcome
    status: int


@frozen
class DeliveryRow:
    """A delivery without its body, with its newest attempts, oldest first. `position` orders all of them."""

    tenant: Tenant
    delivery_id: str
    endpoint: str
    event: str
    run_id: str
    sequence: int
    created_unix_ms: int
    state: DeliveryState
    due_unix_ms: int | None
    settled_unix_ms: int | None
    attempts: int
    log: Sequence[AttemptRow]
    position: int


@frozen
class DeliveryQuery:
    """A page of deliveries, newest first. What is empty or None does not filter."""

    tenant: Tenant
    endpoint: str = ""
    run_id: str = ""
    state: DeliveryState | None = None
    before: int | None = None
    limit: int


@frozen
class Sweep:
    """What is over: what was settled before then, what waits since before then."""

    now_unix_ms: int
    delivered_before: int
    dead_before: int
    pending_before: int
    limit: int


LOG_ATTEMPTS = 32
"""So many attempts of a delivery are kept in its log, the newest."""


class DeliveryQueue(Protocol):
    """What a deliverer needs. Several may ask: a delivery is claimed by one at a time."""

    async def claim(self, endpoint: str, *, now_unix_ms: int, until_unix_ms: int, limit: int) -> Claimed:
        """Take what is due, oldest first; each counts as attempted.

        One that nobody settles is due again at `until_unix_ms`, or as soon as the process that claimed it is
        known to be gone.
        """
        ...

    async def settle(self, settled: Settled) -> bool:
        """Record the end of an attempt; False, without effect, if another attempt has begun since."""
        ...

    async def sweep(self, sweep: Sweep) -> int:
        """Let pending ones that are over die, remove settled ones; how many that were, at most `limit`."""
        ...


class DeliveryLog(Protocol):
    """What an operator sees of deliveries and may do."""

    async def page(self, query: DeliveryQuery) -> Sequence[DeliveryRow]:
        """One page."""
        ...

    async def count(self, tenant: Tenant, endpoint: str) -> Mapping[DeliveryState, int]:
        """How many deliveries to an endpoint stand where."""
        ...

    async def resend(self, tenant: Tenant, delivery_id: str, *, now_unix_ms: int) -> DeliveryRow | None:
        """Have it sent again at once, with all its tries before it; None if there is none of that id."""
        ...


class Deliveries(DeliveryQueue, DeliveryLog, Protocol):
    """The table of deliveries."""


# --- who sends ----------------------------------------------------------------------------------


@frozen
class Tried:
    """What one attempt came to. `retry_after_ms` is what the endpoint asked for, if it did."""

    outcome: AttemptOutcome
    status: int
    took_ms: int
    retry_after_ms: int | None = None


class WebhookSender(Protocol):
    """Who sends."""

    async def test(self, name: str) -> Tried:
        """Send an endpoint of the config a message of type `webhook.test` now; nothing is stored."""
        ...

    def stopped_unix_ms(self, name: str) -> int | None:
        """Since when an endpoint is left alone because it has said that it is gone; None if it is not."""
        ...

    def nudge(self) -> None:
        """Look for what is due."""
        ...

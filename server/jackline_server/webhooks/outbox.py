"""What a commit owes to the operator's webhooks.

Implements `runtime.driving.outboxes.Outbox`. Owns who is told of what, and the ids of deliveries: they follow
from the fact and the endpoint, so that whatever is made twice is the same. Does not own the words
(`messages`).
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence

from jackline_server.core.facts import InterruptRaised, InterruptResolved, RunFinished
from jackline_server.core.state import RunState
from jackline_server.runtime.ports.codec import Record
from jackline_server.runtime.ports.webhooks import NewDelivery, WebhookEndpoint
from jackline_server.webhooks.messages import Telling, event_of, message

_TOLD = frozenset((InterruptRaised, InterruptResolved, RunFinished))
_ID_CHARS = 32


class EndpointOutbox:
    """The outbox of these endpoints. `on_owed` is called when deliveries have become durable."""

    def __init__(self, endpoints: Sequence[WebhookEndpoint], *, on_owed: Callable[[], None]) -> None:
        self._endpoints = tuple(endpoints)
        self._on_owed = on_owed

    def owed(
        self, noted: Sequence[tuple[Record, RunState]], state: RunState, *, labels: Mapping[str, str]
    ) -> Sequence[NewDelivery]:
        """See Outbox. Most commits tell nobody anything, and cost a look at their facts' kinds."""
        if not any(type(record.fact) in _TOLD for record, _ in noted):
            return ()
        afters = [*(before for _, before in noted[1:]), state]
        return [
            _delivery(endpoint, telling)
            for (record, before), after in zip(noted, afters, strict=True)
            if isinstance(record.fact, InterruptRaised | InterruptResolved | RunFinished)
            for telling in (
                Telling(record=record, fact=record.fact, before=before, after=after, labels=labels),
            )
            for endpoint in self._endpoints
            if wants(endpoint, telling)
        ]

    def nudge(self) -> None:
        """See Outbox."""
        self._on_owed()


def wants(endpoint: WebhookEndpoint, telling: Telling) -> bool:
    """True if the operator has the endpoint told of that."""
    started, fact = telling.after.started, telling.fact
    if event_of(fact) not in endpoint.events:
        return False
    if endpoint.workflows and started.workflow not in endpoint.workflows:
        return False
    if not endpoint.labels.items() <= telling.labels.items():
        return False
    if not isinstance(fact, RunFinished):
        return True
    return (
        (started.parent is None or endpoint.children)
        and (not endpoint.states or fact.phase in endpoint.states)
        and (not endpoint.signals or fact.signal in endpoint.signals)
    )


def delivery_id(run_id: str, sequence: int, endpoint: str) -> str:
    """The id of what a fact owes an endpoint: the same whoever asks, and no other's."""
    named = f"{run_id}\n{sequence}\n{endpoint}".encode()
    return f"msg_{hashlib.sha256(named).hexdigest()[:_ID_CHARS]}"


def _delivery(endpoint: WebhookEndpoint, telling: Telling) -> NewDelivery:
    envelope = telling.record.envelope
    return NewDelivery(
        delivery_id=delivery_id(envelope.run_id, envelope.sequence, endpoint.name),
        endpoint=endpoint.name,
        event=event_of(telling.fact).value,
        sequence=envelope.sequence,
        created_unix_ms=envelope.unix_ms,
        body=message(telling, full=endpoint.full),
    )

"""Webhooks and deliveries as response messages. No secret, and no more of a URL than its origin."""

from jackline.v1 import webhook_service_pb2 as wire
from jackline_server.codec.enums import EnumTable
from jackline_server.codec.values import set_time
from jackline_server.runtime.ports.webhooks import AttemptOutcome, DeliveryRow, DeliveryState, Tried
from jackline_server.runtime.service.webhooking import WebhookView

DELIVERY_STATE = EnumTable(DeliveryState, wire.WebhookDeliveryState, "WEBHOOK_DELIVERY_STATE")
OUTCOME = EnumTable(AttemptOutcome, wire.WebhookAttemptOutcome, "WEBHOOK_ATTEMPT_OUTCOME")


def webhook_message(view: WebhookView) -> wire.Webhook:
    """A webhook of the config."""
    endpoint, counts = view.endpoint, view.counts
    host = f"[{endpoint.origin.host}]" if ":" in endpoint.origin.host else endpoint.origin.host
    message = wire.Webhook(
        name=endpoint.name,
        origin=f"{endpoint.origin.scheme}://{host}:{endpoint.origin.port}",
        events=sorted(event.value for event in endpoint.events),
        full=endpoint.full,
        pending_count=counts.get(DeliveryState.PENDING, 0),
        delivered_count=counts.get(DeliveryState.DELIVERED, 0),
        dead_count=counts.get(DeliveryState.DEAD, 0),
    )
    if view.stopped_unix_ms is not None:
        set_time(message.stopped_at, view.stopped_unix_ms)
    return message


def delivery_message(row: DeliveryRow) -> wire.WebhookDelivery:
    """A delivery with its attempts."""
    message = wire.WebhookDelivery(
        delivery_id=row.delivery_id,
        webhook=row.endpoint,
        event=row.event,
        run_id=row.run_id,
        sequence=row.sequence,
        state=DELIVERY_STATE.wire[row.state],
        attempts_count=row.attempts,
    )
    set_time(message.created_at, row.created_unix_ms)
    if row.due_unix_ms is not None:
        set_time(message.due_at, row.due_unix_ms)
    if row.settled_unix_ms is not None:
        set_time(message.settled_at, row.settled_unix_ms)
    for one in row.log:
        attempt = message.attempts.add(
            attempt=one.attempt, outcome=OUTCOME.wire[one.outcome], status=one.status
        )
        set_time(attempt.ended_at, one.ended_unix_ms)
        set_time(attempt.duration, one.took_ms)
    return message


def tried_response(tried: Tried) -> wire.TestWebhookResponse:
    """What a test came to."""
    response = wire.TestWebhookResponse(outcome=OUTCOME.wire[tried.outcome], status=tried.status)
    set_time(response.duration, tried.took_ms)
    return response

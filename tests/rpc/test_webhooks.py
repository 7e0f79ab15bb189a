"""WebhookService: what reaches the use cases, what is shown, who may ask."""

import pytest
from google.protobuf.message import Message

from jackline.v1 import webhook_service_pb2 as wire
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.ports.webhooks import (
    AttemptOutcome,
    AttemptRow,
    DeliveryQuery,
    DeliveryRow,
    DeliveryState,
    Tried,
)
from jackline_server.runtime.refusals import Reason, Refused
from jackline_server.runtime.service.webhooking import WebhookView
from tests.rpc.doubles import RUN_ID
from tests.rpc.harness import Harness
from tests.webhooks.endpoints import SECRET, endpoint


def row(position: int = 7) -> DeliveryRow:
    attempt = AttemptRow(
        attempt=2, ended_unix_ms=5_000, took_ms=30, outcome=AttemptOutcome.SERVER_ERROR, status=503
    )
    return DeliveryRow(
        tenant=DEFAULT_TENANT,
        delivery_id="msg_a",
        endpoint="ops",
        event="run.finished",
        run_id=RUN_ID,
        sequence=9,
        created_unix_ms=1_000,
        state=DeliveryState.PENDING,
        due_unix_ms=6_000,
        settled_unix_ms=None,
        attempts=3,
        log=[attempt],
        position=position,
    )


async def test_webhooks_are_shown_without_what_is_secret(door: Harness) -> None:
    view = WebhookView(
        endpoint=endpoint(), counts={DeliveryState.PENDING: 2, DeliveryState.DEAD: 1}, stopped_unix_ms=4_000
    )
    door.script.always("webhooks", [view])

    answer = await door.ask("ListWebhooks", wire.ListWebhooksRequest(), wire.ListWebhooksResponse)

    (shown,) = answer.webhooks
    assert (shown.name, shown.origin, shown.full) == ("ops", "https://hooks.example:443", False)
    assert list(shown.events) == ["interrupt.raised", "interrupt.resolved", "run.finished"]
    assert (shown.pending_count, shown.delivered_count, shown.dead_count) == (2, 0, 1)
    assert shown.stopped_at.ToMilliseconds() == 4_000
    assert SECRET.reveal() not in str(answer)
    assert "jackline" not in str(answer)


async def test_a_page_of_deliveries_is_asked_for_and_shown_with_its_attempts(door: Harness) -> None:
    door.script.always("deliveries", [row()])
    request = wire.ListWebhookDeliveriesRequest(
        webhook="ops", run_id=RUN_ID, state=wire.WEBHOOK_DELIVERY_STATE_PENDING, page_size=1
    )

    answer = await door.ask("ListWebhookDeliveries", request, wire.ListWebhookDeliveriesResponse)

    assert door.script.asked[0][1][0] == DeliveryQuery(
        tenant=DEFAULT_TENANT, endpoint="ops", run_id=RUN_ID, state=DeliveryState.PENDING, limit=1
    )
    (shown,) = answer.deliveries
    assert (shown.delivery_id, shown.webhook, shown.sequence, shown.attempts_count) == ("msg_a", "ops", 9, 3)
    assert shown.state == wire.WEBHOOK_DELIVERY_STATE_PENDING
    assert (shown.due_at.ToMilliseconds(), shown.HasField("settled_at")) == (6_000, False)
    assert shown.attempts[0].outcome == wire.WEBHOOK_ATTEMPT_OUTCOME_SERVER_ERROR
    assert (shown.attempts[0].status, shown.attempts[0].duration.ToMilliseconds()) == (503, 30)

    request.page_token = answer.next_page_token
    await door.ask("ListWebhookDeliveries", request, wire.ListWebhookDeliveriesResponse)
    assert door.script.asked[1][1][0].before == 7


async def test_the_last_page_names_no_further_one(door: Harness) -> None:
    door.script.always("deliveries", [row()])
    answer = await door.ask(
        "ListWebhookDeliveries",
        wire.ListWebhookDeliveriesRequest(page_size=2),
        wire.ListWebhookDeliveriesResponse,
    )
    assert answer.next_page_token == ""


async def test_a_delivery_is_resent_by_its_id(door: Harness) -> None:
    door.script.always("resend", row())
    answer = await door.ask(
        "ResendWebhookDelivery",
        wire.ResendWebhookDeliveryRequest(delivery_id="msg_a"),
        wire.ResendWebhookDeliveryResponse,
    )
    assert door.script.asked[0][1] == (DEFAULT_TENANT, "msg_a")
    assert answer.delivery.delivery_id == "msg_a"


async def test_a_test_says_what_came_of_it(door: Harness) -> None:
    door.script.always("test", Tried(outcome=AttemptOutcome.REFUSED, status=404, took_ms=12))
    answer = await door.ask("TestWebhook", wire.TestWebhookRequest(webhook="ops"), wire.TestWebhookResponse)
    assert (answer.outcome, answer.status) == (wire.WEBHOOK_ATTEMPT_OUTCOME_REFUSED, 404)
    assert answer.duration.ToMilliseconds() == 12


@pytest.mark.parametrize(
    ("method", "request_", "field"),
    [
        ("ListWebhookDeliveries", wire.ListWebhookDeliveriesRequest(webhook="a b"), "webhook"),
        ("ListWebhookDeliveries", wire.ListWebhookDeliveriesRequest(run_id="run_x"), "run_id"),
        ("ListWebhookDeliveries", wire.ListWebhookDeliveriesRequest(page_size=-1), "page_size"),
        ("ListWebhookDeliveries", wire.ListWebhookDeliveriesRequest(state=9), "state"),  # pyright: ignore[reportArgumentType] - no value of this version
        ("ResendWebhookDelivery", wire.ResendWebhookDeliveryRequest(), "delivery_id"),
        ("TestWebhook", wire.TestWebhookRequest(), "webhook"),
    ],
)
async def test_what_can_be_no_request_is_refused_by_its_field(
    door: Harness, method: str, request_: Message, field: str
) -> None:
    refused = await door.refused(method, request_)
    assert (refused.reason, refused.fields) == ("INVALID_REQUEST", [field])


async def test_what_is_not_there_is_not_found(door: Harness) -> None:
    def fails(*_: object) -> object:
        raise Refused(Reason.DELIVERY_NOT_FOUND, "No. Check.", metadata={"delivery_id": "msg_x"})

    door.script.answers["resend"] = fails
    refused = await door.refused(
        "ResendWebhookDelivery", wire.ResendWebhookDeliveryRequest(delivery_id="msg_x")
    )
    assert (refused.reason, refused.code.name) == ("DELIVERY_NOT_FOUND", "NOT_FOUND")

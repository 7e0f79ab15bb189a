"""`jackline webhooks`: what is listed, sent again, tried out."""

import json

import pytest
from google.protobuf.duration_pb2 import Duration

from jackline.v1 import webhook_service_pb2 as wire
from tests.cli.console import Console
from tests.support.scripted_service import RUN_ID, ScriptedService


def delivery(name: str = "msg_a") -> wire.WebhookDelivery:
    made = wire.WebhookDelivery(
        delivery_id=name,
        webhook="ops",
        event="run.finished",
        run_id=RUN_ID,
        state=wire.WEBHOOK_DELIVERY_STATE_DEAD,
        attempts_count=10,
    )
    made.attempts.add(attempt=10, outcome=wire.WEBHOOK_ATTEMPT_OUTCOME_SERVER_ERROR, status=503)
    return made


async def test_webhooks_are_listed_with_what_waits_and_what_is_dead(
    console: Console, service: ScriptedService
) -> None:
    ops = wire.Webhook(
        name="ops", origin="https://hooks.example:443", events=["run.finished"], pending_count=3, dead_count=1
    )
    gone = wire.Webhook(name="gone", origin="https://gone.example:443")
    gone.stopped_at.FromSeconds(1)
    service.script("ListWebhooks", wire.ListWebhooksResponse(webhooks=[ops, gone]))
    done = await console.run("webhooks", "ls")
    _, first, second = done.out.splitlines()
    assert done.code == 0
    assert first.split() == ["ops", "https://hooks.example:443", "open", "3", "1", "run.finished"]
    assert second.split() == ["gone", "https://gone.example:443", "stopped", "0", "0"]


async def test_no_webhooks_say_where_they_are_made(console: Console, service: ScriptedService) -> None:
    service.script("ListWebhooks", wire.ListWebhooksResponse())
    done = await console.run("webhooks", "ls")
    assert done.code == 0
    assert "[webhooks.NAME]" in done.out + done.err


async def test_deliveries_are_filtered_and_shown_with_their_last_attempt(
    console: Console, service: ScriptedService
) -> None:
    service.script("ListWebhookDeliveries", wire.ListWebhookDeliveriesResponse(deliveries=[delivery()]))
    done = await console.run("webhooks", "deliveries", "ops", "--state", "dead", "--run", RUN_ID)
    [asked] = service.requests(wire.ListWebhookDeliveriesRequest)
    assert (asked.webhook, asked.run_id, asked.state) == ("ops", RUN_ID, wire.WEBHOOK_DELIVERY_STATE_DEAD)
    assert done.code == 0
    assert done.out.splitlines()[1].split()[:6] == [
        "msg_a",
        "ops",
        "run.finished",
        "dead",
        "10",
        "server_error",
    ]
    assert "(503)" in done.out


async def test_deliveries_end_at_their_limit(console: Console, service: ScriptedService) -> None:
    many = [delivery(f"msg_{one}") for one in "abc"]
    service.script(
        "ListWebhookDeliveries",
        wire.ListWebhookDeliveriesResponse(deliveries=many, next_page_token="next"),
    )
    done = await console.run("webhooks", "deliveries", "--limit", "2", "-o", "json")
    assert [json.loads(line)["delivery_id"] for line in done.out.splitlines()] == ["msg_a", "msg_b"]


async def test_a_state_that_there_is_not_is_a_mistake(console: Console) -> None:
    assert (await console.run("webhooks", "deliveries", "--state", "lost")).code == 2


async def test_a_delivery_is_sent_again(console: Console, service: ScriptedService) -> None:
    service.script("ResendWebhookDelivery", wire.ResendWebhookDeliveryResponse(delivery=delivery()))
    done = await console.run("webhooks", "resend", "msg_a")
    [asked] = service.requests(wire.ResendWebhookDeliveryRequest)
    assert (done.code, asked.delivery_id) == (0, "msg_a")
    assert "msg_a is sent to ops again" in done.out


@pytest.mark.parametrize(
    ("outcome", "status", "code", "told"),
    [
        (wire.WEBHOOK_ATTEMPT_OUTCOME_DELIVERED, 204, 0, "ops: delivered (204), 12 ms"),
        (wire.WEBHOOK_ATTEMPT_OUTCOME_REFUSED, 404, 1, "ops: refused (404), 12 ms"),
        (wire.WEBHOOK_ATTEMPT_OUTCOME_UNREACHABLE, 0, 1, "ops: unreachable, 12 ms"),
    ],
)
async def test_a_test_succeeds_if_the_message_was_taken(
    console: Console,
    service: ScriptedService,
    outcome: wire.WebhookAttemptOutcome.ValueType,
    status: int,
    code: int,
    told: str,
) -> None:
    service.script(
        "TestWebhook",
        wire.TestWebhookResponse(outcome=outcome, status=status, duration=Duration(nanos=12_000_000)),
    )
    done = await console.run("webhooks", "test", "ops")
    assert (done.code, done.out.strip()) == (code, told)

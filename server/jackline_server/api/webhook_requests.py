"""Requests about webhooks: what each field must be, and what the use case is then asked.

All raise DoorRefused (INVALID_REQUEST) with every violation at once.
"""

from jackline.v1 import webhook_service_pb2
from jackline_server.api.checks import Checks
from jackline_server.api.webhook_views import DELIVERY_STATE
from jackline_server.runtime.ports.tenants import Tenant
from jackline_server.runtime.ports.webhooks import DeliveryQuery


def read_deliveries(
    request: webhook_service_pb2.ListWebhookDeliveriesRequest, *, tenant: Tenant, before: int | None
) -> DeliveryQuery:
    """Which deliveries to answer with."""
    checks = Checks()
    checks.well_formed(request)
    checks.name("webhook", request.webhook, required=False)
    if request.run_id:
        checks.run_id("run_id", request.run_id)
    limit = checks.page_size("page_size", request.page_size)
    checks.finish()
    return DeliveryQuery(
        tenant=tenant,
        endpoint=request.webhook,
        run_id=request.run_id,
        state=DELIVERY_STATE.read_optional(request.state),
        before=before,
        limit=limit,
    )


def read_resend(request: webhook_service_pb2.ResendWebhookDeliveryRequest) -> str:
    """Which delivery to send again."""
    checks = Checks()
    checks.well_formed(request)
    checks.name("delivery_id", request.delivery_id)
    checks.finish()
    return request.delivery_id


def read_test(request: webhook_service_pb2.TestWebhookRequest) -> str:
    """Which webhook to try."""
    checks = Checks()
    checks.well_formed(request)
    checks.name("webhook", request.webhook)
    checks.finish()
    return request.webhook

"""The methods of WebhookService: each checks, asks a use case, and shows the answer."""

from typing import cast

from jackline.v1 import webhook_service_pb2
from jackline_server.api.page_tokens import PageTokens
from jackline_server.api.webhook_requests import read_deliveries, read_resend, read_test
from jackline_server.api.webhook_views import delivery_message, tried_response, webhook_message
from jackline_server.rpc.calls import Call
from jackline_server.runtime.service.ports import WebhookUseCases


class WebhookMethods:
    """The unary methods. All raise Refused and DoorRefused."""

    def __init__(self, *, webhooks: WebhookUseCases, tokens: PageTokens) -> None:
        self._webhooks = webhooks
        self._tokens = tokens

    async def list_webhooks(
        self, request: webhook_service_pb2.ListWebhooksRequest, call: Call
    ) -> webhook_service_pb2.ListWebhooksResponse:
        """ListWebhooks."""
        del request
        views = await self._webhooks.webhooks(call.tenant)
        return webhook_service_pb2.ListWebhooksResponse(webhooks=map(webhook_message, views))

    async def list_deliveries(
        self, request: webhook_service_pb2.ListWebhookDeliveriesRequest, call: Call
    ) -> webhook_service_pb2.ListWebhookDeliveriesResponse:
        """ListWebhookDeliveries."""
        before = None
        if request.page_token:
            before = cast("int", self._tokens.read(call.tenant, request, request.page_token))
        query = read_deliveries(request, tenant=call.tenant, before=before)
        rows = await self._webhooks.deliveries(query)
        response = webhook_service_pb2.ListWebhookDeliveriesResponse(deliveries=map(delivery_message, rows))
        if len(rows) == query.limit:
            response.next_page_token = self._tokens.make(call.tenant, request, rows[-1].position)
        return response

    async def resend_delivery(
        self, request: webhook_service_pb2.ResendWebhookDeliveryRequest, call: Call
    ) -> webhook_service_pb2.ResendWebhookDeliveryResponse:
        """ResendWebhookDelivery."""
        row = await self._webhooks.resend(call.tenant, read_resend(request))
        return webhook_service_pb2.ResendWebhookDeliveryResponse(delivery=delivery_message(row))

    async def test_webhook(
        self, request: webhook_service_pb2.TestWebhookRequest, call: Call
    ) -> webhook_service_pb2.TestWebhookResponse:
        """TestWebhook."""
        del call
        return tried_response(await self._webhooks.test(read_test(request)))

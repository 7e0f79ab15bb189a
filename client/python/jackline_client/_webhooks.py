"""The calls about webhooks: those of the server's config, and what became of each message."""

from collections.abc import AsyncGenerator, Iterable

from jackline.v1 import webhook_service_pb2 as wire
from jackline_client._connection import Connection
from jackline_client._paging import pages


class WebhookCalls:
    """Reached as `JacklineClient.webhooks`. All need the scope `admin` and raise `CallError` by reason."""

    def __init__(self, *, connection: Connection, timeout_s: float) -> None:
        """Uses the client's connection, which the client closes."""
        self._connection = connection
        self._timeout_s = timeout_s

    async def list_all(self) -> list[wire.Webhook]:
        """Lists the webhooks of the server's config, by name."""
        answer = await self._connection.call(
            self._connection.webhooks.ListWebhooks, wire.ListWebhooksRequest(), timeout_s=self._timeout_s
        )
        return list(answer.webhooks)

    def deliveries(
        self,
        webhook: str = "",
        *,
        run_id: str = "",
        state: wire.WebhookDeliveryState.ValueType = wire.WEBHOOK_DELIVERY_STATE_UNSPECIFIED,
        page_size: int = 0,
    ) -> AsyncGenerator[wire.WebhookDelivery]:
        """Yields deliveries, newest first, page by page; what is left out does not filter."""

        async def page(token: str) -> tuple[Iterable[wire.WebhookDelivery], str]:
            request = wire.ListWebhookDeliveriesRequest(
                webhook=webhook, run_id=run_id, state=state, page_size=page_size, page_token=token
            )
            answer = await self._connection.call(
                self._connection.webhooks.ListWebhookDeliveries, request, timeout_s=self._timeout_s
            )
            return answer.deliveries, answer.next_page_token

        return pages(page)

    async def resend(self, delivery_id: str) -> wire.WebhookDelivery:
        """Has a delivery sent again at once, whatever became of it; DeliveryNotFound if there is none."""
        request = wire.ResendWebhookDeliveryRequest(delivery_id=delivery_id)
        answer = await self._connection.call(
            self._connection.webhooks.ResendWebhookDelivery, request, timeout_s=self._timeout_s
        )
        return answer.delivery

    async def test(self, webhook: str) -> wire.TestWebhookResponse:
        """Sends a webhook a message that tells of nothing; WebhookNotFound if there is none."""
        request = wire.TestWebhookRequest(webhook=webhook)
        return await self._connection.call(
            self._connection.webhooks.TestWebhook, request, timeout_s=self._timeout_s
        )

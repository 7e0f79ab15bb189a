"""Webhooks as use cases: list them and their deliveries, send one again, try one out."""

from collections.abc import Mapping, Sequence

from jackline_server.core.frozen import frozen
from jackline_server.runtime.ports.machine import Clock
from jackline_server.runtime.ports.tenants import Tenant
from jackline_server.runtime.ports.webhooks import (
    DeliveryLog,
    DeliveryQuery,
    DeliveryRow,
    DeliveryState,
    Tried,
    WebhookEndpoint,
    WebhookSender,
)
from jackline_server.runtime.refusals import Reason, Refused
from jackline_server.runtime.store_refusals import refusing_store_errors


@frozen
class WebhookView:
    """An endpoint, how many of a tenant's deliveries to it stand where, and since when it is left alone."""

    endpoint: WebhookEndpoint
    counts: Mapping[DeliveryState, int]
    stopped_unix_ms: int | None


class Webhooks:
    """Implements `service.ports.WebhookUseCases`."""

    def __init__(
        self,
        endpoints: Mapping[str, WebhookEndpoint],
        *,
        log: DeliveryLog,
        sender: WebhookSender,
        clock: Clock,
    ) -> None:
        self._endpoints = endpoints
        self._log = log
        self._sender = sender
        self._clock = clock

    async def webhooks(self, tenant: Tenant) -> Sequence[WebhookView]:
        """The endpoints of the config, by name."""
        with refusing_store_errors():
            return [
                WebhookView(
                    endpoint=endpoint,
                    counts=await self._log.count(tenant, name),
                    stopped_unix_ms=self._sender.stopped_unix_ms(name),
                )
                for name, endpoint in sorted(self._endpoints.items())
            ]

    async def deliveries(self, query: DeliveryQuery) -> Sequence[DeliveryRow]:
        """A page of deliveries, newest first."""
        with refusing_store_errors():
            return await self._log.page(query)

    async def resend(self, tenant: Tenant, delivery_id: str) -> DeliveryRow:
        """Have a delivery sent again at once."""
        with refusing_store_errors():
            row = await self._log.resend(tenant, delivery_id, now_unix_ms=self._clock.unix_ms())
        if row is None:
            raise Refused(
                Reason.DELIVERY_NOT_FOUND,
                "There is no such delivery. Check the id; delivered ones are kept for a week.",
                metadata={"delivery_id": delivery_id},
            )
        if row.endpoint not in self._endpoints:
            raise Refused(
                Reason.WEBHOOK_NOT_FOUND,
                "The webhook of this delivery is not in the server's config. It waits until it is there.",
                metadata={"webhook": row.endpoint},
            )
        self._sender.nudge()
        return row

    async def test(self, name: str) -> Tried:
        """Send an endpoint a message that tells of nothing."""
        if name not in self._endpoints:
            raise Refused(
                Reason.WEBHOOK_NOT_FOUND,
                "The server's config has no such webhook. Check the name.",
                metadata={"webhook": name},
            )
        return await self._sender.test(name)

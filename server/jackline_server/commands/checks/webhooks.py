"""Webhooks: whether each endpoint can be reached the way that messages go. Sends none."""

from collections.abc import Sequence
from functools import partial

from jackline_server.bootstrap import Workbench
from jackline_server.commands.checks.findings import Check, Found, ok, problem, warning
from jackline_server.commands.checks.outside import asked
from jackline_server.config import Config
from jackline_server.runtime.ports.http import HttpClients, HttpRequest
from jackline_server.runtime.ports.webhooks import WebhookEndpoint

_MOST_BYTES = 64 * 1024


def webhook_checks(config: Config, bench: Workbench, *, limit_s: float) -> list[Check]:
    """A check for each webhook."""
    wait_ms = max(int(limit_s * 900), 1)
    return [
        Check(subject=f"webhook {name}", look=partial(_look, endpoint, bench.clients, wait_ms))
        for name, endpoint in config.webhooks.items()
    ]


async def _look(endpoint: WebhookEndpoint, clients: HttpClients, wait_ms: int) -> Sequence[Found]:
    subject, origin = f"webhook {endpoint.name}", endpoint.origin
    tried = await asked(
        clients,
        HttpRequest(
            method="HEAD",
            origin=origin,
            target=endpoint.target,
            total_ms=wait_ms,
            header_ms=wait_ms,
            max_bytes=_MOST_BYTES,
            reach=endpoint.reach,
        ),
    )
    where = f"{origin.scheme}, {origin.host}:{origin.port}"
    if tried.problem:
        advice = f"look whether it is up, and at url and allow_private in [webhooks.{endpoint.name}]"
        return [problem(subject, f"{where}: {tried.problem}", advice)]
    if not tried.status:
        return [warning(subject, f"{where}: it was reached and gave no answer to HEAD")]
    unsent = f"no message was sent; `jackline webhooks test {endpoint.name}` sends one"
    return [ok(subject, f"{where}: it answers ({tried.status} to HEAD); {unsent}")]

"""The config as the rest of the server gets it: frozen, complete, every default in place.

Times are milliseconds, money is millionths of a US dollar.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from jackline_server.core.frozen import frozen
from jackline_server.core.plan import AttemptLimits, JsonValue, Price
from jackline_server.runtime.driving.results import RUN_BYTES
from jackline_server.runtime.pinned_tools import CatalogConnection
from jackline_server.runtime.ports.functions import FunctionProcesses
from jackline_server.runtime.ports.gates import HookDeclaration, PolicyTarget
from jackline_server.runtime.ports.grpc import GrpcConnection
from jackline_server.runtime.ports.http import HttpConnection
from jackline_server.runtime.ports.mcp import McpConnection, McpProcess
from jackline_server.runtime.ports.secrets import Secret
from jackline_server.runtime.ports.sql import DataSource, PostgresServer
from jackline_server.runtime.ports.webhooks import WebhookEndpoint
from jackline_server.runtime.ports.workers import WorkerConnection
from jackline_server.runtime.run_limits import START_DELAY_MS


@frozen
class Listen:
    """Where to listen. `host` is without brackets; port 0 takes a free one."""

    host: str
    port: int
    is_loopback: bool

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@frozen
class ServerSettings:
    """Section `[server]`. `volatile` keeps everything in memory alone."""

    listen: Listen
    data: Path
    workflows: Path | None
    max_active_runs: int
    drain_grace_ms: int
    lease_ttl_ms: int
    insecure_bind: bool
    reflection: bool
    volatile: bool
    enable_failpoints: bool


@frozen
class ModelProfile:
    """A section `[models.<name>]`. `adapter` is `openai`, `litellm` or `scripted`, never `auto`.

    `script` is there for the scripted adapter, `model` for any other. Without a price, cost is unknown.
    `price_is_ceiling` says that it is, and what it is counted at all the same.
    """

    name: str
    model: str
    adapter: str
    api_key: Secret | None
    base_url: str | None
    headers: Mapping[str, Secret]
    params: Mapping[str, JsonValue]
    api_version: str | None
    max_tokens_key: str | None
    script: Path | None
    script_where: str
    """Where the config names the script: a file with its line, or a variable."""
    supports: frozenset[str]
    limits: AttemptLimits
    concurrency: int
    requests_per_minute: int | None
    tokens_per_minute: int | None
    context_window: int
    max_output_tokens: int
    price: Price | None
    price_is_ceiling: bool
    fallbacks: tuple[str, ...]


@frozen
class TenantLimits:
    """Section `[limits.tenant]`; None is no limit. The three of a run are the most that one may have."""

    active_runs: int | None = None
    run_timeout_ms: int | None = None
    run_token_budget: int | None = None
    run_cost_budget_micros: int | None = None
    adjust_own_runs: bool = True
    approve_own_runs: bool | None = None


@frozen
class RunSettings:
    """Section `[limits.run]`: what any one run may have.

    `stored_bytes` are those of its results that are kept outside its log, `start_delay_ms` is how long its
    start may be delayed.
    """

    stored_bytes: int = RUN_BYTES
    start_delay_ms: int = START_DELAY_MS


@frozen
class Config:
    """All of it. `notices` are worth a line in the log at boot; `file` is None without a file.

    `hidden` are the values that came by a reference, or by a variable of a section.
    """

    file: Path | None
    server: ServerSettings
    models: Mapping[str, ModelProfile]
    connections: Mapping[str, HttpConnection]
    mcp_connections: Mapping[str, McpConnection]
    grpc_connections: Mapping[str, GrpcConnection]
    worker_connections: Mapping[str, WorkerConnection]
    data_sources: Mapping[str, DataSource]
    function_roots: tuple[str, ...]
    function_processes: FunctionProcesses
    tenant: TenantLimits
    run: RunSettings
    hooks: Mapping[str, HookDeclaration]
    policies: Mapping[str, PolicyTarget]
    webhooks: Mapping[str, WebhookEndpoint]
    notices: tuple[str, ...]
    hidden: tuple[Secret, ...]

    @property
    def pinned_connections(self) -> Mapping[str, CatalogConnection]:
        """The connections whose tools are pinned. No name stands for two."""
        return {**self.mcp_connections, **self.grpc_connections}

    @property
    def all_hidden(self) -> Iterator[Secret]:
        """Every value that no report may show, wherever it is met: see `masking.Veil`."""
        yield from self.hidden
        yield from self._of_connections
        yield from (profile.api_key for profile in self.models.values() if profile.api_key is not None)
        for profile in self.models.values():
            yield from profile.headers.values()
        for source in self.data_sources.values():
            if isinstance(source.database, PostgresServer):
                yield source.database.url
        yield from (self.function_processes.environment or {}).values()
        for policy in self.policies.values():
            yield from policy.headers.values()
        for webhook in self.webhooks.values():
            yield from webhook.secrets

    @property
    def _of_connections(self) -> Iterator[Secret]:
        for connection in self.connections.values():
            yield from connection.headers.values()
        for connection in self.grpc_connections.values():
            yield from connection.metadata.values()
        for connection in self.mcp_connections.values():
            reached = connection.transport
            yield from (reached.environment if isinstance(reached, McpProcess) else reached.headers).values()

"""What a server reaches: models and connections, through the same guarded ways out that it takes itself.

Owns what is cheap enough to try, and says what is not tried. Nothing here costs money or changes anything at
the other end: a list of models, a HEAD request, a list of tools.
"""

import asyncio
import os
from collections.abc import Iterator, Sequence
from functools import partial
from urllib.parse import urlsplit

from jackline_server.bootstrap import Workbench
from jackline_server.commands.checks.findings import Check, Found, ok, problem, warning
from jackline_server.commands.pins import drift
from jackline_server.config import Config, ModelProfile
from jackline_server.core.frozen import frozen
from jackline_server.definitions.catalog import nearest
from jackline_server.models.script import ScriptError, load_script
from jackline_server.runtime.model_providers import AZURE, OPENAI, read_model_name
from jackline_server.runtime.pinned_tools import BadPins, Catalog, CatalogConnection
from jackline_server.runtime.ports.grpc import GrpcConnection
from jackline_server.runtime.ports.http import (
    HttpClients,
    HttpConnection,
    HttpFailure,
    HttpRefused,
    HttpRequest,
    HttpUnsent,
    Origin,
    Reach,
)
from jackline_server.runtime.ports.mcp import McpConnection, McpProcess
from jackline_server.runtime.ports.sql import DataSource, SqliteFile
from jackline_server.tools.catalogs import ServerDown
from jackline_server.tools.grpc.link import GrpcLink
from jackline_server.tools.locks import read_lock_file
from jackline_server.tools.sql.databases import SourceDown

_PORTS = {"http": 80, "https": 443}
_MOST_BYTES = 4 << 20
_UNAUTHORIZED = frozenset({401, 403})
_SERVER_ERROR = 500

KEY_VARIABLES = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "azure": "AZURE_API_KEY",
    "cohere": "COHERE_API_KEY",
    "deepseek": "DEEPSEEK_API_KEY",
    "fireworks_ai": "FIREWORKS_AI_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "groq": "GROQ_API_KEY",
    "mistral": "MISTRAL_API_KEY",
    "openrouter": "OPENROUTER_API_KEY",
    "perplexity": "PERPLEXITYAI_API_KEY",
    "together_ai": "TOGETHERAI_API_KEY",
    "xai": "XAI_API_KEY",
}
"""The variable in which the model library looks for a provider's key. Others are not checked."""


def outside_checks(config: Config, bench: Workbench, *, limit_s: float) -> list[Check]:
    """A check for each model and each connection."""
    wait_ms = max(int(limit_s * 900), 1)
    return [
        *(
            Check(subject=f"model {name}", look=partial(_model, profile, bench.clients, wait_ms))
            for name, profile in config.models.items()
        ),
        *(
            Check(subject=f"connection {name}", look=partial(_http, connection, bench.clients, wait_ms))
            for name, connection in config.connections.items()
        ),
        *(
            Check(subject=f"data source {name}", look=partial(_sql, source, bench))
            for name, source in config.data_sources.items()
        ),
        *(
            Check(subject=f"connection {name}", look=partial(_mcp, connection, bench))
            for name, connection in config.mcp_connections.items()
        ),
        *(
            Check(subject=f"connection {name}", look=partial(_grpc, connection, bench))
            for name, connection in config.grpc_connections.items()
        ),
        *(
            Check(subject=f"connection {name}", look=partial(_pool, name))
            for name in config.worker_connections
        ),
    ]


async def _pool(name: str) -> Sequence[Found]:
    """Workers connect to a server that runs: here there is nothing to try."""
    await asyncio.sleep(0)
    what = "worker: its workers connect to a running server, which is asked with `jackline workers`"
    return [ok(f"connection {name}", what)]


# --- models ------------------------------------------------------------------------------------


async def _model(profile: ModelProfile, clients: HttpClients, wait_ms: int) -> Sequence[Found]:
    subject = f"model {profile.name}"
    if profile.adapter == "scripted":
        return [await asyncio.to_thread(_script, subject, profile)]
    if profile.base_url is not None:
        return [await _own_model_server(subject, profile, profile.base_url, clients, wait_ms)]
    unasked = "the provider is not asked: a call would cost money"
    if profile.api_key is not None:
        return [ok(subject, f"{profile.model}: its key is set; {unasked}")]
    provider = profile.model.partition("/")[0] if "/" in profile.model else ""
    variable = KEY_VARIABLES.get(provider)
    if variable is None:
        return [ok(subject, f"{profile.model}: where its provider looks for a key is not checked; {unasked}")]
    if os.environ.get(variable):
        return [ok(subject, f"{profile.model}: {variable} is set; {unasked}")]
    advice = f'export {variable}, or set api_key = "${{env:NAME}}" in [models.{profile.name}]'
    return [problem(subject, f"{profile.model}: it has no key, and {variable} is not set", advice)]


def _script(subject: str, profile: ModelProfile) -> Found:
    if profile.script is None:
        return problem(subject, "it has no script", f"set script in [models.{profile.name}]")
    try:
        turns = len(load_script(profile.script).turns)
    except ScriptError as error:
        what = f"{profile.script_where}: {error}"
        return problem(subject, what, "correct the script; docs/scripted-models.md has its keys")
    return ok(subject, f"scripted by {profile.script}, {turns} turn{'s' if turns != 1 else ''}")


async def _own_model_server(
    subject: str, profile: ModelProfile, url: str, clients: HttpClients, wait_ms: int
) -> Found:
    """Ask a server of the operator's own for its models, which costs nothing."""
    parts = urlsplit(url)
    scheme, host = parts.scheme.lower(), parts.hostname or ""
    origin = Origin(scheme=scheme, host=host, port=parts.port or _PORTS[scheme])
    key = _key_header(profile)
    tried = await asked(
        clients,
        HttpRequest(
            method="GET",
            origin=origin,
            target=f"{parts.path.rstrip('/')}/models",
            total_ms=wait_ms,
            header_ms=wait_ms,
            max_bytes=_MOST_BYTES,
            headers=key,
            reach=Reach(trusted=frozenset({origin})),
        ),
    )
    where, advice = f"{profile.model} at {host}:{origin.port}", f"look at base_url in [models.{profile.name}]"
    if tried.problem:
        return problem(subject, f"{where}: {tried.problem}", advice)
    if tried.status in _UNAUTHORIZED and profile.adapter == OPENAI:
        said = "it refuses the key" if key else "it wants a key"
        return problem(
            subject, f"{where}: {said} ({tried.status})", f"set api_key in [models.{profile.name}]"
        )
    if not tried.status:
        return warning(subject, f"{where}: it was reached and gave no whole answer to GET /models", advice)
    if tried.status >= _SERVER_ERROR:
        return warning(subject, f"{where}: it answers with {tried.status}", "look at that server's log")
    return ok(subject, f"{where}: it answers ({tried.status} to GET /models); no model was called")


def _key_header(profile: ModelProfile) -> dict[str, str]:
    if profile.api_key is None:
        return {}
    if read_model_name(profile.model).provider == AZURE:
        return {"api-key": profile.api_key.reveal()}
    return {"Authorization": f"Bearer {profile.api_key.reveal()}"}


# --- HTTP --------------------------------------------------------------------------------------


async def _http(connection: HttpConnection, clients: HttpClients, wait_ms: int) -> Sequence[Found]:
    subject, origin = f"connection {connection.name}", connection.origin
    tried = await asked(
        clients,
        HttpRequest(
            method="HEAD",
            origin=origin,
            target=connection.base_path or "/",
            total_ms=wait_ms,
            header_ms=wait_ms,
            max_bytes=_MOST_BYTES,
            reach=connection.reach,
        ),
    )
    where = f"http, {origin.host}:{origin.port}"
    if tried.problem:
        advice = f"look whether it is up, and at base_url in [connections.{connection.name}]"
        return [problem(subject, f"{where}: {tried.problem}", advice)]
    unchecked = "; its headers were not sent and are not checked" if connection.headers else ""
    if not tried.status:
        return [warning(subject, f"{where}: it was reached and gave no answer to HEAD{unchecked}")]
    return [ok(subject, f"{where}: it answers ({tried.status} to HEAD){unchecked}")]


@frozen
class Tried:
    """A status; 0 for a server that was reached and gave no whole answer. Or why it was not reached."""

    status: int = 0
    problem: str = ""


async def asked(clients: HttpClients, request: HttpRequest) -> Tried:
    try:
        return Tried(status=(await clients.request(request)).status)
    except (HttpRefused, HttpUnsent) as failure:
        return Tried(problem=f"it can't be reached ({failure.detail})")
    except HttpFailure:
        return Tried()


# --- SQL ---------------------------------------------------------------------------------------


async def _sql(source: DataSource, bench: Workbench) -> Sequence[Found]:
    subject = f"data source {source.name}"
    where, kind = ("file", "SQLite") if isinstance(source.database, SqliteFile) else ("url", "PostgreSQL")
    try:
        await bench.sql.check(source.name)
    except SourceDown as down:
        advice = f"look at {where} in [data_sources.{source.name}]"
        return [problem(subject, f"{kind}: it can't be reached ({down.detail})", advice)]
    may = "it may be written to" if source.writes else "nothing is written to it"
    return [ok(subject, f"{kind}: it answers; {may}")]


# --- MCP ---------------------------------------------------------------------------------------


async def _mcp(connection: McpConnection, bench: Workbench) -> Sequence[Found]:
    subject = f"connection {connection.name}"
    link = bench.catalogs.link(connection.name)
    if link is None:
        raise LookupError(connection.name)  # the workbench was made of the same config
    section = f"[connections.{connection.name}]"
    try:
        listed = await link.catalog(max_age_s=0)
    except ServerDown as down:
        starts = isinstance(connection.transport, McpProcess)
        advice = f"run its command by hand; it is in {section}" if starts else f"look at url in {section}"
        return [problem(subject, f"mcp: {down.message}", advice), *_locked(subject, connection, None)]
    allowed = {name: listed[name] for name in listed if connection.allows(name)}
    told = f"mcp: it answers; {len(allowed)} of its {len(listed)} tools may be used"
    return [ok(subject, told), *_missing(subject, connection, listed), *_locked(subject, connection, allowed)]


async def _grpc(connection: GrpcConnection, bench: Workbench) -> Sequence[Found]:
    """Ask what is served, by reflection or by the file; connect all the same, so that TLS is tried."""
    subject, section = f"connection {connection.name}", f"[connections.{connection.name}]"
    link = bench.catalogs.link(connection.name)
    if not isinstance(link, GrpcLink):
        raise TypeError(connection.name)  # the workbench was made of the same config
    try:
        await link.ready(within_s=connection.start_timeout_ms / 1000)
        listed = await link.catalog(max_age_s=0)
    except ServerDown as down:
        advice = f"look at target, tls and descriptors in {section}"
        return [problem(subject, f"grpc: {down.message}", advice), *_locked(subject, connection, None)]
    allowed = {name: listed[name] for name in listed if connection.allows(name)}
    told = f"grpc: it answers; {len(allowed)} of its {len(listed)} methods may be used"
    return [ok(subject, told), *_missing(subject, connection, listed), *_locked(subject, connection, allowed)]


def _missing(subject: str, connection: McpConnection | GrpcConnection, listed: Catalog) -> Iterator[Found]:
    for name in sorted((connection.allow or frozenset()) - set(listed)):
        what = f"`allow` names {name}, which it does not have{nearest(name, listed)}"
        yield warning(subject, what, f"correct `allow` in [connections.{connection.name}]")


def _locked(subject: str, connection: CatalogConnection, listed: Catalog | None) -> Iterator[Found]:
    if connection.lock is None:
        return
    again = f"look at the change, then: jackline tools lock {connection.name} --config FILE"
    try:
        pinned = read_lock_file(connection.lock)
    except OSError as error:
        yield problem(subject, f"its lock file {connection.lock} can't be read: {error.strerror}", again)
        return
    except BadPins as bad:
        yield problem(subject, f"its lock file {connection.lock} pins nothing: {bad}", again)
        return
    if listed is None:
        return
    found = drift(pinned, listed)
    if found.removed or found.changed:
        yield problem(subject, f"its tools are not those of {connection.lock}: {found}", again)
    elif found.added:
        yield warning(subject, f"it has tools that {connection.lock} does not: {found}", again)
    else:
        yield ok(subject, f"its tools are those of {connection.lock}")

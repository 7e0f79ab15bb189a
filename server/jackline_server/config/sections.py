"""What each section of the config holds: its keys, their ranges and defaults, and what is not built yet.

The keys and defaults exist here and nowhere else; each function reads one section.
"""

import difflib
import re
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path

from jackline_server.config.environment import read_environment
from jackline_server.config.headers import read_headers
from jackline_server.config.problems import ProblemCode
from jackline_server.config.section import Section
from jackline_server.config.settings import Listen, ModelProfile, RunSettings, ServerSettings, TenantLimits
from jackline_server.core.frozen import frozen
from jackline_server.core.plan import AttemptLimits, JsonValue, Price
from jackline_server.runtime.driving.results import RUN_BYTES
from jackline_server.runtime.model_providers import (
    LITELLM,
    OPENAI,
    SCRIPTED,
    WIRE_PROVIDERS,
    automatic_adapter,
    read_model_name,
)
from jackline_server.runtime.ports.functions import FunctionProcesses
from jackline_server.runtime.run_limits import START_DELAY_MS

SECTIONS = (
    "server",
    "models",
    "connections",
    "functions",
    "data_sources",
    "hooks",
    "policies",
    "limits",
    "webhooks",
)
SECTIONS_NOT_BUILT = (
    "auth",
    "tls",
    "telemetry",
    "retention",
)
SERVER_KEYS = (
    "listen",
    "data",
    "workflows",
    "max_active_runs",
    "drain_grace",
    "lease_ttl",
    "insecure_bind",
    "reflection",
    "volatile",
    "enable_failpoints",
)
_SERVER_NOT_BUILT = ("http", "store", "signals", "role", "tls")
_LIMITS_NOT_BUILT = ("tokens_per_day", "usd_per_day", "start_rate", "streams", "bytes_stored")

CEILING = "ceiling"
UNKNOWN_PRICES = ("refuse", CEILING)
CAPABILITIES = ("tools", "json_schema", "streaming")
ADAPTERS = ("auto", "openai", "litellm", "scripted")
MAX_TOKENS_KEYS = ("max_tokens", "max_completion_tokens")
NOT_PARAMETERS = frozenset(
    {"model", "messages", "stream", "stream_options", "tools", "tool_choice", "n", *MAX_TOKENS_KEYS}
)

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}", re.ASCII)
_ROOT = re.compile(r"[A-Za-z]\w*(\.[A-Za-z]\w*)*", re.ASCII)
_LISTEN = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+)):(\d{1,5})", re.ASCII)
_LAST_PORT = 65_535
_MILLION = 1_000_000
_MIB = 1024 * 1024
_LONGEST_RUN_MS = 366 * 24 * 3_600_000
_DEFAULT_LISTEN = Listen(host="127.0.0.1", port=50_051, is_loopback=True)
_DEFAULT_DATA = Path("data")


def read_server(section: Section) -> ServerSettings:
    """Section `[server]`."""
    insecure = section.boolean("insecure_bind", default=False) or False
    listen = _listen(section, insecure=insecure)
    reflection = section.boolean("reflection")
    settings = ServerSettings(
        listen=listen,
        data=section.path("data", default=_DEFAULT_DATA) or _DEFAULT_DATA,
        workflows=section.path("workflows"),
        max_active_runs=section.integer("max_active_runs", default=1_000, least=1, most=_MILLION),
        drain_grace_ms=section.span("drain_grace", default_ms=20_000, most_ms=3_600_000),
        lease_ttl_ms=section.span("lease_ttl", default_ms=15_000, most_ms=600_000),
        insecure_bind=insecure,
        reflection=listen.is_loopback if reflection is None else reflection,
        volatile=section.boolean("volatile", default=False) or False,
        enable_failpoints=section.boolean("enable_failpoints", default=False) or False,
    )
    section.finish(not_built=_SERVER_NOT_BUILT)
    return settings


def _listen(section: Section, *, insecure: bool) -> Listen:
    text = section.text("listen", default=str(_DEFAULT_LISTEN))
    if text is None:
        return _DEFAULT_LISTEN
    match = _LISTEN.fullmatch(text)
    if match is None or int(match[3]) > _LAST_PORT:
        section.problem(
            ProblemCode.BAD_VALUE, "listen", "must be HOST:PORT, such as 127.0.0.1:50051 or [::1]:0"
        )
        return _DEFAULT_LISTEN
    host = match[1] or match[2]
    try:
        loopback = ip_address(host).is_loopback
    except ValueError:
        loopback = host.lower() == "localhost"
    if not loopback and not insecure:
        section.problem(
            ProblemCode.INSECURE,
            "listen",
            f"{section.quoted('listen', host)} is not loopback, and without TLS tokens cross the "
            "network in the clear; listen on 127.0.0.1, or set insecure_bind (--insecure-bind) if something "
            "in front does TLS",
        )
    return Listen(host=host, port=int(match[3]), is_loopback=loopback)


def read_models(section: Section) -> Mapping[str, ModelProfile]:
    """Section `[models]`: a profile for each name."""
    profiles: dict[str, ModelProfile] = {}
    places: dict[str, Section] = {}
    for name, table in section.tables():
        if NAME.fullmatch(name) is None:
            section.problem(ProblemCode.BAD_VALUE, name, "a profile's name is letters, digits, _ and -")
        profiles[name] = _profile(name, table)
        places[name] = table
    for name, table in places.items():
        _check_fallbacks(name, profiles, table)
    return profiles


def _check_fallbacks(name: str, profiles: Mapping[str, ModelProfile], table: Section) -> None:
    """Those of a profile are other profiles, each once."""
    fallbacks = profiles[name].fallbacks
    for one in dict.fromkeys(fallbacks):
        if one == name:
            table.problem(ProblemCode.BAD_VALUE, "fallbacks", "a profile is no fallback of itself")
        elif one not in profiles:
            near = difflib.get_close_matches(one, profiles, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            words = f"{table.quoted('fallbacks', one)} is no section of [models]{hint}"
            table.problem(ProblemCode.BAD_VALUE, "fallbacks", words)
    if len(set(fallbacks)) < len(fallbacks):
        table.problem(ProblemCode.BAD_VALUE, "fallbacks", "names a profile twice")


def _profile(name: str, table: Section) -> ModelProfile:
    model, script = table.text("model"), table.path("script")
    api_key, base_url = table.secret("api_key"), _base_url(table)
    given = _Given(model=model, script=script, has_key=api_key is not None, has_url=base_url is not None)
    price, is_ceiling = _price_or_ceiling(table)
    profile = ModelProfile(
        name=name,
        model=model or "",
        adapter=_adapter(table, given),
        api_key=api_key,
        base_url=base_url,
        headers=read_headers(table, of="model"),
        params=_params(table),
        api_version=table.text("api_version"),
        max_tokens_key=_max_tokens_key(table),
        script=script,
        script_where=table.where("script"),
        supports=_supports(table),
        limits=_attempt_limits(table),
        concurrency=table.integer("concurrency", default=32, least=1, most=10_000),
        requests_per_minute=table.optional_integer("requests_per_minute", most=_MILLION),
        tokens_per_minute=table.optional_integer("tokens_per_minute", most=1_000 * _MILLION),
        context_window=table.integer("context_window", default=128_000, least=1_000, most=100 * _MILLION),
        max_output_tokens=table.integer("max_output_tokens", default=4_096, least=1, most=10 * _MILLION),
        price=price,
        price_is_ceiling=is_ceiling,
        fallbacks=table.texts("fallbacks"),
    )
    table.finish()
    return profile


@frozen
class _Given:
    """What a profile says of itself beside its adapter."""

    model: str | None
    script: Path | None
    has_key: bool
    has_url: bool


def _adapter(table: Section, given: _Given) -> str:
    adapter = table.text("adapter", default="auto") or "auto"
    if adapter == "auto" and given.model is None and given.script is not None:
        return SCRIPTED
    if adapter == "auto":
        adapter = automatic_adapter(given.model or "", has_base_url=given.has_url, has_key=given.has_key)
    if adapter not in ADAPTERS:
        table.problem(ProblemCode.BAD_VALUE, "adapter", f"must be one of {', '.join(ADAPTERS)}")
    elif adapter == SCRIPTED and given.script is None:
        table.missing("script", "a scripted model needs its script file")
    elif adapter in (OPENAI, LITELLM) and given.model is None:
        table.missing("model", "name the model, such as openai/gpt-4o-mini", instead=("script",))
    elif adapter == OPENAI and not given.has_url and not read_model_name(given.model or "").provider:
        table.missing(
            "base_url", f"say where the model is, or name one of {', '.join(WIRE_PROVIDERS)} before it"
        )
    return adapter


def _params(table: Section) -> Mapping[str, JsonValue]:
    params = table.table("params")
    if params is None:
        return {}
    read = params.free()
    for key in sorted(read.keys() & NOT_PARAMETERS):
        params.problem(ProblemCode.BAD_VALUE, key, "is set by the server itself; remove it")
    return read


def _attempt_limits(table: Section) -> AttemptLimits:
    """Timers and caps of one attempt."""
    usual = AttemptLimits()
    return AttemptLimits(
        connect_timeout_ms=table.span("connect_timeout", default_ms=usual.connect_timeout_ms),
        first_token_timeout_ms=table.span("first_token_timeout", default_ms=usual.first_token_timeout_ms),
        idle_timeout_ms=table.optional_span("idle_timeout"),
        request_timeout_ms=table.optional_span("request_timeout"),
        reply_bytes=table.integer(
            "max_reply_bytes", default=usual.reply_bytes, least=1_024, most=usual.reply_bytes
        ),
        reply_chunks=table.integer(
            "max_reply_chunks", default=usual.reply_chunks, least=1, most=10 * usual.reply_chunks
        ),
    )


def _max_tokens_key(table: Section) -> str | None:
    key = table.text("max_tokens_key")
    if key is not None and key not in MAX_TOKENS_KEYS:
        table.problem(ProblemCode.BAD_VALUE, "max_tokens_key", f"must be one of {', '.join(MAX_TOKENS_KEYS)}")
        return None
    return key


def _base_url(table: Section) -> str | None:
    url = table.text("base_url")
    if url is not None and re.match(r"https?://[^/\s@]+(/[^\s@?#]*)?$", url, re.IGNORECASE) is None:
        table.problem(
            ProblemCode.BAD_VALUE,
            "base_url",
            "must be an http or https URL without a user, query or fragment",
        )
    return url


def _supports(table: Section) -> frozenset[str]:
    supports = frozenset(table.texts("supports", default=CAPABILITIES))
    if unknown := sorted(supports.difference(CAPABILITIES)):
        table.problem(
            ProblemCode.BAD_VALUE,
            "supports",
            f"{table.quoted('supports', unknown[0])} is none of {', '.join(CAPABILITIES)}",
        )
    return supports


def _price_or_ceiling(table: Section) -> tuple[Price | None, bool]:
    """The model's price, or where that is unknown the most it is counted at; and whether it is the latter."""
    price, ceiling = _price(table, "price"), _price(table, "ceiling_price")
    policy = table.text("unknown_price", default="refuse")
    if policy not in UNKNOWN_PRICES:
        table.problem(ProblemCode.BAD_VALUE, "unknown_price", f"must be one of {', '.join(UNKNOWN_PRICES)}")
    elif policy != CEILING and ceiling is not None:
        table.problem(ProblemCode.BAD_VALUE, "ceiling_price", 'counts only with unknown_price = "ceiling"')
    elif policy == CEILING and price is not None:
        table.problem(ProblemCode.BAD_VALUE, "unknown_price", "the price is known; remove it or the price")
    elif policy == CEILING and ceiling is None:
        table.missing("ceiling_price", "say what a model of unknown price costs at most")
    is_ceiling = policy == CEILING and price is None
    return (ceiling if is_ceiling else price), is_ceiling


def _price(table: Section, name: str) -> Price | None:
    price = table.table(name)
    if price is None:
        return None
    read = {key: price.usd_micros(key) for key in ("input_per_million", "output_per_million")}
    for key in read:
        if not price.has_seen(key):
            price.missing(key, "a price has both input_per_million and output_per_million")
    cached, reasoning = price.usd_micros("cached_per_million"), price.usd_micros("reasoning_per_million")
    price.finish()
    return Price(
        input_per_million=read["input_per_million"] or 0,
        output_per_million=read["output_per_million"] or 0,
        cached_per_million=cached,
        reasoning_per_million=reasoning,
    )


def read_function_processes(section: Section) -> FunctionProcesses:
    """Section `[functions]`: processes of their own. To be read before the rest, which ends the section."""
    always = section.boolean("isolate", default=False) or False
    table = section.table("process")
    if table is None:
        return FunctionProcesses(always=always)
    usual = FunctionProcesses()
    memory_mib = table.optional_integer("memory_mib", most=_MILLION)
    file_mib = table.optional_integer("file_mib", most=_MILLION)
    cpu_ms = table.optional_span("cpu")
    processes = FunctionProcesses(
        always=always,
        concurrency=table.integer("concurrency", default=usual.concurrency, least=1, most=1_000),
        memory_bytes=None if memory_mib is None else memory_mib * _MIB,
        cpu_s=None if cpu_ms is None else max(-(-cpu_ms // 1000), 1),
        processes=table.optional_integer("processes", most=_MILLION),
        files=table.integer("files", default=usual.files or 0, least=16, most=_MILLION),
        file_bytes=None if file_mib is None else file_mib * _MIB,
        environment=read_environment(table),
        folder=table.path("folder"),
        hide_server=table.boolean("hide_server", default=True) is not False,
    )
    table.finish()
    return processes


def read_function_roots(section: Section) -> tuple[str, ...]:
    """Section `[functions]`: the modules and packages that workflows may name functions of."""
    roots = section.texts("roots")
    for root in roots:
        if _ROOT.fullmatch(root) is None:
            section.problem(
                ProblemCode.BAD_VALUE, "roots", "a root is a module's dotted name, such as company.tools"
            )
    section.finish(not_built=("entry_points",))
    return roots


def read_run_settings(section: Section) -> RunSettings:
    """Section `[limits]`: its part about any one run. To be read before the rest, which ends the section."""
    run = section.table("run")
    if run is None:
        return RunSettings()
    settings = RunSettings(
        stored_bytes=run.integer("stored_bytes", default=RUN_BYTES, least=0, most=_MILLION * _MILLION),
        start_delay_ms=run.span("start_delay", default_ms=START_DELAY_MS, most_ms=_LONGEST_RUN_MS),
    )
    run.finish()
    return settings


def read_tenant_limits(section: Section) -> TenantLimits:
    """Section `[limits]`: what one tenant, and each of its runs, may have."""
    tenant = section.table("tenant")
    section.finish()
    if tenant is None:
        return TenantLimits()
    limits = TenantLimits(
        active_runs=tenant.integer("active_runs", default=0, least=1, most=_MILLION) or None,
        run_timeout_ms=tenant.span("run_timeout", default_ms=0, most_ms=_LONGEST_RUN_MS) or None,
        run_token_budget=tenant.integer("run_token_budget", default=0, least=1, most=10**15) or None,
        run_cost_budget_micros=tenant.usd_micros("run_cost_budget_usd"),
        adjust_own_runs=tenant.boolean("adjust_own_runs", default=True) is not False,
        approve_own_runs=tenant.boolean("approve_own_runs"),
    )
    tenant.finish(not_built=_LIMITS_NOT_BUILT)
    return limits

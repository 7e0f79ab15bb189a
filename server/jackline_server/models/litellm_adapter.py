"""Models through litellm: a hundred providers behind one call.

Owns every use of litellm, and the HTTP clients of profiles that speak the OpenAI wire. Does not own time
(`limits`), what a chunk means (`chunks`) or what an error means (`failures`). litellm is imported by the
first request, in a thread, since that takes seconds; its retries, callbacks, logs and telemetry are off.

For a provider on the OpenAI wire the SDK's own stream is read, not litellm's wrapper around it: the wrapper
makes up a finish reason for a cut stream, makes up usage that was not reported, and costs several times as
much. For the others the wrapper is read, and what it makes up is forgotten again: an end that the provider
did not say (`own_words`), usage that it did not report. A few of litellm's providers skip a broken chunk. A
self-hosted endpoint is therefore best named `openai/<model>` with a `base_url`.
"""

import asyncio
import contextlib
import importlib
import logging
import math
import os
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Protocol, cast

import httpx

from jackline_server.core.plan import ModelPlan, Price
from jackline_server.models.chunks import ChunkReader
from jackline_server.models.echoes import Echoes, secrets_of
from jackline_server.models.failures import FailureContext, classify
from jackline_server.models.own_words import OwnWords
from jackline_server.models.profile import ModelProfile
from jackline_server.models.router import profile_of
from jackline_server.models.strict_order import wants_strict_order
from jackline_server.models.tool_schemas import dialect_of
from jackline_server.models.translate import (
    said,
    wire_messages,
    wire_reply_format,
    wire_tool_choice,
    wire_tools,
)
from jackline_server.models.wire_http import capped_client, under_way
from jackline_server.runtime.ports.models import ModelChunk, ModelFailure, ModelRequest

_BACKSTOP_S = 10
_CLOSE_S = 5
_PREPARE_S = 0.2
_NO_KEY = "none"
_OPENAI = "openai"
_SETTINGS: Mapping[str, object] = {
    "telemetry": False,
    "suppress_debug_info": True,
    "set_verbose": False,
    "turn_off_message_logging": True,
    "disable_streaming_logging": True,
    "modify_params": True,  # some providers refuse a history with tool calls and no tools: it adds a dummy
    "drop_params": False,
    "num_retries": 0,
    "disable_token_counter": True,  # it would count every prompt on the event loop; the core counts
    "disable_hf_tokenizer_download": True,
}


_ENDING: set[asyncio.Task[None]] = set()
"""Cancelled requests on their way out; the loop itself holds tasks only weakly."""


class _AsyncClosable(Protocol):
    async def close(self) -> None: ...


@dataclass(slots=True)
class _Library:
    """litellm and the OpenAI SDK, loaded. Both are typed too loosely to be of use."""

    litellm: Any
    openai: Any
    tls: ssl.SSLContext


@dataclass(slots=True)
class _Client:
    """An SDK client of one profile and the HTTP client under it."""

    sdk: Any
    http: httpx.AsyncClient


def _load() -> _Library:
    """Import litellm, quietly. Takes seconds of CPU: call it in a thread.

    The environment is set before the import: no price list from the network, no `.env` file of the
    working directory.
    """
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    os.environ["LITELLM_MODE"] = "PRODUCTION"
    importlib.import_module("httpcore")  # httpx loads it late, and then on the event loop
    import litellm  # noqa: PLC0415 - it takes seconds; only the first request pays
    import openai  # noqa: PLC0415 - as above

    for name, value in _SETTINGS.items():
        setattr(litellm, name, value)
    loaded: Any = litellm  # its own annotations are partial
    loaded.get_supported_openai_params(model="openai/gpt-4o")  # loads more modules, here and not on the loop
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.CRITICAL + 1)
        logger.propagate = False
    return _Library(loaded, openai, httpx.create_ssl_context())


@dataclass(slots=True)
class LiteLLMModels:
    """Implements Models. Use it in one event loop; `close` it there when no attempt runs any more.

    `wall_clock` gives seconds since the epoch; it only reads Retry-After dates. `environ` has the keys that
    litellm finds by itself, which are kept out of replies and messages.
    """

    profiles: Mapping[str, ModelProfile]
    wall_clock: Callable[[], float] = time.time
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    _loading: asyncio.Task[_Library] | None = None
    _clients: dict[str, _Client] = field(default_factory=dict[str, _Client])

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        """See Models. The time-outs here are a backstop: wrap it in `limits.Guarded`."""
        profile = profile_of(request.plan, self.profiles)
        hidden = secrets_of(profile, self.environ)
        reader, echoes = ChunkReader(secrets=hidden), Echoes(hidden)
        is_open = False
        try:
            library = await self._library()
            async with self._open(library, request, profile) as (chunks, wrapper):
                is_open = True
                own_words = OwnWords()
                if wrapper is not None:
                    own_words.watch(wrapper)
                async for chunk in chunks:
                    for piece in echoes.pass_on(reader.read(chunk)):
                        yield piece
                if wrapper is not None:
                    _forget_inventions(reader, wrapper, own_words)
                for piece in echoes.pass_on(reader.end()):
                    yield piece
        except ModelFailure:
            raise
        except Exception as error:  # noqa: BLE001 - the library raises whatever its providers' code raises
            raise classify(error, self._context(request, profile, started=is_open)) from None

    async def load(self) -> None:
        """Import litellm now, so that the first request need not."""
        await self._library()

    async def known_price(self, model: str) -> Price | None:
        """The price in litellm's own list; None if the model is not in it. Loads litellm."""
        library = await self._library()
        try:
            entry: Any = library.litellm.get_model_info(model)
        except Exception:  # noqa: BLE001 - the library raises a bare Exception for a model that it does not know
            return None
        prices = [_per_million(entry.get(f"{side}_cost_per_token")) for side in ("input", "output")]
        if prices[0] is None or prices[1] is None:
            return None
        return Price(input_per_million=prices[0], output_per_million=prices[1])

    async def close(self) -> None:
        """Close every connection, those that litellm keeps in its own cache included."""
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.http.aclose()
        if self._loading is None or not self._loading.done() or self._loading.cancelled():
            return
        if self._loading.exception() is None:
            await _close_cached(self._loading.result())

    # --- inside ----------------------------------------------------------------------------

    async def _library(self) -> _Library:
        """The library, imported once. A cancelled request leaves the import running for the next."""
        if self._loading is None:
            self._loading = asyncio.create_task(asyncio.to_thread(_load), name="load-litellm")
        return await asyncio.shield(self._loading)

    @contextlib.asynccontextmanager
    async def _open(
        self, library: _Library, request: ModelRequest, profile: ModelProfile
    ) -> AsyncGenerator[tuple[AsyncIterator[object], object | None]]:
        """The provider's stream, and the wrapper if that is what is read. Closed on the way out."""
        wrapper: Any = await _begun(library, self._arguments(library, request, profile))
        raw: Any = getattr(wrapper, "completion_stream", None)
        try:
            if isinstance(raw, library.openai.AsyncStream):
                yield cast("AsyncIterator[object]", raw), None
            else:
                yield cast("AsyncIterator[object]", wrapper), wrapper
        finally:
            await _close_stream(wrapper)

    def _arguments(
        self, library: _Library, request: ModelRequest, profile: ModelProfile
    ) -> dict[str, object]:
        """Everything that litellm is told."""
        model, provider = _provider(library, request.plan, profile)
        supported = library.litellm.get_supported_openai_params(model=model, custom_llm_provider=provider)
        total_s = request.total_ms / 1000 + _BACKSTOP_S
        arguments: dict[str, object] = {
            **profile.parameters,
            "model": request.plan.model,
            "messages": wire_messages(
                request.messages, request.plan, strict_order=wants_strict_order(request.plan.model)
            ),
            "stream": True,
            profile.max_tokens_key or "max_tokens": request.max_output_tokens,
            "max_retries": 0,
            "num_retries": 0,
            "timeout": httpx.Timeout(total_s, connect=request.plan.limits.connect_timeout_ms / 1000),
            "no-log": True,
            "caching": False,
        }
        if "stream_options" in (supported or ()):
            arguments["stream_options"] = {"include_usage": True}
        if request.tools:
            arguments["tools"] = wire_tools(request.tools, dialect_of(request.plan.model))
            arguments["tool_choice"] = wire_tool_choice(request.tool_choice)
        if request.reply_schema is not None:
            arguments["response_format"] = wire_reply_format(request.reply_schema)
        arguments |= _of_profile(profile)
        if provider == _OPENAI:
            arguments["client"] = self._client(library, request.plan.profile, profile).sdk
        return arguments

    def _client(self, library: _Library, name: str, profile: ModelProfile) -> _Client:
        """The client of a profile on the OpenAI wire, made once."""
        client = self._clients.get(name)
        if client is None:
            http = capped_client(connections=profile.concurrency, tls=library.tls)
            key = profile.api_key.reveal() if profile.api_key else None
            if key is None and profile.base_url:
                key = _NO_KEY
            sdk = library.openai.AsyncOpenAI(
                api_key=key, base_url=profile.base_url, http_client=http, max_retries=0
            )
            client = self._clients[name] = _Client(sdk, http)
        return client

    def _context(self, request: ModelRequest, profile: ModelProfile, *, started: bool) -> FailureContext:
        hidden = [profile.api_key.reveal()] if profile.api_key else []
        hidden += [value.reveal() for value in profile.headers.values()]
        hidden += secrets_of(profile, self.environ)
        hidden += [profile.base_url, httpx.URL(profile.base_url).host] if profile.base_url else []
        return FailureContext(
            secrets=hidden, said=said(request.messages), started=started, now_unix_s=self.wall_clock()
        )


async def _begun(library: _Library, arguments: Mapping[str, object]) -> Any:  # noqa: ANN401 - litellm's own type
    """The wrapper that `acompletion` returns; the caller closes it.

    litellm prepares a request in a thread and leaves a coroutine without an owner if it is cancelled then.
    So a cancellation waits, shortly, until the request has reached the network, and then ends it there.
    """
    reached = asyncio.Event()
    token = under_way.set(reached)
    try:
        call = asyncio.create_task(library.litellm.acompletion(**arguments), name="litellm-request")
    finally:
        under_way.reset(token)
    try:
        return await asyncio.shield(call)
    except asyncio.CancelledError:
        ending = asyncio.create_task(_end_begun(call, reached), name="litellm-request-end")
        _ENDING.add(ending)
        ending.add_done_callback(_ENDING.discard)
        await asyncio.wait({ending}, timeout=2 * _PREPARE_S)
        raise


async def _end_begun(call: asyncio.Task[Any], reached: asyncio.Event) -> None:
    """End a request that nobody waits for any more, whatever it has come to."""
    arrival = asyncio.create_task(reached.wait())
    await asyncio.wait({call, arrival}, timeout=_PREPARE_S, return_when=asyncio.FIRST_COMPLETED)
    arrival.cancel()
    call.cancel()
    await asyncio.wait({call})
    if not call.cancelled() and call.exception() is None:
        await _close_stream(call.result())


async def _close_stream(wrapper: Any) -> None:  # noqa: ANN401 - litellm's own type
    """Give the connection back. litellm's wrapper forgets its stream once it has failed: close both."""
    raw: Any = getattr(wrapper, "completion_stream", None)
    if raw is not None and hasattr(raw, "close"):
        await raw.close()
    await wrapper.aclose()


def _of_profile(profile: ModelProfile) -> dict[str, object]:
    """What a profile adds to every request."""
    added: dict[str, object] = {}
    if profile.api_key or profile.base_url:
        added["api_key"] = profile.api_key.reveal() if profile.api_key else _NO_KEY
    if profile.base_url:
        added["api_base"] = profile.base_url
    if profile.api_version:
        added["api_version"] = profile.api_version
    if profile.headers:
        added["extra_headers"] = {name: value.reveal() for name, value in profile.headers.items()}
    return added


def _provider(library: _Library, plan: ModelPlan, profile: ModelProfile) -> tuple[str, str]:
    """The model's name at its provider, and the provider. Raises what litellm raises for neither."""
    model, provider, *_ = library.litellm.get_llm_provider(plan.model, api_base=profile.base_url)
    return model, provider


def _forget_inventions(reader: ChunkReader, wrapper: object, own_words: OwnWords) -> None:
    """Take back what litellm's wrapper adds at the end of a stream by itself."""
    seen = cast("list[object]", getattr(wrapper, "chunks", None) or [])
    reader.distrust(
        finish=own_words.has_no_end
        or (
            getattr(wrapper, "received_finish_reason", "") is None
            and not getattr(wrapper, "intermittent_finish_reason", None)
        ),
        usage=not any(getattr(chunk, "usage", None) for chunk in seen),
    )


async def _close_cached(library: _Library) -> None:
    """Close the clients in litellm's cache. Its own clean-up skips the OpenAI SDK's."""
    cache: Any = getattr(library.litellm, "in_memory_llm_clients_cache", None)
    cached = list(cast("dict[str, object]", getattr(cache, "cache_dict", None) or {}).values())
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_CLOSE_S):
            for client in cached:
                if isinstance(client, library.openai.AsyncOpenAI):
                    await cast("_AsyncClosable", client).close()
            await library.litellm.close_litellm_async_clients()
    if cache is not None:
        cache.flush_cache()


def _per_million(per_token: object) -> int | None:
    """Dollars a token as millionths of a dollar for a million tokens, rounded up."""
    if not isinstance(per_token, int | float) or isinstance(per_token, bool) or per_token < 0:
        return None
    return math.ceil(Decimal(str(per_token)) * 10**12)

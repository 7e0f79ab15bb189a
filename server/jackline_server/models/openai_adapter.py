"""Models on the OpenAI chat wire, spoken directly.

Owns one attempt at such a model: its connections, the request, the reading of the answer, and what was
learned of a server that refuses an option. Does not own time (`limits`), what a chunk means (`chunks`), what
an error means (`failures`), where a model is (`wire_endpoint`), what is asked (`wire_body`) and how a stream
is cut into documents (`wire_events`). Connections come from the guarded way out alone.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from jackline_server.core.plan import ModelPlan
from jackline_server.models.chunks import ChunkReader
from jackline_server.models.echoes import Echoes, long_enough, secrets_of
from jackline_server.models.failures import (
    ErrorAnswer,
    FailureContext,
    answered_failure,
    over_size,
    unanswered_failure,
)
from jackline_server.models.profile import ModelProfile
from jackline_server.models.provider_words import read_error_body
from jackline_server.models.router import profile_of
from jackline_server.models.translate import said
from jackline_server.models.wire_body import Option, body_of, options_of, refused_option
from jackline_server.models.wire_caps import MAX_ERROR_BYTES, MAX_LINE_BYTES, SLICE_BYTES
from jackline_server.models.wire_endpoint import WireEndpoint, wire_endpoint
from jackline_server.models.wire_events import EventReader, read_document, whole_as_chunk
from jackline_server.runtime.ports.http import HttpFailure, Reach
from jackline_server.runtime.ports.http_streams import HttpAnswer, HttpPool, HttpPools, PoolSettings
from jackline_server.runtime.ports.models import ModelChunk, ModelRequest

_SUCCESS = range(200, 300)


@dataclass(slots=True)
class _Door:
    """One model of one profile.

    `hidden` are the secrets that no reply may hold, `without` the options that its server is known to refuse.
    """

    endpoint: WireEndpoint
    profile: ModelProfile
    pool: HttpPool
    hidden: tuple[str, ...]
    without: frozenset[Option] = frozenset()


@dataclass(slots=True, kw_only=True)
class OpenAIModels:
    """Implements Models. Use it in one event loop; `close` it there when no attempt runs any more.

    `environ` has the keys of profiles that name none; `wall_clock` gives seconds since the epoch and only
    reads Retry-After dates.
    """

    profiles: Mapping[str, ModelProfile]
    pools: HttpPools
    environ: Mapping[str, str]
    wall_clock: Callable[[], float] = time.time
    _doors: dict[tuple[str, str, int], _Door] = field(default_factory=dict[tuple[str, str, int], _Door])
    _kept: dict[tuple[str, PoolSettings], HttpPool] = field(
        default_factory=dict[tuple[str, PoolSettings], HttpPool]
    )
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        """See Models. But for the connect timer there is none here: wrap it in `limits.Timed`.

        A server that refuses an option is asked once more without it, which costs nothing: it did no work.
        """
        try:
            door = await self._door(request.plan)
            reader, echoes = ChunkReader(secrets=door.hidden), Echoes(door.hidden)
            async with self._answer(door, request) as answer:
                body = _Body(answer)
                while (documents := await body.next()) is not None:
                    for document in documents:
                        for piece in echoes.pass_on(reader.read(document)):
                            yield piece
        except HttpFailure as failure:
            raise unanswered_failure(failure) from None
        for piece in echoes.pass_on(reader.end()):
            yield piece

    async def close(self) -> None:
        """Close every connection."""
        pools, self._kept = self._kept, {}
        self._doors.clear()
        for pool in pools.values():
            await pool.close()

    # --- inside ----------------------------------------------------------------------------

    @asynccontextmanager
    async def _answer(self, door: _Door, request: ModelRequest) -> AsyncGenerator[HttpAnswer]:
        """An answer that may be a reply.

        Raises:
            ModelFailure: the answer is none.
            HttpFailure: there is no answer.
        """
        endpoint, without = door.endpoint, door.without
        while True:
            body = body_of(request, model=endpoint.model, profile=door.profile, without=without)
            async with door.pool.post(endpoint.target, headers=endpoint.headers, body=body) as answer:
                if answer.status in _SUCCESS:
                    door.without |= without  # a refusal counts once the server has taken a request without it
                    yield answer
                    return
                error = await _error(answer)
            sent = options_of(request, model=endpoint.model, profile=door.profile, without=without)
            option = refused_option(error.status, error.words, sent=sent)
            if option is None:
                raise answered_failure(error, self._context(door, request))
            without |= {option}

    def _context(self, door: _Door, request: ModelRequest) -> FailureContext:
        return FailureContext(
            secrets=(*door.endpoint.secrets, *door.hidden),
            said=said(request.messages),
            started=False,
            now_unix_s=self.wall_clock(),
        )

    async def _door(self, plan: ModelPlan) -> _Door:
        """The model of a plan, looked up once. Raises ModelFailure and HttpRefused."""
        key = (plan.profile, plan.model, plan.limits.connect_timeout_ms)
        door = self._doors.get(key)
        if door is None:
            profile = profile_of(plan, self.profiles)
            endpoint = wire_endpoint(plan.model, profile, self.environ)
            pool = await self._pool(plan, endpoint, profile)
            hidden = long_enough((endpoint.key, *secrets_of(profile)))
            door = self._doors.setdefault(key, _Door(endpoint, profile, pool, hidden))
        return door

    async def _pool(self, plan: ModelPlan, endpoint: WireEndpoint, profile: ModelProfile) -> HttpPool:
        """The pool of a profile: as many connections as it has slots.

        Its server is trusted: the operator wrote it, or it is one of the table.
        """
        settings = PoolSettings(
            origin=endpoint.origin,
            reach=Reach(trusted=frozenset({endpoint.origin})),
            connections=profile.concurrency,
            connect_ms=plan.limits.connect_timeout_ms,
        )
        async with self._opening:
            pool = self._kept.get((plan.profile, settings))
            if pool is None:
                pool = self._kept[plan.profile, settings] = await self.pools.pool(settings)
        return pool


class _Body:
    """Reads the documents of an answer: a stream's, or the one of a reply in one piece."""

    __slots__ = ("_answer", "_at", "_events", "_is_over", "_part")

    def __init__(self, answer: HttpAnswer) -> None:
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        self._answer = answer
        self._events = None if kind == "application/json" else EventReader()
        self._is_over = False
        self._part = b""
        self._at = 0

    async def next(self) -> Sequence[object] | None:
        """Those that the next bytes complete, None at the end. Raises ModelFailure and HttpFailure."""
        if self._is_over:
            return None
        if self._events is None:
            self._is_over = True
            return (whole_as_chunk(await self._whole()),)
        part = await self._slice()
        documents = self._events.feed(part) if part else self._events.end()
        self._is_over = not part or self._events.is_done
        return documents

    async def _slice(self) -> bytes:
        """The next bytes, empty at the end. Others have their turn between two of them."""
        if self._at >= len(self._part):
            self._part, self._at = await self._answer.read(), 0
        else:
            await asyncio.sleep(0)
        start, self._at = self._at, self._at + SLICE_BYTES
        return self._part[start : self._at]

    async def _whole(self) -> object:
        body = bytearray()
        while part := await self._answer.read():
            body += part
            if len(body) > MAX_LINE_BYTES:
                raise over_size()
        return read_document(bytes(body))


async def _error(answer: HttpAnswer) -> ErrorAnswer:
    """An answer that is no reply, with as much of its body as comes."""
    body = bytearray()
    try:
        while len(body) < MAX_ERROR_BYTES and (part := await answer.read()):
            body += part
    except HttpFailure:
        pass  # the status says enough
    return ErrorAnswer(
        status=answer.status, headers=answer.headers, words=read_error_body(bytes(body[:MAX_ERROR_BYTES]))
    )

"""What a test saw of a server from outside, as a history that the validators judge.

Owns watching on the raw wire: the bytes of every event as they came, over as many streams as it takes, and
the calls that were made. Does not own what a promise is; `jackline_server.testing.validators` does.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc.aio

from jackline.v1.event_pb2 import StepEvent
from jackline.v1.run_pb2 import View
from jackline.v1.run_service_pb2 import StartDisposition, StreamProgressRequest, StreamProgressResponse
from jackline_client import JacklineClient
from jackline_client._statuses import error_from_rpc
from jackline_client.errors import CallError
from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.core.facts import RunStarted
from jackline_server.runtime.ports.journal import StoredEvent
from jackline_server.testing.validators import judge
from jackline_server.testing.validators.history import (
    LOST,
    OK,
    REFUSED,
    Delivery,
    Event,
    History,
    Hit,
    Limits,
    Run,
    RunCaps,
    Start,
    Stream,
    ToolEntry,
)
from jackline_server.testing.validators.recording import caps_of, digest_of, event_of, mark_of
from tests.support.server_process import ServerProcess
from tests.support.tool_service import Entry

_METHOD = "/jackline.v1.RunService/StreamProgress"
_CONTENT = StepEvent.DESCRIPTOR.fields_by_name["content"].number
_EVENTS = StreamProgressResponse.DESCRIPTOR.fields_by_name["events"].number
_LENGTH_DELIMITED = 2
_FIXED = {1: 8, 5: 4}
_CHANNEL = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 200),
)
_PATIENCE_S = 60


def now_ms() -> int:
    """The observer's clock."""
    return int(time.monotonic() * 1000)


# --- the wire ----------------------------------------------------------------------------------


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _fields(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Each field of a message: its number, where it begins, and its value if that has a length."""
    at = 0
    while at < len(data):
        begin = at
        key, at = _varint(data, at)
        value = b""
        if key & 7 == _LENGTH_DELIMITED:
            length, at = _varint(data, at)
            value, at = data[at : at + length], at + length
        elif key & 7 in _FIXED:
            at += _FIXED[key & 7]
        else:
            _, at = _varint(data, at)
        yield key >> 3, begin, value


def stored(event: bytes) -> StoredEvent:
    """An event of the full view, with its content apart."""
    split = next((begin for number, begin, _ in _fields(event) if number == _CONTENT), len(event))
    return StoredEvent(
        sequence=StepEvent.FromString(event).sequence, meta=event[:split], content=event[split:]
    )


# --- watching ----------------------------------------------------------------------------------


class Watcher:
    """One watcher of one run that comes back after every cut, until the run has ended.

    `log` has the bytes of each event as they first came; `problems` what came different later.
    """

    def __init__(self, recorder: "Recorder", run_id: str, *, name: str, after: int = 0) -> None:
        self.run_id = run_id
        self.log: dict[int, bytes] = {}
        self.ended = False
        self._recorder = recorder
        self._name = name
        self._position = after
        self._changed = asyncio.Condition()
        self._facts = Counter[str]()

    @property
    def position(self) -> int:
        """The last event that came."""
        return self._position

    def events(self) -> list[StepEvent]:
        """What came so far, in order."""
        return [StepEvent.FromString(data) for _, data in sorted(self.log.items())]

    def has(self, fact: str, count: int = 1) -> bool:
        """True if so many facts of that name came."""
        return self._facts[fact] >= count

    async def saw(self, *facts: str, count: int = 1) -> None:
        """Wait until one of these facts came so many times, or the run has ended."""
        async with self._changed, asyncio.timeout(_PATIENCE_S):
            await self._changed.wait_for(lambda: self.ended or any(self.has(fact, count) for fact in facts))

    async def gone(self, server: ServerProcess) -> None:
        """Wait until the run or its server has ended."""
        end = asyncio.ensure_future(server.gone())
        seen = asyncio.create_task(self.saw("run_finished"))
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await asyncio.wait({end, seen}, return_when=asyncio.FIRST_COMPLETED)
            if seen.done():
                await self.at_end()
        finally:
            end.cancel()
            seen.cancel()
            await asyncio.gather(end, seen, return_exceptions=True)

    async def at_end(self) -> None:
        """Wait until the stream has ended OK."""
        async with self._changed, asyncio.timeout(_PATIENCE_S):
            await self._changed.wait_for(lambda: self.ended)

    async def follow(self) -> None:
        """Watch to the run's end over as many streams as it takes."""
        while not await self.one_stream():
            pass

    async def one_stream(self) -> bool:
        """Open one stream after the position and read it to its end; true if the run has ended."""
        begin, after, deliveries = now_ms(), self._position, list[Delivery]()
        ending, reason, metadata = OK, "", dict[str, str]()
        try:
            async for data in self._recorder.raw(self.run_id, after):
                deliveries.append(await self._take(data))
        except CallError as error:
            ending, reason, metadata = (REFUSED if error.reason else LOST), error.reason, dict(error.metadata)
        self._recorder.streams.append(
            Stream(
                client=self._name,
                run=self.run_id,
                after=after,
                begin_ms=begin,
                end_ms=now_ms(),
                deliveries=tuple(deliveries),
                ending=ending,
                reason=reason,
                metadata=metadata,
            )
        )
        async with self._changed:
            self.ended = ending == OK
            self._changed.notify_all()
        return self.ended

    async def _take(self, data: bytes) -> Delivery:
        events = [value for number, _, value in _fields(data) if number == _EVENTS]
        frame = StreamProgressResponse.FromString(data)
        shown = [stored(event) for event in events]
        async with self._changed:
            for event, raw in zip(shown, events, strict=True):
                self.log.setdefault(event.sequence, raw)
                self._facts[str(StepEvent.FromString(event.meta).WhichOneof("fact"))] += 1
                self._position = event.sequence
                self._recorder.note_seen(self.run_id, event.sequence)
            self._changed.notify_all()
        return Delivery(
            at_ms=now_ms(),
            events=tuple((event.sequence, digest_of(event)) for event in shown),
            sent_through=frame.sent_through,
        )


# --- recording ---------------------------------------------------------------------------------


@dataclass(slots=True)
class Recorder:
    """Everything that one test saw of one server, kills and all. Use it inside `recording`."""

    server: ServerProcess
    client: JacklineClient
    channel: grpc.aio.Channel
    starts: list[Start] = field(default_factory=list[Start])
    streams: list[Stream] = field(default_factory=list[Stream])
    _seen_ms: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    _following: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])

    # --- calls

    async def reconnect(self) -> None:
        """Call from a fresh client, as a caller that was started again would."""
        await self.client.close()
        self.client = self.server.client()

    async def start(
        self,
        workflow: str,
        mark: str,
        *,
        request_id: str | None = None,
        client: JacklineClient | None = None,
        **options: Any,
    ) -> str:
        """Start a run whose input carries `mark`; its id. Raises CallError, which is recorded too."""
        begin, ending = now_ms(), OK
        run, disposition, reason = "", "", ""
        try:
            answer = await (client or self.client).start_run(
                workflow, input={"mark": mark}, request_id=request_id, **options
            )
            run = answer.run.run_id
            disposition = StartDisposition.Name(answer.disposition).removeprefix("START_DISPOSITION_").lower()
        except CallError as error:
            ending, reason = (REFUSED if error.reason else LOST), error.reason
            raise
        finally:
            self.starts.append(
                Start(
                    client="client",
                    request_id=request_id or "",
                    mark=mark,
                    begin_ms=begin,
                    end_ms=now_ms(),
                    ending=ending,
                    run=run,
                    disposition=disposition,
                    reason=reason,
                )
            )
        return run

    async def raw(self, run_id: str, after: int) -> AsyncIterator[bytes]:
        """One stream's frames as they came. Waits for a server that is down. Raises CallError."""
        channel: Any = self.channel  # typed for messages; here are bytes
        method = channel.unary_stream(
            _METHOD, request_serializer=StreamProgressRequest.SerializeToString, response_deserializer=None
        )
        request = StreamProgressRequest(run_id=run_id, after_sequence=after, view=View.VIEW_FULL)
        metadata = grpc.aio.Metadata(("authorization", f"Bearer {self.server.token}"))
        stream: Any = method(request, metadata=metadata, wait_for_ready=True, timeout=_PATIENCE_S)
        try:
            async for data in stream:
                yield data
        except grpc.aio.AioRpcError as error:
            raise error_from_rpc(error) from error
        finally:
            stream.cancel()

    def watch(self, run_id: str, *, name: str = "watcher", after: int = 0) -> Watcher:
        """A watcher that follows the run from now on, in the background, to its end."""
        watcher = Watcher(self, run_id, name=name, after=after)
        self._following.append(asyncio.create_task(watcher.follow()))
        return watcher

    def note_seen(self, run_id: str, sequence: int) -> None:
        """An event was shown: it is durable since now at the latest."""
        self._seen_ms.setdefault((run_id, sequence), now_ms())

    async def done(self) -> None:
        """Wait until every watcher has seen its run's end."""
        async with asyncio.timeout(_PATIENCE_S):
            await asyncio.gather(*self._following)
        self._following.clear()

    # --- the history

    async def history(
        self,
        run_ids: Sequence[str],
        *,
        entries: Sequence[Entry] = (),
        effects: Mapping[str, str] | None = None,
        hits: Sequence[str] = (),
        limits: Limits | None = None,
    ) -> History:
        """All of it, with each run's log as a fresh watcher reads it now. `hits` are the runs of hits."""
        runs = [await self._run(run_id) for run_id in run_ids]
        attempts = Counter[str]()
        tools: list[ToolEntry] = []
        for entry in entries:
            attempts[entry.key] += 1
            tools.append(
                ToolEntry(
                    run=entry.key.rpartition(".")[0],
                    tool=entry.tool,
                    effect=(effects or {}).get(entry.tool, "write"),
                    call_key=entry.key,
                    attempt=attempts[entry.key],
                    at_ms=int(entry.at * 1000),
                )
            )
        return History(
            runs=tuple(runs),
            starts=tuple(self.starts),
            streams=tuple(self.streams),
            tools=tuple(tools),
            hits=tuple(Hit(run=run, at_ms=0) for run in hits),
            limits=limits or Limits(quiescent=True),
        )

    async def _run(self, run_id: str) -> Run:
        replay = Watcher(self, run_id, name="replay")
        async with asyncio.timeout(_PATIENCE_S):
            assert await replay.one_stream(), "a replay of an ended run ends"
        log = [stored(data) for _, data in sorted(replay.log.items())]
        events: list[Event] = [event_of(one, at_ms=self._seen_ms.get((run_id, one.sequence))) for one in log]
        return Run(run=run_id, mark=mark_of(log[0]), caps=await self._caps(log[0]), events=tuple(events))

    async def _caps(self, first: StoredEvent) -> RunCaps:
        started = ProtoCodec().decode(first).fact
        assert isinstance(started, RunStarted)
        described = await self.client.describe_workflow(started.workflow)
        return caps_of(ProtoCodec().decode_plan(described.plan.SerializeToString()), started.bounds)

    async def judged(self, run_ids: Sequence[str], **seen: Any) -> History:
        """The history, which breaks no promise."""
        history = await self.history(run_ids, **seen)
        assert [f"{one.guarantee} {one.run}: {one.sentence}" for one in judge(history)] == []
        return history


@asynccontextmanager
async def recording(server: ServerProcess) -> AsyncGenerator[Recorder]:
    """Record what is seen of a server that has been started once."""
    async with grpc.aio.insecure_channel(server.address, options=_CHANNEL) as channel:
        recorder = Recorder(server, server.client(), channel)
        try:
            yield recorder
        finally:
            following = recorder._following  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - its own
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)
            await recorder.client.close()

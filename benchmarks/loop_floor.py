"""The least that the events of a `loop` measurement can cost: encoded and committed by a bare loop.

Reads the very events of the measured runs back from their store, and writes them into a new store of the same
schema: as many producers at once as there were runs, the same events to an append, each append acknowledged
to its producer when it is durable, group-committed at FULL by one writer thread. Nothing else: no state, no
decision, no model, no tool, no stream. CPU is what the operating system counts for this process.

Each round is written twice: `codec` encodes the facts with the server's protobuf codec; `wire` only
serialises protobuf messages that are filled already.
"""

import asyncio
import os
import shutil
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, cast

import apsw
import uvloop

from benchmarks.metering import cpu_s
from benchmarks.outside import read_order, say
from benchmarks.readback import FILE, open_store, read_parts, read_store
from jackline.v1.event_pb2 import StepEvent
from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.runtime.ports.journal import StoredEvent
from jackline_server.storage.sqlite.database import Database, connect

_GROUP = 256
_CHECKPOINT_PAGES = 4_000
_FSYNCS = 100

_SCHEMA = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'"
_RUNS = "SELECT * FROM runs WHERE run_id = ?"
_INSERT = "INSERT INTO events (run_key, sequence, epoch, meta, content) VALUES (?, ?, 1, ?, ?)"

Encoded = tuple[int, bytes, bytes]
Encode = Callable[[], list[Encoded]]
_Entry = tuple[int, list[Encoded], bytes, "asyncio.Future[None]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What to write. `source` is the data folder of a stopped server, `cuts` the events of each append."""

    source: Path
    folder: Path
    rounds: Sequence[Sequence[str]]
    cuts: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Producer:
    """One run: its key, its last summary, and what encodes each of its appends."""

    run_id: str
    run_key: int
    summary: bytes
    appends: Sequence[Encode]


class BareStore:
    """A store of the same schema with one writer thread that commits whatever has come."""

    def __init__(self, folder: Path, connection: Database) -> None:
        self.folder = folder
        self.commits = 0
        self._connection = connection
        self._queue: SimpleQueue[_Entry | None] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def append(self, run_key: int, events: list[Encoded], summary: bytes) -> "asyncio.Future[None]":
        """Done when the events are durable."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._queue.put((run_key, events, summary, future))
        return future

    async def close(self) -> None:
        """End the thread and close the file."""
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)
        self._connection.close()

    def _work(self) -> None:
        while (first := self._queue.get()) is not None:
            group = [first]
            for _ in range(min(self._queue.qsize(), _GROUP - 1)):
                entry = self._queue.get()
                if entry is None:
                    self._queue.put(None)
                    break
                group.append(entry)
            self._commit(group)
            self._loop.call_soon_threadsafe(_settle, group)

    def _commit(self, group: list[_Entry]) -> None:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(
            _INSERT,
            [(key, number, meta, content) for key, events, _, _ in group for number, meta, content in events],
        )
        connection.execute("COMMIT")
        self.commits += 1


def _settle(group: list[_Entry]) -> None:
    for entry in group:
        entry[3].set_result(None)


def make_store(order: Order, name: str, producers: Sequence[Producer]) -> BareStore:
    """A new store with the schema of the source and the rows of the runs, and no events."""
    folder = order.folder / name
    folder.mkdir(parents=True)
    source = open_store(order.source)
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    connection = connect(folder / FILE, flags=flags, vfs=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
    connection.execute("BEGIN IMMEDIATE")
    for (statement,) in source.execute(_SCHEMA).fetchall():
        connection.execute(cast("str", statement))
    for producer in producers:
        row = cast("tuple[Any, ...]", source.execute(_RUNS, (producer.run_id,)).fetchone())
        connection.execute(f"INSERT INTO runs VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608 - only marks
    connection.execute("COMMIT")
    source.close()
    return BareStore(folder, connection)


def producers_of(order: Order, run_ids: Sequence[str], *, wire: bool) -> list[Producer]:
    """The runs of a round, ready to be encoded."""
    codec, source = ProtoCodec(), open_store(order.source)
    found: list[Producer] = []
    for run_id in run_ids:
        key, summary = cast(
            "tuple[int, bytes]",
            source.execute("SELECT run_key, summary FROM runs WHERE run_id = ?", (run_id,)).fetchone(),
        )
        parts = read_parts(source, run_id)
        appends, start = list[Encode](), 0
        for size in order.cuts:
            chunk = parts[start : start + size]
            appends.append(_serialising(chunk) if wire else _encoding(codec, chunk))
            start += size
        if start != len(parts):
            raise SystemExit(f"run {run_id} has {len(parts)} events and the appends {start}")
        found.append(Producer(run_id=run_id, run_key=key, summary=summary, appends=appends))
    source.close()
    return found


def _encoding(codec: ProtoCodec, parts: Sequence[Encoded]) -> Encode:
    records = [
        codec.decode(StoredEvent(sequence=number, meta=meta, content=content))
        for number, meta, content in parts
    ]

    def encode() -> list[Encoded]:
        events = [codec.encode(record) for record in records]
        return [(event.sequence, event.meta, event.content) for event in events]

    return encode


def _serialising(parts: Sequence[Encoded]) -> Encode:
    messages = [
        (number, StepEvent.FromString(meta), StepEvent.FromString(content)) for number, meta, content in parts
    ]

    def encode() -> list[Encoded]:
        return [
            (number, meta.SerializeToString(), content.SerializeToString())
            for number, meta, content in messages
        ]

    return encode


async def _produce(store: BareStore, producer: Producer) -> None:
    for encode in producer.appends:
        await store.append(producer.run_key, encode(), producer.summary)


async def write_round(order: Order, number: int, *, wire: bool) -> dict[str, float]:
    """Write one round; its CPU and wall time, and its commits. Raises SystemExit on any difference."""
    producers = producers_of(order, order.rounds[number], wire=wire)
    store = make_store(order, f"{'wire' if wire else 'codec'}-{number}", producers)
    pid = os.getpid()
    cpu, wall = cpu_s(pid), time.monotonic()
    async with asyncio.TaskGroup() as group:
        for producer in producers:
            group.create_task(_produce(store, producer))
    cpu, wall = cpu_s(pid) - cpu, time.monotonic() - wall
    await store.close()
    _compare(order, store, producers)
    shutil.rmtree(store.folder)
    return {"cpu_s": cpu, "wall_s": wall, "commits": store.commits}


def _compare(order: Order, store: BareStore, producers: Sequence[Producer]) -> None:
    """Refuse a floor that wrote anything but the server's own bytes."""
    written, source = read_store(store.folder).runs, open_store(order.source)
    for producer in producers:
        parts = read_parts(source, producer.run_id)
        found = written[producer.run_id]
        if [meta + content for _, meta, content in parts] != list(found.events):
            raise SystemExit(f"the floor wrote other bytes for run {producer.run_id}")
    source.close()


def fsync_ms(folder: Path) -> float:
    """The median time of making 16 KiB more of a file durable, as a commit does with its log."""
    path, block, times = folder / "fsync", os.urandom(16 << 10), list[float]()
    with path.open("wb", buffering=0) as file:
        for _ in range(_FSYNCS):
            file.write(block)
            start = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - start)
    path.unlink()
    return statistics.median(times) * 1_000


async def floors(order: Order) -> dict[str, Any]:
    """Every round both ways, and what one fsync takes."""
    order.folder.mkdir(parents=True, exist_ok=True)
    codec = [await write_round(order, number, wire=False) for number in range(len(order.rounds))]
    wire = [await write_round(order, number, wire=True) for number in range(len(order.rounds))]
    return {"codec": codec, "wire": wire, "fsync_ms": fsync_ms(order.folder)}


def main() -> None:
    """Read the order, say the floors."""
    given = read_order()
    order = Order(
        source=Path(given["source"]), folder=Path(given["folder"]), rounds=given["rounds"], cuts=given["cuts"]
    )
    say(uvloop.run(floors(order)))


if __name__ == "__main__":
    main()

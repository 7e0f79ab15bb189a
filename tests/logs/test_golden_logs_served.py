"""Recorded logs in the data folder of a real server: served byte by byte, the open ones led to their ends."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from jackline.v1.event_pb2 import StepEvent
from jackline.v1.run_pb2 import RunState, View
from jackline.v1.run_service_pb2 import StreamProgressRequest
from jackline_client import JacklineClient
from jackline_server.runtime.ports.journal import Append, RunHead, StoredEvent
from jackline_server.storage.sqlite.store import open_sqlite
from tests.logs.golden import FOLDER, GoldenLog, as_json, every_log, holds, read_expected, read_log, releases
from tests.logs.restoring import restore, undump
from tests.logs.test_golden_logs import UNKNOWN_FACT
from tests.outside import worlds
from tests.support.server_process import ServerProcess, Servers
from tests.support.tool_service import ToolService

ENDED = [(release, name) for release, name in every_log() if not name.startswith("open_")]
OPEN = [(release, name) for release, name in every_log() if name.startswith("open_")]
_WAIT_S = 30


async def served(
    servers: Servers, folder: Path, shop: ToolService, logs: Sequence[GoldenLog], *, start: bool = True
) -> ServerProcess:
    """A server on a new data folder that these runs were put into."""
    server = servers.make(worlds.scripted(folder, worlds.PAIR_SCRIPT, shop=shop.base_url))
    opened = await open_sqlite(server.data)
    await restore(opened.store, logs)
    await opened.close()
    if start:
        await server.start()
    return server


async def frames(server: ServerProcess, run_id: str, view: View.ValueType, *, ended: bool = True) -> bytes:
    """What the server sends of a run, as it comes; of one that has not ended, what comes at first."""
    request = StreamProgressRequest(run_id=run_id, view=view)
    async with grpc.aio.insecure_channel(server.address) as plain:
        channel: Any = plain
        call = channel.unary_stream(
            "/jackline.v1.RunService/StreamProgress",
            request_serializer=StreamProgressRequest.SerializeToString,
        )
        stream = call(request, metadata=(("authorization", f"Bearer {server.token}"),), timeout=_WAIT_S)
        sent = b""
        async for frame in stream:
            sent += frame
            if not ended:
                stream.cancel()
                break
    return sent


def stand_in_order(events: Sequence[bytes], sent: bytes) -> bool:
    """True if the bytes of every event are there, one behind the other."""
    at = 0
    for event in events:
        found = sent.find(event, at)
        if found < 0:
            return False
        at = found + len(event)
    return True


@pytest.mark.parametrize("release", releases())
async def test_recorded_runs_are_served_as_they_were_stored(
    release: str, servers: Servers, shop: ToolService, tmp_path: Path
):
    logs = {name: read_log(release, name) for of, name in ENDED if of == release}
    server = await served(servers, tmp_path, shop, list(logs.values()))

    async with server.client() as client:
        for name, log in logs.items():
            full = await frames(server, log.run_id, View.VIEW_FULL)
            metadata = await frames(server, log.run_id, View.VIEW_METADATA)
            assert stand_in_order([event.meta + event.content for event in log.events], full)
            assert stand_in_order([event.meta for event in log.events], metadata)
            assert not any(len(event.content) > 8 and event.content in metadata for event in log.events)
            run = await client.get_run(log.run_id, view=View.VIEW_FULL)
            expected: Any = read_expected(release, name)
            labels = {"labels": dict(log.labels)} if log.labels else {}
            assert holds(as_json(run), {**expected["run"], **labels})
    assert shop.entries == []


@pytest.mark.parametrize(("release", "name"), OPEN)
async def test_a_recorded_run_that_was_cut_off_is_led_to_its_end(
    release: str, name: str, servers: Servers, shop: ToolService, tmp_path: Path
):
    log = read_log(release, name)
    server = await served(servers, tmp_path, shop, [log])

    await led_to_its_end(server, log)

    assert len(shop.of("charge")) == {"open_cut": 0, "open_waiting": 0}.get(name, 1)


@pytest.mark.parametrize("release", releases())
async def test_a_recorded_store_is_served_and_its_open_runs_are_led_to_their_ends(
    release: str, servers: Servers, shop: ToolService, tmp_path: Path
):
    text = (FOLDER / release / "store.sql").read_text(encoding="utf-8")
    server = servers.make(worlds.scripted(tmp_path, worlds.PAIR_SCRIPT, shop=shop.base_url))
    undump(text, server.data / "jackline.db")
    await server.start()

    stored = [log for one in every_log() if (log := read_log(*one)).run_id in text]
    for log in stored:
        if log.phase.terminal:
            full = await frames(server, log.run_id, View.VIEW_FULL)
            assert stand_in_order([event.meta + event.content for event in log.events], full)
        else:
            await led_to_its_end(server, log)
    assert {log.phase.terminal for log in stored} == {True, False}
    assert len(shop.of("charge")) == 2


async def led_to_its_end(server: ServerProcess, log: GoldenLog) -> None:
    """Do for a run what it waits for, and see it end with the old events before the new ones."""
    async with server.client() as client:
        if log.phase.value == "paused":
            await client.resume(log.run_id)
        if log.phase.value == "waiting":
            await answered(client, log.run_id)
        run = (await client.wait_run(log.run_id, timeout_s=_WAIT_S)).run
    assert run.state == RunState.RUN_STATE_SUCCEEDED
    full = await frames(server, log.run_id, View.VIEW_FULL)
    assert stand_in_order([event.meta + event.content for event in log.events], full)
    assert run.head_sequence > len(log.events)


async def answered(client: JacklineClient, run_id: str) -> None:
    """Say that the write happened."""
    (question,) = [one async for one in client.list_interrupts(run_id)]
    await client.answer(run_id, question.interrupt_id, "succeeded")


async def test_a_run_that_holds_a_fact_of_a_newer_version_is_streamed_and_left_alone(
    servers: Servers, shop: ToolService, tmp_path: Path
):
    """Rule 3 of the contract: it is left to a newer process."""
    release, name = OPEN[0]
    log = read_log(release, name)
    server = await served(servers, tmp_path, shop, [log], start=False)
    number = len(log.events) + 1
    meta = StepEvent(run_id=log.run_id, sequence=number).SerializeToString() + UNKNOWN_FACT
    newer = StoredEvent(number, meta, b"")
    opened = await open_sqlite(server.data)
    (claim,) = await opened.store.leases.claim("newer", limit=1, now_unix_ms=0)
    head = RunHead(phase=log.phase, wake_unix_ms=None, open_interrupts=0)
    await opened.store.journal.append(
        Append(run_id=log.run_id, epoch=claim.epoch, after_sequence=number - 1, events=[newer], head=head)
    )
    await opened.store.leases.release("newer", log.run_id, epoch=claim.epoch)
    await opened.close()
    await server.start()

    sent = await frames(server, log.run_id, View.VIEW_FULL, ended=False)
    assert stand_in_order([*(event.meta + event.content for event in log.events), newer.meta], sent)
    assert await server.stop() == 0

    opened = await open_sqlite(server.data)
    assert len(await opened.store.journal.read(log.run_id, after_sequence=0, limit=1_000)) == newer.sequence
    await opened.close()
    assert shop.entries == []

"""Results that are too long for the log, through the real loop: kept, read on in, bounded, never an end."""

import asyncio
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from jackline_server import failpoints
from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.core import json_text
from jackline_server.core.facts import (
    CallStatus,
    InterruptRaised,
    NoticeCode,
    Noticed,
    Phase,
    RunFinished,
    ToolCallFinished,
)
from jackline_server.core.messages import ToolMessage
from jackline_server.core.plan import READ_RESULT, Effect, JsonObject, Plan
from jackline_server.runtime.driving.cut_results import KEPT_BYTES
from jackline_server.runtime.ports.blobs import BLOB_GRACE_MS
from jackline_server.runtime.ports.codec import Record
from jackline_server.runtime.ports.models import ModelRequest
from jackline_server.runtime.ports.store import Store
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT, Tenant
from jackline_server.storage.memory.store import memory_store
from jackline_server.storage.sqlite.store import open_sqlite
from jackline_server.testing import plans
from jackline_server.testing.doubles import FakeModels, FakeTools, ScriptedReply
from jackline_server.testing.harness import Process, World, process
from jackline_server.tools.results import completed
from tests.conformance.stores import ManualTime

LINES = "".join(f"line {number}: the berth is free\n" for number in range(1, 20_001))
"""Some 640 KB."""

Answering = Callable[[ModelRequest], ScriptedReply]


@pytest.fixture(autouse=True)
def _no_failpoint() -> Iterator[None]:
    yield
    failpoints.configure("")


def plan(effect: Effect = Effect.READ) -> Plan:
    made = plans.agent_plan(plans.tool("look", effect, result_chars=1_000), reads_results=True)
    return replace(made, digest=hashlib.sha256(ProtoCodec().encode_plan(made)).hexdigest())


def results_of(request: ModelRequest) -> list[str]:
    return [message.text for message in request.messages if isinstance(message, ToolMessage)]


def reading(*asked: JsonObject) -> Answering:
    """A model that looks, then reads on in these ways one after the other, then ends."""

    def answer(request: ModelRequest) -> ScriptedReply:
        seen = len(results_of(request))
        if not seen:
            return ScriptedReply(calls=(("", "look", "{}"),))
        if seen <= len(asked):
            return ScriptedReply(calls=(("", READ_RESULT, json_text.write(asked[seen - 1])),))
        return ScriptedReply(text="done")

    return answer


def world(
    answering: Answering,
    *,
    output: str = LINES,
    store: Store | None = None,
    effect: Effect = Effect.READ,
    run_bytes: int = 1 << 30,
) -> World:
    return World(
        store=store or memory_store(),
        models=FakeModels(answering=answering),
        toolbox=FakeTools(tools={"look": lambda _: completed(output)}),
        plans={"plan": plan(effect)},
        run_result_bytes=run_bytes,
    )


def requests_of(world: World) -> list[ModelRequest]:
    assert isinstance(world.models, FakeModels)
    return world.models.requests


def tools_of(world: World) -> FakeTools:
    assert isinstance(world.toolbox, FakeTools)
    return world.toolbox


def last_results(world: World) -> list[str]:
    return results_of(requests_of(world)[-1])


async def driven(jackline: Process) -> list[Record]:
    async with asyncio.timeout(20):
        seen = await jackline.follow(await jackline.start())
    end = seen[-1].fact
    assert isinstance(end, RunFinished)
    assert end.phase is Phase.SUCCEEDED
    return seen


def facts_of(seen: list[Record], kind: type) -> list[object]:
    return [record.fact for record in seen if isinstance(record.fact, kind)]


async def test_the_model_sees_both_ends_and_reads_on_where_the_mark_says() -> None:
    here = world(reading({"result": "result-1", "offset": 400}, {"result": "result-1", "line": 19_999}))
    async with process(here) as jackline:
        seen = await driven(jackline)
    shown, page, end = last_results(here)
    assert shown.startswith(LINES[:400] + "\n[cut: ")
    assert shown.endswith(LINES[-600:])
    found = json_text.parse_object(page)
    assert (found["text"], found["next_offset"], found["bytes"]) == (LINES[400:1_400], 1_400, len(LINES))
    found = json_text.parse_object(end)
    assert str(found["text"]).splitlines() == LINES.splitlines()[-2:]
    assert (found["lines"], found["next_line"]) == (20_001, None)
    first = facts_of(seen, ToolCallFinished)[0]
    assert isinstance(first, ToolCallFinished)
    assert first.cut_from_bytes == len(LINES)
    stored = await here.store.blobs.read(DEFAULT_TENANT, first.blob, offset=0, limit=10**9)
    assert stored == LINES.encode()


async def test_a_search_finds_what_was_not_shown() -> None:
    here = world(reading({"result": "result-1", "search": "LINE 1234: "}))
    async with process(here) as jackline:
        await driven(jackline)
    found = cast("list[JsonObject]", json_text.parse_object(last_results(here)[-1])["matches"])
    assert [(match["line"], match["text"]) for match in found] == [(1_234, "line 1234: the berth is free")]


async def test_a_result_that_fits_the_log_is_read_on_in_without_a_blob() -> None:
    text = LINES[: KEPT_BYTES // 2]
    here = world(reading({"result": "result-1", "offset": 400, "limit": 7}), output=text)
    async with process(here) as jackline:
        seen = await driven(jackline)
    assert json_text.parse_object(last_results(here)[-1])["text"] == text[400:407]
    assert not facts_of(seen, Noticed)
    first = facts_of(seen, ToolCallFinished)[0]
    assert isinstance(first, ToolCallFinished)
    assert (first.blob, first.cut_from_bytes) == ("", 0)


async def test_what_is_no_text_is_read_as_its_json() -> None:
    here = world(reading({"result": "result-1", "search": '"n":777}'}))
    value = [{"n": number} for number in range(40_000)]
    here = replace(
        here,
        toolbox=FakeTools(tools={"look": lambda _: completed(cast("list[object]", value))}),  # pyright: ignore[reportArgumentType] - it is JSON
    )
    async with process(here) as jackline:
        await driven(jackline)
    (match,) = cast("list[JsonObject]", json_text.parse_object(last_results(here)[-1])["matches"])
    assert '{"n":776},{"n":777},{"n":778}' in str(match["text"])


async def test_that_a_result_is_kept_outside_the_log_is_noticed() -> None:
    here = world(reading())
    async with process(here) as jackline:
        seen = await driven(jackline)
    at = next(place for place, record in enumerate(seen) if isinstance(record.fact, ToolCallFinished))
    notice = seen[at + 1].fact
    assert isinstance(notice, Noticed)
    assert notice.code is NoticeCode.RESULT_STORED
    assert "look" in notice.text
    assert not any("outside the log" in text for text in last_results(here))


@pytest.mark.parametrize("effect", [Effect.READ, Effect.WRITE])
async def test_a_run_that_has_used_up_what_it_may_keep_goes_on_with_both_ends(effect: Effect) -> None:
    here = world(
        reading({"result": "result-1", "offset": 150_000}, {"result": "result-1", "offset": 300_000}),
        effect=effect,
        run_bytes=len(LINES) - 1,
    )
    async with process(here) as jackline:
        seen = await driven(jackline)
    first = facts_of(seen, ToolCallFinished)[0]
    assert isinstance(first, ToolCallFinished)
    assert (first.status, first.blob) == (CallStatus.COMPLETED, "")
    shown, page, nothing = last_results(here)
    assert "not kept" in shown
    assert shown.endswith(LINES[-600:])
    assert json_text.parse_object(page)["text"] == LINES[150_000:151_000]
    assert json_text.parse_object(nothing)["text"] == ""
    assert "note" in json_text.parse_object(nothing)
    notice = facts_of(seen, Noticed)[0]
    assert isinstance(notice, Noticed)
    assert str(len(LINES)) in notice.text


async def test_several_results_share_what_a_run_may_keep() -> None:
    def answer(request: ModelRequest) -> ScriptedReply:
        return (
            ScriptedReply(calls=(("", "look", "{}"),) * 3)
            if not results_of(request)
            else ScriptedReply(text="x")
        )

    here = world(answer, run_bytes=2 * len(LINES))
    texts = iter([LINES, LINES[1:], LINES[2:]])
    here = replace(here, toolbox=FakeTools(tools={"look": lambda _: completed(next(texts))}))
    here = replace(
        here, plans={"plan": plans.agent_plan(plans.tool("look"), reads_results=True, max_parallel=1)}
    )
    async with process(here) as jackline:
        seen = await driven(jackline)
    kept = [
        bool(fact.blob) for fact in facts_of(seen, ToolCallFinished) if isinstance(fact, ToolCallFinished)
    ]
    assert kept == [True, True, False]


@pytest.mark.parametrize("handle", ["result-2", "result-99", "result-0", "../etc/passwd", "", "call_1"])
async def test_another_handle_than_those_of_the_visit_reads_nothing(handle: str) -> None:
    here = world(reading({"result": handle, "offset": 0}))
    async with process(here) as jackline:
        await driven(jackline)
    assert last_results(here)[-1].startswith("Error: There is no result")
    assert "result-1" in last_results(here)[-1]


async def test_a_result_of_another_run_can_not_be_read() -> None:
    here = world(reading())
    async with process(here) as jackline:
        await driven(jackline)
        other = replace(here, models=FakeModels(answering=reading({"result": "result-2"})))
        async with process(other, worker="worker-2") as second:
            await driven(second)
    assert last_results(other)[-1].startswith("Error: There is no result")


@pytest.mark.parametrize("effect", [Effect.READ, Effect.WRITE])
async def test_a_worker_that_dies_between_the_bytes_and_the_fact_leaves_no_more_than_a_blob_to_sweep(
    effect: Effect,
) -> None:
    time = ManualTime()
    here = world(reading(), effect=effect, store=memory_store(clock=time.clock()))
    failpoints.configure("result.after_put_before_commit=hang")
    async with process(here, drain_grace_ms=0) as jackline:
        run_id = await jackline.start()
        async with asyncio.timeout(5):
            await tools_of(here).called.wait()
            for _ in range(100):
                await asyncio.sleep(0)
    failpoints.configure("")
    time.advance(BLOB_GRACE_MS + 1)
    assert await here.store.blobs.sweep(limit=10) == 1
    async with process(here, worker="worker-2") as jackline, asyncio.timeout(5):
        if effect is Effect.WRITE:
            await asked_about(jackline, run_id)
            assert len(tools_of(here).ledger) == 1
            return
        seen = await jackline.follow(run_id)
    first = facts_of(seen, ToolCallFinished)[0]
    assert isinstance(first, ToolCallFinished)
    assert first.blob
    assert await here.store.blobs.size(DEFAULT_TENANT, first.blob) == len(LINES)


async def asked_about(jackline: Process, run_id: str) -> None:
    frames = jackline.runtime.runs.watch(DEFAULT_TENANT, run_id, after_sequence=0, deltas=False)
    async for frame in frames:
        records = [ProtoCodec().decode(event) for event in frame.events]
        if any(isinstance(record.fact, InterruptRaised) for record in records):
            return
    raise AssertionError("nobody asked")


async def test_a_kept_result_outlives_a_restart_and_every_sweep(tmp_path: Path) -> None:
    opened = await open_sqlite(tmp_path / "data")
    here = world(reading({"result": "result-1", "search": "line 7: "}), store=opened.store)
    async with process(here) as jackline:
        seen = await driven(jackline)
    await opened.close()
    opened = await open_sqlite(tmp_path / "data")
    first = facts_of(seen, ToolCallFinished)[0]
    assert isinstance(first, ToolCallFinished)
    await opened.store.blobs.sweep(limit=100)
    found = await opened.store.blobs.read(DEFAULT_TENANT, first.blob, offset=len(LINES) - 5, limit=100)
    assert found == LINES[-5:].encode()
    assert await opened.store.blobs.read(Tenant("other"), first.blob, offset=0, limit=1) is None
    await opened.close()

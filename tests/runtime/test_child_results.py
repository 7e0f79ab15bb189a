"""What a child run came to, where it is long: kept outside the log and read on in, like a tool's result."""

import asyncio
from dataclasses import replace

import pytest

from jackline_server.core import json_text
from jackline_server.core.facts import CallStatus, NoticeCode, Noticed, Phase, ToolCallFinished
from jackline_server.core.messages import ToolMessage
from jackline_server.core.plan import READ_RESULT, Plan
from jackline_server.runtime.driving.cut_results import HEAD_BYTES, KEPT_BYTES, TAIL_BYTES
from jackline_server.runtime.ports.models import ModelRequest
from jackline_server.runtime.ports.store import Store
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.storage.memory.store import memory_store
from jackline_server.testing.doubles import ScriptedReply
from jackline_server.testing.harness import process
from jackline_server.testing.plans import agent, child, entry, plan_of
from tests.runtime.families import (
    CHILD,
    PARENT,
    Late,
    Life,
    child_plan,
    children_of,
    end_of,
    mortal,
    played,
    put_all,
    says,
    scene,
    sealed,
)

SECONDS = 30
STORY = "".join(f"line {number}: the berth is free\n" for number in range(1, 12_001))
"""Some 400 KB."""


def reader() -> Plan:
    """A parent that is shown 500 characters of what its child says, and can read on."""
    ask = replace(child("ask", CHILD), result_chars=500)
    boss = agent(system=says(PARENT), tools=(entry("ask"),), reads_results=True)
    return sealed(plan_of(boss, ask, name=PARENT))


def telling(story: str) -> "Answers":
    return Answers(story=story)


class Answers:
    """The child tells a story; the parent asks for it, reads on near its end, and ends."""

    def __init__(self, *, story: str) -> None:
        self.story = story
        self.shown: list[str] = []

    def __call__(self, request: ModelRequest) -> ScriptedReply:
        if played(request) == CHILD:
            return ScriptedReply(text=self.story)
        results = [message.text for message in request.messages if isinstance(message, ToolMessage)]
        self.shown = results
        if not results:
            return ScriptedReply(calls=(("c", "ask", "{}"),))
        if len(results) == 1:
            reads = json_text.write({"result": "result-1", "search": "line 9999:"})
            return ScriptedReply(calls=(("r", READ_RESULT, reads),))
        return ScriptedReply(text="read")


async def test_a_long_result_of_a_child_is_kept_outside_the_log_and_read_on_in() -> None:
    told = telling(STORY)
    here = scene(reader(), child_plan(), answering=told)
    async with process(here.world) as jackline, asyncio.timeout(SECONDS):
        await put_all(jackline)
        run_id = await jackline.start(PARENT)
        log = await jackline.follow(run_id)
        first, _ = [record.fact for record in log if isinstance(record.fact, ToolCallFinished)]
        part = await jackline.runtime.runs.result(
            DEFAULT_TENANT, run_id, first.call_id, offset=0, limit=1_000_000
        )
    assert end_of(log).result_json == '"read"'
    assert (first.status, first.cut_from_bytes, bool(first.blob)) == (
        CallStatus.COMPLETED, len(STORY), True,
    )  # fmt: skip
    assert len(first.output_json or "") <= HEAD_BYTES
    assert STORY.endswith(first.tail)
    assert 0 < len(first.tail) <= TAIL_BYTES
    assert part.data.decode() == STORY
    shown, found = told.shown
    assert len(shown) < 1_000
    assert str(len(STORY)) in shown.replace(",", "")
    assert "the berth is free" in found
    assert [record.fact.code for record in log if isinstance(record.fact, Noticed)] == [
        NoticeCode.RESULT_STORED
    ]


async def test_a_result_of_a_child_that_fits_the_log_stays_there_and_is_shown_in_part() -> None:
    told = telling("x" * (KEPT_BYTES - 2))
    here = scene(reader(), child_plan(), answering=told)
    async with process(here.world) as jackline, asyncio.timeout(SECONDS):
        await put_all(jackline)
        log = await jackline.follow(await jackline.start(PARENT))
    first, _ = [record.fact for record in log if isinstance(record.fact, ToolCallFinished)]
    assert (first.blob, first.cut_from_bytes, len(first.output_json or "")) == ("", 0, KEPT_BYTES)
    assert len(told.shown[0]) < 1_000


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("commit", range(1, 12))
async def test_a_crash_at_any_commit_leaves_the_long_result_once_and_whole(commit: int, after: bool) -> None:
    clock = Late()
    store: Store = clock.store()
    told = telling(STORY)
    life = Life(dies_at=commit, after=after)
    dying = scene(reader(), child_plan(), store=mortal(store, life), answering=told)
    async with process(dying.world) as jackline, asyncio.timeout(SECONDS):
        await put_all(jackline)
        run_id = await jackline.start(PARENT)
        following = asyncio.create_task(jackline.follow(run_id))
        dead = asyncio.create_task(life.dead.wait())
        await asyncio.wait({following, dead}, return_when=asyncio.FIRST_COMPLETED)
        for task in (following, dead):
            task.cancel()
        await asyncio.gather(following, dead, return_exceptions=True)
    clock.ahead_ms = 3_600_000
    living = scene(reader(), child_plan(), store=store, answering=told)
    async with process(living.world) as jackline, asyncio.timeout(SECONDS):
        log = await jackline.follow(run_id)
        assert len(children_of(log)) == 1
        first, *_ = [record.fact for record in log if isinstance(record.fact, ToolCallFinished)]
        size = await store.blobs.size(DEFAULT_TENANT, first.blob)
    assert end_of(log).phase is Phase.SUCCEEDED
    assert size == len(STORY)


async def test_a_run_that_may_keep_no_more_keeps_both_ends_of_what_its_child_says() -> None:
    told = telling(STORY)
    here = scene(reader(), child_plan(), store=memory_store(), answering=told)
    tight = replace(here.world, run_result_bytes=1_000)
    async with process(tight) as jackline, asyncio.timeout(SECONDS):
        await put_all(jackline)
        log = await jackline.follow(await jackline.start(PARENT))
    first, *_ = [record.fact for record in log if isinstance(record.fact, ToolCallFinished)]
    assert (first.blob, first.cut_from_bytes) == ("", len(STORY))
    assert end_of(log).phase is Phase.SUCCEEDED

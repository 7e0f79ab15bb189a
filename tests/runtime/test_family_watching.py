"""One stream over a run and all that it starts: every event once, from any positions on."""

import asyncio
from collections.abc import Mapping

import pytest

from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.core.facts import InterruptRaised, ToolAsk
from jackline_server.core.plan import Plan
from jackline_server.runtime.ports.codec import Record
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.ports.tools import ToolEnding, ToolResult
from jackline_server.runtime.reading.family_watching import AT_ONCE
from jackline_server.testing.harness import Process, process
from jackline_server.testing.plans import agent, child, entry, plan_of, run_bounds, step_bounds
from tests.runtime.families import (
    CHILD,
    PARENT,
    child_plan,
    children_of,
    parent_plan,
    put_all,
    says,
    scene,
    sealed,
    turns,
)

SECONDS = 20


async def watched(
    jackline: Process, run_id: str, *, after: int = 0, positions: Mapping[str, int] | None = None
) -> tuple[list[Record], dict[str, int]]:
    """All that comes, and the positions as they were last told."""
    codec, seen, told = ProtoCodec(), list[Record](), dict[str, int]()
    frames = jackline.runtime.runs.watch(
        DEFAULT_TENANT, run_id, after_sequence=after, deltas=False, positions=positions or {}
    )
    async for frame in frames:
        seen.extend(codec.decode(event) for event in frame.events)
        told.update(frame.positions or {})
    return seen, told


def of(seen: list[Record], run_id: str) -> list[int]:
    return [record.envelope.sequence for record in seen if record.envelope.run_id == run_id]


def three_levels(*, at_once: int = 8) -> tuple[Plan, ...]:
    """The workflow `middle` has `child` as its tool, and is one of `parent` itself."""
    top = agent(
        system=says(PARENT),
        tools=(entry("ask"),),
        max_parallel=at_once,
        bounds=step_bounds(tool_calls=max(at_once, 32)),
    )
    middle = agent(system=says("middle"), tools=(entry("ask"),))
    return (
        sealed(plan_of(top, child("ask", "middle"), name=PARENT, bounds=run_bounds())),
        sealed(plan_of(middle, child("ask", CHILD), name="middle", bounds=run_bounds())),
        child_plan(),
    )


async def test_a_family_is_seen_whole_while_it_runs_and_after() -> None:
    here = scene(*three_levels(), answering=turns(children=2))
    async with process(here.world) as jackline, asyncio.timeout(SECONDS):
        await put_all(jackline)
        run_id = await jackline.start(PARENT)
        live, told = await watched(jackline, run_id)
        late, _ = await watched(jackline, run_id)
        below = children_of(await jackline.log(run_id))
        logs = {run_id: await jackline.log(run_id)}
        for one in below:
            logs[one] = await jackline.log(one)
            logs |= {deep: await jackline.log(deep) for deep in children_of(logs[one])}
    assert len(logs) == 5
    for seen in (live, late):
        assert {record.envelope.run_id for record in seen} == set(logs)
        assert all(of(seen, one) == list(range(1, len(log) + 1)) for one, log in logs.items())
    assert told == {one: len(log) for one, log in logs.items() if one != run_id}


async def test_what_is_asked_below_as_many_as_are_followed_at_once_is_seen() -> None:
    """They wait for what is below them: that would never be followed if each of them held a place."""
    ask = ToolResult(ending=ToolEnding.ASKING, ask=ToolAsk(text="Which?", schema_json="{}"))
    here = scene(*three_levels(at_once=AT_ONCE), answering=turns(children=AT_ONCE), look=lambda _: ask)
    codec, asking = ProtoCodec(), set[str]()
    async with process(here.world) as jackline, asyncio.timeout(SECONDS):
        await put_all(jackline)
        run_id = await jackline.start(PARENT)
        frames = jackline.runtime.runs.watch(
            DEFAULT_TENANT, run_id, after_sequence=0, deltas=False, positions={}
        )
        async for frame in frames:
            for record in map(codec.decode, frame.events):
                if isinstance(record.fact, InterruptRaised):
                    asking.add(record.envelope.run_id)
            if len(asking) == AT_ONCE:
                break
        await frames.aclose()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - a generator


@pytest.mark.parametrize("part", [1, 2, 3])
async def test_a_family_is_resumed_where_each_of_it_was(part: int) -> None:
    here = scene(parent_plan(), child_plan(), answering=turns(children=2))
    async with process(here.world) as jackline, asyncio.timeout(SECONDS):
        await put_all(jackline)
        run_id = await jackline.start(PARENT)
        log = await jackline.follow(run_id)
        first, second = children_of(log)
        half = len(log) * part // 4
        seen, _ = await watched(jackline, run_id, after=half, positions={first: part})
        whole = len(await jackline.log(first)), len(await jackline.log(second))
    assert of(seen, run_id) == list(range(half + 1, len(log) + 1))
    assert of(seen, first) == list(range(part + 1, whole[0] + 1))
    assert of(seen, second) == list(range(1, whole[1] + 1))


async def test_a_watcher_of_a_family_that_goes_away_leaves_nothing_behind() -> None:
    here = scene(parent_plan(), child_plan())
    async with process(here.world) as jackline, asyncio.timeout(SECONDS):
        await put_all(jackline)
        run_id = await jackline.start(PARENT)
        frames = jackline.runtime.runs.watch(
            DEFAULT_TENANT, run_id, after_sequence=0, deltas=False, positions={}
        )
        before = len(asyncio.all_tasks())
        async for _ in frames:
            break
        await frames.aclose()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - a generator
        await jackline.follow(run_id)
        assert len(asyncio.all_tasks()) <= before

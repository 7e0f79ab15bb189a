"""The voyage example through a real server process: killed on the way, and seen through each door."""

import shutil
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import pytest

from jackline.v1.event_pb2 import StepEvent
from jackline.v1.run_pb2 import Run, RunState, View
from jackline_client import JacklineClient, RunFilter
from tests.support.server_process import ServerProcess, Servers, servers_in
from tests.support.warm_server import shared

VOYAGE = Path(__file__).resolve().parents[2] / "examples" / "voyage"
INPUT = {"from": "Vlissingen", "to": "Harwich"}
RESULT = '"All hands at half past five on Saturday; we leave at six."'


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncGenerator[Servers]:
    async with servers_in(tmp_path, shared()) as made:
        yield made


def placed(servers: Servers) -> ServerProcess:
    server = servers.make((VOYAGE / "jackline.toml").read_text("utf-8"))
    shutil.copytree(VOYAGE, server.folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("jackline.toml"))
    return server


async def family(client: JacklineClient) -> dict[str, Run]:
    """Every run of the server by its id, as GetRun has it."""
    async with aclosing(client.list_runs(RunFilter())) as listed:
        ids = [run.run_id async for run in listed]
    return {run_id: await client.get_run(run_id, view=View.VIEW_FULL) for run_id in ids}


async def woven(client: JacklineClient, run_id: str) -> list[StepEvent]:
    events: list[StepEvent] = []
    async with aclosing(client.watch(run_id, view=View.VIEW_FULL, children=True)) as frames:
        async for frame in frames:
            events.extend(frame.events)
    return events


async def children_of(client: JacklineClient, run_id: str) -> list[str]:
    async with aclosing(client.list_runs(RunFilter(parent_run_id=run_id))) as listed:
        return sorted([run.run_id async for run in listed])


def check_family(runs: dict[str, Run], run_id: str) -> None:
    """Five runs, each with what it was given and what it used; the pipeline's ledger has all of it."""
    root = runs[run_id]
    assert root.state == RunState.RUN_STATE_SUCCEEDED
    assert root.outcome.result_json.decode() == RESULT
    assert sorted(run.workflow for run in runs.values()) == ["notice"] + ["passage"] * 3 + ["proofread"]
    for run in runs.values():
        parent = runs.get(run.parent_run_id)
        assert (parent is None) == (run.run_id == run_id)
        assert run.root_run_id == ("" if parent is None else run_id)
        assert run.ledger.tokens == run.usage.prompt_tokens + run.usage.completion_tokens + sum(
            child.tokens for child in run.children
        )
        assert not run.ledger.reserved_tokens
        for child in run.children:
            assert (child.tokens, child.signal) == (runs[child.run_id].ledger.tokens, "default")
            assert child.tokens <= child.token_share == runs[child.run_id].bounds.token_budget


async def test_the_voyage_example_goes_through_all_of_its_runs(servers: Servers) -> None:
    server = placed(servers)
    await server.start()
    async with server.client() as client:
        run_id = (await client.start_run("notice", input=INPUT)).run.run_id
        events = await woven(client, run_id)
        runs = await family(client)
        below = await children_of(client, run_id)
    check_family(runs, run_id)
    assert below == sorted(child.run_id for child in runs[run_id].children)
    for one, run in runs.items():
        sequences = [event.sequence for event in events if event.run_id == one]
        assert sequences == list(range(1, run.head_sequence + 1))
        assert {event.parent_run_id for event in events if event.run_id == one} == {run.parent_run_id}


@pytest.mark.parametrize(
    "failpoint",
    ["store.write=kill@12", "store.sync=kill@18", "finish.after_commit=kill@2", "claim.after=kill@4"],
)
async def test_a_server_that_is_killed_on_the_voyage_starts_no_child_twice(
    servers: Servers, failpoint: str
) -> None:
    server = placed(servers)
    await server.start(failpoints=failpoint)
    async with server.client() as client:
        run_id = (await client.start_run("notice", input=INPUT)).run.run_id
    await server.killed()
    await server.start()
    async with server.client() as client:
        await woven(client, run_id)
        check_family(await family(client), run_id)

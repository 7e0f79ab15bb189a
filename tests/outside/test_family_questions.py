"""A question that is asked two levels below: found from the top, answered there, and ended by an abort or not
at all by a kill. Through a real server that drives one run at a time."""

import asyncio
import os
import sys
from contextlib import aclosing
from pathlib import Path

import pytest

from jackline.v1.control_pb2 import ReceiptStage
from jackline.v1.run_pb2 import Interrupt, Run, RunState, StopReason, View
from jackline_client import JacklineClient
from jackline_client.errors import ForkPoint, JacklineError
from tests.outside import worlds
from tests.support.server_process import ServerProcess, Servers

SECONDS = 60
SETTLED = ReceiptStage.RECEIPT_STAGE_SETTLED
LEVELS = {
    "fleet": "kind: workflow, effect: read, workflow: harbour",
    "harbour": "kind: workflow, effect: read, workflow: berth",
    "berth": "kind: human, question: Which berth shall it be?, options: [north, south], routes: {'*': end}",
}


def workflow(name: str) -> str:
    return f"name: {name}\nbounds: {{token_budget: 1000}}\nflow: [ask]\nsteps:\n  ask: {{{LEVELS[name]}}}\n"


@pytest.fixture
async def server(servers: Servers, tmp_path: Path) -> ServerProcess:
    made = servers.make(worlds.scripted(tmp_path, [{"text": "x"}], more="[server]\nmax_active_runs = 1\n"))
    await made.start()
    async with made.client() as client:
        for name in LEVELS:
            await client.put_workflow(workflow(name))
    return made


async def asked(client: JacklineClient, run_id: str) -> Interrupt:
    """The one question below a run, once it is there."""
    async with aclosing(client.watch(run_id, children=True, kinds=("interrupt_raised",))) as frames:
        async for frame in frames:
            if frame.events:
                break
    async with aclosing(client.list_interrupts(run_id, children=True, view=View.VIEW_FULL)) as found:
        (one,) = [interrupt async for interrupt in found]
    return one


async def family(client: JacklineClient, run_id: str) -> list[Run]:
    """The run and those below it, from the top."""
    runs = [await client.get_run(run_id)]
    while runs[-1].children:
        runs.append(await client.get_run(runs[-1].children[0].run_id))
    return runs


async def started(client: JacklineClient) -> str:
    return (await client.start_run("fleet", input={})).run.run_id


async def typed(server: ServerProcess, *words: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "jackline_client.cli.main", *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(server.folder),
            "PYTHONPATH": os.pathsep.join(sys.path),
            "JACKLINE_ADDRESS": server.address,
            "JACKLINE_TOKEN": server.token,
        },
    )


async def said(server: ServerProcess, *words: str) -> tuple[int, str]:
    process = await typed(server, *words)
    out, _ = await process.communicate()
    return process.returncode or 0, out.decode()


async def test_a_question_two_levels_below_is_found_and_answered_from_the_top(server: ServerProcess):
    async with server.client() as client, asyncio.timeout(SECONDS):
        run_id = await started(client)
        watching = await typed(server, "watch", run_id)
        question = await asked(client, run_id)
        _, middle, lowest = await family(client, run_id)
        assert (question.run_id, question.parent_run_id) == (lowest.run_id, middle.run_id)
        answer = f"jackline answer {lowest.run_id} {question.interrupt_id} north"
        for words in (("get", run_id), ("explain", run_id), ("inbox", "--parent", run_id)):
            code, out = await said(server, *words)
            assert (code, "Which berth shall it be?" in out, answer in out) == (0, True, True), out
        assert "lives, given 1,000 tokens" in (await said(server, "get", run_id))[1]
        assert "budget tokens: 0 used, 1,000 held of 1,000" in (await said(server, "get", run_id))[1]
        assert f"it waits for the run {middle.run_id}" in (await said(server, "explain", run_id))[1]
        assert middle.run_id in (await said(server, "inbox"))[1]
        code, out = await said(server, "answer", run_id)
        assert (code, answer in out, "1 open question below it" in out) == (2, True, True)
        code, out = await said(server, "answer", run_id, question.interrupt_id, "north")
        assert (code != 0, answer in out) == (True, True), "the id is one of a run below"
        code, out = await said(server, "answer", run_id, "north")
        assert code == 0, out
        shown, _ = await watching.communicate()
        assert watching.returncode == 0, shown
    assert f"[{lowest.run_id[-6:]}]" in shown.decode()
    assert "Which berth shall it be?" in shown.decode()
    assert "begun by a worker" not in shown.decode().splitlines()[0]


async def test_a_question_below_outlives_a_kill_and_each_run_of_the_family_ends_once(server: ServerProcess):
    async with server.client() as client, asyncio.timeout(SECONDS):
        run_id = await started(client)
        before = await asked(client, run_id)
    await server.kill()
    await server.start()
    async with server.client() as client, asyncio.timeout(SECONDS):
        after = await asked(client, run_id)
        assert (after.run_id, after.interrupt_id) == (before.run_id, before.interrupt_id)
        await client.answer(after.run_id, after.interrupt_id, "south", wait=SETTLED)
        run = (await client.wait_run(run_id)).run
        assert (run.state, [child.signal for child in run.children]) == (
            RunState.RUN_STATE_SUCCEEDED, ["default"],
        )  # fmt: skip
        assert len(await family(client, run_id)) == 3


@pytest.mark.parametrize("killed", [False, True])
async def test_an_abort_at_once_while_a_person_is_asked_below_ends_all_three(
    server: ServerProcess, killed: bool
):
    async with server.client() as client, asyncio.timeout(SECONDS):
        run_id = await started(client)
        question = await asked(client, run_id)
        await client.abort(run_id, command_id="stop", wait=ReceiptStage.RECEIPT_STAGE_ACCEPTED)
    if killed:
        await server.kill()
        await server.start()
    async with server.client() as client, asyncio.timeout(SECONDS):
        run = (await client.wait_run(run_id)).run
        assert run.state == RunState.RUN_STATE_ABORTED
        every = await family(client, run_id)
        assert [one.state for one in every] == [RunState.RUN_STATE_ABORTED] * 3
        assert [one.stop_reason for one in every] == [
            StopReason.STOP_REASON_OPERATOR, *[StopReason.STOP_REASON_PARENT] * 2,
        ]  # fmt: skip
        with pytest.raises(JacklineError):
            await client.answer(question.run_id, question.interrupt_id, "north")
        async with aclosing(client.list_interrupts()) as left:
            assert [one async for one in left] == []


async def test_a_fork_of_any_run_of_a_family_is_nobodys_child_and_has_children_of_its_own(
    server: ServerProcess,
):
    forked: list[str] = []
    async with server.client() as client, asyncio.timeout(3 * SECONDS):
        run_id = await started(client)
        question = await asked(client, run_id)
        before = await family(client, run_id)
        for one in before:
            for sequence in range(1, one.head_sequence + 1):
                try:
                    fork = (await client.fork_run(one.run_id, sequence)).run
                except ForkPoint:
                    continue
                forked.append(one.workflow)
                assert (fork.parent_run_id, fork.root_run_id) == ("", "")
                own = await asked(client, fork.run_id)
                assert own.run_id not in {other.run_id for other in before}
                await client.answer(own.run_id, own.interrupt_id, "north", wait=SETTLED)
                ended = (await client.wait_run(fork.run_id)).run
                assert ended.state == RunState.RUN_STATE_SUCCEEDED, f"{one.workflow} at {sequence}"
        assert set(forked) == set(LEVELS)
        again = await asked(client, run_id)
        assert again.run_id == question.run_id, "nothing of this has reached the family"
        await client.answer(again.run_id, again.interrupt_id, "south", wait=SETTLED)
        run = (await client.wait_run(run_id)).run
        assert run.state == RunState.RUN_STATE_SUCCEEDED
        assert len(run.children) == 1

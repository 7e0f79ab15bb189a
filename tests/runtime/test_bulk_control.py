"""One command to many runs: which runs, once each, and what became of it for every one."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest

from jackline_server.core.commands import Abort, Action, Pause, Steer
from jackline_server.core.facts import AbortMode, CommandApplied, Phase, StopReason
from jackline_server.core.frozen import change
from jackline_server.runtime.ports.command_table import Below, CommandRow, Commands, Submission
from jackline_server.runtime.ports.run_rows import RunQuery
from jackline_server.runtime.ports.store_errors import StoreUnavailable
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.refusals import Reason, Refused
from jackline_server.runtime.service.bulk_control import BulkControl, BulkDone, command_id
from jackline_server.runtime.service.kill_switch import LIVING
from jackline_server.storage.memory.store import memory_store
from jackline_server.testing.doubles import FakeModels, FakeTools, ScriptedReply, returns
from jackline_server.testing.harness import CALLER, Process, World, process, start_request
from jackline_server.testing.plans import agent_plan, tool
from tests.runtime.families import end_of

SECONDS = 20
ENDS = Abort(mode=AbortMode.NOW, skip_routes=False)


def world() -> tuple[World, FakeTools]:
    """Runs whose tool call takes for ever."""
    models = FakeModels(answering=lambda _: ScriptedReply(calls=(("l", "look", "{}"),)))
    tools = FakeTools(tools={"look": returns('"seen"')}, wait_ms=lambda _: 1_000_000)
    plans = {"plan": agent_plan(tool("look"))}
    return World(store=memory_store(), models=models, toolbox=tools, plans=plans), tools


async def started(jackline: Process, count: int, **labels: str) -> list[str]:
    """So many runs with these labels, in the order of their pages: newest first."""
    runs = jackline.runtime.runs
    begun = [await runs.start(replace(start_request(), labels=labels)) for _ in range(count)]
    rows = [one.row for one in begun]
    return [
        row.run_id for row in sorted(rows, key=lambda row: (row.created_unix_ms, row.run_id), reverse=True)
    ]


async def bulk(
    jackline: Process,
    action: Action = ENDS,
    *,
    request_id: str = "request",
    preview: bool = False,
    limit: int = 50,
    before: tuple[int, str] | None = None,
    **labels: str,
) -> BulkDone:
    """Give the runs with these labels a command."""
    query = RunQuery(tenant=DEFAULT_TENANT, phases=LIVING, labels=labels, limit=limit, before=before)
    return await jackline.runtime.runs.bulk(
        BulkControl(
            caller=CALLER, query=query, request_id=request_id, reason="why", action=action, preview=preview
        )
    )


async def test_the_runs_that_match_are_given_the_command_and_no_others():
    here, _ = world()
    async with process(here) as jackline, asyncio.timeout(SECONDS):
        matching, others = await started(jackline, 3, team="a"), await started(jackline, 1, team="b")
        done = await bulk(jackline, team="a")
        logs = [await jackline.follow(run_id) for run_id in matching]
        (left,) = others
        other = await jackline.runtime.runs.get(DEFAULT_TENANT, left)
    assert [one.row.run_id for one in done.results] == matching
    assert all(one.receipt is not None and not one.receipt.repeated for one in done.results)
    assert [end_of(log).stop_reason for log in logs] == [StopReason.OPERATOR] * 3
    (applied,) = [one.fact for one in logs[0] if isinstance(one.fact, CommandApplied)]
    assert (applied.command_id, applied.reason) == (command_id("request", matching[0]), "why")
    assert not other.state.phase.terminal


async def test_a_preview_says_which_runs_and_gives_none_the_command():
    here, _ = world()
    async with process(here) as jackline, asyncio.timeout(SECONDS):
        run_ids = await started(jackline, 2)
        done = await bulk(jackline, preview=True, request_id="")
        pending = [await here.store.commands.pending(run_id) for run_id in run_ids]
    assert [one.row.run_id for one in done.results] == run_ids
    assert {(one.receipt, one.refusal) for one in done.results} == {(None, None)}
    assert pending == [[], []]


async def test_a_repeat_gives_no_run_the_command_twice():
    here, tools = world()
    async with process(here) as jackline, asyncio.timeout(SECONDS):
        (run_id,) = await started(jackline, 1)
        await tools.called.wait()
        guides = Steer(text="go on")
        first, again = await bulk(jackline, guides), await bulk(jackline, guides)
        other = await bulk(jackline, guides, request_id="another")
        pending = await here.store.commands.pending(run_id)
    found = [one.receipt for done in (first, again, other) for one in done.results]
    assert [receipt is not None and receipt.repeated for receipt in found] == [False, True, False]
    assert len(pending) == 2


async def test_pages_go_on_where_the_last_one_ended_and_meet_no_run_that_begins_meanwhile():
    here, _ = world()
    async with process(here) as jackline, asyncio.timeout(SECONDS):
        run_ids = await started(jackline, 5)
        first = await bulk(jackline, Pause(), limit=3)
        (late,) = await started(jackline, 1)
        last = first.results[-1].row
        second = await bulk(jackline, Pause(), limit=3, before=(last.created_unix_ms, last.run_id))
    given = [one.row.run_id for done in (first, second) for one in done.results]
    assert given == run_ids
    assert late not in given
    assert (len(first.results), first.total) == (3, 5)


async def test_what_one_run_refuses_holds_up_no_other():
    """The id was used for another content with one of them."""
    here, tools = world()
    async with process(here) as jackline, asyncio.timeout(SECONDS):
        run_ids = await started(jackline, 3)
        await tools.called.wait()
        await jackline.control(run_ids[1], Pause(), command_id=command_id("request", run_ids[1]))
        done = await bulk(jackline, Steer(text="go on"))
    assert [one.refusal for one in done.results] == [None, Reason.COMMAND_ID_REUSED, None]
    assert [one.receipt is None for one in done.results] == [False, True, False]


@dataclass
class Cut:
    """A command table that can't be reached for one run, once."""

    table: Commands
    unreachable: str = ""

    async def submit(
        self, run_id: str, *, command_id: str, payload: bytes, limit: int, below: Below | None = None
    ) -> tuple[Submission, CommandRow | None]:
        if run_id == self.unreachable:
            self.unreachable = ""
            raise StoreUnavailable("the way to it is cut")
        return await self.table.submit(
            run_id, command_id=command_id, payload=payload, limit=limit, below=below
        )

    async def pending(self, run_id: str) -> Sequence[CommandRow]:
        return await self.table.pending(run_id)

    async def get(self, run_id: str, command_id: str) -> CommandRow | None:
        return await self.table.get(run_id, command_id)

    async def unheard(self, *, limit: int) -> Sequence[str]:
        return await self.table.unheard(limit=limit)


async def test_a_request_that_the_store_cut_off_is_sent_again_and_gives_each_run_the_command_once():
    here, _ = world()
    table = Cut(here.store.commands)
    here = replace(here, store=change(here.store, commands=table))
    async with process(here) as jackline, asyncio.timeout(SECONDS):
        run_ids = await started(jackline, 3)
        table.unreachable = run_ids[1]
        with pytest.raises(Refused) as refused:
            await bulk(jackline)
        again = await bulk(jackline)
        logs = [await jackline.follow(run_id) for run_id in run_ids]
    assert refused.value.reason is Reason.STORE_UNAVAILABLE
    assert run_ids[1] in {one.row.run_id for one in again.results if one.receipt and not one.receipt.repeated}
    applied = [[one.fact for one in log if isinstance(one.fact, CommandApplied)] for log in logs]
    assert [[one.command_id for one in facts] for facts in applied] == [
        [command_id("request", run_id)] for run_id in run_ids
    ]


async def test_a_run_that_ended_since_it_was_found_needs_no_abort_and_refuses_the_rest():
    """The page of a store may be behind by a moment: the second pages of two requests meet ended runs."""
    here, _ = world()
    async with process(here) as jackline, asyncio.timeout(SECONDS):
        (run_id,) = await started(jackline, 1)
        await bulk(jackline)
        await jackline.follow(run_id)
        ended = frozenset({Phase.ABORTED})
        query = RunQuery(tenant=DEFAULT_TENANT, phases=ended, labels={}, limit=5)
        request = BulkControl(
            caller=CALLER, query=query, request_id="late", reason="", action=ENDS, preview=False
        )
        aborted = await jackline.runtime.runs.bulk(request)
        paused = await jackline.runtime.runs.bulk(replace(request, action=Pause()))
    assert [one.receipt is not None and one.receipt.already_terminal for one in aborted.results] == [True]
    assert [one.refusal for one in paused.results] == [Reason.RUN_TERMINAL]

"""Kills lift no bound: judged by what the model's endpoint and the tools themselves noted. Proves B1, S1."""

from itertools import cycle

import pytest

from jackline.v1.run_pb2 import Run, RunState, StopReason
from jackline_client import TERMINAL_STATES
from tests.outside import worlds
from tests.outside.recording import Recorder, recording
from tests.support.openai_endpoint import Call, Endpoint, Json, Reply, serve
from tests.support.server_process import ServerProcess, Servers
from tests.support.tool_service import ToolService

KILLS = 50
OUTPUT = 32
"""The cap on a model's output, small, so that what a killed call is charged is small too."""

LOOP = f"""\
name: loop
model: fast
{worlds.INPUT}
bounds: {{run_timeout: 10m, token_budget: BUDGET, cost_budget_usd: 0.5, steps: 130}}
flow: [think]
steps:
  think:
    kind: completion
    prompt: Say something.
    answer: text
    routes: {{default: poll}}
  poll:
    kind: http
    effect: read
    description: Looks.
    connection: shop
    path: /poll
    routes: {{default: think, error: think}}
"""
"""Goes around until a bound of the run ends it: each visit is short, so that no crash loop does."""

CALLER = f"""\
name: caller
model: fast
{worlds.INPUT}
flow: [work]
steps:
  work:
    kind: agent
    description: Polls again and again.
    tools: [{{ref: poll}}]
    bounds: {{max_iterations: 20, model_requests: REQUESTS, tool_calls: CALLS}}
    repeat: {{by: off}}
    answer: text
  poll: {{kind: http, effect: read, description: Looks., connection: shop, path: /poll}}
"""

EVERYWHERE = (
    "loop.model.mid_stream=kill@2",
    "tool.mid=kill@2",
    "loop.model.after_reserve=kill@2",
    "store.write=kill@3",
    "loop.model.after_call_before_commit=kill@2",
    "tool.after_call_before_commit=kill@2",
    "store.after_send_before_reply=kill@6",
    "loop.model.after_commit=kill@2",
    "tool.after_intent_before_call=kill@2",
    "store.sync=kill@7",
)
"""Each lets the run get on a little first."""


def says(_: Json) -> Reply:
    return Reply(text="Something.")


def polls(request: Json) -> Reply:
    return Reply(calls=[Call(name="poll", arguments="{}", call_id=f"c{len(request['messages'])}")])


async def served(
    servers: Servers, shop: ToolService, model: Endpoint, workflow: str, failpoints: str
) -> ServerProcess:
    config = worlds.endpoint(model.base_url, shop=shop.base_url)
    server = servers.make(config.replace("[connections", f"max_output_tokens = {OUTPUT}\n[connections", 1))
    await server.start()
    async with server.client() as client:
        await client.put_workflow(workflow)
    await server.kill()
    await server.start(failpoints=failpoints)
    return server


class Spending:
    """What GetRun shows: it never shrinks, and never passes a cap by more than the one call."""

    def __init__(self) -> None:
        self.last = (0, 0, 0, 0)

    def look(self, run: Run) -> None:
        ledger = run.ledger
        now = (ledger.model_requests, ledger.tool_calls, ledger.tokens, ledger.cost_micros)
        assert all(late >= early for early, late in zip(self.last, now, strict=True))
        self.last = now
        assert (
            ledger.tokens + ledger.reserved_tokens <= run.bounds.token_budget or not run.bounds.token_budget
        )
        most = run.bounds.cost_budget_micros
        assert ledger.cost_micros + ledger.reserved_cost_micros <= most or not most


async def survives(recorder: Recorder, run_id: str, places: tuple[str, ...]) -> Run:
    """Kill the run at these places in turn, at most so many times; then let it come to its end."""
    server, spending, next_place = recorder.server, Spending(), cycle(places)
    next(next_place)
    watcher = recorder.watch(run_id)
    kills = 0
    while kills < KILLS:
        await watcher.gone(server)
        if watcher.ended:
            break
        await server.killed()
        kills += 1
        await server.start(failpoints=next(next_place) if kills < KILLS else "")
        await recorder.reconnect()
        spending.look(await recorder.client.get_run(run_id))
    await recorder.done()
    run = await recorder.client.get_run(run_id)
    spending.look(run)
    assert run.state in TERMINAL_STATES
    return run


async def in_bounds(recorder: Recorder, run_id: str, shop: ToolService, model: Endpoint) -> None:
    await recorder.judged(
        [run_id], entries=shop.entries, effects=worlds.EFFECTS, hits=[run_id] * len(model.hits)
    )


@pytest.mark.timeout(240)
async def test_fifty_kills_of_one_run_do_not_lift_its_bounds(llm_servers: Servers, shop: ToolService):
    async with serve(says) as model:
        workflow = LOOP.replace("BUDGET", "100000")
        server = await served(llm_servers, shop, model, workflow, EVERYWHERE[0])
        async with recording(server) as recorder:
            run_id = await recorder.start("loop", "m", request_id="r-1")
            run = await survives(recorder, run_id, EVERYWHERE)

            assert server.starts == KILLS + 2
            assert run.recoveries == KILLS
            assert (run.state, run.stop_reason) == (
                RunState.RUN_STATE_EXHAUSTED,
                StopReason.STOP_REASON_STEP_BUDGET,
            )
            assert run.ledger.steps == 130
            await in_bounds(recorder, run_id, shop, model)
            assert len(model.hits) <= run.ledger.model_requests
            assert len(shop.entries) <= run.ledger.tool_calls


async def test_what_a_kill_may_have_spent_counts_against_the_token_budget(
    llm_servers: Servers, shop: ToolService
):
    async with serve(says) as model:
        workflow = LOOP.replace("BUDGET", "600")
        server = await served(llm_servers, shop, model, workflow, "loop.model.mid_stream=kill@2")
        async with recording(server) as recorder:
            run_id = await recorder.start("loop", "m", request_id="r-1")
            run = await survives(recorder, run_id, ("loop.model.mid_stream=kill@2",))

            assert server.starts > 4
            assert (run.state, run.stop_reason) == (
                RunState.RUN_STATE_EXHAUSTED,
                StopReason.STOP_REASON_TOKEN_BUDGET,
            )
            await in_bounds(recorder, run_id, shop, model)


@pytest.mark.parametrize(
    ("place", "requests", "calls", "reason"),
    [
        ("loop.model.mid_stream=kill", 3, 8, StopReason.STOP_REASON_REQUEST_BUDGET),
        ("loop.model.after_call_before_commit=kill", 3, 8, StopReason.STOP_REASON_REQUEST_BUDGET),
        ("tool.after_call_before_commit=kill", 8, 2, StopReason.STOP_REASON_TOOL_CALL_BUDGET),
        ("loop.model.mid_stream=kill", 8, 8, StopReason.STOP_REASON_CRASH_LOOP),
    ],
)
async def test_a_run_that_dies_at_every_call_ends_within_the_caps_of_its_step(
    place: str, requests: int, calls: int, reason: StopReason, llm_servers: Servers, shop: ToolService
):
    async with serve(polls) as model:
        workflow = CALLER.replace("REQUESTS", str(requests)).replace("CALLS", str(calls))
        server = await served(llm_servers, shop, model, workflow, place)
        async with recording(server) as recorder:
            run_id = await recorder.start("caller", "m", request_id="r-1")
            run = await survives(recorder, run_id, (place,))

            assert run.stop_reason == reason
            assert len(model.hits) <= requests
            assert len(shop.entries) <= calls
            assert len(shop.once("poll")) <= 1
            await in_bounds(recorder, run_id, shop, model)

"""SIGKILL around what is owed to a webhook, judged by the endpoint's own ledger.

Each end of a run is told under one id, however often, with one body; never before it is durable.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from jackline.v1 import webhook_service_pb2 as wire
from jackline.v1.run_pb2 import RunState
from jackline_client.errors import CallError, WebhookNotFound
from tests.egress.raw_server import RawServer, Received, answer, serving
from tests.outside import worlds
from tests.support.server_process import ServerProcess, Servers
from tests.webhooks.endpoints import SECRET, is_signed

pytestmark = pytest.mark.timeout(180)

WORKFLOW = f"""\
name: said
model: fast
{worlds.INPUT}
bounds: {{run_timeout: 2m, token_budget: 20000}}
flow: [work]
steps:
  work:
    kind: agent
    description: Says something.
    bounds: {{max_iterations: 2, model_requests: 8}}
    answer: text
"""


@dataclass
class Hooked:
    """An endpoint that may be held, and what it got."""

    held: asyncio.Event = field(default_factory=asyncio.Event)
    got: list[Received] = field(default_factory=list[Received])
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def behave(self, got: Received, writer: asyncio.StreamWriter) -> None:
        async with self.changed:
            self.got.append(got)
            self.changed.notify_all()
        await self.held.wait()
        writer.write(answer(b"", status="204 No Content"))

    async def posts(self, count: int) -> list[Received]:
        """What it got, once that is so many."""
        async with self.changed, asyncio.timeout(60):
            await self.changed.wait_for(lambda: len(self.got) >= count)
        return self.got


@asynccontextmanager
async def hooked() -> AsyncGenerator[tuple[Hooked, RawServer]]:
    endpoint = Hooked()
    endpoint.held.set()
    async with serving(endpoint.behave) as server:
        yield endpoint, server


async def made(servers: Servers, folder: Path, hook: RawServer) -> ServerProcess:
    """A server that tells the endpoint of ends, with the workflow in its store; it is down."""
    more = (
        f'[webhooks.ops]\nurl = "http://127.0.0.1:{hook.port}/hook"\nsecret = "{SECRET.reveal()}"\n'
        'events = ["run.finished"]\nview = "full"\n'
    )
    server = servers.make(worlds.scripted(folder, [{"text": "Said."}], more=more))
    await server.start()
    async with server.client() as client:
        await client.put_workflow(WORKFLOW)
    await server.kill()
    return server


async def run_and_die(server: ServerProcess, failpoints: str) -> None:
    """A run, and the death of the server at the failpoint."""
    await server.start(failpoints=failpoints)
    async with server.client() as client:
        with suppress(CallError):  # it may be quicker to die
            await client.start_run("said", input={"mark": "m"}, request_id="r-1")
    await server.killed()


async def delivered(server: ServerProcess) -> tuple[str, wire.WebhookDelivery]:
    """The id of the run, which has ended, and its delivery, once it is recorded as delivered."""
    async with server.client() as client, asyncio.timeout(60):
        run_id = (await client.start_run("said", input={"mark": "m"}, request_id="r-1")).run.run_id
        assert (await client.wait_run(run_id)).run.state == RunState.RUN_STATE_SUCCEEDED
        while True:
            rows = [one async for one in client.webhooks.deliveries("ops", run_id=run_id)]
            if rows and rows[0].state == wire.WEBHOOK_DELIVERY_STATE_DELIVERED:
                assert len(rows) == 1
                return run_id, rows[0]


def judge(posts: list[Received], run_id: str, delivery: wire.WebhookDelivery, *, times: range) -> None:
    """One message, whole and genuine, however often."""
    assert len(posts) in times
    assert {got.headers["webhook-id"] for got in posts} == {delivery.delivery_id}
    assert len({got.body for got in posts}) == 1
    assert all(is_signed(got.headers, got.body) for got in posts)
    data = json.loads(posts[0].body)["data"]
    assert (data["run_id"], data["state"], data["outcome"]["result"]) == (run_id, "succeeded", "Said.")
    assert data["sequence"] == delivery.sequence


@pytest.mark.parametrize(
    ("place", "before", "times"),
    [
        # Not durable: told of once it is. Durable: told of, for sure.
        ("finish.before_commit", range(1), range(1, 2)),
        ("finish.after_commit", range(2), range(1, 3)),
        # Claimed and not sent. Answered and not recorded: sent again.
        ("webhook.after_claim_before_send", range(1), range(1, 2)),
        ("webhook.settle", range(1, 2), range(2, 3)),
    ],
)
async def test_the_end_of_a_run_is_told_once_it_is_durable_under_one_id(
    place: str, before: range, times: range, servers: Servers, tmp_path: Path
) -> None:
    async with hooked() as (endpoint, hook):
        server = await made(servers, tmp_path, hook)
        await run_and_die(server, f"{place}=kill")
        assert len(endpoint.got) in before

        await server.start()
        run_id, delivery = await delivered(server)
        judge(endpoint.got, run_id, delivery, times=times)


async def test_a_server_that_dies_while_it_waits_for_the_answer_sends_it_again(
    servers: Servers, tmp_path: Path
) -> None:
    async with hooked() as (endpoint, hook):
        server = await made(servers, tmp_path, hook)
        endpoint.held.clear()
        await server.start()
        async with server.client() as client:
            await client.start_run("said", input={"mark": "m"}, request_id="r-1")
        await endpoint.posts(1)
        await server.kill()

        endpoint.held.set()
        await server.start()
        run_id, delivery = await delivered(server)
        judge(endpoint.got, run_id, delivery, times=range(2, 3))
        assert delivery.attempts_count == 2


async def test_an_operator_lists_tests_and_resends(servers: Servers, tmp_path: Path) -> None:
    async with hooked() as (endpoint, hook):
        server = await made(servers, tmp_path, hook)
        await server.start()
        run_id, delivery = await delivered(server)
        async with server.client() as client:
            again = await client.webhooks.resend(delivery.delivery_id)
            assert again.state == wire.WEBHOOK_DELIVERY_STATE_PENDING
            await endpoint.posts(2)
            judge(endpoint.got, run_id, delivery, times=range(2, 3))

            tried = await client.webhooks.test("ops")
            assert (tried.outcome, tried.status) == (wire.WEBHOOK_ATTEMPT_OUTCOME_DELIVERED, 204)
            assert json.loads(endpoint.got[2].body)["type"] == "webhook.test"
            assert is_signed(endpoint.got[2].headers, endpoint.got[2].body)
            (webhook,) = await client.webhooks.list_all()
            assert (webhook.name, webhook.origin) == ("ops", f"http://127.0.0.1:{hook.port}")
            with pytest.raises(WebhookNotFound):
                await client.webhooks.test("other")

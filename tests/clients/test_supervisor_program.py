"""The supervisor in Go against a real server: it acts once by what it sees, also when it comes anew."""

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest
from aiohttp import web

from jackline.v1.event_pb2 import ModelReplied, StepEvent
from jackline.v1.run_pb2 import Run, RunState
from jackline.v1.run_service_pb2 import (
    ControlRequest,
    ListRunsResponse,
    StreamProgressResponse,
)
from tests.clients import building
from tests.clients.test_programs import EXAMPLE, orders_served
from tests.support import web_server
from tests.support.scripted_service import (
    RUN_ID,
    TOKEN,
    Failure,
    ScriptedService,
    StreamScript,
    receipt,
    serving,
)
from tests.support.server_process import ServerProcess, servers_in
from tests.support.warm_server import shared

pytestmark = pytest.mark.timeout(600)  # the first build fetches what the program needs

SECONDS = 120
RULES = [
    {"when": "calls", "tool": "lookup_order", "count": 1, "then": "steer", "text": "Be generous."},
    {"when": "tokens", "count": 1, "then": "pause", "text": "It has begun to spend."},
]


@pytest.fixture
def program() -> str:
    if lacks := building.lacking(building.LANGUAGES["go"]):
        refuse = pytest.fail if os.environ.get("CI") else pytest.skip
        refuse(f"go: {lacks}")
    building.built("go")
    return str(building.CACHE / "go-supervisor")


@asynccontextmanager
async def supervising(
    program: str, address: str, token: str, rules: list[dict[str, Any]] = RULES
) -> AsyncGenerator[asyncio.StreamReader]:
    process = await asyncio.create_subprocess_exec(
        program,
        "-rules",
        json.dumps(rules),
        "-every",
        "200ms",
        env={"PATH": os.environ["PATH"], "JACKLINE_ADDRESS": address, "JACKLINE_TOKEN": token},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        yield process.stdout
    finally:
        process.terminate()
        await process.wait()


async def said(lines: asyncio.StreamReader, step: str) -> dict[str, Any]:
    """The next line of that step."""
    async with asyncio.timeout(SECONDS):
        while True:
            line: dict[str, Any] = json.loads(await lines.readline())
            if line["step"] == step:
                return line


async def log_until(server: ServerProcess, run_id: str, kind: str) -> list[StepEvent]:
    events: list[StepEvent] = []
    async with server.client() as client, asyncio.timeout(SECONDS):
        async for frame in client.watch(run_id):
            events.extend(frame.events)
            if any(event.WhichOneof("fact") == kind for event in frame.events):
                break
    return events


def kinds(events: list[StepEvent]) -> list[str | None]:
    return [event.WhichOneof("fact") for event in events]


async def started(server: ServerProcess) -> str:
    given = {"message": "My lamp is broken, please refund it.", "order_id": "A-1001", "shop": "eu"}
    async with server.client() as client:
        return (await client.start_run("refunds", input=given)).run.run_id


class Gate:
    """The orders, which answer while it is open: till then a run that has called one of them does not end."""

    def __init__(self, orders: str) -> None:
        self._orders = orders
        self.opened = asyncio.Event()
        self.opened.set()

    async def answer(self, request: web.Request) -> web.Response:
        await self.opened.wait()
        headers = {name: value for name, value in request.headers.items() if name.lower() != "host"}
        url, body = f"{self._orders}{request.path}", await request.read()
        async with aiohttp.request(request.method, url, data=body, headers=headers) as answer:
            return web.json_response(body=await answer.read(), status=answer.status)


@asynccontextmanager
async def gated(orders: str) -> AsyncGenerator[tuple[Gate, str]]:
    gate, app = Gate(orders), web.Application()
    app.router.add_route("*", "/{path:.*}", gate.answer)
    async with web_server.serving(app) as port:
        yield gate, f"http://127.0.0.1:{port}"


async def test_it_acts_once_by_what_it_sees_also_when_it_or_the_server_starts_anew(
    program: str, tmp_path: Path
) -> None:
    config = (EXAMPLE / "jackline.toml").read_text(encoding="utf-8")
    script = (EXAMPLE / "script.yaml").read_text(encoding="utf-8")
    async with (
        orders_served(tmp_path) as behind,
        gated(behind) as (gate, orders),
        servers_in(tmp_path, shared()) as servers,
    ):
        server = servers.make(config)
        (server.folder / "script.yaml").write_text(script, encoding="utf-8")
        where = {"ORDERS_URL": orders, "HELPDESK_URL": f"{orders}/helpdesk"}
        await server.start("--workflows", str(EXAMPLE / "workflows"), **where)

        async with supervising(program, server.address, server.token) as lines:
            await said(lines, "watching")
            run_id = await started(server)
            first = await said(lines, "pause")
            assert first["run_id"] == run_id
        await log_until(server, run_id, "paused")

        gate.opened.clear()  # else the run may have ended before the supervisor is back
        async with supervising(program, server.address, server.token) as lines:
            again = await said(lines, "pause")
            assert again["command_id"] == first["command_id"]
            await server.kill()
            await server.start("--workflows", str(EXAMPLE / "workflows"), **where)
            async with server.client() as client:
                await client.resume(run_id)
            steered = await said(lines, "steer")
            assert steered["run_id"] == run_id
            gate.opened.set()
            log = await log_until(server, run_id, "run_finished")

    found = kinds(log)
    assert (found.count("paused"), found.count("steered")) == (1, 1)
    assert log[-1].run_finished.state == RunState.RUN_STATE_SUCCEEDED


async def test_a_command_is_sent_until_the_server_has_answered_however_often_that_fails(program: str) -> None:
    service = ScriptedService()
    async with serving(service) as address:
        service.script("ListRuns", *[ListRunsResponse(runs=[Run(run_id=RUN_ID)])] * 1_000)
        spent = StepEvent(sequence=3, model_replied=ModelReplied(tokens_used=10))
        service.streams.append(StreamScript(frames=[StreamProgressResponse(events=[spent])], hang=True))
        away = Failure(code=grpc.StatusCode.UNAVAILABLE)
        service.script("Control", *[away] * 9, receipt())
        async with supervising(program, address, TOKEN, rules=RULES[1:]) as lines:
            line = await said(lines, "pause")
    assert line["command_id"] == f"supervisor-{RUN_ID}-0-3"
    assert len(service.requests(ControlRequest)) == 10


async def ended(program: str, *flags: str, address: str = "", token: str = TOKEN) -> tuple[int | None, str]:
    """How a supervisor ends that nobody stops, and what it says on standard error."""
    process = await asyncio.create_subprocess_exec(
        program,
        *flags,
        env={"PATH": os.environ["PATH"], "JACKLINE_ADDRESS": address, "JACKLINE_TOKEN": token},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(SECONDS):
            _, problem = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode, problem.decode()


async def test_a_token_that_the_server_refuses_ends_it_with_a_word_and_an_exit_code(program: str) -> None:
    service = ScriptedService()
    async with serving(service) as address:
        code, said = await ended(program, address=address, token="another")
        assert (code, "JACKLINE_TOKEN" in said, "Unauthenticated" in said) == (77, True, True)

        service.script("ListRuns", ListRunsResponse(runs=[Run(run_id=RUN_ID)]), *[ListRunsResponse()] * 1_000)
        spent = StepEvent(sequence=3, model_replied=ModelReplied(tokens_used=10))
        service.streams.append(StreamScript(frames=[StreamProgressResponse(events=[spent])], hang=True))
        lacks = Failure(code=grpc.StatusCode.PERMISSION_DENIED, reason="SCOPE_MISSING")
        service.script("Control", lacks)
        code, said = await ended(program, "-rules", json.dumps(RULES[1:]), address=address)
    assert (code, "runs:control" in said) == (77, True)


async def test_a_run_that_may_not_be_touched_ends_the_supervision_of_no_other(program: str) -> None:
    service = ScriptedService()
    async with serving(service) as address:
        service.script("ListRuns", *[ListRunsResponse(runs=[Run(run_id=RUN_ID)])] * 1_000)
        spent = [StepEvent(sequence=at, model_replied=ModelReplied(tokens_used=10 * at)) for at in (3, 4)]
        service.streams.append(StreamScript(frames=[StreamProgressResponse(events=spent)], hang=True))
        own = Failure(code=grpc.StatusCode.PERMISSION_DENIED, reason="OWN_RUN")
        service.script("Control", own, receipt())
        rules = [
            {"when": "tokens", "count": 30, "then": "abort"},
            {"when": "tokens", "count": 40, "then": "pause"},
        ]
        async with supervising(program, address, TOKEN, rules=rules) as lines:
            assert (await said(lines, "abort"))["refused"] == "PermissionDenied"
            assert "stage" in await said(lines, "pause")


async def test_help_says_every_condition_and_every_action_of_a_rule(program: str) -> None:
    code, said = await ended(program, "-help")
    assert code == 0
    assert [
        word for word in ("calls", "failures", "tokens", "pause", "steer", "abort") if word not in said
    ] == []
    assert (await ended(program, "-rules", '[{"when": "never"}]'))[0] == 2

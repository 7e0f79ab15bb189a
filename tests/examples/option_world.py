"""The world of `examples/options`: a server in this process with its models, service, hook and policy.

Owns what a file of that folder may say, and how its run is driven through the client. Runs of one file go
side by side; what the service was asked is told apart by the run that its keys name.
"""

import asyncio
import json
import sqlite3
import sys
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import yaml
from aiohttp import web
from google.protobuf.json_format import ParseDict

from jackline.v1 import policy_pb2
from jackline.v1.event_pb2 import InterruptRaised, StepEvent
from jackline.v1.run_pb2 import RunBounds, View, VisitBounds
from jackline_client import JacklineClient
from jackline_client._connection import Endpoint
from jackline_client.errors import CallError
from jackline_client.worker import Worker
from jackline_server.bootstrap import running
from jackline_server.config import load_config
from jackline_server.storage.boot_errors import StoreError
from tests.examples.option_sights import bounds_of, of_events, of_run, word
from tests.policies.policy_double import ALLOW, DENY, PolicyDouble, served
from tests.support.mcp_servers import ROOT
from tests.support.web_server import serving
from tests.tools.grpc.scene import odd

FOLDER = ROOT / "examples" / "options"
SECONDS = 60.0
_SLOW_S = 1.5
CONFIG = """\
[connections.depot]
kind = "worker"
[models.fast]
script = "script.yaml"
supports = ["tools", "json_schema", "streaming"]
price = {input_per_million = 100, output_per_million = 100}
[models.slow]
script = "slow.yaml"
price = {input_per_million = 100, output_per_million = 100}
[models.small]
script = "script.yaml"
context_window = 1000
max_output_tokens = 100
[connections.shop]
kind = "http"
base_url = "SHOP"
[connections.desk]
kind = "http"
base_url = "SHOP/desk"
[functions]
roots = ["tests.examples.option_functions"]
[hooks.audit]
class = "tests.examples.option_functions:Audit"
[policies.guard]
target = "POLICY"
"""
LEDGER = """\
CREATE TABLE orders (id INTEGER PRIMARY KEY, goods TEXT);
INSERT INTO orders VALUES (1, 'kettle'), (2, 'lamp');
"""
MCP = """\
[connections.shelf]
kind = "mcp"
transport = "stdio"
command = COMMAND
trusted = true
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One file."""

    name: str
    about: str
    shows: tuple[str | dict[str, Any], ...]
    """Places that show something against nothing, or, as a mapping, against another value."""
    workflow: dict[str, Any]
    expect: dict[str, Any]
    script: dict[str, Any] = field(default_factory=lambda: {"turns": [{"text": "Done."}]})
    slow: dict[str, Any] = field(default_factory=lambda: {"turns": [{"text": "Done slowly."}]})
    files: dict[str, str] = field(default_factory=dict[str, str])
    service: dict[str, Any] = field(default_factory=dict[str, Any])
    policy: str = "allow"
    input: dict[str, Any] = field(default_factory=dict[str, Any])
    before: tuple[dict[str, Any], ...] = ()
    adjust: tuple[dict[str, Any], ...] = ()
    answer: str = ""
    answer_text: str = ""
    expires: bool = False
    """Nobody answers, and the question is left to its time."""
    pause: bool = False
    mcp: bool = False
    sql: bool = False
    grpc: bool = False
    others: tuple[dict[str, Any], ...] = ()
    """Workflows that are put before."""
    workers: bool = False


def examples() -> list[Example]:
    """Every file of the folder, by name."""
    return [one for path in sorted(FOLDER.glob("*.yaml")) for one in _read(path)]


def _read(path: Path) -> Iterator[Example]:
    documents = cast("Iterator[dict[str, Any]]", yaml.safe_load_all(path.read_text(encoding="utf-8")))
    for number, given in enumerate(documents, 1):
        lists: dict[str, Any] = {
            name: tuple(given.get(name, ())) for name in ("shows", "before", "adjust", "others")
        }
        yield Example(name=f"{path.stem}-{number}", **{**given, **lists})


def _yaml(value: object) -> str:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True)  # pyright: ignore[reportUnknownMemberType]  # the stubs of PyYAML say no more


# --- the service behind the connections ----------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Service:
    """Answers as an example says: a value, or mappings with `status`, `json`, `text`, `delay_ms`, `echo`."""

    replies: Mapping[str, Any]
    asked: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    open: dict[str, int] = field(default_factory=dict[str, int])
    most_open: dict[str, int] = field(default_factory=dict[str, int])
    port: int = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        run = request.headers.get("Idempotency-Key", "").partition(".")[0]
        body = await request.text()
        line = f"{request.method} {request.path_qs} {body}".rstrip()
        lines = self.asked.setdefault(run, [])
        before = sum(one.split()[1].partition("?")[0] == request.path for one in lines)
        lines.append(line)
        told = self._reply(request.path, before)
        self.open[run] = self.open.get(run, 0) + 1
        self.most_open[run] = max(self.most_open.get(run, 0), self.open[run])
        try:
            await asyncio.sleep(told.get("delay_ms", 0) / 1000)
        finally:
            self.open[run] -= 1
        if "echo" in told:
            return web.json_response({"header": request.headers.get(told["echo"], "none")})
        if "text" in told:
            return web.Response(text=told["text"], status=told.get("status", 200))
        return web.json_response(told.get("json"), status=told.get("status", 200))

    def _reply(self, path: str, before: int) -> dict[str, Any]:
        """What the path answers after so many requests of the same run."""
        told = self.replies.get(path, {"json": {"path": path}})
        listed = cast("list[dict[str, Any]]", told if isinstance(told, list) else [told])
        return listed[min(before, len(listed) - 1)]


@asynccontextmanager
async def _service(replies: Mapping[str, Any]) -> AsyncGenerator[Service]:
    service = Service(replies=replies)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", service.handle)
    async with serving(app) as service.port:
        yield service


def _decides(word: str, asked: dict[str, list[str]]) -> Any:
    def check(request: policy_pb2.CheckRequest) -> policy_pb2.CheckResponse:
        asked.setdefault(request.run_id, []).append(request.arguments_json.decode())
        if word == "broken":
            raise RuntimeError("broken")
        return DENY if word == "deny" else ALLOW

    return check


# --- the server ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A server that has what one example needs."""

    example: Example
    client: JacklineClient
    service: Service
    policy: PolicyDouble
    asked_policy: dict[str, list[str]]

    async def seen(self, workflow: dict[str, Any]) -> dict[str, Any]:
        """Run a workflow with what the example says, and tell what came of it."""
        text = _yaml(workflow)
        files = {name: content.encode() for name, content in self.example.files.items()}
        validated = await self.client.validate_workflow(text, files)
        errors = [one.code for one in validated.findings if one.severity == 1]
        if errors:
            return {"refused": errors}
        for other in self.example.others:
            await self.client.put_workflow(_yaml(other), {})
        thread = f"thread-{id(workflow)}-{len(self.service.asked)}"
        try:
            for given in self.example.before:
                await self._run(text, files, given, thread)
            return await self._run(text, files, self.example.input, thread if self.example.before else "")
        except CallError as error:
            return {"refused": [error.reason]}

    async def _run(
        self, text: str, files: dict[str, bytes], given: dict[str, Any], thread: str
    ) -> dict[str, Any]:
        options: dict[str, Any] = {"thread_id": thread} if thread else {}
        started = await self.client.start_run(inline_yaml=text, files=files, input=given, **options)
        run_id = started.run.run_id
        if self.example.pause:
            await self.client.pause(run_id)
        async with asyncio.timeout(SECONDS):
            events, seen = await self._followed(run_id), {}
            if events[-1].WhichOneof("fact") == "interrupt_raised":
                seen = await self._at_question(run_id, events)
        put = await self.client.put_workflow(text, files)
        described = await self.client.describe_workflow(f"{put.revision.name}@{put.revision.digest}")
        run = await self.client.get_run(run_id, view=View.VIEW_FULL)
        children = [await self.client.get_run(child.run_id) for child in run.children]
        calls = await self.client.list_tool_calls(run_id, view=View.VIEW_FULL)
        return {
            **of_run(run),
            **of_events(events),
            **seen,
            "text": text,
            "tools": {tool.name: tool.description for tool in described.tools},
            "parameters": {
                tool.name: list(json.loads(tool.parameters_json).get("properties", {}))
                for tool in described.tools
            },
            "children": [f"{child.workflow} {child.signal}" for child in run.children],
            "child_bounds": [bounds_of(child) for child in children],
            "calls": [f"{call.tool} {word(call, 'status')}" for call in calls],
            "results": [call.result for call in calls],
            "arguments": [call.arguments_json.decode() for call in calls],
            "asked": self.service.asked.get(run_id, []),
            "at_once": self.service.most_open.get(run_id, 0),
            "policy_saw": self.asked_policy.get(run_id, []),
        }

    async def _followed(self, run_id: str, after: int = 0) -> list[StepEvent]:
        events: list[StepEvent] = []
        async with aclosing(self.client.watch(run_id, after_sequence=after, view=View.VIEW_FULL)) as frames:
            async for frame in frames:
                events.extend(frame.events)
                if events and _waits(events[-1]):
                    break
        return events

    async def _at_question(self, run_id: str, events: list[StepEvent]) -> dict[str, Any]:
        raised = events[-1].interrupt_raised
        open_s = raised.expires_at.seconds - events[-1].time.seconds
        seen: dict[str, Any] = {
            "question": word(raised, "kind"),
            "options": list(raised.options),
            "asks": events[-1].content.text or events[-1].content.question.text,
            "wants": events[-1].content.question.schema_json.decode(),
            "open_s": round(open_s, -1),
            "adjusted": [await self._adjusted(run_id, one) for one in self.example.adjust],
        }
        if self.example.answer:
            await self._answer(run_id, raised)
        if self.example.answer or self.example.expires:
            events += await self._followed(run_id, events[-1].sequence)
        return seen

    async def _answer(self, run_id: str, raised: InterruptRaised) -> None:
        match self.example.answer, raised.arguments_digest:
            case "approve", digest if digest:
                await self.client.approve(run_id, raised.interrupt_id, digest)
            case "reject", digest if digest:
                await self.client.reject(run_id, raised.interrupt_id)
            case option, _:
                await self.client.answer(run_id, raised.interrupt_id, option, text=self.example.answer_text)

    async def _adjusted(self, run_id: str, bounds: dict[str, Any]) -> str:
        run, visit = bounds.get("run"), bounds.get("visit")
        try:
            await self.client.adjust_bounds(
                run_id,
                run=ParseDict(run, RunBounds()) if run else None,
                visit=ParseDict(visit, VisitBounds()) if visit else None,
            )
        except CallError as error:
            return str(error.reason)
        return "done"


def _waits(event: StepEvent) -> bool:
    """True if nothing follows until somebody does something."""
    if event.WhichOneof("fact") == "paused":
        return not event.paused.HasField("expires_at")
    return event.WhichOneof("fact") == "interrupt_raised"


@asynccontextmanager
async def placed(example: Example, folder: Path) -> AsyncGenerator[Place]:
    """A server for one example."""
    asked_policy: dict[str, list[str]] = {}
    held = example.policy in ("silent", "slow")
    async with (
        AsyncExitStack() as stack,
        _service(example.service) as service,
        served(_decides(example.policy, asked_policy), held=held) as policy,
    ):
        for name, script in (("script", example.script), ("slow", example.slow)):
            (folder / f"{name}.yaml").write_text(_yaml(script), encoding="utf-8")
        config = CONFIG.replace("SHOP", f"http://127.0.0.1:{service.port}").replace("POLICY", policy.address)
        if example.mcp:
            server = ROOT / "tests/tools/mcp/hostile_server.py"
            command = [sys.executable, "-I", "-S", str(server), "plain", str(folder / "ledger.jsonl")]
            config += MCP.replace("COMMAND", json.dumps(command))
        if example.grpc:
            till = await stack.enter_async_context(odd({"GetOrder": _said_back}))
            config += f'[connections.till]\nkind = "grpc"\ntarget = "{till.address}"\n'
        if example.sql:
            with closing(sqlite3.connect(folder / "ledger.db")) as ledger:
                ledger.executescript(LEDGER)
            config += '[data_sources.ledger]\nfile = "ledger.db"\n'
        (folder / "jackline.toml").write_text(config, encoding="utf-8")
        environ = {"JACKLINE_STATE_DIR": str(folder / "state")}
        loaded = load_config(
            file=folder / "jackline.toml",
            environ=environ,
            flags={"listen": "127.0.0.1:0", "volatile": True},
        )
        async with running(loaded, environ=environ, on_broken_store=_raise) as server:
            token = next((folder / "state" / "tokens").iterdir()).read_text(encoding="utf-8").strip()
            async with JacklineClient(server.address, token=token) as client:
                there = Place(
                    example=example, client=client, service=service, policy=policy, asked_policy=asked_policy
                )
                _served_depot(stack, example, Endpoint(address=server.address, token=token))
                if example.policy == "slow":
                    asyncio.get_running_loop().call_later(_SLOW_S, policy.released.set)
                yield there


def _served_depot(stack: AsyncExitStack, example: Example, endpoint: Endpoint) -> None:
    if example.workers:
        stack.push_async_callback(_ended, asyncio.create_task(_depot(endpoint)))


async def _depot(endpoint: Endpoint) -> None:
    """A worker of the pool `depot`."""
    worker = Worker("depot", endpoint=endpoint)

    @worker.tool(effect="read")
    async def track(parcel: str, carrier: str = "") -> str:  # pyright: ignore[reportUnusedFunction] - it is served
        """Tells where a parcel is."""
        return f"{parcel} by {carrier}"

    await worker.serve(signals=False)


async def _ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _said_back(request: bytes, _: object) -> bytes:
    """An order of the number that was asked for: both messages begin with it."""
    return request


def _raise(error: StoreError) -> None:
    raise AssertionError(error)

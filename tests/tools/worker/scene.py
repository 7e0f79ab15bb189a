"""A pool, the calls into it, and a worker that does what a test says, without a stream between them."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jackline_server.core.frozen import change
from jackline_server.core.plan import Effect, JsonValue, WorkerAction
from jackline_server.expressions.schemas import JsonSchemas
from jackline_server.runtime.machine import SystemClock
from jackline_server.runtime.ports.tool_reports import Report
from jackline_server.runtime.ports.tools import ToolResult
from jackline_server.runtime.ports.workers import (
    CancelInvocation,
    InvokeTool,
    Registration,
    ResultTaken,
    WorkerConnection,
    WorkerErrorKind,
    WorkerFailure,
    WorkerOrder,
    WorkerProgress,
    WorkerResult,
    WorkerSeat,
    WorkerTool,
)
from jackline_server.tools.worker.calls import WorkerCalls
from jackline_server.tools.worker.pools import WorkerPools
from tests.tools.invocations import invocation

POOL = "support"
PRINCIPAL = "local"
SECONDS = 20
SCHEMA = {"type": "object", "properties": {"order": {"type": "string"}}}


def connection(**more: Any) -> WorkerConnection:
    fields: dict[str, Any] = {
        "allow": None,
        "principals": None,
        "trusted": True,
        "wait_ms": 20_000,
        "timeout_ms": 300_000,
        "heartbeat_ms": 10_000,
        "resume_grace_ms": 300_000,
        "most_workers": 4,
        "concurrency": 100,
    }
    return WorkerConnection(name=POOL, **{**fields, **more})


def tool(name: str = "look", **more: Any) -> WorkerTool:
    fields: dict[str, Any] = {
        "description": "Looks.",
        "parameters_json": json.dumps(SCHEMA).encode(),
        "output_schema_json": b"",
        "effect": Effect.READ,
        "max_parallel": None,
        "cancellable": True,
    }
    return WorkerTool(name=name, **{**fields, **more})


def registration(*tools: WorkerTool, **more: Any) -> Registration:
    fields: dict[str, Any] = {
        "pool": POOL,
        "worker": "one",
        "session": "",
        "tools": tools or (tool(),),
        "max_parallel": None,
        "invocations": (),
        "draining": False,
    }
    return Registration(**{**fields, **more})


@dataclass(slots=True)
class Hands:
    """A worker's side of one stream."""

    seat: WorkerSeat
    told: list[WorkerOrder] = field(default_factory=list[WorkerOrder])

    async def next(self) -> WorkerOrder:
        async with asyncio.timeout(SECONDS):
            order = await self.seat.next_order()
        self.told.append(order)
        return order

    async def invoked(self) -> InvokeTool:
        """The next invocation; what else is told comes to `told`."""
        while not isinstance(order := await self.next(), InvokeTool):
            pass
        return order

    async def cancelled(self) -> CancelInvocation:
        while not isinstance(order := await self.next(), CancelInvocation):
            pass
        return order

    async def taken(self) -> ResultTaken:
        while not isinstance(order := await self.next(), ResultTaken):
            pass
        return order

    def answer(self, order: InvokeTool | str, value: object = "done") -> None:
        name = order if isinstance(order, str) else order.invocation
        self.seat.hear(WorkerResult(invocation=name, outcome=json.dumps(value).encode()))

    def show(self, order: InvokeTool, text: str, fraction: float | None = None) -> None:
        self.seat.hear(WorkerProgress(invocation=order.invocation, text=text, fraction=fraction))

    def fail(self, order: InvokeTool, kind: WorkerErrorKind, message: str = "no") -> None:
        failure = WorkerFailure(kind=kind, message=message)
        self.seat.hear(WorkerResult(invocation=order.invocation, outcome=failure))


class Scene:
    """The pool of the tests."""

    def __init__(self, **more: Any) -> None:
        schemas = JsonSchemas()
        self.pools = WorkerPools({POOL: connection(**more)}, schemas=schemas, clock=SystemClock())
        self.calls = WorkerCalls(pools=self.pools, schemas=schemas)

    async def worker(self, *tools: WorkerTool, **more: Any) -> Hands:
        return Hands(await self.pools.join(PRINCIPAL, registration(*tools, **more)))

    async def back(self, gone: Hands, *tools: WorkerTool, **more: Any) -> Hands:
        """The same worker on a new stream."""
        return await self.worker(*tools, session=gone.seat.welcome.session, **more)

    def call(
        self,
        name: str = "look",
        arguments: dict[str, JsonValue] | None = None,
        *,
        effect: Effect = Effect.READ,
        timeout_ms: int = SECONDS * 1000,
        report: Report | None = None,
        **more: Any,
    ) -> "asyncio.Task[ToolResult]":
        fields: Mapping[str, Any] = {
            "arguments_json": "{}", "tool_digest": "", "takes": ("order",), "wait_ms": None, **more,
        }  # fmt: skip
        action = WorkerAction(connection=POOL, tool=name, **fields)
        made = invocation(action, arguments, effect=effect, timeout_ms=timeout_ms)
        return asyncio.create_task(self.calls.call(action, change(made, report=report)))

    async def waiting(self, count: int) -> None:
        """Until so many calls stand in line."""
        await until(lambda: self.pools.pools()[0].waiting == count)

    async def loaded(self, *in_flight: int) -> None:
        """Until the workers have so many invocations, in the order of their coming."""
        await until(lambda: tuple(one.in_flight for one in self.pools.pools()[0].workers) == in_flight)


async def until(true: Callable[[], bool]) -> None:
    """What is looked at tells nobody that it has changed; each look gives way to all else."""
    async with asyncio.timeout(SECONDS):
        while not true():  # noqa: ASYNC110 - see above
            await asyncio.sleep(0)


async def result_of(task: "asyncio.Task[ToolResult]") -> ToolResult:
    async with asyncio.timeout(SECONDS):
        return await task

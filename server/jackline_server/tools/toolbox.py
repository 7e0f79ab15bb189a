"""The runtime's `Toolbox`: the step kinds behind one door, each attempt under the same timer.

Owns which tool serves which action. Each tool owns what its answers mean.
"""

from typing import assert_never

from jackline_server.core.plan import (
    ChildAction,
    FunctionAction,
    GrpcAction,
    HttpAction,
    HumanAction,
    McpAction,
    ResultAction,
    SqlAction,
    ToolAction,
    WorkerAction,
)
from jackline_server.runtime.ports.tools import Invocation, ToolResult
from jackline_server.tools import human
from jackline_server.tools.attempt import Attempts
from jackline_server.tools.function import FunctionTool
from jackline_server.tools.grpc.tool import GrpcCalls
from jackline_server.tools.http import HttpTool
from jackline_server.tools.mcp.tool import McpToolCalls
from jackline_server.tools.results import failed
from jackline_server.tools.sql.tool import SqlTool
from jackline_server.tools.worker.calls import WorkerCalls

_REMOTE_NET_MS = 1_000
_FUNCTION_NET_MS = 100
"""A tool that keeps its own time knows best what its end means; this much later it is cut anyway."""


class StepToolbox:
    """Implements `Toolbox` for the step kinds `http`, `function` and, where there are, the others."""

    def __init__(
        self,
        *,
        http: HttpTool,
        functions: FunctionTool,
        mcp: McpToolCalls | None = None,
        sql: SqlTool | None = None,
        grpc: GrpcCalls | None = None,
        workers: WorkerCalls | None = None,
    ) -> None:
        self._http = http
        self._functions = functions
        self._mcp = mcp
        self._sql = sql
        self._grpc = grpc
        self._workers = workers
        self._attempts = Attempts()

    @property
    def abandoned(self) -> int:
        """How many attempts would not end when they were told to, and are still running."""
        return self._attempts.abandoned

    async def call(self, invocation: Invocation) -> ToolResult:
        """See `Toolbox.call`."""
        action = invocation.step.action
        extra = _FUNCTION_NET_MS if isinstance(action, FunctionAction) else _REMOTE_NET_MS
        return await self._attempts.run(
            lambda: self._dispatched(action, invocation),
            timeout_ms=invocation.timeout_ms,
            net_ms=extra,
            repeatable=invocation.step.effect.repeatable,
        )

    async def _dispatched(self, action: ToolAction, invocation: Invocation) -> ToolResult:
        match action:
            case HttpAction():
                return await self._http.call(action, invocation)
            case FunctionAction():
                return await self._functions.call(action, invocation)
            case McpAction() | SqlAction() | GrpcAction() | WorkerAction():
                return await self._reached(action, invocation)
            case HumanAction():
                return human.asked(action, invocation)
            case ResultAction() | ChildAction():
                raise TypeError("results are read, and runs started, by the runtime itself")
            case _:
                assert_never(action)

    async def _reached(
        self, action: McpAction | SqlAction | GrpcAction | WorkerAction, invocation: Invocation
    ) -> ToolResult:
        match action:
            case McpAction() if self._mcp is not None:
                return await self._mcp.call(action, invocation)
            case SqlAction() if self._sql is not None:
                return await self._sql.call(action, invocation)
            case GrpcAction() if self._grpc is not None:
                return await self._grpc.call(action, invocation)
            case WorkerAction() if self._workers is not None:
                return await self._workers.call(action, invocation)
            case _:
                return failed(f"This server has no connections for steps of kind {invocation.step.kind}.")

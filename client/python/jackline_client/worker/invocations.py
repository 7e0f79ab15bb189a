"""The invocations of a worker: those that run, and the results that the server has not acknowledged.

Owns exactly one result for each invocation, whatever its function does, and what a result is on the wire.
Does not own the stream that they are told on (`stream`).
"""

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from google.protobuf.duration_pb2 import Duration
from google.protobuf.json_format import MessageToDict

from jackline.v1 import tool_worker_pb2 as wire
from jackline_client.worker.calls import Call, ToolFailed, ToolUncertain, TryAgain
from jackline_client.worker.progress import Progress
from jackline_client.worker.tools import Tool

_log = logging.getLogger(__name__)

_MOST_MESSAGE = 2_000


@dataclass(slots=True, eq=False)
class _Running:
    task: "asyncio.Task[None]"
    call: Call
    progress: Progress


class Invocations:
    """The invocations of one worker, over all of its streams. For one event loop.

    `say` puts a message onto the stream of the moment; without a stream it drops it.
    """

    def __init__(self, tools: Mapping[str, Tool], *, max_parallel: int) -> None:
        self._tools = tools
        self._threads = ThreadPoolExecutor(max_parallel, thread_name_prefix="jackline-worker")
        self._places = asyncio.Semaphore(max_parallel)
        self._running: dict[str, _Running] = {}
        self._finished: dict[str, wire.InvocationResult] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self.most_result_bytes = 4_000_000
        self.say: Callable[[wire.ConnectRequest], None] = _unheard

    @property
    def unacknowledged(self) -> list[str]:
        """The invocations that the server has not done with."""
        return [*self._running, *self._finished]

    async def settled(self) -> None:
        """Until nothing runs and every result is acknowledged."""
        await self._idle.wait()

    def invoke(self, invoke: wire.InvokeTool) -> None:
        """Begin one, or say at once that it was not begun."""
        name = invoke.invocation
        if name in self._running or name in self._finished:
            return
        tool = self._tools.get(invoke.tool)
        if tool is None:
            self._finish(name, _failure(wire.WORKER_ERROR_KIND_NOT_STARTED, "there is no such tool here"))
            return
        progress = Progress(name, self._say_of_running)
        call = self._call(invoke, progress)
        task = asyncio.create_task(self._run(tool, invoke, call), name=f"invocation {name}")
        self._running[name] = _Running(task, call, progress)
        self._idle.clear()

    def cancel(self, name: str) -> None:
        """Nobody waits for it any more."""
        running = self._running.get(name)
        if running is not None:
            running.call.stopped.set()
            running.task.cancel()

    def acknowledge(self, name: str) -> None:
        """The server has the result."""
        self._finished.pop(name, None)
        self._look()

    def say_again(self) -> None:
        """Every result that is not acknowledged, on a new stream of the same session."""
        for result in self._finished.values():
            self.say(wire.ConnectRequest(result=result))

    def forget(self) -> None:
        """The session is over: stop what can be stopped, and say nothing of it."""
        self._finished.clear()
        for name in list(self._running):
            self.cancel(name)
            self._running[name].progress.close()
        self._running.clear()
        self._look()

    def close(self) -> None:
        """Stop all. Threads that run on are left behind."""
        self.say = _unheard
        self.forget()
        self._threads.shutdown(wait=False, cancel_futures=True)

    # --- one invocation --------------------------------------------------------------------------

    def _call(self, invoke: wire.InvokeTool, progress: Progress) -> Call:
        loop = asyncio.get_running_loop()
        return Call(
            key=invoke.call_key,
            attempt=invoke.attempt,
            run_id=invoke.run_id,
            step_id=invoke.step_id,
            subject=MessageToDict(invoke.subject),
            traceparent=invoke.traceparent,
            deadline=loop.time() + invoke.timeout.ToTimedelta().total_seconds(),
            show=progress.report,
        )

    async def _run(self, tool: Tool, invoke: wire.InvokeTool, call: Call) -> None:
        name = invoke.invocation
        work = asyncio.create_task(self._answer(tool, invoke, call), name=f"tool {tool.name}")
        try:
            async with asyncio.timeout_at(call.deadline):
                await asyncio.shield(work)
        except (TimeoutError, asyncio.CancelledError):
            call.stopped.set()
            if tool.is_async:
                work.cancel()
        # A thread can't be stopped: its place is taken for as long as it really runs.
        while not work.done():
            try:
                await asyncio.wait({work})
            except asyncio.CancelledError:
                continue
        if work.cancelled():
            result = _failure(wire.WORKER_ERROR_KIND_CANCELLED, "The tool was stopped.")
        else:
            result = work.result()
        if self._running.get(name) is not None and self._running[name].call is call:
            self._running.pop(name).progress.close()
            self._finish(name, result)

    async def _answer(self, tool: Tool, invoke: wire.InvokeTool, call: Call) -> wire.InvocationResult:
        """The result, whatever the function does; cancelled if it lets itself be."""
        try:
            arguments = json.loads(invoke.arguments_json)
            # The server keeps count itself; what still runs of a session that is over is known here alone.
            async with self._places, tool.places:
                return self._value(await tool.run(arguments, call, self._threads))
        except TryAgain as error:
            return _failure(wire.WORKER_ERROR_KIND_TRANSIENT, str(error), error.retry_after_s)
        except ToolUncertain as error:
            return _failure(wire.WORKER_ERROR_KIND_UNCERTAIN, str(error))
        except ToolFailed as error:
            return _failure(wire.WORKER_ERROR_KIND_FAILED, str(error))
        except Exception as error:  # noqa: BLE001 - the invocation ends here, and its worker must not
            _log.exception("the tool %s raised", tool.name)
            message = f"The tool failed in a way that it did not foresee: {type(error).__name__}."
            return _failure(wire.WORKER_ERROR_KIND_UNCERTAIN, message)

    def _value(self, value: object) -> wire.InvocationResult:
        if isinstance(value, str) and len(value.encode(errors="replace")) <= self.most_result_bytes:
            return wire.InvocationResult(text=value.encode(errors="replace").decode())
        try:
            written = json.dumps(value, ensure_ascii=False, allow_nan=False).encode(errors="replace")
        except (TypeError, ValueError, RecursionError) as error:
            message = f"The tool has done its work, and returned what is not JSON ({type(error).__name__})."
            return wire.InvocationResult(text=message)
        if len(written) > self.most_result_bytes:
            message = f"The tool has done its work; its result of {len(written)} bytes is too large."
            return wire.InvocationResult(text=message[: self.most_result_bytes])
        return wire.InvocationResult(json=written)

    def _finish(self, name: str, result: wire.InvocationResult) -> None:
        result.invocation = name
        self._finished[name] = result
        self._idle.clear()
        self.say(wire.ConnectRequest(result=result))

    def _say_of_running(self, message: wire.ConnectRequest) -> None:
        """Whatever stream there is by then."""
        self.say(message)

    def _look(self) -> None:
        if not self._running and not self._finished:
            self._idle.set()


def _unheard(message: wire.ConnectRequest) -> None:
    del message


def _failure(
    kind: wire.WorkerErrorKind.ValueType, message: str, retry_after_s: float | None = None
) -> wire.InvocationResult:
    error = wire.WorkerError(kind=kind, message=message.encode(errors="replace").decode()[:_MOST_MESSAGE])
    if retry_after_s is not None:
        error.retry_after.CopyFrom(Duration(seconds=int(retry_after_s), nanos=int(retry_after_s % 1 * 1e9)))
    return wire.InvocationResult(error=error)

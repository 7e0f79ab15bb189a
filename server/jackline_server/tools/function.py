"""Step kind `function`: one call of a Python function of the operator's.

Owns how such a function is run: its arguments checked, off the event loop if it is not async, its result
made JSON, whatever it raises made a result. A function in this process is the operator's own code; what it
does to the process (a loop that blocks, a crash in native code) is not contained here, but in `isolated`.
"""

import asyncio
import contextvars
import inspect
import logging
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, cast

from pydantic import ValidationError

from jackline_server.core.plan import FunctionAction
from jackline_server.runtime.ports.tools import Invocation, ToolResult
from jackline_server.tools.function_call import Given, frames_of, keywords, may_pass, misfit, raised
from jackline_server.tools.function_catalog import FoundFunction, FunctionCatalog, FunctionProblem
from jackline_server.tools.isolated.process import IsolatedFunctions
from jackline_server.tools.results import NotJson, completed, failed, is_small, to_json
from jackline_server.tools.tool_call import ToolCall

_log = logging.getLogger(__name__)


class FunctionTool:
    """Runs functions of the catalog. At most `threads` functions that are not async run at once.

    Such a function can't be stopped: one that outlives its time keeps its thread, and its place among
    `threads`, until it returns. `isolated` calls those that are to have a process of their own.
    """

    def __init__(
        self, *, catalog: FunctionCatalog, threads: int = 32, isolated: IsolatedFunctions | None = None
    ) -> None:
        self._catalog = catalog
        self._isolated = isolated
        self._free = asyncio.Semaphore(threads)
        self._running = 0

    @property
    def running_threads(self) -> int:
        """How many functions hold a thread, abandoned ones included."""
        return self._running

    async def call(self, action: FunctionAction, invocation: Invocation) -> ToolResult:
        """Call the function with what the invocation has of its parameters.

        Raises nothing but CancelledError.
        """
        if self._isolated is not None and self._isolated.serves(action):
            return await self._isolated.call(action, invocation)
        if action.isolated:
            return failed("This server calls no functions in processes of their own.")
        try:
            name = action.function
            function = self._catalog.known(name) or await asyncio.to_thread(self._catalog.find, name)
            named = keywords(function, _given(invocation))
        except FunctionProblem as problem:
            return failed(f"The function can't be called: {problem}.")
        except ValidationError as error:
            return failed(misfit(error))
        except ValueError:
            return failed("The arguments can't be written as JSON.")
        called = _Called(function, named, invocation.run_id)
        if function.is_async:
            return await _outcome_async(called)
        try:
            async with asyncio.timeout(invocation.timeout_ms / 1000):
                await self._free.acquire()
        except TimeoutError:
            return failed("Every thread for functions was busy for the whole time; nothing was called.")
        return await self._in_thread(lambda: _outcome(called))

    async def _in_thread(self, work: Callable[[], ToolResult]) -> ToolResult:
        """Run the work in the thread whose place was taken; the place is given back when it ends."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[ToolResult] = loop.create_future()
        self._running += 1

        def finish(value: ToolResult) -> None:
            self._running -= 1
            self._free.release()
            if not result.done():
                result.set_result(value)

        def run() -> None:
            try:
                value = work()
            except BaseException as error:  # noqa: BLE001 - the thread ends here, and its place is given back
                value = failed(f"The function ended with {type(error).__name__}.")
            try:
                loop.call_soon_threadsafe(finish, value)
            except RuntimeError:
                return  # the loop is closed: the server is gone and nobody waits

        context = contextvars.copy_context()
        # A daemon: a function that never returns must not keep the server from ending.
        thread = threading.Thread(target=context.run, args=(run,), name="jackline-function", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            finish(failed("There is no thread for the function just now; nothing was called.", may_pass=True))
        return await result


@dataclass(frozen=True, slots=True)
class _Called:
    """One call, and the run that it is for."""

    function: FoundFunction
    keywords: dict[str, object]
    run_id: str

    def begin(self) -> object:
        """Call the function."""
        return self.function.call(**self.keywords)

    def raised(self, error: BaseException) -> ToolResult:
        """The result of a call that raised. The log says where; what it said may hold content of the run."""
        _log.warning(
            "a function raised",
            extra={
                "run_id": self.run_id,
                "function": self.function.call.__qualname__,
                "error_type": type(error).__name__,
                "frames": frames_of(error),
            },
        )
        return failed(raised(error), may_pass=may_pass(error))


async def _outcome_async(called: _Called) -> ToolResult:
    try:
        value = await cast("Coroutine[Any, Any, object]", called.begin())
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001 - the tool ends here, and SystemExit must not end the server
        return called.raised(error)
    if is_small(value):
        return _kept(value)
    return await asyncio.to_thread(_kept, value)  # a large result must not hold up the event loop


def _outcome(called: _Called) -> ToolResult:
    try:
        value = called.begin()
    except BaseException as error:  # noqa: BLE001 - the thread ends here, and nothing may pass unseen
        return called.raised(error)
    if inspect.iscoroutine(value):
        value.close()
    return _kept(value)


def _kept(value: object) -> ToolResult:
    try:
        return completed(to_json(value))
    except NotJson as error:
        return failed(f"The function returned what can't be kept: {error}.")
    except BaseException as error:  # noqa: BLE001 - a returned object may raise anything when it is looked at
        return failed(f"The function returned what can't be read: {type(error).__name__}.")


def _given(invocation: Invocation) -> Given:
    return Given(
        arguments=invocation.arguments,
        bound=invocation.bound,
        step_input=invocation.step_input,
        call=ToolCall(
            run_id=invocation.run_id,
            call_key=invocation.call_key,
            attempt=invocation.attempt,
            subject=invocation.subject,
        ),
    )

"""Step kind `worker`: one call of a tool that a connected worker serves, as it was when the workflow was put.

Owns how long a call waits for whom, and what the ways it can end say about whether the tool acted. Does not
own who is given it (`pool`).
"""

import asyncio
from typing import assert_never

from jackline_server.core import json_text
from jackline_server.core.blank_text import is_blank
from jackline_server.core.instruments import SchemaValidator
from jackline_server.core.plan import JsonValue, WorkerAction
from jackline_server.runtime.ports.tool_waits import ToolWait
from jackline_server.runtime.ports.tools import Invocation, ToolResult
from jackline_server.runtime.ports.workers import CancelReason, InvokeTool, WorkerErrorKind, WorkerFailure
from jackline_server.tools.guards import NoPlace
from jackline_server.tools.http_message import MessageProblem
from jackline_server.tools.pinned_calls import ToolChanged, arguments_among, changed_words
from jackline_server.tools.results import clean_json, clean_text, completed, failed, is_dense
from jackline_server.tools.trace_context import traceparent
from jackline_server.tools.worker.pool import Served, Waiter, WorkerPool, new_invocation
from jackline_server.tools.worker.pools import WorkerPools
from jackline_server.tools.worker.session import Lost, Reply, Session

_AT_ONCE_BYTES = 64 * 1024
_MOST_TRIES = 16
"""How often a call is given to a worker, while each says that it began nothing."""


class WorkerCalls:
    """Calls tools of the operator's pools."""

    def __init__(self, *, pools: WorkerPools, schemas: SchemaValidator) -> None:
        self._pools = pools
        self._schemas = schemas

    async def call(self, action: WorkerAction, invocation: Invocation) -> ToolResult:
        """Make one call. Waits for a worker, and for a place of one, first; that counts.

        Raises nothing but CancelledError, upon which the worker is told to stop.
        """
        pool = self._pools.link(action.connection)
        if pool is None:
            return failed(f"There is no pool of workers {action.connection!r} on this server.")
        if not pool.connection.allows(action.tool):
            return failed(f"The operator does not allow the tool {action.tool!r}.")
        try:
            arguments = arguments_among(action.takes, action.arguments_json, invocation)
            return await _Call(pool, action, invocation, json_text.write(arguments), self._schemas).made()
        except NoPlace as none:
            return none.result
        except MessageProblem as problem:
            return failed(f"The call can't be made: {problem}.")
        except ToolChanged as changed:
            return failed(changed_words(changed))


class _Call:
    """One call, given to a worker as often as it takes for one to begin it."""

    def __init__(
        self,
        pool: WorkerPool,
        action: WorkerAction,
        invocation: Invocation,
        arguments_json: str,
        schemas: SchemaValidator,
    ) -> None:
        limit_ms = min(invocation.timeout_ms, pool.connection.timeout_ms)
        self._pool = pool
        self._action = action
        self._invocation = invocation
        self._arguments_json = arguments_json
        self._schemas = schemas
        self._deadline = asyncio.get_running_loop().time() + limit_ms / 1000
        self._wait_s = (pool.connection.wait_ms if action.wait_ms is None else action.wait_ms) / 1000
        self._shunned: set[str] = set()
        self._waits: ToolWait | None = None
        self._repeatable = invocation.step.effect.repeatable

    async def made(self) -> ToolResult:
        """The result. Raises ToolChanged and NoPlace."""
        self._pool.guard.check(self._deadline)
        for _ in range(_MOST_TRIES):
            waiter = Waiter(
                order=self._order(),
                digest=self._action.tool_digest,
                shunned=self._shunned,
                reply=asyncio.get_running_loop().create_future(),
                report=self._invocation.report,
            )
            try:
                result = await self._tried(waiter)
                if result is not None:
                    if waiter.place is not None:
                        waiter.place.heard(result)
                    return result
            except asyncio.CancelledError:
                self._pool.withdraw(waiter, CancelReason.ABORTED)
                raise
            finally:
                if waiter.place is not None:
                    waiter.place.release()
        return failed("No worker began the call; nothing was done.", may_pass=True)

    async def _tried(self, waiter: Waiter) -> ToolResult | None:
        """What comes of giving it to a worker once; None if nothing was begun and another may be asked."""
        try:
            session = await self._placed(waiter)
        finally:
            self._say(None)
        if session is None:
            return self._nobody()
        left_s = self._deadline - asyncio.get_running_loop().time()
        # A reply that comes in the very moment of the deadline is there all the same.
        await asyncio.wait({waiter.reply}, timeout=max(left_s, 0))
        if not waiter.reply.done():
            return self._late(waiter)
        return await self._result(waiter.reply.result(), session)

    def _order(self) -> InvokeTool:
        invocation = self._invocation
        return InvokeTool(
            invocation=new_invocation(),
            tool=self._action.tool,
            arguments_json=self._arguments_json,
            deadline=self._deadline,
            call_key=invocation.call_key,
            attempt=invocation.attempt,
            run_id=invocation.run_id,
            step_id=invocation.step.step_id,
            subject=invocation.subject,
            traceparent=traceparent(invocation),
        )

    # --- finding a worker ------------------------------------------------------------------------

    async def _placed(self, waiter: Waiter) -> Session | None:
        """The worker that has the call; None if there was none in time. Raises ToolChanged and NoPlace."""
        loop = asyncio.get_running_loop()
        self._pool.enter(waiter)
        alone_since: float | None = None
        while waiter.session is None:
            if waiter.none is not None:
                raise waiter.none
            served = self._pool.served(self._action.tool, self._action.tool_digest, self._shunned)
            match served:
                case Served.CHANGED:
                    self._pool.withdraw(waiter, CancelReason.ABORTED)
                    tool = self._action.tool
                    raise ToolChanged(f"every worker that serves {tool!r} now describes it differently.")
                case Served.YES:
                    alone_since, until = None, self._deadline
                case Served.NO:
                    alone_since = loop.time() if alone_since is None else alone_since
                    until = min(self._deadline, alone_since + self._wait_s)
            self._say(self._pool.wait_for(self._action.tool, served))
            waiter.woken.clear()
            try:
                async with asyncio.timeout_at(until):
                    await waiter.woken.wait()
            except TimeoutError:
                if waiter.session is None and waiter.none is None:
                    self._pool.withdraw(waiter, CancelReason.TIMED_OUT)
                    return None
        return waiter.session

    def _say(self, wait: ToolWait | None) -> None:
        """Tell what it waits for, where that is something else than before."""
        if wait != self._waits:
            self._waits = wait
            self._invocation.on_wait(wait)

    def _nobody(self) -> ToolResult:
        tool = self._action.tool
        if self._pool.served(tool, self._action.tool_digest, self._shunned) is Served.NO:
            if asyncio.get_running_loop().time() >= self._deadline:
                return failed(f"No worker came to serve {tool!r} in the time of the call.", may_pass=True)
            return failed(f"No worker serves {tool!r} just now; nothing was called.", may_pass=True)
        return failed(
            "Every worker, or the pool, was busy for the whole time; nothing was called.", may_pass=True
        )

    # --- what became of it -----------------------------------------------------------------------

    def _late(self, waiter: Waiter) -> ToolResult:
        told = waiter.flight is not None and waiter.flight.told
        self._pool.withdraw(waiter, CancelReason.TIMED_OUT)
        if not told:
            return failed("The call did not reach its worker in time; nothing was called.", may_pass=True)
        return failed(
            "The tool did not finish within its time.", uncertain=not self._repeatable, timed_out=True
        )

    async def _result(self, reply: Reply, session: Session) -> ToolResult | None:
        """What the reply means; None if nothing was begun and another worker may be asked."""
        if reply is Lost.UNSENT:
            return None
        if reply is Lost.SENT:
            message = "The worker that ran the tool was lost."
            return failed(message, uncertain=not self._repeatable, may_pass=True, connection_failed=True)
        outcome = reply.outcome
        match outcome:
            case WorkerFailure(kind=WorkerErrorKind.NOT_STARTED):
                self._shunned.add(session.token)
                return None
            case WorkerFailure():
                return self._failure(outcome)
            case bytes() | str() if len(outcome) > _AT_ONCE_BYTES:
                return await asyncio.to_thread(self._read, outcome, session)
            case bytes() | str():
                return self._read(outcome, session)
            case _:
                assert_never(outcome)

    def _failure(self, failure: WorkerFailure) -> ToolResult:
        said = failure.message
        message = "The tool failed and did not say why." if is_blank(said) else said
        match failure.kind:
            case WorkerErrorKind.FAILED | WorkerErrorKind.NOT_STARTED:
                return failed(message)
            case WorkerErrorKind.TRANSIENT:
                return failed(message, may_pass=True, retry_after_ms=failure.retry_after_ms)
            case WorkerErrorKind.UNCERTAIN:
                return failed(message, uncertain=not self._repeatable, may_pass=True)
            case WorkerErrorKind.CANCELLED:
                return failed(message, uncertain=not self._repeatable, timed_out=True)
            case _:
                assert_never(failure.kind)

    def _read(self, data: bytes | str, session: Session) -> ToolResult:
        if isinstance(data, str):
            return self._value(clean_text(data), session)
        if is_dense(data):
            return completed(clean_text(data.decode(errors="replace")))
        try:
            value = json_text.parse(data)
        except json_text.JsonError:
            return failed("The tool answered with what is not JSON.", uncertain=not self._repeatable)
        return self._value(clean_json(value), session)

    def _value(self, value: JsonValue, session: Session) -> ToolResult:
        tool = session.offer.tools.get(self._action.tool)
        schema = None if tool is None else tool.pinned.output_schema_json
        problem = None if schema is None else self._schemas.problem(schema, value)
        if problem is not None:
            message = f"The tool's answer does not fit its own output schema: {problem}"
            return failed(message, uncertain=not self._repeatable)
        return completed(value)

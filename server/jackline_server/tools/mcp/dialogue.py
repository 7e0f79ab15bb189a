"""One call of a tool under way, which an older server may interrupt to ask a person.

Owns the call's task and the wait for either end of it: an answer, or a question. While a person is asked the
task goes on, and nobody waits for it: whoever holds the dialogue comes back to it, or ends it.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from dataclasses import dataclass

from mcp import MCPError
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult, InputRequiredResult
from pydantic import ValidationError

from jackline_server.tools.mcp.failures import CallLate, CallLost, McpFailure, ServerDown
from jackline_server.tools.mcp.progress import Told

Answer = CallToolResult | InputRequiredResult
_FAREWELL_S = 0.5


@dataclass(frozen=True, slots=True)
class Question:
    """The server asks in the midst of the call."""

    params: ElicitRequestParams


class Dialogue:
    """Use it in one event loop. `known` answers a question that was answered before, by its digest."""

    def __init__(
        self,
        call: Coroutine[None, None, Answer],
        *,
        failure: Callable[[MCPError], McpFailure | ServerDown],
        over: Callable[["Dialogue"], None],
        known: Callable[[ElicitRequestParams], ElicitResult | None],
        told: Told,
    ) -> None:
        """Begins the call. `over` is called once it has ended."""
        self.told = told
        self._task = asyncio.create_task(call)
        self._task.add_done_callback(lambda _: over(self))
        self._failure = failure
        self._known = known
        self._question: asyncio.Future[ElicitRequestParams] = asyncio.get_running_loop().create_future()
        self._reply: asyncio.Future[ElicitResult] | None = None

    @property
    def waits(self) -> bool:
        """True while a person is asked."""
        return self._reply is not None

    @property
    def has_ended(self) -> bool:
        """True once the call is over, whatever came of it."""
        return self._task.done()

    async def advance(self, *, timeout_s: float) -> Answer | Question:
        """The answer, or the question that comes first. When the time is over the server is told to stop.

        Raises:
            ServerDown, CallRefused, CallLost
        """
        try:
            await asyncio.wait(
                {self._task, self._question}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
        except asyncio.CancelledError:
            await self.end()
            raise
        if self._task.done():
            return self._answer()
        if self._question.done():
            return Question(self._question.result())
        await self.end()
        raise CallLate(f"The tool did not answer within {timeout_s:g} s.")

    async def asked(self, params: ElicitRequestParams) -> ElicitResult:
        """The server asks: what a person says, once somebody has said it."""
        known = self._known(params)
        if known is not None:
            return known
        loop = asyncio.get_running_loop()
        self._reply = loop.create_future()
        self._question.set_result(params)
        return await self._reply

    def reply(self, result: ElicitResult) -> None:
        """Give the server what a person said; `advance` waits for what follows."""
        self._question = asyncio.get_running_loop().create_future()
        self._say(result)

    async def end(self) -> None:
        """Give the call up; the SDK tells the server so on the way out. Bounded.

        What the server asked is answered too: the SDK's task that waits for it is one of the session's, and
        were it cancelled from here, the session would end with all its calls.
        """
        try:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=_FAREWELL_S)
            with contextlib.suppress(asyncio.CancelledError, asyncio.InvalidStateError):
                self._task.exception()
        finally:
            self._say(ElicitResult(action="cancel"))

    def _say(self, result: ElicitResult) -> None:
        reply, self._reply = self._reply, None
        if reply is not None and not reply.done():
            reply.set_result(result)

    def _answer(self) -> Answer:
        try:
            return self._task.result()
        except asyncio.CancelledError:
            raise CallLost("The call was given up.") from None
        except MCPError as error:
            raise self._failure(error) from None
        except ValidationError:
            raise CallLost("The answer of the tool's server breaks the protocol.") from None

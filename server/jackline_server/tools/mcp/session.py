"""One session with one server: a task of its own enters the SDK's scopes, and leaves them.

Owns that task, and the time of every request. Does not own when a session is started again (`link`). The
SDK's scopes belong to the task that opened them, a request's own scopes to the task that makes the request.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from importlib.metadata import PackageNotFoundError, version
from typing import TypeVar, cast

import anyio
from mcp import Client, MCPError
from mcp.client import ClientRequestContext, ClientSession, IncomingMessage
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    URL_ELICITATION_REQUIRED,
    ElicitRequestParams,
    ElicitResult,
    Implementation,
    ToolListChangedNotification,
)
from pydantic import ValidationError

from jackline_server.runtime.ports.http_streams import HttpWays
from jackline_server.runtime.ports.mcp import McpConnection, McpEndpoint, McpProcess
from jackline_server.runtime.ports.tool_reports import Report
from jackline_server.tools.mcp.asking import first_page
from jackline_server.tools.mcp.dialogue import Answer, Dialogue
from jackline_server.tools.mcp.failures import (
    CallLate,
    CallLost,
    CallRefused,
    PageFirst,
    ServerDown,
    SessionGone,
)
from jackline_server.tools.mcp.guarded import HTTP_UNSENT, SESSION_GONE, guarded_transport
from jackline_server.tools.mcp.progress import ProgressDesk
from jackline_server.tools.mcp.sse import sse_transport
from jackline_server.tools.mcp.stdio import stdio_transport
from jackline_server.tools.mcp.tidying import tidy
from jackline_server.tools.mcp.witness import Witness

_log = logging.getLogger(__name__)

_Answer = TypeVar("_Answer")

_FAREWELL_S = 0.5
_CLOSE_S = 6.0
_CERTAIN = frozenset({HTTP_UNSENT, INVALID_PARAMS, METHOD_NOT_FOUND, INVALID_REQUEST})
_MAX_WORDS = 300


class McpSession:
    """A session, started or over. `stale` is true once the server said that its tools have changed."""

    def __init__(self, connection: McpConnection, clients: HttpWays) -> None:
        self.stale = False
        self._progress = ProgressDesk()
        self._dialogues: set[Dialogue] = set()
        self._connection = connection
        self._clients = clients
        self._session: ClientSession | None = None
        self._stop = asyncio.Event()
        self._ready: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._witness: Witness | None = None
        self._owner: asyncio.Task[None] | None = None

    @property
    def alive(self) -> bool:
        """True while requests can be made."""
        return self._session is not None and not self._stop.is_set()

    async def start(self) -> None:
        """Reach the server and agree on a protocol, within the connection's time for it.

        Raises:
            ServerDown: in words why not. Cancelling it leaves nothing behind.
        """
        name = self._connection.name
        self._owner = asyncio.create_task(self._own(), name=f"MCP session {name}")
        limit_s = self._connection.start_timeout_ms / 1000
        try:
            await asyncio.wait({self._ready}, timeout=limit_s)
        except asyncio.CancelledError:
            await self.close()
            raise
        if not self._ready.done():
            await self.close()
            raise self._down(f"it did not answer within {limit_s:g} s of its start")
        problem = self._ready.result()
        if problem is not None:
            await self.close()
            raise self._down(problem)

    def converse(
        self,
        call: Callable[[ClientSession, str], Coroutine[None, None, Answer]],
        *,
        known: Callable[[ElicitRequestParams], ElicitResult | None],
        report: Report | None,
    ) -> Dialogue:
        """Begin a call that may ask in its midst, and say how far it is: `call` gets a token for that.

        Raises ServerDown.
        """
        session = self._session
        if session is None or self._stop.is_set():
            raise ServerDown("its session is over")
        told = self._progress.open(report)
        dialogue = Dialogue(
            call(session, told.token), failure=self._failure, over=self._over, known=known, told=told
        )
        self._dialogues.add(dialogue)
        return dialogue

    def _over(self, dialogue: Dialogue) -> None:
        self._dialogues.discard(dialogue)
        self._progress.close(dialogue.told)

    async def _asked(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        """The server asks a person. The protocol does not say for which call: there has to be one only."""
        del context
        under_way = [dialogue for dialogue in self._dialogues if not dialogue.waits]
        if len(under_way) == 1:
            return await under_way[0].asked(params)
        _log.warning(
            "MCP server %s asks something while %d calls are under way: for which can't be said",
            self._connection.name,
            len(under_way),
        )
        return ElicitResult(action="cancel")

    async def request(
        self, work: Callable[[ClientSession], Awaitable[_Answer]], *, timeout_s: float
    ) -> _Answer:
        """Make one request. When its time is over, or its caller is cancelled, the server is told so.

        Raises:
            ServerDown, CallRefused, CallLost
        """
        session = self._session
        if session is None or self._stop.is_set():
            raise ServerDown("its session is over")
        task = asyncio.create_task(_made(work, session))
        try:
            await asyncio.wait({task}, timeout=timeout_s)
        except asyncio.CancelledError:
            await _end(task)
            raise
        if not task.done():
            await _end(task)
            raise CallLate(f"The tool did not answer within {timeout_s:g} s.")
        try:
            return task.result()
        except MCPError as error:
            raise self._failure(error) from None
        except ValidationError:
            raise CallLost("The answer of the tool's server breaks the protocol.") from None

    async def close(self) -> None:
        """End the session, its process included. Bounded; idempotent."""
        self._stop.set()
        if self._owner is None or self._owner.done():
            return
        if not self._ready.done():
            self._owner.cancel()
        await asyncio.wait({self._owner}, timeout=_CLOSE_S)
        if not self._owner.done():
            self._owner.cancel()
            await asyncio.wait({self._owner}, timeout=_FAREWELL_S)

    def _failure(self, error: MCPError) -> CallRefused | CallLost | ServerDown:
        words = _words(error.message)
        if error.code == SESSION_GONE:
            self._stop.set()  # the next request begins a new one
            return SessionGone("The tool's server has ended the session; nothing was done.")
        if error.code == CONNECTION_CLOSED:
            return CallLost("The tool's server ended before it answered.")
        if error.code == URL_ELICITATION_REQUIRED:
            page = first_page(error.error)
            words = f"The tool's server wants a page to be opened first: {words}"
            return CallRefused(words) if page is None else PageFirst(words, page)
        if error.code in _CERTAIN:
            return CallRefused(f"The tool's server refused the call: {words}")
        return CallLost(f"The tool's server failed: {words}")

    def _down(self, problem: str) -> ServerDown:
        if self._witness is None:
            return ServerDown(problem)
        return ServerDown(self._witness.account(problem), brief=problem)

    async def _own(self) -> None:
        """The life of the session, in one task from the first scope to the last."""
        problem = "it ended at once"
        try:
            transport = tidy(self._transport(), self._progress)
            async with Client(
                transport,
                cache=None,
                client_info=_ourselves(),
                message_handler=self._heard,
                elicitation_callback=self._asked,
                mode="legacy" if self._is_old else "auto",
            ) as client:
                self._session = client.session
                self._ready.set_result(None)
                await self._stop.wait()
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - the session's task ends here, whatever the SDK raised
            _log.debug("MCP session %s", self._connection.name, exc_info=error)
            problem = self._why(error)
        finally:
            self._session = None
            self._stop.set()
            if not self._ready.done():
                self._ready.set_result(problem)

    def _why(self, error: Exception) -> str:
        """Why there is no session, in words for people and models alike."""
        cause = _innermost(error)
        if isinstance(cause, MCPError) and cause.code != CONNECTION_CLOSED:
            return f"it refused: {_words(cause.message)}"
        if isinstance(cause, MCPError | anyio.ClosedResourceError | anyio.BrokenResourceError):
            return "it ended before it answered" if self._witness is None else self._witness.ending()
        if isinstance(cause, OSError):
            return f"it can't be started: {cause.strerror or 'the system refused'}"
        if isinstance(cause, ValidationError):
            return "its answer breaks the protocol"
        return "it broke the protocol"

    @property
    def _is_old(self) -> bool:
        """True for a server of before the probe that tells the generations apart."""
        transport = self._connection.transport
        return isinstance(transport, McpEndpoint) and transport.is_old

    def _transport(self):  # noqa: ANN202 - a type of the SDK's that has no public name
        connection = self._connection
        if isinstance(connection.transport, McpProcess):
            self._witness = witness = Witness(connection.transport.environment)
            return stdio_transport(connection.name, connection.transport, on_end=self._stop, witness=witness)
        if connection.transport.is_old:
            return sse_transport(self._clients, connection, connection.transport, on_end=self._stop)
        return guarded_transport(
            self._clients,
            connection.transport,
            concurrency=connection.concurrency,
            total_ms=connection.timeout_ms,
        )

    async def _heard(self, message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            self.stale = True


async def _made(work: Callable[[ClientSession], Awaitable[_Answer]], session: ClientSession) -> _Answer:
    return await work(session)


async def _end(task: asyncio.Task[_Answer]) -> None:
    """Cancel a request; the SDK tells the server so on the way out."""
    task.cancel()
    await asyncio.wait({task}, timeout=_FAREWELL_S)
    with contextlib.suppress(asyncio.CancelledError, asyncio.InvalidStateError):
        task.exception()


def _innermost(error: Exception) -> Exception:
    """The first error of a group, and of a group in it: scopes of tasks wrap what ended them."""
    found: Exception = error
    while isinstance(found, ExceptionGroup):
        group = cast("ExceptionGroup[Exception]", found)
        found = group.exceptions[0]
    return found


def _ourselves() -> Implementation:
    try:
        own = version("jackline")
    except PackageNotFoundError:
        own = "0+unknown"
    return Implementation(name="jackline", version=own)


def _words(text: str) -> str:
    return " ".join(text.split())[:_MAX_WORDS]

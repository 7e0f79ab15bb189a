"""Step kind `http`: one request to a connection of the operator's, and what its answer means.

Owns what an answer or a failure says about whether the server acted. Does not own how a request is let out
(the port `HttpClients`) nor how values are put into it (`http_message`).
"""

import asyncio
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from jackline_server.core import json_text
from jackline_server.core.plan import HttpAction, JsonValue
from jackline_server.runtime.ports.connection_views import ConnectionKind, ConnectionView
from jackline_server.runtime.ports.http import (
    HttpClients,
    HttpConnection,
    HttpFailure,
    HttpLate,
    HttpRefused,
    HttpRequest,
    HttpResponse,
    HttpTooLarge,
    HttpUnreadable,
    HttpUnsent,
    retry_after_ms,
)
from jackline_server.runtime.ports.tools import Invocation, ToolResult
from jackline_server.tools.guards import Guard, from_here, is_fair
from jackline_server.tools.http_message import HttpMessage, MessageProblem, message_of
from jackline_server.tools.media import part_of, with_parts
from jackline_server.tools.results import HARD_BYTES, clean_json, clean_text, completed, failed, is_dense

IDEMPOTENCY_KEY = "Idempotency-Key"

_AT_ONCE_BYTES = 64 * 1024
"""A longer answer is read in a thread: the loop has others to serve."""

_REFUSALS = range(400, 500)
_SERVER_ERRORS = 500
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Answers after which the same request may succeed."""

_EXCERPT = 1_000
_SHORTEST_SECRET = 6
_MASK = "***"
_BINARY = frozenset({"image", "audio", "video", "font"})
_TEXTS = frozenset(
    {"json", "xml", "javascript", "x-ndjson", "jsonl", "yaml", "x-yaml", "x-www-form-urlencoded", "graphql"}
)
_FILE_NAME = re.compile(r"""filename="([^"]{1,800})"|filename=([^";\s]{1,800})""", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Line:
    """A connection with what guards it."""

    connection: HttpConnection
    guard: Guard
    secrets: tuple[str, ...] = field(repr=False)


class HttpTool:
    """Calls the operator's connections by name."""

    def __init__(self, *, clients: HttpClients, connections: Mapping[str, HttpConnection]) -> None:
        self._clients = clients
        self._lines = {name: _line(connection) for name, connection in connections.items()}

    async def call(self, action: HttpAction, invocation: Invocation) -> ToolResult:
        """Make one request. Waits for a slot of the connection first; that wait counts.

        Raises nothing but CancelledError, upon which the connection is closed.
        """
        line = self._lines.get(action.connection)
        if line is None:
            return failed(f"There is no connection {action.connection!r} on this server.")
        limit_ms = min(invocation.timeout_ms, line.connection.timeout_ms)
        deadline = asyncio.get_running_loop().time() + limit_ms / 1000
        try:
            message = message_of(action, invocation.values)
        except MessageProblem as problem:
            return failed(f"The request can't be made: {problem}.")
        return await line.guard.run(
            deadline,
            lambda: self._exchange(line, message, from_here(invocation, deadline)),
            on_wait=invocation.on_wait,
        )

    def views(self) -> list[ConnectionView]:
        """See `ConnectionSource`."""
        return [line.guard.view(ConnectionKind.HTTP) for line in self._lines.values()]

    async def _exchange(self, line: _Line, message: HttpMessage, invocation: Invocation) -> ToolResult:
        request = _request(line.connection, message, invocation)
        repeatable = invocation.step.effect.repeatable
        try:
            response = await self._clients.request(request)
        except HttpRefused as failure:
            return failed(failure.message)
        except HttpUnsent as failure:
            return failed(failure.message, may_pass=True, connection_failed=True)
        except HttpFailure as failure:
            late = isinstance(failure, HttpLate)
            lost = not isinstance(failure, HttpLate | HttpTooLarge | HttpUnreadable)
            return failed(
                failure.message,
                uncertain=not repeatable,
                may_pass=lost,
                timed_out=late,
                connection_failed=lost
                or (late and is_fair(invocation.timeout_ms, line.connection.timeout_ms)),
            )
        if len(response.body) <= _AT_ONCE_BYTES:
            return _result(response, line.secrets, repeatable=repeatable)
        return await asyncio.to_thread(_result, response, line.secrets, repeatable=repeatable)


def _line(connection: HttpConnection) -> _Line:
    # A header often holds a word before the secret ("Bearer …"): each part of it is one to hide.
    parts = {part for secret in connection.headers.values() for part in secret.reveal().split()}
    return _Line(
        connection,
        Guard(connection),
        tuple(sorted((part for part in parts if len(part) >= _SHORTEST_SECRET), key=len, reverse=True)),
    )


def _request(connection: HttpConnection, message: HttpMessage, invocation: Invocation) -> HttpRequest:
    operators = {name.lower() for name in connection.headers}
    headers = {name: value for name, value in message.headers.items() if name.lower() not in operators}
    headers |= {name: secret.reveal() for name, secret in connection.headers.items()}
    headers[IDEMPOTENCY_KEY] = invocation.call_key
    target = connection.base_path + message.target
    return HttpRequest(
        method=message.method,
        origin=connection.origin,
        target=target if target.startswith("/") else f"/{target}",
        total_ms=invocation.timeout_ms,
        header_ms=connection.header_timeout_ms,
        max_bytes=HARD_BYTES,
        headers=headers,
        body=message.body,
        reach=connection.reach,
    )


def _result(response: HttpResponse, secrets: tuple[str, ...], *, repeatable: bool) -> ToolResult:
    text = _masked(_decoded(response), secrets)
    match response.status // 100:
        case 2:
            return _success(response, text, secrets, repeatable=repeatable)
        case 3:
            acted = response.status not in (307, 308)  # these two say that nothing was done yet
            return failed(
                f"The server answered {response.status}, a redirect that is not followed.",
                uncertain=acted and not repeatable,
            )
        case _:
            return failed(
                _described(response.status, text),
                uncertain=response.status not in _REFUSALS and not repeatable,
                may_pass=response.status in _PASSING,
                connection_failed=response.status >= _SERVER_ERRORS
                and f"The server answered {response.status}.",
                retry_after_ms=retry_after_ms(response.headers.get("retry-after"), now_unix_s=time.time()),
            )


def _success(response: HttpResponse, text: str, secrets: tuple[str, ...], *, repeatable: bool) -> ToolResult:
    if not response.body:
        return completed(None)
    if _is_binary(response):
        return _binary(response, secrets)
    if not _is_json(response) or is_dense(response.body):
        return completed(clean_text(text))
    try:
        value: JsonValue = json_text.parse(text)
    except json_text.JsonError as error:
        if repeatable:
            return failed(f"The server answered {response.status} with what is not valid JSON: {error}.")
        return completed(clean_text(text))  # it did act, so what it said is kept as it came
    return completed(clean_json(value))


def _binary(response: HttpResponse, secrets: tuple[str, ...]) -> ToolResult:
    """A body that is no text, as the one part of a result."""
    data = response.body
    for secret in secrets:
        data = data.replace(secret.encode(), _MASK.encode())
    named = _FILE_NAME.search(response.headers.get("content-disposition", ""))
    name = "" if named is None else named[1] or named[2]
    part = part_of(data, claimed=response.headers.get("content-type", ""), name=name)
    return with_parts(completed("[part 1]"), [part])


def _is_binary(response: HttpResponse) -> bool:
    """True if the body is no text: by its type, or where that does not tell, by its bytes."""
    kind = _kind(response)
    major, _, minor = kind.partition("/")
    if major == "text" or minor in _TEXTS or minor.endswith(("+json", "+xml", "+yaml")):
        return False
    if major in _BINARY:
        return True
    if b"\x00" in response.body:
        return True
    try:
        response.body.decode()
    except UnicodeDecodeError:
        return kind.startswith("application/")  # without a type it may be a text in another charset
    return False


def _is_json(response: HttpResponse) -> bool:
    kind = _kind(response)
    return kind == "application/json" or kind.endswith("+json")


def _kind(response: HttpResponse) -> str:
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()


def _decoded(response: HttpResponse) -> str:
    charset = "utf-8"
    for part in response.headers.get("content-type", "").split(";")[1:]:
        name, _, value = part.partition("=")
        if name.strip().lower() == "charset":
            charset = value.strip().strip('"').lower()
    # A charset of the server's choice names a codec: only these, none of Python's own that transform.
    known = charset if charset in ("utf-8", "iso-8859-1", "us-ascii", "windows-1252", "utf-16") else "utf-8"
    return response.body.decode(known, "replace").removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")


def _masked(text: str, secrets: tuple[str, ...]) -> str:
    for secret in secrets:
        text = text.replace(secret, _MASK)
    return text


def _described(status: int, text: str) -> str:
    excerpt = clean_text(text[:_EXCERPT]).strip()
    more = f" … ({len(text)} characters)" if len(text) > _EXCERPT else ""
    return f"The server answered {status}: {excerpt}{more}" if excerpt else f"The server answered {status}."

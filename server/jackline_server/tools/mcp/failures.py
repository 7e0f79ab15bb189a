"""What can go wrong between us and an MCP server, as far as a call has to tell it apart.

ServerDown           there is no session; nothing was asked

McpFailure
├── CallRefused      the server certainly did not do it
│   ├── SessionGone  because it does not know our session any more: a new one may be asked
│   └── PageFirst    because somebody has to open a page first
└── CallLost         the server may have done it
    └── CallLate     its time was over first
"""

from jackline_server.core.plan import JsonObject
from jackline_server.tools.catalogs import ServerDown

__all__ = ["CallLate", "CallLost", "CallRefused", "McpFailure", "PageFirst", "ServerDown", "SessionGone"]


class McpFailure(Exception):
    """A server did not do what was asked. `message` is for a model: no address, no secret."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class CallRefused(McpFailure):
    """The server refused the request before it did anything."""


class SessionGone(CallRefused):
    """The server does not know the session, and did nothing."""


class PageFirst(CallRefused):
    """The server wants a page to be opened before it does anything. `page` is what it says of that page."""

    def __init__(self, message: str, page: JsonObject) -> None:
        super().__init__(message)
        self.page = page


class CallLost(McpFailure):
    """The request was sent and no answer came that says what happened."""


class CallLate(CallLost):
    """No answer had come when the time was over."""

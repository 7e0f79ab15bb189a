"""What servers say of how far their calls are: which call it is about, and how much of it is taken in.

Owns the tokens, one for each request that may report. The SDK never sees a word of progress: it would start a
task for each, and stumble over a number that no double holds. Does not own what becomes of a report.
"""

import asyncio
import re
from collections.abc import Mapping
from itertools import count
from typing import Any, cast

from mcp_types import JSONRPCNotification

from jackline_server.runtime.allowances import Pace
from jackline_server.runtime.ports.tool_reports import MOST_TEXT, Report, ToolReport
from jackline_server.tools.mcp.lines import TooLong

A_SECOND = 500
"""A server that says more than this is read no faster, and with it whatever else it says."""

_METHOD = "notifications/progress"
_MARK = b'"notifications/progress"'
_TOKEN = re.compile(rb'"progressToken"\s*:\s*"([^"\\]{1,64})"')
_OTHERS = re.compile(rb'"(?:id|result|error)"\s*:')
_SHORT_BYTES = 8 * 1024


class Told:
    """One request that may say how far it is. `report` is None while nobody wants to know."""

    def __init__(self, report: Report | None) -> None:
        self.report = report
        self.token = ""


class ProgressDesk:
    """The requests of one session. Use it in one event loop."""

    def __init__(self) -> None:
        self._told: dict[str, Told] = {}
        self._tokens = count(1)
        self._pace = Pace()

    def open(self, report: Report | None) -> Told:
        """A request that may say how far it is, until `close`."""
        told = Told(report)
        told.token = f"progress-{next(self._tokens)}"
        self._told[told.token] = told
        return told

    def close(self, told: Told) -> None:
        """It is over; what comes later is about nothing."""
        self._told.pop(told.token, None)

    async def took(self, message: object) -> bool:
        """True if that was progress, and is dealt with. Waits where there is too much of it."""
        if not isinstance(message, JSONRPCNotification) or message.method != _METHOD:
            return False
        params = message.params or {}
        token = params.get("progressToken")
        told = self._told.get(token) if isinstance(token, str) else None
        if told is not None and told.report is not None:
            told.report(_report(params))
        if wait_s := self._pace.wait_s(A_SECOND, asyncio.get_running_loop().time()):
            await asyncio.sleep(wait_s)
        return True


def newest_only(lines: list[bytes | TooLong]) -> list[bytes | TooLong]:
    """The lines of one read, without progress that is out of date: of each token the last stays.

    A server that says something in a tight loop is so read as fast as it writes. Looks at bytes only.
    """
    seen: set[bytes] = set()
    kept: list[bytes | TooLong] = []
    for line in reversed(lines):
        token = None if isinstance(line, TooLong) else _token_of(line)
        if token is not None and token in seen:
            continue
        if token is not None:
            seen.add(token)
        kept.append(line)
    kept.reverse()
    return kept


def _token_of(line: bytes) -> bytes | None:
    """The token of a line that is progress for certain; None for any other. A quote in a text is escaped."""
    if _MARK not in line or len(line) > _SHORT_BYTES or _OTHERS.search(line):
        return None
    found = _TOKEN.search(line)
    return None if found is None else found.group(1)


def _report(params: Mapping[str, Any]) -> ToolReport:
    words = cast("object", params.get("message"))
    return ToolReport(
        text=words[: MOST_TEXT + 1] if isinstance(words, str) else "",
        done=_number(params.get("progress")),
        total=_number(params.get("total")),
    )


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None

"""What holds of threads in every store: how much pends, how much one read takes, how usage adds up."""

from collections.abc import Iterable

from jackline_server.core.facts import Usage
from jackline_server.runtime.ports.threads import MessageRow

MOST_PENDING = 1_000
"""Messages that may be appended while one run is active."""


def within(rows: Iterable[MessageRow], size: int, *, least: int) -> list[MessageRow]:
    """The first rows that come to no more bytes than that, but `least` if there are so many."""
    taken: list[MessageRow] = []
    for row in rows:
        size -= row.size
        if size < 0 and len(taken) >= least:
            break
        taken.append(row)
    return taken


def added(total: Usage, usage: Usage) -> Usage:
    """Both together."""
    return Usage(
        prompt_tokens=total.prompt_tokens + usage.prompt_tokens,
        completion_tokens=total.completion_tokens + usage.completion_tokens,
        cached_tokens=total.cached_tokens + usage.cached_tokens,
        reasoning_tokens=total.reasoning_tokens + usage.reasoning_tokens,
        estimated=total.estimated or usage.estimated,
    )

"""What a look found, and the looks themselves: each a coroutine under a limit of time.

Owns running them at once. Does not own what any of them looks at, or how the findings are printed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum

from jackline_server.core.frozen import frozen


class Verdict(StrEnum):
    """How bad it is. Only a problem keeps a server from serving as its config says."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@frozen
class Found:
    """One line of the report: about what, how bad, what was seen, and what to do about it."""

    subject: str
    verdict: Verdict
    what: str
    advice: str = ""


def ok(subject: str, what: str) -> Found:
    """It is as it should be."""
    return Found(subject=subject, verdict=Verdict.OK, what=what)


def warning(subject: str, what: str, advice: str = "") -> Found:
    """It works, and is worth a look."""
    return Found(subject=subject, verdict=Verdict.WARNING, what=what, advice=advice)


def problem(subject: str, what: str, advice: str) -> Found:
    """It does not work."""
    return Found(subject=subject, verdict=Verdict.PROBLEM, what=what, advice=advice)


@frozen
class Check:
    """One look. `look` may wait; it raises nothing."""

    subject: str
    look: Callable[[], Awaitable[Sequence[Found]]]


@frozen
class Report:
    """All findings in the order of the checks. `ran_out`: one was given up, and its thread may still run."""

    found: tuple[Found, ...]
    ran_out: bool

    def count(self, verdict: Verdict) -> int:
        """How many findings are that bad."""
        return sum(found.verdict is verdict for found in self.found)


async def looked_at(checks: Sequence[Check], *, limit_s: float, on_done: Callable[[int], None]) -> Report:
    """Run all checks at once; `on_done` hears how many are done after each."""
    done = 0

    async def one(check: Check) -> tuple[Sequence[Found], bool]:
        nonlocal done
        try:
            async with asyncio.timeout(limit_s):
                found, late = await check.look(), False
        except TimeoutError:
            advice = "look why it takes so long, or give it more with --timeout"
            found, late = [problem(check.subject, f"not done within {limit_s:g} s", advice)], True
        done += 1
        on_done(done)
        return found, late

    results = await asyncio.gather(*(one(check) for check in checks))
    return Report(
        found=tuple(found for some, _ in results for found in some),
        ran_out=any(late for _, late in results),
    )

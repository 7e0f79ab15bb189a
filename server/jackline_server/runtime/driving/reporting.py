"""How far tool calls are, for whoever watches: the newest report of each attempt, a few a second.

Owns what is shown of a report, and how often. A report costs next to nothing until somebody is to see it: it
takes the place of the one before, however many come. Does not own how tools report, nor watchers (`feed`).
"""

import asyncio
import math
from collections.abc import Generator
from contextlib import contextmanager

from jackline_server.core.gate_plans import MaskPlan
from jackline_server.core.json_text import clean
from jackline_server.core.reading import gate_lookup
from jackline_server.core.steps import ToolAttempt
from jackline_server.runtime.driving.live_run import LiveRun
from jackline_server.runtime.ports.masks import Masks
from jackline_server.runtime.ports.tool_reports import MOST_TEXT, Report, ToolProgress, ToolReport
from jackline_server.runtime.use_cases import LiveDelta

EVERY_S = 0.25
"""So long after a report of a call that was shown the next is shown at the earliest."""

SHOWN_CHARS = 300


@contextmanager
def reporting(attempt: ToolAttempt, run: LiveRun, masks: Masks) -> Generator[Report]:
    """Show what the attempt reports for as long as the block runs; what comes later is dropped."""
    reports = _Reports(attempt, run, masks)
    try:
        yield reports.take
    finally:
        reports.close()


class _Reports:
    """Those of one attempt. Use it in one event loop."""

    __slots__ = ("_attempt", "_masks", "_newest", "_over", "_run", "_shown", "_timer")

    def __init__(self, attempt: ToolAttempt, run: LiveRun, masks: Masks) -> None:
        self._attempt = attempt
        self._run = run
        self._masks = masks
        self._newest: ToolReport | None = None
        self._shown: ToolReport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._over = False

    def take(self, report: ToolReport) -> None:
        """See `Report`."""
        if self._over:
            return
        if self._newest is None:
            self._run.channel.reports[self._attempt.started.call_id] = self.newest
        self._newest = report
        if self._timer is None:
            self._show()

    def newest(self) -> LiveDelta | None:
        """What a watcher is shown who begins now; None if nothing was reported yet."""
        report, started = self._newest, self._attempt.started
        if report is None:
            return None
        visit = self._run.state.visit
        plan = self._mask()
        progress = ToolProgress(
            call_id=started.call_id,
            tool=started.tool,
            attempt=started.attempt,
            text=_line(report.text) if plan is None else self._masked(report.text, plan),
            done=self._number(report.done, plan),
            total=self._number(report.total, plan),
        )
        if visit is None:
            return LiveDelta(0, "", 0, progress=progress)
        return LiveDelta(0, visit.step_id, visit.iteration, progress=progress)

    def close(self) -> None:
        """The attempt is over: nobody is shown anything of it any more."""
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
        if self._newest is not None:
            self._run.channel.hush(self._attempt.started.call_id)

    def _show(self) -> None:
        """Show the newest, and not the next before its time."""
        self._timer = None
        if self._newest is self._shown:
            return
        channel = self._run.channel
        if channel.shows_progress and (delta := self.newest()) is not None:
            channel.publish_progress(delta)
        self._shown = self._newest
        self._timer = asyncio.get_running_loop().call_later(EVERY_S, self._show)

    # --- what may be seen ------------------------------------------------------------------------

    def _mask(self) -> MaskPlan | None:
        gates = gate_lookup.here(self._run.state)
        return None if gates is None else gates.mask_results

    def _masked(self, text: str, plan: MaskPlan) -> str:
        """The text, masked; none of one that was cut, which may end in half of an address."""
        return "" if len(text) > MOST_TEXT else _line(self._masks.text(text, plan))

    def _number(self, number: float | None, plan: MaskPlan | None) -> float | None:
        """The number, unless it is none, or may be a number of somebody's."""
        if number is None or not math.isfinite(number):
            return None
        if plan is not None and self._masks.text(text := f"{number:.0f}", plan) != text:
            return None
        return number


def _line(text: str) -> str:
    """The text on one line, without control characters, and no longer than is shown."""
    words = " ".join(clean(text[:MOST_TEXT]).split())
    if not words.isprintable():
        words = "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in words)
    return words if len(words) <= SHOWN_CHARS else words[: SHOWN_CHARS - 1] + "…"

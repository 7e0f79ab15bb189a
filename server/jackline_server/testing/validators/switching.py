"""Validator of the kill switch: K1, while it is engaged nothing begins and whatever lived is told to end.

Judges the times of the calls that moved it, of the starts and of the logs. When it stood how between the
begin and the end of a call is not known, and judged for nobody.
"""

from collections.abc import Iterator

from jackline_server.testing.validators.acts import Switching
from jackline_server.testing.validators.history import OK, Event, History, Run, Start, Violation

ENGAGED = "KILL_SWITCH_ENGAGED"
_FOR_EVER = 1 << 62
_BEGINS = frozenset({"step_started", "model_call_started", "tool_call_started"})


def k1(history: History) -> list[Violation]:
    """Under it no run begins, all that live are told to end, begin nothing more; once released runs begin."""
    found: list[Violation] = []
    windows = list(_engaged(history.switchings))
    clients = frozenset(one.client for one in history.switchings)
    for start in history.starts:
        found.extend(_judged(start, windows, history.switchings))
    for run in history.runs:
        found.extend(_violation(run.run, sentence) for sentence in _born(run, windows, clients))
        found.extend(_violation(run.run, sentence) for sentence in _after(run, clients))
        for switching in history.switchings:
            if switching.engages and switching.ending == OK:
                found.extend(_violation(run.run, one) for one in _told(history, run, switching))
    return found


def _engaged(switchings: tuple[Switching, ...]) -> Iterator[tuple[int, int]]:
    """The times in which it certainly is engaged: from the end of a call to the begin of the next release."""
    for one in switchings:
        if one.engages and one.ending == OK:
            releases = [
                other.begin_ms for other in switchings if not other.engages and other.end_ms > one.begin_ms
            ]
            until = min(releases, default=_FOR_EVER)
            if until > one.end_ms:
                yield one.end_ms, until


def _judged(
    start: Start, windows: list[tuple[int, int]], switchings: tuple[Switching, ...]
) -> Iterator[Violation]:
    fresh = start.ending == OK and start.disposition != "deduplicated"
    if fresh and any(begin < start.begin_ms and start.end_ms < end for begin, end in windows):
        yield _violation(start.run, f"a start of {start.begin_ms} ms is taken, and the switch is engaged")
    if start.reason == ENGAGED and not _may_be_engaged(start, switchings):
        yield _violation("", f"a start of {start.begin_ms} ms is refused, and the switch is not engaged")


def _may_be_engaged(start: Start, switchings: tuple[Switching, ...]) -> bool:
    """True unless it was released, or not engaged yet, all through the start."""
    for one in switchings:
        if one.engages and one.begin_ms <= start.end_ms:
            done = [
                other.end_ms
                for other in switchings
                if not other.engages and other.ending == OK and other.begin_ms >= one.end_ms
            ]
            if min(done, default=_FOR_EVER) >= start.begin_ms:
                return True
    return False


def _born(run: Run, windows: list[tuple[int, int]], clients: frozenset[str]) -> Iterator[str]:
    """A run that came to be under it: only a child may, and it has its command from birth."""
    at = run.events[0].at_ms if run.events else None
    if at is None or not any(begin < at < end for begin, end in windows):
        return
    if not run.parent:
        yield f"it began at {at} ms, and the switch is engaged"
    elif not any(_is_halt(event, clients) for event in run.events):
        yield f"it was started at {at} ms under the switch, and is not told to end"


def _told(history: History, run: Run, switching: Switching) -> Iterator[str]:
    """A run that lived all through the call has its command: applied, or rejected as it ended."""
    born, end = run.events[0].at_ms if run.events else None, run.events[-1] if run.events else None
    if born is None or end is None or end.at_ms is None or born >= switching.begin_ms:
        return
    ended = end.kind == "run_finished"
    if ended and end.at_ms <= switching.end_ms:
        return
    if not any(_is_halt(event, frozenset((switching.client,))) for event in run.events):
        if ended:
            yield f"it lived at {switching.end_ms} ms, when the switch was engaged, and is not told to end"
        return
    limits = history.limits
    if limits.abort_within_ms is not None and ended and end.at_ms > switching.end_ms + limits.abort_within_ms:
        yield f"it ends {end.at_ms - switching.end_ms} ms after the switch was engaged"
    if limits.call_after_abort_ms is not None:
        late = [entry.at_ms for entry in history.tools if entry.run == run.run]
        late += [hit.at_ms for hit in history.hits if hit.run == run.run]
        worst = max(late, default=0) - switching.end_ms
        if worst > limits.call_after_abort_ms:
            yield f"a call starts {worst} ms after the switch was engaged"


def _after(run: Run, clients: frozenset[str]) -> Iterator[str]:
    """Once it has heard of it, a run begins nothing, and it ends by that, or by an abort before it."""
    heard, aborted = False, False
    for event in run.events:
        if heard and event.kind in _BEGINS:
            yield f"{event.kind} at {event.sequence}, after the switch"
        if heard and event.kind == "run_finished":
            end = (event.fields.get("phase"), event.fields.get("stop_reason"))
            if end[0] != "aborted" or (end[1] != "kill_switch" and not aborted):
                yield f"the switch was heard of, and it ends as {end[0]} by {end[1]}"
        if event.kind == "command_applied" and event.fields.get("kind") == "abort":
            heard = heard or _is_halt(event, clients)
            aborted = aborted or not heard


def _is_halt(event: Event, clients: frozenset[str]) -> bool:
    """True for what becomes of the abort that a switch gives: it comes from whoever engaged it."""
    return event.kind in ("command_applied", "command_rejected") and event.fields.get("principal") in clients


def _violation(run: str, sentence: str) -> Violation:
    return Violation(guarantee="K1", run=run, sentence=sentence)

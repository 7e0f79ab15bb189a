"""Validator of owners: C2, a run ends once all of its owners stay away, and not before.

Judges what clients saw of their streams against the log. An owner is there from the first thing that it is
sent until its stream ends; of one that was sent nothing it is not known whether it ever was.
"""

from collections.abc import Iterator, Sequence

from jackline_server.testing.validators.history import Event, History, Run, Stream, Violation


def c2(history: History) -> list[Violation]:
    """No run ends for want of owners in the grace of one, and one without owners is told to end in time."""
    return [
        Violation(guarantee="C2", run=run.run, sentence=sentence)
        for run in history.runs
        for sentence in _judged(run, history)
    ]


def _judged(run: Run, history: History) -> Iterator[str]:
    owners = [one for one in history.streams if one.run == run.run and one.grace_ms is not None]
    gone = next((event for event in run.events if event.fields.get("abort_cause") == "client_gone"), None)
    if gone is not None and not owners:
        yield f"it is ended at {gone.sequence} for want of owners, and never had one"
    elif gone is not None and history.limits.zero_unix_ms is not None and not _were_away(owners, gone):
        yield f"it is ended at {gone.sequence} for want of owners, and was never without for so long"
    within = history.limits.gone_within_ms
    if within is None or not any(one.deliveries for one in owners):
        return
    due = max(history.limits.healed_ms, *(one.end_ms + (one.grace_ms or 0) for one in owners)) + within
    told = next((event for event in run.events if event.kind == "run_finished" or _is_abort(event)), None)
    if told is None or (told.at_ms is not None and told.at_ms > due):
        yield f"no owner of it was there any more, and by {due} ms it is not told to end"


def _is_abort(event: Event) -> bool:
    return event.kind == "command_applied" and event.fields.get("kind") == "abort"


def _were_away(owners: Sequence[Stream], gone: Event) -> bool:
    """True if at some moment before it was told all were away, the last one for its grace."""
    moments = [one.end_ms + (one.grace_ms or 0) for one in owners]
    return any(
        not any(_covers(one, owners, moment) for one in owners if one.deliveries)
        for moment in moments
        if gone.at_ms is None or moment <= gone.at_ms
    )


def _covers(one: Stream, owners: Sequence[Stream], moment: int) -> bool:
    """True while the owner is there, and for its grace unless another one goes after it."""
    until = one.end_ms + (one.grace_ms or 0)
    later = [other.end_ms for other in owners if one.end_ms < other.end_ms <= moment]
    return one.deliveries[0].at_ms <= moment < (one.end_ms if later else until)

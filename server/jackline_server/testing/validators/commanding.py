"""Validator of commands to many runs: M1, each run that matches gets one, once, however often it is sent.

What becomes of the command of each run is for the validators of single ones: its receipt is among theirs.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from jackline_server.testing.validators.acts import BulkPage
from jackline_server.testing.validators.history import OK, History, Run, Violation

_OUTCOMES = ("command_applied", "command_rejected")


def m1(history: History) -> list[Violation]:
    """No run is commanded twice by one request, none is passed over, and no other is commanded."""
    found: list[Violation] = []
    requests: dict[str, list[BulkPage]] = {}
    for page in history.bulk:
        requests.setdefault(page.request_id, []).append(page)
    for pages in requests.values():
        for run in history.runs:
            found.extend(
                Violation(guarantee="M1", run=run.run, sentence=sentence) for sentence in _judged(run, pages)
            )
    return found


def _judged(run: Run, pages: Sequence[BulkPage]) -> Iterator[str]:
    first, answered = pages[0], [page for page in pages if page.ending == OK]
    given = [event for event in run.events if event.kind in _OUTCOMES]
    given = [event for event in given if event.fields.get("principal") == first.client]
    if run.parent and first.kind == "abort":
        given = []  # what it was given may have come to it from above
    matches = bool(run.events) and first.workflow in ("", run.events[0].fields.get("workflow"))
    named = any(run.run in page.runs for page in answered)
    if len(given) > 1:
        yield f"the command of {first.request_id} has {len(given)} outcomes"
    if (given or named) and not matches:
        yield f"it is given the command of {first.request_id}, which is for runs of {first.workflow}"
    if matches and not named and any(page.last for page in answered) and _lived(run, pages):
        yield f"it lived all the time, and {first.request_id} passes it over"
    twice = [name for page in answered for name, count in Counter(page.runs).items() if count > 1]
    if run.run in twice:
        yield f"a page of {first.request_id} has it twice"


def _lived(run: Run, pages: Sequence[BulkPage]) -> bool:
    """True if the run was there before the first call and until after the last one."""
    born, end = run.events[0].at_ms, run.events[-1]
    if born is None or end.at_ms is None or born >= pages[0].begin_ms:
        return False
    return end.kind != "run_finished" or end.at_ms > max(page.end_ms for page in pages)

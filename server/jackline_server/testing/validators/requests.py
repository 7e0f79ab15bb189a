"""Validators of requests: I1 a run starts once, I2 a command acts once and in its place."""

from collections.abc import Iterator
from itertools import pairwise

from jackline_server.testing.validators.history import (
    OK,
    REFUSED,
    Control,
    Event,
    History,
    Run,
    Start,
    Violation,
)

NAMING = ("command_applied", "command_rejected")
_LANES = {"steer": "steers", "abort": "aborts"}


# --- I1 ----------------------------------------------------------------------------------------


def i1(history: History) -> list[Violation]:
    """A request id makes at most one run; equal repeats find it, other ones are refused and do nothing."""
    found: list[Violation] = []
    by_id: dict[str, list[Start]] = {}
    for start in history.starts:
        if start.request_id:
            by_id.setdefault(start.request_id, []).append(start)
    for request_id, starts in by_id.items():
        found.extend(_one_run(history, request_id, starts))
    found.extend(_nothing_from_nothing(history))
    return found


def _one_run(history: History, request_id: str, starts: list[Start]) -> Iterator[Violation]:
    answered = [start for start in starts if start.ending == OK]
    runs = sorted({start.run for start in answered})
    marks = {start.mark for start in starts}
    made = [run.run for run in history.runs if run.mark in marks]
    fresh = [start for start in answered if start.disposition != "deduplicated"]
    if len(runs) > 1:
        yield _i1(runs[0], f"request {request_id} was answered with the runs {', '.join(runs)}")
    elif len(made) > 1:
        yield _i1(made[0], f"request {request_id} made the runs {', '.join(made)}")
    elif len(fresh) > 1:
        yield _i1(runs[0], f"request {request_id} says {len(fresh)} times that it started a run")
    elif len({start.mark for start in answered}) > 1:
        yield _i1(runs[0], f"request {request_id} was taken with different contents")
    for start in starts:
        if start.reason == "REQUEST_ID_REUSED" and len(marks) == 1:
            yield _i1("", f"request {request_id} is refused as reused, and its content was always the same")


def _nothing_from_nothing(history: History) -> Iterator[Violation]:
    """A run exists because a request for it was taken, or its answer was lost."""
    refused: dict[str, bool] = {}
    for start in history.starts:
        refused[start.mark] = refused.get(start.mark, True) and start.ending == REFUSED
    unsure = ("STORE_UNAVAILABLE", "DEADLINE_EXCEEDED")
    for start in history.starts:
        if start.reason in unsure:
            refused[start.mark] = False
    for run in history.runs:
        if refused.get(run.mark, False):
            yield _i1(run.run, f"every request for {run.mark} was refused, and there is a run of it")


# --- I2 ----------------------------------------------------------------------------------------


def i2(history: History) -> list[Violation]:
    """A command is applied or rejected at most once, in commit order; repeats get the first outcome."""
    found: list[Violation] = []
    for run in history.runs:
        controls = [control for control in history.controls if control.run == run.run]
        places = {str(event.fields["command_id"]): event for event in run.events if event.kind in NAMING}
        found.extend(_once(run))
        found.extend(_receipts(run, controls, places))
        found.extend(_in_order(history, run, controls, places))
    return found


def _once(run: Run) -> Iterator[Violation]:
    named: set[str] = set()
    for event in run.events:
        if event.kind not in NAMING:
            continue
        command_id = str(event.fields["command_id"])
        if command_id in named:
            yield _i2(run, f"command {command_id} has a second outcome at {event.sequence}")
        named.add(command_id)


def _receipts(run: Run, controls: list[Control], places: dict[str, Event]) -> Iterator[Violation]:
    ended = any(event.kind == "run_finished" for event in run.events)
    first: dict[str, tuple[bool, str, int]] = {}
    for control in controls:
        if control.ending != OK or control.already_terminal:
            continue
        event = places.get(control.command_id)
        if event is None and ended:
            yield _i2(run, f"command {control.command_id} was accepted and has no outcome")
        if not control.sequence:
            continue
        outcome = (control.applied, control.rejection, control.sequence)
        if first.setdefault(control.command_id, outcome) != outcome:
            yield _i2(run, f"a repeat of command {control.command_id} was told another outcome")
        elif event is None or event.sequence != control.sequence:
            yield _i2(run, f"command {control.command_id} has no outcome at {control.sequence}")
        elif (event.kind == NAMING[0]) != control.applied:
            yield _i2(run, f"the receipt of command {control.command_id} and its fact differ")


def _in_order(
    history: History, run: Run, controls: list[Control], places: dict[str, Event]
) -> Iterator[Violation]:
    """Steers wait for their place in the conversation and an abort is heard at once: each is its own lane."""
    ordinals = {entry.command_id: entry.ordinal for entry in history.commands if entry.run == run.run}
    lanes: dict[str, list[tuple[int, str]]] = {}
    for event in run.events:
        command_id = str(event.fields.get("command_id", ""))
        if event.kind in NAMING and command_id in ordinals:
            lane = _LANES.get(str(event.fields["kind"]), "others")
            lanes.setdefault(lane, []).append((ordinals[command_id], command_id))
    for lane in lanes.values():
        for (earlier, one), (later, other) in pairwise(lane):
            if later < earlier:
                yield _i2(run, f"command {one} has its outcome before {other}, which was accepted first")
    if not ordinals:
        yield from _in_real_time(run, controls, places)


def _in_real_time(run: Run, controls: list[Control], places: dict[str, Event]) -> Iterator[Violation]:
    """Without the command table: what was acknowledged before another was sent has its outcome first."""
    taken = [control for control in controls if control.ending == OK and control.command_id in places]
    for one in taken:
        for other in taken:
            if _LANES.get(one.kind) != _LANES.get(other.kind) or one.end_ms >= other.begin_ms:
                continue
            if one.command_id == other.command_id:
                continue
            if places[one.command_id].sequence > places[other.command_id].sequence:
                yield _i2(run, f"command {other.command_id} has its outcome before {one.command_id}")


def _i1(run: str, sentence: str) -> Violation:
    return Violation(guarantee="I1", run=run, sentence=sentence)


def _i2(run: Run, sentence: str) -> Violation:
    return Violation(guarantee="I2", run=run.run, sentence=sentence)

"""Validators of child runs: F1 one run a call, F2 shares kept and paid for once, F3 ends in order.

Judges each run by its own log, and those of a family by what they say of each other.
"""

from collections import Counter
from collections.abc import Iterator

from jackline_server.testing.validators.history import Event, History, Run, Violation
from jackline_server.testing.validators.spending import shares, spent

_GOES_ON = frozenset({"step_started", "step_finished", "model_call_started", "run_finished"})
"""What no run does while a child of it lives."""


# --- F1 ----------------------------------------------------------------------------------------


def f1(history: History) -> list[Violation]:
    """A call starts one run at most, which is there and says whose it is; a run says true whose it is."""
    found: list[Violation] = []
    runs = {run.run: run for run in history.runs}
    starts = Counter(str(event.fields["child_run_id"]) for run in history.runs for event in _starts(run))
    for run in history.runs:
        found.extend(_violation("F1", run, sentence) for sentence in _one_a_call(run))
        if run.parent:
            found.extend(_violation("F1", run, sentence) for sentence in _is_started(run, runs, starts))
        for event in _starts(run):
            child = runs.get(str(event.fields["child_run_id"]))
            if child is None and history.commits:
                found.append(_violation("F1", run, f"the child started at {event.sequence} is not there"))
            elif child is not None and child.parent != run.run:
                sentence = f"the run {child.run} started at {event.sequence} is {child.parent or 'nobody'}'s"
                found.append(_violation("F1", run, sentence))
    return found


def _one_a_call(run: Run) -> Iterator[str]:
    calls: set[str] = set()
    called: set[str] = set()
    for event in run.events:
        call = str(event.fields.get("call_id", ""))
        if event.kind == "tool_call_started":
            called.add(call)
        if event.kind != "child_started":
            continue
        if call in calls:
            yield f"the call {call} starts another run at {event.sequence}"
        if call not in called:
            yield f"a run is started at {event.sequence}, and its call is not"
        calls.add(call)


def _is_started(run: Run, runs: dict[str, Run], starts: Counter[str]) -> Iterator[str]:
    if starts[run.run] > 1:
        yield f"it is started {starts[run.run]} times"
    parent = runs.get(run.parent)
    if parent is not None and not any(event.fields["child_run_id"] == run.run for event in _starts(parent)):
        yield f"it is there, and {run.parent} never started it"


# --- F2 ----------------------------------------------------------------------------------------


def f2(history: History) -> list[Violation]:
    """A share is no more than was left, a child keeps to it, and its parent pays what it used, once."""
    found: list[Violation] = []
    runs = {run.run: run for run in history.runs}
    for run in history.runs:
        found.extend(_violation("F2", run, sentence) for sentence in shares(run))
        found.extend(_violation("F2", run, sentence) for sentence in _paid(run, runs))
        found.extend(_violation("F2", run, sentence) for sentence in _told(run))
    return found


def _paid(run: Run, runs: dict[str, Run]) -> Iterator[str]:
    """What each child came to, by its own log."""
    given = {str(event.fields["child_run_id"]): event for event in _starts(run)}
    for event in run.events:
        child_id = str(event.fields.get("child_run_id", ""))
        child, share = runs.get(child_id), given.get(child_id)
        if event.kind != "child_finished" or child is None or share is None:
            continue
        came_to = spent(child)
        for name, used, said in (
            ("tokens", came_to.tokens, event.fields["tokens"]),
            ("micros", came_to.cost, event.fields["cost_micros"]),
        ):
            if used != said:
                yield f"{child_id} used {used} {name}, and event {event.sequence} counts {said}"
        for name, used, most in (
            ("tokens", came_to.tokens, share.fields["tokens"]),
            ("micros", came_to.cost, share.fields["cost_micros"]),
        ):
            if isinstance(most, int) and used > most:
                yield f"{child_id} was given {most} {name}, and used {used}"


def _told(run: Run) -> Iterator[str]:
    """The ledger that the server shows."""
    came_to = spent(run)
    if run.tokens is not None and run.tokens != came_to.tokens:
        yield f"it used {came_to.tokens} tokens by its log, and {run.tokens} as it is told"
    if run.cost_micros is not None and run.cost_micros != came_to.cost:
        yield f"it used {came_to.cost} micros by its log, and {run.cost_micros} as it is told"


# --- F3 ----------------------------------------------------------------------------------------


def f3(history: History) -> list[Violation]:
    """A parent waits for its children and ends after them, told of each end once and as it was."""
    found: list[Violation] = []
    runs = {run.run: run for run in history.runs}
    for run in history.runs:
        found.extend(_violation("F3", run, sentence) for sentence in _waits(run))
        found.extend(_violation("F3", run, sentence) for sentence in _as_it_was(run, runs))
    found.extend(_in_order(history, runs))
    return found


def _waits(run: Run) -> Iterator[str]:
    living: dict[str, Event] = {}
    for event in run.events:
        child = str(event.fields.get("child_run_id", ""))
        if event.kind == "child_started":
            living[child] = event
        elif event.kind == "child_finished":
            if living.pop(child, None) is None:
                yield f"{child} ends at {event.sequence}, and does not live"
        elif event.kind in _GOES_ON and living:
            yield f"{event.kind} at {event.sequence}, while {', '.join(living)} lives"


def _as_it_was(run: Run, runs: dict[str, Run]) -> Iterator[str]:
    for event in run.events:
        if event.kind != "child_finished":
            continue
        child = runs.get(str(event.fields["child_run_id"]))
        end = None if child is None else _end(child)
        if child is not None and end is None:
            yield f"{child.run} has ended by event {event.sequence}, and its log does not end"
        elif child is not None and end is not None and end.fields["phase"] != event.fields["phase"]:
            yield f"{child.run} ended as {end.fields['phase']}, and {event.fields['phase']} was told"


def _in_order(history: History, runs: dict[str, Run]) -> Iterator[Violation]:
    """In the order in which the store took what they say."""
    ended: set[str] = set()
    for commit in history.commits:
        run = runs.get(commit.run)
        if run is None:
            continue
        for event in run.events[commit.after : commit.after + commit.count]:
            child = str(event.fields.get("child_run_id", ""))
            if event.kind == "child_finished" and child in runs and child not in ended:
                yield _violation("F3", run, f"{child} is told to have ended at {event.sequence}, and lives")
            if event.kind == "run_finished":
                ended.add(run.run)
                if run.parent in ended:
                    yield _violation("F3", runs[run.parent], f"ended before {run.run}, which it had started")


def _end(run: Run) -> Event | None:
    return next((event for event in run.events if event.kind == "run_finished"), None)


def _starts(run: Run) -> Iterator[Event]:
    return (event for event in run.events if event.kind == "child_started")


def _violation(guarantee: str, run: Run, sentence: str) -> Violation:
    return Violation(guarantee=guarantee, run=run.run, sentence=sentence)

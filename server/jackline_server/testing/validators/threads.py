"""Validators of conversations: T1 one run of a thread at a time, T2 a thread is whole and in order.

Judges what runs and callers add by the thread as it stands at the end; when a run had its turn, by its log.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from jackline_server.testing.validators.history import (
    OK,
    REFUSED,
    Append,
    Event,
    History,
    Run,
    Start,
    Thread,
    Violation,
)

_ANSWERS: Mapping[str, frozenset[str]] = {
    "reject": frozenset({"started", "queued"}),
    "enqueue": frozenset({"started", "queued"}),
    "steer": frozenset({"started", "queued", "steered"}),
    "replace": frozenset({"started", "queued", "replaced"}),
}
"""What may become of a start, by what it said to do in a busy thread. A worker without room queues too."""

_UNSURE = frozenset({"STORE_UNAVAILABLE", "DEADLINE_EXCEEDED"})
"""Refusals that may have had their effect."""


# --- T1 ----------------------------------------------------------------------------------------


def t1(history: History) -> list[Violation]:
    """A thread has one active run at most, others wait for their turn, and the answers say which."""
    found: list[Violation] = []
    for run in history.runs:
        if run.thread:
            found.extend(_t1(run.run, sentence) for sentence in _before_its_turn(run))
    found.extend(_together(history))
    for start in history.starts:
        if start.thread:
            found.extend(_t1(start.run, sentence) for sentence in _answered(history, start))
    if history.limits.quiescent:
        for thread in history.threads:
            found.extend(_at_rest(thread))
    return found


def _waits(run: Run) -> bool:
    """True for a run that began behind another one."""
    begun = run.events[0].fields.get("thread") if run.events else None
    return isinstance(begun, dict) and bool(begun.get("waits"))


def _turn(run: Run) -> Event | None:
    """The event by which the run's turn has come; None if it never did."""
    if not run.events:
        return None
    if not _waits(run):
        return run.events[0]
    return next((event for event in run.events if event.kind == "messages_appended"), None)


def _before_its_turn(run: Run) -> Iterator[str]:
    turn = _turn(run)
    for event in run.events:
        if turn is not None and event.sequence >= turn.sequence:
            return
        if event.kind in ("step_started", "model_call_started", "tool_call_started"):
            yield f"{event.kind} at {event.sequence}, before its turn in {run.thread}"


def _together(history: History) -> Iterator[Violation]:
    """Two runs that have their turn at once, in the order in which the store took their events."""
    runs = {run.run: run for run in history.runs if run.thread}
    active: dict[str, str] = {}
    for commit in history.commits:
        run = runs.get(commit.run)
        if run is None:
            continue
        turn, end = _turn(run), run.events[-1]
        covered = range(commit.after + 1, commit.after + commit.count + 1)
        if turn is not None and turn.sequence in covered:
            other = active.setdefault(run.thread, run.run)
            if other != run.run:
                yield _t1(run.run, f"has its turn in {run.thread}, and {other} has it too")
        if end.kind == "run_finished" and end.sequence in covered and active.get(run.thread) == run.run:
            del active[run.thread]


def _answered(history: History, start: Start) -> Iterator[str]:
    if start.reason == "THREAD_BUSY" and start.on_busy != "reject":
        yield f"{start.on_busy} in {start.thread} was refused since the thread was busy"
    if start.ending != OK or start.disposition == "deduplicated":
        return
    if start.disposition not in _ANSWERS[start.on_busy]:
        yield f"{start.on_busy} in {start.thread} was answered with {start.disposition}"
    run = next((one for one in history.runs if one.run == start.run), None)
    if run is not None:
        yield from _began_as_told(start, run)


def _began_as_told(start: Start, run: Run) -> Iterator[str]:
    if run.thread != start.thread:
        yield f"it was started in {start.thread}, and is in {run.thread or 'none'}"
    elif start.disposition == "started" and _waits(run):
        yield "it was said to have started, and waits for its turn"
    elif start.disposition == "replaced" and not _waits(run):
        yield "it was said to replace another, and began at once"
    elif start.disposition == "queued" and start.on_busy in ("reject", "steer") and _waits(run):
        yield f"{start.on_busy} in {start.thread} was not asked to wait, and waits"


def _at_rest(thread: Thread) -> Iterator[Violation]:
    if thread.active or thread.waiting:
        sentence = f"{thread.thread} is busy at the end, and {thread.waiting} wait for their turn"
        yield _t1(thread.active, sentence)
    if thread.pending:
        yield _t1("", f"{thread.pending} messages wait in {thread.thread} for nobody")


# --- T2 ----------------------------------------------------------------------------------------


def t2(history: History) -> list[Violation]:
    """What a run adds is in one piece, behind all that it was shown; what is appended is there once."""
    found: list[Violation] = []
    runs = {run.run: run for run in history.runs}
    for thread in history.threads:
        sent = [append for append in history.appends if append.thread == thread.thread]
        found.extend(_t2(run, sentence) for run, sentence in _pieces(thread, runs))
        found.extend(_t2("", sentence) for sentence in _from_outside(thread, sent))
    return found


def _pieces(thread: Thread, runs: Mapping[str, Run]) -> Iterator[tuple[str, str]]:
    positions = [message.position for message in thread.messages]
    if positions != list(range(1, len(positions) + 1)):
        yield "", f"the messages of {thread.thread} are not numbered in order"
    begins: dict[str, int] = {}
    last = ""
    for message in thread.messages:
        if message.run and message.run != last and message.run in begins:
            yield message.run, f"what it adds to {thread.thread} is in two pieces"
        if message.run:
            begins.setdefault(message.run, message.position)
        last = message.run
    for name, position in begins.items():
        run = runs.get(name)
        turn = None if run is None else _turn(run)
        if run is None or turn is None:
            yield name, f"adds to {thread.thread}, and never had its turn"
            continue
        shown = _position(turn)
        if shown is not None and shown + 1 != position:
            yield name, f"saw {shown} messages of {thread.thread}, and adds message {position}"


def _position(turn: Event) -> int | None:
    """How many messages the thread had when a run's turn came."""
    begun = turn.fields.get("thread")
    shown = begun.get("position") if isinstance(begun, dict) else turn.fields.get("position")
    return shown if isinstance(shown, int) else None


def _from_outside(thread: Thread, sent: list[Append]) -> Iterator[str]:
    there = Counter(message.text for message in thread.messages if not message.run)
    taken = {append.text for append in sent if append.ending == OK}
    possible = {append.text for append in sent if append.ending != REFUSED or append.reason in _UNSURE}
    for text in sorted(taken):
        if not there[text] and not thread.pending:
            yield f"the message {text} was taken and is not in {thread.thread}"
    for text, count in there.items():
        if count > 1:
            yield f"the message {text} is in {thread.thread} {count} times"
        if text not in possible:
            yield f"the message {text} is in {thread.thread}, and nobody sent it or it was refused"
    yield from _out_of_order(thread, sent)


def _out_of_order(thread: Thread, sent: list[Append]) -> Iterator[str]:
    """What was acknowledged before another was first sent stands before it."""
    places = {message.text: message.position for message in thread.messages if not message.run}
    first = {append.text: append for append in reversed(sent)}
    known = [append for append in sent if append.ending == OK and append.text in places]
    for one in known:
        for other in known:
            if one.end_ms < first[other.text].begin_ms and places[one.text] > places[other.text]:
                yield f"{other.text} stands before {one.text} in {thread.thread}, and was sent after it"


def _t1(run: str, sentence: str) -> Violation:
    return Violation(guarantee="T1", run=run, sentence=sentence)


def _t2(run: str, sentence: str) -> Violation:
    return Violation(guarantee="T2", run=run, sentence=sentence)

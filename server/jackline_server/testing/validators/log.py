"""Validators of the log itself: O1 per-run order, O3 its end, E1 one writer."""

from collections.abc import Iterator

from jackline_server.testing.validators.history import OK, REFUSED, History, Run, Violation

TERMINAL = "run_finished"


def o1(history: History) -> list[Violation]:
    """Events of a run have the sequence 1, 2, 3, … without gaps."""
    found: list[Violation] = []
    for run in history.runs:
        numbers = [event.sequence for event in run.events]
        if numbers != list(range(1, len(numbers) + 1)):
            found.append(_violation("O1", run.run, f"the log is numbered {_odd(numbers)}"))
        elif numbers and run.events[0].kind != "run_started":
            found.append(_violation("O1", run.run, f"the log begins with {run.events[0].kind}"))
    return found


def o3(history: History) -> list[Violation]:
    """Exactly one terminal event per run, the last; then, and only then, the server ends the stream OK."""
    found: list[Violation] = []
    for run in history.runs:
        ends = [event.sequence for event in run.events if event.kind == TERMINAL]
        if len(ends) > 1:
            found.append(_violation("O3", run.run, f"the run ends {len(ends)} times, at {ends}"))
        elif ends and run.events[-1].kind != TERMINAL:
            found.append(_violation("O3", run.run, f"events follow the end at {ends[0]}"))
        elif not ends and history.limits.quiescent:
            found.append(_violation("O3", run.run, "the run never ends"))
        if len(ends) == 1:
            found.extend(_stream_ends(history, run, ends[0]))
    return found


def _stream_ends(history: History, run: Run, end: int) -> Iterator[Violation]:
    for stream in history.streams:
        if stream.run != run.run or stream.after > run.events[-1].sequence:
            continue
        reached = max((sequence for one in stream.deliveries for sequence, _ in one.events), default=0)
        if stream.ending == OK and max(reached, stream.after) < end:
            yield _violation("O3", run.run, f"a stream of {stream.client} ended OK at {reached} before {end}")
        if stream.ending == REFUSED and reached >= end:
            yield _violation(
                "O3", run.run, f"a stream of {stream.client} reached the end, then {stream.reason}"
            )


def e1(history: History) -> list[Violation]:
    """Epochs never decrease along a log, and one worker alone writes under each."""
    found: list[Violation] = []
    for run in history.runs:
        found.extend(_epochs_of_log(run))
    epochs: dict[str, int] = {}
    heads: dict[str, int] = {}
    writers: dict[tuple[str, int], str] = {}
    for commit in history.commits:
        latest = epochs.get(commit.run, 0)
        where = f"the commit of {commit.worker} after {commit.after}"
        if commit.epoch < latest:
            found.append(
                _violation("E1", commit.run, f"{where} has epoch {commit.epoch}, when {latest} had written")
            )
        elif heads.get(commit.run, 0) != commit.after:
            found.append(
                _violation("E1", commit.run, f"{where} overwrites a log of {heads.get(commit.run, 0)}")
            )
        writer = writers.setdefault((commit.run, commit.epoch), commit.worker)
        if writer != commit.worker:
            found.append(_violation("E1", commit.run, f"{where} is in epoch {commit.epoch} of {writer}"))
        epochs[commit.run] = max(latest, commit.epoch)
        heads[commit.run] = commit.after + commit.count
    return found


def _epochs_of_log(run: Run) -> Iterator[Violation]:
    epoch, copied = -1, _taken_over(run)
    for event in run.events:
        given = event.fields.get("epoch")
        if not isinstance(given, int):
            continue
        anew = event.kind == "run_recovered" and event.sequence > copied
        if given < epoch or (anew and given == epoch):
            yield _violation("E1", run.run, f"event {event.sequence} has epoch {given} after {epoch}")
        epoch = given


def _taken_over(run: Run) -> int:
    """The last event of a fork that another run recorded first: those are all of the epoch it began under."""
    origin = run.events[0].fields.get("forked_from") if run.events else None
    sequence = origin.get("sequence") if isinstance(origin, dict) else None
    return sequence if isinstance(sequence, int) else 0


def _odd(numbers: list[int]) -> str:
    for index, number in enumerate(numbers, start=1):
        if number != index:
            return f"{number} where {index} belongs"
    return "oddly"


def _violation(guarantee: str, run: str, sentence: str) -> Violation:
    return Violation(guarantee=guarantee, run=run, sentence=sentence)

"""Validator of C1: after an abort nothing new starts, and the run ends as aborted."""

from collections.abc import Iterator

from jackline_server.testing.validators.history import OK, Control, Event, History, Run, Violation


def c1(history: History) -> list[Violation]:
    """After Control(abort) no new model or tool call starts, except on a routed cleanup path."""
    found: list[Violation] = []
    for run in history.runs:
        found.extend(_after_applied(run))
        for control in history.controls:
            accepted = control.run == run.run and control.kind == "abort" and control.ending == OK
            if accepted and control.already_terminal:
                found.extend(_was_terminal(run, control))
            elif accepted:
                found.extend(_in_time(history, run, control))
    return found


def _after_applied(run: Run) -> Iterator[Violation]:
    applied = next((event for event in run.events if _is_abort(event)), None)
    if applied is None:
        return
    cleanup = _cleanup_from(run, applied)
    for event in run.events:
        if event.sequence <= applied.sequence:
            continue
        if event.kind == "model_call_started":
            yield _violation(run, f"a model call starts at {event.sequence}, after the abort")
        if event.kind == "tool_call_started" and (cleanup is None or event.sequence < cleanup):
            yield _violation(run, f"a tool call starts at {event.sequence}, after the abort")
        if event.kind == "run_finished" and event.fields.get("phase") != "aborted":
            yield _violation(run, f"an aborted run ends as {event.fields.get('phase')}")


def _is_abort(event: Event) -> bool:
    return event.kind == "command_applied" and event.fields.get("kind") == "abort"


def _cleanup_from(run: Run, applied: Event) -> int | None:
    """Where the routed cleanup path begins, if the run takes one."""
    for event in run.events:
        left = event.kind == "step_finished" and event.fields.get("signal") == "aborted"
        if left and event.sequence > applied.sequence and event.fields.get("next_step"):
            return event.sequence
    return None


def _cleans_up(run: Run) -> bool:
    applied = next((event for event in run.events if _is_abort(event)), None)
    return applied is not None and _cleanup_from(run, applied) is not None


def _family(history: History, run: Run) -> list[Run]:
    """The run and all below it."""
    found, ahead = [run], [run]
    while ahead:
        above = ahead.pop().run
        below = [one for one in history.runs if one.parent == above]
        found += below
        ahead += below
    return found


def _was_terminal(run: Run, control: Control) -> Iterator[Violation]:
    end = next((event for event in run.events if event.kind == "run_finished"), None)
    if end is None or (end.at_ms is not None and end.at_ms > control.end_ms):
        yield _violation(run, f"{control.client} was told that the run had ended, and it had not")


def _in_time(history: History, run: Run, control: Control) -> Iterator[Violation]:
    end = next((event for event in run.events if event.kind == "run_finished"), None)
    applied = next((event for event in run.events if _is_abort(event)), None)
    if applied is not None and _cleanup_from(run, applied) is not None:
        return
    within = history.limits.abort_within_ms
    now = control.abort_mode != "graceful"
    if within is not None and now and end is not None and end.at_ms is not None:
        took = end.at_ms - control.end_ms
        if took > within:
            yield _violation(run, f"the run ends {took} ms after its abort was accepted")
    slack = history.limits.call_after_abort_ms
    if slack is None or not now:
        return
    stopped = {one.run for one in _family(history, run) if not _cleans_up(one)}
    late = [entry.at_ms for entry in history.tools if entry.run in stopped]
    late += [hit.at_ms for hit in history.hits if hit.run in stopped]
    worst = max(late, default=0) - control.end_ms
    if worst > slack:
        yield _violation(run, f"a call starts {worst} ms after the abort was accepted")


def _violation(run: Run, sentence: str) -> Violation:
    return Violation(guarantee="C1", run=run.run, sentence=sentence)

"""Validator of P1: a run that is held, or whose time has not come, begins nothing."""

from collections.abc import Iterator

from jackline_server.testing.validators.history import Event, History, Run, Violation

_BEGINS = frozenset({"step_started", "model_call_started", "tool_call_started"})


def p1(history: History) -> list[Violation]:
    """From its pause until it goes on, and before the end of its delay, a run begins no step and no call.

    An abort or a deadline ends both: what follows is a cleanup path or the end.
    """
    return [violation for run in history.runs for violation in _begun(run)]


def _begun(run: Run) -> Iterator[Violation]:
    held = set[str]()
    for event in run.events:
        if event.kind == "run_started" and event.fields.get("start_unix_ms") is not None:
            held.add("before its time")
        elif event.kind == "paused":
            held.add("while it is paused")
        elif event.kind == "resumed":
            held.discard("while it is paused")
        elif event.kind == "timer_fired" and event.fields.get("kind") == "start":
            held.discard("before its time")
        elif _ends(event):
            return
        elif held and event.kind in _BEGINS:
            sentence = f"{event.kind} at {event.sequence} {' and '.join(sorted(held))}"
            yield Violation(guarantee="P1", run=run.run, sentence=sentence)


def _ends(event: Event) -> bool:
    """True for what leads to the run's end, and lets it begin a cleanup path."""
    kind = event.fields.get("kind")
    if event.kind == "command_applied":
        return kind == "abort"
    return event.kind == "timer_fired" and kind in ("deadline", "pause")

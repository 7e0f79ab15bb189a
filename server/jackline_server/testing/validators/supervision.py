"""Validator of supervisors: W1, what a rule or a judge does is carried out, and nothing else.

Owns what has to follow `rule_fired` and `judge_returned` in a log. Whether a rule ought to have fired is the
core's to say: a log that is decided again says it.
"""

from collections.abc import Iterator

from jackline_server.testing.validators.history import Event, History, Run, Violation

_ACTING = ("rule_fired", "judge_returned")
_CALLS = ("model_call_started", "tool_call_started")


def w1(history: History) -> list[Violation]:
    """A pause pauses, a denied call never starts, a question is asked or the step ends, an abort ends it."""
    return [
        Violation(guarantee="W1", run=run.run, sentence=sentence)
        for run in history.runs
        for index, event in enumerate(run.events)
        if event.kind in _ACTING
        for sentence in _carried_out(run, index)
    ]


def _carried_out(run: Run, index: int) -> Iterator[str]:
    event = run.events[index]
    following = run.events[index + 1] if index + 1 < len(run.events) else None
    kind = "" if following is None else following.kind
    match event.fields.get("action"):
        case "pause" if kind != "paused":
            yield f"the pause at {event.sequence} is followed by {kind or 'nothing'}"
        case "deny_call":
            yield from _denied(run, event, following)
        case "ask" if kind not in ("interrupt_raised", "tool_call_finished", "step_finished"):
            yield f"the question at {event.sequence} is followed by {kind or 'nothing'}"
        case "abort":
            yield from _ended(run, index)
        case _:
            return


def _denied(run: Run, event: Event, following: Event | None) -> Iterator[str]:
    call = event.fields.get("call_id")
    ended = following is not None and following.fields.get("call_id") == call
    if following is None or not ended or following.fields.get("status") != "denied":
        yield f"the call {call} was denied at {event.sequence}, and that is not how it ends"
    if any(one.kind == "tool_call_started" and one.fields.get("call_id") == call for one in run.events):
        yield f"the call {call} was denied at {event.sequence}, and was started"


def _ended(run: Run, index: int) -> Iterator[str]:
    """Behind an abort the step ends as aborted, and no call starts before."""
    at = run.events[index].sequence
    for event in run.events[index + 1 :]:
        if event.kind in _CALLS:
            yield f"the run was aborted at {at}, and {event.kind} follows at {event.sequence}"
            return
        if event.kind == "step_finished":
            if event.fields.get("signal") != "aborted" and event.fields.get("stop_reason") != "internal":
                yield f"the run was aborted at {at}, and its step ends with {event.fields.get('signal')}"
            return

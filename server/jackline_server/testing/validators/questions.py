"""Validators of questions to people: Q1 each is decided once, in time; Q2 that is what comes of it.

Judge the log alone: which command decided what, and where the run went from there. A run that is aborted or
out of bounds goes elsewhere, which is not judged here.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from jackline_server.testing.validators.history import Asks, Event, History, Run, Violation

_ANSWERS = frozenset({"answer", "submit_tool_result", "approve", "edit_and_approve", "reject"})
"""The commands that do nothing but decide a question."""

_DECIDING = _ANSWERS | {"adjust_bounds"}
_ORDINARY = frozenset({"default", "outcome"})
"""Why a step of the flow ends that did what it is there for."""

_OF_A_STEP = "question"
"""The kind of question that a step asks; others about its call are an approval's or a supervisor's."""

_NO_ASKS = Asks()


# --- Q1 ----------------------------------------------------------------------------------------


def q1(history: History) -> list[Violation]:
    """A question is opened once and decided once: by one answer that it offers, or by its time being over."""
    return [_violation("Q1", run, sentence) for run in history.runs for sentence in _decided_once(run)]


@dataclass(slots=True)
class _Questions:
    """The questions of a run: what each offers, which are open, and how those were decided that are not."""

    offered: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    open: set[str] = field(default_factory=set[str])
    over: set[str] = field(default_factory=set[str])
    answering: str = ""
    """The kind of the command that is taking effect, if it can decide a question."""


def _decided_once(run: Run) -> Iterator[str]:
    known = _Questions()
    for event in run.events:
        if known.answering in _ANSWERS and event.kind != "interrupt_resolved":
            yield f"the answer applied before {event.sequence} decides nothing"
        match event.kind:
            case "command_applied" if event.fields["kind"] in _DECIDING:
                known.answering = str(event.fields["kind"])
                continue
            case "interrupt_raised":
                yield from _opened(known, event)
            case "timer_fired" if event.fields["kind"] == "interrupt":
                known.over.add(str(event.fields["subject"]))
            case "interrupt_resolved":
                yield from _resolved(known, event)
            case "bounds_adjusted":
                continue  # what raises a bound answers the questions about it
            case _:
                pass
        known.answering = ""


def _opened(known: _Questions, event: Event) -> Iterator[str]:
    name, options = str(event.fields["interrupt_id"]), event.fields.get("options")
    if name in known.offered:
        yield f"the question {name} is opened again at {event.sequence}"
    known.offered[name] = options if isinstance(options, list) else []
    known.open.add(name)


def _resolved(known: _Questions, event: Event) -> Iterator[str]:
    name, option = str(event.fields["interrupt_id"]), str(event.fields["option"])
    if name not in known.open:
        yield f"{name} is decided at {event.sequence}, and is not open"
    elif option and name in known.over:
        yield f"{name} is answered at {event.sequence}, and its time was over"
    elif not option and name not in known.over:
        yield f"{name} is put away at {event.sequence}, and its time was not over"
    elif option and not known.answering:
        yield f"{name} is answered at {event.sequence} by no command"
    elif option and known.offered[name] and option not in known.offered[name]:
        yield f"{name} is answered at {event.sequence} by {option}, which it does not offer"
    known.open.discard(name)


# --- Q2 ----------------------------------------------------------------------------------------


def q2(history: History) -> list[Violation]:
    """A person is asked until there is an answer: that ends the call, and its option is the step's signal."""
    return [_violation("Q2", run, sentence) for run in history.runs for sentence in _Asking(run).judged()]


class _Asking:
    """The calls of a run whose step only asks, as far as its log has been read."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._calls: dict[str, str] = {}
        self._asked: dict[str, str] = {}
        self._decided: dict[str, str] = {}
        self._chosen: str | None = None
        self._unanswered = ""

    def judged(self) -> Iterator[str]:
        """What happened otherwise than people decided."""
        for event in self._run.events:
            match event.kind:
                case "tool_call_started" | "interrupt_raised":
                    yield from self._goes_on(event)
                case "tool_call_finished" if event.fields["call_id"] in self._calls:
                    yield from self._ends(event)
                case "step_finished":
                    yield from self._leaves(event)
                case _:
                    self._note(event)

    def _note(self, event: Event) -> None:
        """What nothing is wrong with."""
        match event.kind:
            case "step_started":
                self._chosen, self._unanswered = None, ""
            case "tool_call_requested" if event.fields["tool"] in self._run.caps.asks:
                self._calls[str(event.fields["call_id"])] = str(event.fields["tool"])
            case "interrupt_resolved":
                self._take(event)
            case "consulted" if event.fields.get("answer") == "retry":
                self._decided.pop(str(event.fields.get("subject")), None)
            case _:
                pass

    def _take(self, event: Event) -> None:
        """The answer to what a call asks; nothing if its time is over."""
        call, option = self._asked.get(str(event.fields["interrupt_id"]), ""), str(event.fields["option"])
        if not call:
            return
        self._decided[call] = option
        asks = self._of(call)
        self._chosen = option or asks.default
        if not option and not asks.default_output:
            self._unanswered = call

    def _goes_on(self, event: Event) -> Iterator[str]:
        """A call that is asked about, or attempted, once more: only after an answer that did not fit."""
        call = str(event.fields["call_id"])
        if call not in self._calls:
            return
        if event.kind == "interrupt_raised":
            if event.fields["kind"] != _OF_A_STEP:
                return  # whether the call may go on is not what it asks
            self._asked[str(event.fields["interrupt_id"])] = call
        decided = self._decided.get(call)
        if decided is None:
            return
        if event.kind == "tool_call_started" or decided != "accept" or self._of(call).options:
            yield f"{call} was decided ({decided or 'by nobody'}), and is asked again at {event.sequence}"
        del self._decided[call]

    def _ends(self, event: Event) -> Iterator[str]:
        call, status = str(event.fields["call_id"]), event.fields["status"]
        asks, decided = self._of(call), self._decided.get(call)
        if status == "completed" and decided is None:
            yield f"{call} has an answer at {event.sequence}, and nobody gave one"
        elif status == "completed" and decided == "":
            if event.fields.get("output") != asks.default_output:
                yield f"nobody answered {call} in time, and event {event.sequence} is not its default"
        elif status == "completed" and decided == "decline" and not asks.options:
            yield f"{call} was declined, and has an answer at {event.sequence}"
        elif status == "failed" and decided in ("accept", *asks.options):
            yield f"{call} was answered by {decided}, and fails at {event.sequence}"

    def _leaves(self, event: Event) -> Iterator[str]:
        """The end of a visit. A step of the flow that asks reports what was chosen."""
        ordinary = event.fields.get("stop_reason") in _ORDINARY
        if ordinary and self._unanswered:
            yield f"nobody answered {self._unanswered} in time, and the step goes on at {event.sequence}"
        asks = self._run.caps.asks.get(event.step, _NO_ASKS)
        signal = event.fields["signal"]
        if ordinary and asks.options and signal != self._chosen:
            yield f"{self._chosen} was chosen, and {event.step} reports {signal} at {event.sequence}"

    def _of(self, call: str) -> Asks:
        return self._run.caps.asks[self._calls[call]]


def _violation(guarantee: str, run: Run, sentence: str) -> Violation:
    return Violation(guarantee=guarantee, run=run.run, sentence=sentence)

"""Validator of approvals: A1, a call that somebody has to let start starts with their word and no other way.

Judges the log, what the tools say that they were given, and when decisions were sent. A word is of the bytes
that were shown or put in their place, and of one call. What a question offers is for Q1.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from jackline_server.testing.validators.history import Event, History, Run, Violation

_DECISIONS = frozenset({"approve", "edit_and_approve", "reject"})


def a1(history: History) -> list[Violation]:
    """No such call starts without a word for it, with other bytes, or by what was decided too late."""
    return [
        Violation(guarantee="A1", run=run.run, sentence=sentence)
        for run in history.runs
        for sentence in (*_Calls(run).judged(history), *_late(history, run))
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """What is asked about a call: the digest of what is shown, and what follows if nobody decides."""

    call: str
    digest: str
    on_expiry: str


@dataclass(slots=True, kw_only=True)
class _Words:
    """The last word about each call: the digest of what it may start with, empty for none."""

    open: dict[str, _Question] = field(default_factory=dict[str, _Question])
    of: dict[str, str] = field(default_factory=dict[str, str])


class _Calls:
    """The calls of a run, as far as its log has been read."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._words = _Words()
        self._given: dict[tuple[str, int], str] = {}

    def judged(self, history: History) -> Iterator[str]:
        """The calls that started otherwise than somebody let them."""
        for event in self._run.events:
            match event.kind:
                case "interrupt_raised" if event.fields["kind"] == "approval":
                    self._ask(event)
                case "interrupt_resolved":
                    self._decide(event)
                case "tool_call_started":
                    yield from self._start(event)
                case _:
                    pass
        for entry in history.tools:
            word = self._given.get((entry.call_key, entry.attempt)) if entry.run == self._run.run else None
            if word and entry.given and entry.given != word:
                yield f"{entry.tool} is given other bytes in {entry.call_key} than it was let start with"

    def _ask(self, event: Event) -> None:
        """A question withdraws whatever was said before: the bytes are others now."""
        call = str(event.fields["call_id"])
        self._words.of[call] = ""
        self._words.open[str(event.fields["interrupt_id"])] = _Question(
            call=call, digest=str(event.fields["digest"]), on_expiry=str(event.fields["on_expiry"])
        )

    def _decide(self, event: Event) -> None:
        question = self._words.open.pop(str(event.fields["interrupt_id"]), None)
        if question is None:
            return
        option = event.fields["option"] or f"expired: {question.on_expiry}"
        match option:
            case "approve" | "expired: approve":
                self._words.of[question.call] = question.digest
            case "edit_and_approve":
                self._words.of[question.call] = str(event.fields["digest"])
            case _:
                pass

    def _start(self, event: Event) -> Iterator[str]:
        call, tool = str(event.fields["call_id"]), str(event.fields["tool"])
        word = self._words.of.get(call)
        if word is None and tool in self._run.caps.approves.get(event.step, ()):
            yield f"the call {call} of {tool} starts at {event.sequence}, and nobody was asked"
        elif word == "":
            yield f"the call {call} of {tool} starts at {event.sequence}, and nobody let it"
        attempt = event.fields["attempt"]
        if word and isinstance(attempt, int):
            self._given[str(event.fields["call_key"]), attempt] = word


def _late(history: History, run: Run) -> Iterator[str]:
    """Decisions that were sent when their time was over, and were taken."""
    zero, over = history.limits.zero_unix_ms, dict[str, int]()
    if zero is None:
        return
    sent, deciding = _sent(history, run), ""
    for event in run.events:
        match event.kind:
            case "command_applied":
                taken = event.fields["kind"] in _DECISIONS
                deciding = str(event.fields["command_id"]) if taken else ""
                continue
            case "interrupt_raised" if isinstance(expires := event.fields.get("expires_unix_ms"), int):
                over[str(event.fields["interrupt_id"])] = expires
            case "interrupt_resolved" if deciding in sent:
                name = str(event.fields["interrupt_id"])
                if name in over and zero + sent[deciding] > over[name]:
                    yield f"{name} is decided at {event.sequence} by what was sent after its time"
            case _:
                pass
        deciding = ""


def _sent(history: History, run: Run) -> Mapping[str, int]:
    """When each decision was sent first."""
    first: dict[str, int] = {}
    for control in history.controls:
        if control.run == run.run and control.kind in _DECISIONS:
            earlier = first.get(control.command_id, control.begin_ms)
            first[control.command_id] = min(earlier, control.begin_ms)
    return first

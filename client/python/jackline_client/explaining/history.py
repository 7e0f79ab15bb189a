"""A run's events, sorted into visits, turns and calls.

Owns the sorting and the words for enum values. Takes anything: an event whose beginning is missing makes the
visit or call that it belongs to.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from jackline.v1.event_pb2 import CallProblem, ModelCallPurpose, StepEvent
from jackline.v1.run_pb2 import Effect, ToolCallStatus

_Value = TypeVar("_Value", bound=int)
OPEN = frozenset(
    {
        ToolCallStatus.TOOL_CALL_STATUS_UNSPECIFIED,
        ToolCallStatus.TOOL_CALL_STATUS_REQUESTED,
        ToolCallStatus.TOOL_CALL_STATUS_STARTED,
    }
)


@dataclass(slots=True, kw_only=True)
class Call:
    """A tool call. `arguments` and `output` are None where they were not seen."""

    call_id: str
    tool: str
    sequence: int
    arguments: bytes | None = None
    effect: Effect.ValueType = Effect.EFFECT_UNSPECIFIED
    attempts: int = 0
    status: ToolCallStatus.ValueType = ToolCallStatus.TOOL_CALL_STATUS_UNSPECIFIED
    problem: CallProblem.ValueType = CallProblem.CALL_PROBLEM_UNSPECIFIED
    ended: int = 0
    output: bytes | None = None
    error: str = ""
    again: bool = False
    """True if the last attempt that ended was to be followed by another."""
    under_way: bool = False
    """True if an attempt has begun that has not ended."""

    @property
    def key(self) -> tuple[str, str]:
        """The tool and its arguments, however they were written; only for calls whose arguments were seen."""
        return self.tool, canonical(self.arguments or b"")

    @property
    def completed(self) -> bool:
        """True if it returned a result."""
        return self.status == ToolCallStatus.TOOL_CALL_STATUS_COMPLETED


@dataclass(slots=True, kw_only=True)
class Turn:
    """A reply of the model with the calls it asked for."""

    event: StepEvent
    purpose: int
    calls: list[Call] = field(default_factory=list[Call])

    @property
    def sequence(self) -> int:
        """Where the reply stands."""
        return self.event.sequence


@dataclass(slots=True, kw_only=True)
class Visit:
    """One visit of a step: its events in order, and what they add up to."""

    step_id: str
    number: int
    events: list[StepEvent] = field(default_factory=list[StepEvent])
    turns: list[Turn] = field(default_factory=list[Turn])
    calls: list[Call] = field(default_factory=list[Call])
    end: StepEvent | None = None

    def of(self, *facts: str) -> list[StepEvent]:
        """Its events of some kinds, in order."""
        return [event for event in self.events if event.WhichOneof("fact") in facts]


@dataclass(slots=True, kw_only=True)
class History:
    """A whole run, as far as it was seen."""

    events: list[StepEvent]
    run_id: str = ""
    workflow: str = ""
    visits: list[Visit] = field(default_factory=list[Visit])
    calls: dict[str, Call] = field(default_factory=dict[str, Call])
    end: StepEvent | None = None
    with_content: bool = False
    missing: tuple[tuple[int, int], ...] = ()
    unknown_facts: int = 0

    def of(self, *facts: str) -> list[StepEvent]:
        """The events of some kinds, in order."""
        return [event for event in self.events if event.WhichOneof("fact") in facts]

    def last(self, *facts: str) -> StepEvent | None:
        """The newest event of some kinds."""
        return next((event for event in reversed(self.events) if event.WhichOneof("fact") in facts), None)


def read(events: Iterable[StepEvent]) -> History:
    """Sort events, each once, by their sequences."""
    by_sequence = {event.sequence: event for event in events}
    ordered = [by_sequence[sequence] for sequence in sorted(by_sequence)]
    history = History(events=ordered, missing=_missing(ordered))
    reader = _Reader(history)
    for event in ordered:
        history.run_id = history.run_id or event.run_id
        history.with_content = history.with_content or event.HasField("content")
        reader.take(event)
    return history


def _missing(events: list[StepEvent]) -> tuple[tuple[int, int], ...]:
    holes: list[tuple[int, int]] = []
    expected = 1
    for event in events:
        if event.sequence > expected:
            holes.append((expected, event.sequence - 1))
        expected = event.sequence + 1
    return tuple(holes)


class _Reader:
    """Takes events one by one into a history."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._visits: dict[tuple[str, int], Visit] = {}
        self._purpose = 0
        self._asked: dict[str, str] = {}

    def take(self, event: StepEvent) -> None:
        """Put one event where it belongs."""
        history = self._history
        visit = self._visit(event)
        if visit is not None:
            visit.events.append(event)
        match event.WhichOneof("fact"):
            case None:
                history.unknown_facts += 1
            case "run_started":
                history.workflow = event.run_started.workflow
            case "run_finished":
                history.end = event
            case "model_call_started":
                self._purpose = event.model_call_started.purpose
            case "tool_call_requested" | "tool_call_started" | "tool_call_finished":
                self._call(event, visit)
            case "interrupt_raised" | "interrupt_resolved":
                self._question(event)
            case fact:
                self._step(fact, event, visit)

    def _step(self, fact: str, event: StepEvent, visit: Visit | None) -> None:
        if visit is None:
            return
        if fact == "step_finished":
            visit.end = event
        elif fact == "model_replied":
            visit.turns.append(Turn(event=event, purpose=self._purpose))

    def _visit(self, event: StepEvent) -> Visit | None:
        if not event.step_id:
            return None
        key = event.step_id, event.visit
        visit = self._visits.get(key)
        if visit is None:
            visit = self._visits[key] = Visit(step_id=event.step_id, number=event.visit)
            self._history.visits.append(visit)
        return visit

    def _question(self, event: StepEvent) -> None:
        """Where a person puts other arguments in place of the model's, the call is made with those."""
        if event.HasField("interrupt_raised"):
            self._asked[event.interrupt_raised.interrupt_id] = event.interrupt_raised.call_id
            return
        call = self._history.calls.get(self._asked.pop(event.interrupt_resolved.interrupt_id, ""))
        if call is not None and event.interrupt_resolved.arguments_digest:
            seen = event.content.HasField("answer")
            call.arguments = event.content.answer.output_json if seen else None

    def _call(self, event: StepEvent, visit: Visit | None) -> None:
        fact = event.WhichOneof("fact")
        found = getattr(event, str(fact))
        call = self._history.calls.get(found.call_id)
        if call is None:
            call = Call(call_id=found.call_id, tool=found.tool, sequence=event.sequence)
            self._history.calls[found.call_id] = call
            if visit is not None:
                visit.calls.append(call)
        match fact:
            case "tool_call_requested":
                if event.content.HasField("call"):
                    call.arguments = event.content.call.arguments
                    call.tool = event.content.call.tool or call.tool
                if visit is not None and visit.turns and visit.turns[-1].event.model_replied.tool_calls:
                    visit.turns[-1].calls.append(call)
            case "tool_call_started":
                call.effect = event.tool_call_started.effect
                call.attempts += 1
                call.under_way = True
            case _:
                ended = event.tool_call_finished
                call.status, call.problem, call.ended = ended.status, ended.problem, event.sequence
                call.under_way, call.again = False, ended.HasField("retry_in_ms")
                if event.content.HasField("tool_result"):
                    call.output = event.content.tool_result.output_json
                    call.error = event.content.tool_result.error


def is_turn(turn: Turn) -> bool:
    """True for a turn of the loop; false for a repair, a closing answer or a judge."""
    return turn.purpose in (
        ModelCallPurpose.MODEL_CALL_PURPOSE_UNSPECIFIED,
        ModelCallPurpose.MODEL_CALL_PURPOSE_TURN,
    )


def canonical(arguments: bytes) -> str:
    """Arguments with their keys in order; as they are if they are no JSON."""
    text = arguments.decode("utf-8", "replace").strip() or "{}"
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        return text


def word(name: Callable[[_Value], str], value: _Value, prefix: str) -> str:
    """An enum value's name in small letters; its number if this version does not know it."""
    try:
        return name(value).removeprefix(prefix).lower()
    except ValueError:
        return str(value)


def times(number: int) -> str:
    """How often something happened, in words."""
    return {1: "once", 2: "twice"}.get(number, f"{number} times")

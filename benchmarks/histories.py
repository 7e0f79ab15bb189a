"""What a watcher has to have seen of a run: every event once, in order, from 1 to the end that was expected.

Owns that judgement, and the one that the store holds what was acknowledged. Both take what was recorded and
return what is wrong with it in words, so that a test can show them a bad recording.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from google.protobuf.message import DecodeError

from benchmarks.frames import BrokenFrame, events_of
from jackline.v1.event_pb2 import StepEvent
from jackline.v1.run_pb2 import RunState
from jackline.v1.run_service_pb2 import StreamProgressResponse

MOST_PROBLEMS = 20
"""More than this many are not worth reading."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """How a run has to end. `counts` says how often a kind of fact has to be in it."""

    state: RunState.ValueType
    counts: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """The encoded frames that one watcher got of one run, from its first event on."""

    run_id: str
    frames: Sequence[bytes]

    def events(self) -> list[bytes]:
        """The encoded events, in the order in which they came. Raises BrokenFrame."""
        return [event for frame in self.frames for event in events_of(frame)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A run as it was read back from the store: its row's own words, and its events' full bytes in order."""

    phase: str
    head_sequence: int
    terminal: bool
    sequences: Sequence[int]
    events: Sequence[bytes]
    summary: bytes = b""


def problems_of_watching(watched: Watched, expected: Expected) -> list[str]:
    """What is wrong with the history that one watcher saw; empty if nothing is."""
    try:
        return [f"{watched.run_id}: {problem}" for problem in _problems(watched, expected)]
    except (DecodeError, BrokenFrame) as error:
        return [f"{watched.run_id}: a frame can't be decoded: {error}"]


def problems_of_storing(watched: Watched, stored: Stored | None) -> list[str]:
    """Where the store differs from what the watcher, with the whole view, was shown as durable."""
    if stored is None:
        return [f"{watched.run_id}: the store has no such run"]
    seen, found = watched.events(), list[str]()
    if list(stored.sequences) != list(range(1, len(seen) + 1)):
        found.append(f"the store's sequences are not 1 to {len(seen)}")
    if stored.head_sequence != len(seen):
        found.append(f"the store's head is {stored.head_sequence}, the watcher saw {len(seen)} events")
    if list(stored.events) != seen:
        found.append("the store's bytes are not those that the watcher got")
    if not stored.terminal:
        found.append(f"the store has the run as {stored.phase}")
    return [f"{watched.run_id}: {problem}" for problem in found]


def _problems(watched: Watched, expected: Expected) -> list[str]:
    history = _History(run_id=watched.run_id)
    for data in watched.frames:
        history.take(StreamProgressResponse.FromString(data))
        if len(history.problems) > MOST_PROBLEMS:
            return history.problems
    return [*history.problems, *history.at_its_end(expected)]


@dataclass(slots=True, kw_only=True)
class _History:
    """What was seen so far: the event that is due, how often each kind of fact came, how the run ended."""

    run_id: str
    due: int = 1
    facts: Counter[str] = field(default_factory=Counter[str])
    state: RunState.ValueType = RunState.RUN_STATE_UNSPECIFIED
    problems: list[str] = field(default_factory=list[str])

    def take(self, frame: StreamProgressResponse) -> None:
        """Judge a frame after those before it."""
        for event in frame.events:
            self.problems += _misplaced(event, self.due, self.run_id)
            if self.facts["run_finished"]:
                self.problems.append(f"event {event.sequence} comes after the end")
            self.due = event.sequence + 1
            kind = event.WhichOneof("fact") or "unknown"
            self.facts[kind] += 1
            if kind == "run_finished":
                self.state = event.run_finished.state
        if frame.sent_through != self.due - 1:
            self.problems.append(f"a frame says {frame.sent_through} after event {self.due - 1}")

    def at_its_end(self, expected: Expected) -> list[str]:
        """Judge the whole once no frame follows."""
        found: list[str] = []
        if not self.facts["run_finished"]:
            found.append(f"the history ends with event {self.due - 1}, before the run's end")
        elif self.state != expected.state:
            ended, right = RunState.Name(self.state), RunState.Name(expected.state)
            found.append(f"the run ended as {ended}, not {right}")
        for kind, count in expected.counts.items():
            if self.facts[kind] != count:
                found.append(f"{self.facts[kind]} times {kind}, not {count}")
        return found


def _misplaced(event: StepEvent, due: int, run_id: str) -> list[str]:
    if event.run_id != run_id:
        return [f"event {event.sequence} is of run {event.run_id}"]
    if event.sequence != due:
        return [f"event {event.sequence} came where {due} was due"]
    return []

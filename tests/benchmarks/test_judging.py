"""What the measurements call verified: a bad recording of each kind is found, and a good one passes."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from benchmarks.frames import BrokenFrame, events_of
from benchmarks.histories import (
    Expected,
    Stored,
    Watched,
    problems_of_storing,
    problems_of_watching,
)
from jackline.v1.event_pb2 import RunFinished, RunStarted, StepEvent, StepStarted
from jackline.v1.run_pb2 import RunState
from jackline.v1.run_service_pb2 import StreamProgressResponse

RUN = "run_1"
EXPECTED = Expected(state=RunState.RUN_STATE_SUCCEEDED, counts={"step_started": 2})


def history() -> list[StepEvent]:
    return [
        StepEvent(run_id=RUN, sequence=1, run_started=RunStarted(workflow="loop")),
        StepEvent(run_id=RUN, sequence=2, step_started=StepStarted()),
        StepEvent(run_id=RUN, sequence=3, step_started=StepStarted()),
        StepEvent(run_id=RUN, sequence=4, run_finished=RunFinished(state=RunState.RUN_STATE_SUCCEEDED)),
    ]


def watched(events: Sequence[StepEvent], *, a_frame: int = 2) -> Watched:
    frames = [
        StreamProgressResponse(events=part, sent_through=part[-1].sequence)
        for part in (events[start : start + a_frame] for start in range(0, len(events), a_frame))
    ]
    return Watched(run_id=RUN, frames=[frame.SerializeToString() for frame in frames])


def stored(events: Sequence[StepEvent]) -> Stored:
    return Stored(
        phase="succeeded",
        head_sequence=len(events),
        terminal=True,
        sequences=[event.sequence for event in events],
        events=[event.SerializeToString() for event in events],
    )


def without(index: int) -> list[StepEvent]:
    return [event for number, event in enumerate(history()) if number != index]


def swapped() -> list[StepEvent]:
    first, second, third, last = history()
    return [first, third, second, last]


def of_another_run() -> list[StepEvent]:
    events = history()
    events[1].run_id = "run_2"
    return events


def ended_otherwise() -> list[StepEvent]:
    events = history()
    events[-1].run_finished.state = RunState.RUN_STATE_FAILED
    return events


def with_more_after_the_end() -> list[StepEvent]:
    return [*history(), StepEvent(run_id=RUN, sequence=5, step_started=StepStarted())]


BAD: dict[str, Callable[[], list[StepEvent]]] = {
    "an event is missing": lambda: without(1),
    "the first event is missing": lambda: without(0),
    "the end is missing": lambda: without(3),
    "an event came twice": lambda: [*history()[:2], *history()[1:]],
    "two events changed places": swapped,
    "an event is of another run": of_another_run,
    "the run ended otherwise": ended_otherwise,
    "something came after the end": with_more_after_the_end,
    "a fact is missing that the workload leads to": lambda: [history()[0], history()[1], _end(3)],
    "nothing came": list,
}


def _end(sequence: int) -> StepEvent:
    event = history()[-1]
    event.sequence = sequence
    return event


@pytest.mark.parametrize("a_frame", [1, 2, 4])
def test_a_gapless_history_with_the_expected_end_passes(a_frame: int) -> None:
    assert problems_of_watching(watched(history(), a_frame=a_frame), EXPECTED) == []


@pytest.mark.parametrize("what", BAD)
@pytest.mark.parametrize("a_frame", [1, 3])
def test_a_watcher_with_a_bad_history_is_found(what: str, a_frame: int) -> None:
    assert problems_of_watching(watched(BAD[what](), a_frame=a_frame), EXPECTED)


def test_a_frame_that_says_it_was_sent_further_than_it_was_is_found() -> None:
    good = watched(history())
    first = StreamProgressResponse.FromString(good.frames[0])
    first.sent_through += 1
    assert problems_of_watching(replace(good, frames=[first.SerializeToString(), *good.frames[1:]]), EXPECTED)


def test_bytes_that_are_no_frame_are_found() -> None:
    good = watched(history())
    assert problems_of_watching(replace(good, frames=[*good.frames, b"\x0a\x7f"]), EXPECTED)


def test_a_store_that_holds_what_was_watched_passes() -> None:
    assert problems_of_storing(watched(history()), stored(history())) == []


@pytest.mark.parametrize(
    "held",
    [
        None,
        stored(without(3)),
        stored(without(1)),
        stored(swapped()),
        stored(ended_otherwise()),
        replace(stored(history()), head_sequence=3),
        replace(stored(history()), terminal=False, phase="running"),
        replace(stored(history()), events=stored(history()).events[:-1]),
    ],
)
def test_a_store_that_lacks_or_changed_what_was_acknowledged_is_found(held: Stored | None) -> None:
    assert problems_of_storing(watched(history()), held)


def test_events_are_taken_from_a_frame_as_the_bytes_that_were_put_in() -> None:
    frame = StreamProgressResponse(
        events=history(), sent_through=4, head_sequence=300, store_degraded=True
    ).SerializeToString()
    assert events_of(frame) == [event.SerializeToString() for event in history()]


@pytest.mark.parametrize("cut", [1, 2, 5])
def test_a_frame_that_is_cut_off_is_no_frame(cut: int) -> None:
    frame = StreamProgressResponse(events=history()).SerializeToString()
    with pytest.raises(BrokenFrame):
        events_of(frame[:-cut])

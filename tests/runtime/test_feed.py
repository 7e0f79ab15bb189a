"""The live side of a run: what is kept at hand, and what watchers of an attempt are told."""

import pytest

from jackline_server.runtime.ports.tool_reports import ToolProgress
from jackline_server.runtime.reading.feed import TAIL_EVENTS, Feed
from jackline_server.runtime.use_cases import LiveDelta
from tests.conformance.stores import event


@pytest.mark.parametrize(
    ("after", "kept"),
    [
        (0, None),
        (9, None),
        (10, [11, 12, 13]),
        (12, [13]),
        (13, []),
        (99, []),
    ],
)
def test_a_page_is_taken_from_memory_only_if_nothing_is_missing_before_it(
    after: int, kept: list[int] | None
) -> None:
    channel = Feed().drive("run_a")
    channel.publish([event(sequence) for sequence in (11, 12, 13)], ended=False)
    found = channel.after(after, 100)
    assert (None if found is None else [one.sequence for one in found]) == kept


def test_what_does_not_follow_what_is_kept_takes_its_place() -> None:
    channel = Feed().drive("run_a")
    channel.publish([event(1), event(2)], ended=False)
    channel.publish([event(5)], ended=False)
    assert channel.after(1, 100) is None
    assert [one.sequence for one in channel.after(4, 100) or ()] == [5]


def test_no_more_events_are_kept_than_it_says() -> None:
    channel = Feed().drive("run_a")
    for sequence in range(1, TAIL_EVENTS + 3):
        channel.publish([event(sequence)], ended=False)
    assert channel.after(1, 1) is None
    assert [one.sequence for one in channel.after(2, 1) or ()] == [3]


def test_a_watcher_of_an_attempt_that_was_given_up_is_told_to_drop_it() -> None:
    feed = Feed()
    channel, live = feed.subscribe("run_a", deltas=True)
    _, uninterested = feed.subscribe("run_a", deltas=False)
    channel.publish_delta(LiveDelta(7, "agent", 1, text="hal"))
    channel.reset(7)
    _, late = feed.subscribe("run_a", deltas=True)
    assert (live.reset, late.reset, uninterested.reset) == (7, 7, 0)
    assert live.take_deltas() == ()


def far(call_id: str, done: float) -> LiveDelta:
    progress = ToolProgress(call_id=call_id, tool="look", attempt=1, text="", done=done, total=None)
    return LiveDelta(0, "agent", 1, progress=progress)


def test_a_watcher_that_takes_nothing_holds_the_newest_of_each_call_and_loses_no_words_for_it() -> None:
    channel, slow = Feed().subscribe("run_a", deltas=True, progress=True)
    channel.publish_delta(LiveDelta(7, "agent", 1, text="hal"))
    for done in range(1_000):
        channel.publish_progress(far("a", done))
        channel.publish_progress(far("b", -done))
    words, first, second = slow.take_deltas()
    assert words.text == "hal"
    assert (first, second) == (far("a", 999), far("b", -999))
    assert not slow.has_live


def test_an_attempt_that_is_given_up_takes_no_progress_with_it() -> None:
    channel, watcher = Feed().subscribe("run_a", deltas=True, progress=True)
    channel.publish_progress(far("a", 1))
    channel.reset(7)
    assert watcher.take_deltas() == (far("a", 1),)


def test_what_was_not_taken_of_a_call_that_has_ended_is_shown_no_more() -> None:
    feed = Feed()
    channel, watcher = feed.subscribe("run_a", deltas=True, progress=True)
    channel.reports["a"] = lambda: far("a", 1)
    channel.publish_progress(far("a", 1))
    channel.publish_progress(far("b", 2))
    channel.hush("a")
    assert watcher.take_deltas() == (far("b", 2),)
    _, late = feed.subscribe("run_a", deltas=False, progress=True)
    assert not late.has_live


def test_only_who_wants_progress_is_given_it() -> None:
    feed = Feed()
    channel, _ = feed.subscribe("run_a", deltas=False, progress=True)
    _, other = feed.subscribe("run_a", deltas=True)
    channel.publish_progress(far("a", 1))
    assert not other.has_live
    assert channel.shows_progress

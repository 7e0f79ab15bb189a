"""Recorded logs of every release are decided as they were, and each can be forked at its boundaries."""

import pytest

from jackline_server.core.recorded import forking
from jackline_server.core.recorded.boundaries import Entry
from jackline_server.core.recorded.replaying import replayed
from jackline_server.testing.instruments import instruments
from tests.logs.golden import CODEC, GoldenLog, every_log, read_log, records, states

every = pytest.mark.parametrize(("release", "name"), every_log(), ids=str)


def entries(log: GoldenLog) -> list[Entry]:
    return [
        Entry(fact=one.fact, active_ms=one.envelope.active_ms, unix_ms=one.envelope.unix_ms)
        for one in records(log)
    ]


@every
def test_a_recorded_log_is_decided_again_as_it_was(release: str, name: str) -> None:
    log = read_log(release, name)
    plan = CODEC.decode_plan(log.plan)
    for against in (None, CODEC.decode_plan(log.plan)):
        found = replayed(log.run_id, entries(log), plan, instruments=instruments(), against=against)
        assert found.difference is None
        assert found.facts == len(log.events)


def fork_points(log: GoldenLog) -> list[int]:
    facts = [one.fact for one in records(log)]
    following = [*facts[1:], None]
    return [
        state.sequence
        for state, before, after in zip(states(log), facts, following, strict=True)
        if forking.goes_on(state, before, after)
    ]


@pytest.mark.parametrize(
    ("name", "points"),
    [
        ("tools", [1, 2, 6, 8, 10, 12, 13]),
        ("open_cut", [1, 2, 6, 8, 10]),
        ("open_queued", [1]),
        ("aborted", [1, 2, 6, 8]),
        ("answered", [1, 2, 6, 8, 10, 11, 12, 13, 16, 18, 19]),
        ("controlled", [1, 2, 6, 8, 10, 11, 13, 15, 17, 19, 20]),
    ],
)
def test_a_log_can_be_forked_where_nothing_is_under_way(name: str, points: list[int]) -> None:
    assert fork_points(read_log("0.1.0", name)) == points

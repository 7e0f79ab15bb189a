"""Recorded logs of every release are read, and add up to what they did when they were recorded. Proves U1."""

import json
import tomllib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jackline.v1 import event_pb2, plan_pb2, run_pb2
from jackline_server.codec.run_view import run_summary
from jackline_server.core.decide import decide
from jackline_server.core.errors import CorruptLog
from jackline_server.core.steps import Moment
from jackline_server.runtime.ports.codec import UnknownFact
from jackline_server.runtime.ports.journal import StoredEvent
from jackline_server.storage.sqlite.database import Database
from jackline_server.storage.sqlite.schema import SCHEMA_VERSION
from jackline_server.storage.sqlite.store import open_sqlite
from jackline_server.testing.instruments import instruments
from jackline_server.testing.validators import judge
from jackline_server.testing.validators.history import History, Limits, Run
from jackline_server.testing.validators.recording import caps_of, event_of
from tests.logs.atlas import atlas_text, record_of
from tests.logs.golden import (
    CODEC,
    FOLDER,
    RELEASE,
    GoldenLog,
    as_json,
    every_log,
    expected_text,
    fact_name,
    folded,
    holds,
    read_atlas,
    read_expected,
    read_log,
    records,
    releases,
    states,
    summed_up,
)
from tests.logs.record import recorded
from tests.logs.restoring import undump
from tests.storage.disks import look_into

ROOT = FOLDER.parent.parent
LOGS = every_log()
HAND_MADE: frozenset[str] = frozenset()
"""Facts that no run of today can write: only the atlas has them."""

UNKNOWN_FIELD = b"\xfa\x3e\x03new"
"""Field 1007, of a newer version."""

UNKNOWN_FACT = b"\xfa\x03\x00"
"""Field 63: a fact of a newer version."""

every = pytest.mark.parametrize(("release", "name"), LOGS, ids=str)
each_release = pytest.mark.parametrize("release", releases())


def facts_of_the_contract() -> set[str]:
    return {field.name for field in event_pb2.StepEvent.DESCRIPTOR.oneofs_by_name["fact"].fields}


# --- what there is -----------------------------------------------------------------------------


def test_every_fact_of_the_contract_is_in_a_recorded_run() -> None:
    found = {fact_name(event) for log in LOGS for event in read_log(*log).events}
    assert found | HAND_MADE == facts_of_the_contract()
    assert not found & HAND_MADE


def test_every_value_that_a_fact_can_hold_is_in_a_recorded_atlas() -> None:
    there = {_fact(record) for release in releases() for _, record in read_atlas(release)}
    today = {_fact(json.loads(line)["record"]) for line in atlas_text().splitlines()}
    assert today <= there


def _fact(record: Any) -> str:
    return json.dumps(record["fact"], sort_keys=True)


def test_the_release_that_is_being_made_has_its_logs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == RELEASE
    assert RELEASE in releases()


def test_recording_again_gives_the_same_bytes() -> None:
    """Where it does not: README.md says when logs may be recorded anew, and when a release needs its own."""
    there = {path.name: path.read_text(encoding="utf-8") for path in (FOLDER / RELEASE).iterdir()}
    again = recorded()
    assert sorted(again) == sorted(there)
    assert [name for name, text in again.items() if there[name] != text] == []


# --- reading and folding -----------------------------------------------------------------------


@every
def test_a_recorded_log_adds_up_to_what_it_did(release: str, name: str) -> None:
    found, expected = summed_up(read_log(release, name)), read_expected(release, name)
    assert holds(found, expected), expected_text(found)


@every
def test_a_recorded_event_is_written_as_it_was(release: str, name: str) -> None:
    log = read_log(release, name)
    assert tuple(CODEC.encode(record) for record in records(log)) == log.events


@every
def test_a_recorded_plan_is_written_as_it_was(release: str, name: str) -> None:
    log = read_log(release, name)
    plan = CODEC.decode_plan(log.plan)
    assert plan.digest == log.plan_digest
    assert CODEC.encode_plan(plan) == log.plan


@every
def test_a_recorded_command_is_written_as_it_was(release: str, name: str) -> None:
    for row in read_log(release, name).commands:
        assert CODEC.encode_command(CODEC.decode_command(row.payload, ordinal=row.ordinal)) == row.payload


@every
def test_a_recorded_row_shows_what_the_log_adds_up_to(release: str, name: str) -> None:
    """Or what it added up to when the row was written: rows of runs under way may be behind their logs."""
    log = read_log(release, name)
    row = run_pb2.Run.FromString(log.summary)
    told = next(state for state in states(log) if state.sequence == row.head_sequence)
    today = run_summary(told, created_unix_ms=log.created_unix_ms, finished_unix_ms=log.finished_unix_ms)
    assert holds(as_json(today), as_json(row))


@each_release
def test_every_hand_made_event_holds_what_it_did_and_is_written_as_it_was(release: str) -> None:
    for event, expected in read_atlas(release):
        record = CODEC.decode(event)
        assert holds(record_of(record), expected)
        assert CODEC.encode(record) == event


@every
def test_a_log_that_was_cut_anywhere_can_be_gone_on_with(release: str, name: str) -> None:
    log = read_log(release, name)
    for event, state in zip(log.events, states(log), strict=True):
        now = Moment(active_ms=state.active_ms, unix_ms=CODEC.decode(event).envelope.unix_ms)
        assert decide(state, now=now, instruments=instruments()) is not None


@every
def test_a_recorded_run_breaks_no_promise(release: str, name: str) -> None:
    assert judge(_history(read_log(release, name))) == []


# --- what a newer version wrote ----------------------------------------------------------------


@every
def test_a_field_of_a_newer_version_is_passed_over(release: str, name: str) -> None:
    log = read_log(release, name)
    newer = tuple(
        StoredEvent(event.sequence, event.meta + UNKNOWN_FIELD, event.content) for event in log.events
    )
    assert records(replace(log, events=newer)) == records(log)


@every
def test_a_fact_of_a_newer_version_is_not_guessed_at(release: str, name: str) -> None:
    log = read_log(release, name)
    number = len(log.events) + 1
    meta = event_pb2.StepEvent(run_id=log.run_id, sequence=number).SerializeToString() + UNKNOWN_FACT
    with pytest.raises(UnknownFact):
        folded(replace(log, events=(*log.events, StoredEvent(number, meta, b""))))


def test_a_step_of_a_newer_version_is_not_guessed_at() -> None:
    log = read_log(RELEASE, "tools")
    plan = plan_pb2.Plan.FromString(log.plan)
    plan.steps.add(step_id="new", kind="new")
    with pytest.raises(UnknownFact):
        folded(replace(log, plan=plan.SerializeToString(deterministic=True)))


# --- logs that are none ------------------------------------------------------------------------


def without_its_start(log: GoldenLog) -> GoldenLog:
    return replace(log, events=log.events[1:])


def started_twice(log: GoldenLog) -> GoldenLog:
    return replace(log, events=(log.events[0], *log.events))


def going_on_after_its_end(log: GoldenLog) -> GoldenLog:
    return replace(log, events=(*log.events, log.events[-2], log.events[-1]))


def with_a_hole(log: GoldenLog) -> GoldenLog:
    return replace(log, events=(*log.events[:3], *log.events[4:]))


def without_its_end(log: GoldenLog) -> GoldenLog:
    return replace(log, events=log.events[:-1])


def with_two_events_exchanged(log: GoldenLog) -> GoldenLog:
    one, two, three, *rest = log.events
    return replace(log, events=(one, three, two, *rest))


@pytest.mark.parametrize(
    ("harm", "guarantee"),
    [
        (without_its_start, "O1"),
        (started_twice, "O1"),
        (going_on_after_its_end, "O3"),
        (with_a_hole, "O1"),
        (without_its_end, "O3"),
        (with_two_events_exchanged, "O1"),
    ],
)
@pytest.mark.parametrize("name", ["tools", "answered", "aborted"])
def test_a_log_that_was_tampered_with_is_rejected_by_the_validators(
    harm: Any, guarantee: str, name: str
) -> None:
    history = _history(harm(read_log(RELEASE, name)), quiescent=True)
    assert guarantee in {violation.guarantee for violation in judge(history)}


@pytest.mark.parametrize("harm", [started_twice, going_on_after_its_end, with_two_events_exchanged])
def test_a_log_that_can_t_be_ours_is_not_folded(harm: Any) -> None:
    with pytest.raises(CorruptLog):
        folded(harm(read_log(RELEASE, "tools")))


def _history(log: GoldenLog, *, quiescent: bool = False) -> History:
    plan = CODEC.decode_plan(log.plan)
    run = Run(
        run=log.run_id,
        mark="m",
        caps=caps_of(plan, plan.bounds),
        events=tuple(event_of(event) for event in log.events),
    )
    return History(runs=(run,), limits=Limits(quiescent=quiescent))


# --- the recorded store ------------------------------------------------------------------------


@each_release
async def test_a_recorded_store_is_opened_and_holds_its_logs(release: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    undump((FOLDER / release / "store.sql").read_text(encoding="utf-8"), data / "jackline.db")

    opened = await open_sqlite(data)

    for name in _stored(release):
        log = read_log(release, name)
        events = await opened.store.journal.read(log.run_id, after_sequence=0, limit=10_000)
        assert tuple(events) == log.events
        assert await opened.store.journal.plan(log.plan_digest) == log.plan
        for row in log.commands:
            assert await opened.store.commands.get(log.run_id, row.command_id) == row
    await opened.close()


def _stored(release: str) -> Iterator[str]:
    text = (FOLDER / release / "store.sql").read_text(encoding="utf-8")
    found = [name for of, name in LOGS if of == release and read_log(release, name).run_id in text]
    assert found
    yield from found


@each_release
async def test_a_recorded_store_comes_to_the_tables_of_a_new_one(release: str, tmp_path: Path) -> None:
    """A change of the tables needs a migration: storage/sqlite/migrations.py says how."""
    undump((FOLDER / release / "store.sql").read_text(encoding="utf-8"), tmp_path / "old" / "jackline.db")
    for folder in ("old", "new"):
        await (await open_sqlite(tmp_path / folder)).close()

    with (
        closing(look_into(tmp_path / "old" / "jackline.db")) as old,
        closing(look_into(tmp_path / "new" / "jackline.db")) as new,
    ):
        assert old.execute("PRAGMA user_version").get == SCHEMA_VERSION
        assert _shape(old) == _shape(new)


def _shape(connection: Database) -> dict[str, object]:
    """Tables with their columns, indexes with theirs and their conditions, whatever way they came about."""
    found: dict[str, object] = {}
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema").fetchall()
    for kind, name, table, sql in rows:
        if kind == "table":
            found[name] = connection.execute(f"PRAGMA table_xinfo({name})").fetchall()
        else:
            condition = "" if sql is None else str(sql).partition(" WHERE ")[2]
            columns = connection.execute(f"PRAGMA index_xinfo({name})").fetchall()
            found[name] = (table, condition, columns)
    return found


def test_the_words_of_a_log_are_not_in_its_metadata() -> None:
    log = read_log(RELEASE, "tools")
    assert any(b"Looked, and charged." in event.content for event in log.events)
    assert not any(b"Looked, and charged." in event.meta for event in log.events)

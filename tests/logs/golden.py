"""Golden logs: recorded runs as files, and what they are known to add up to.

Owns the format of `*.jsonl` and of `*.expected.json`, which README.md describes, and the summary of a state
that the second holds. Does not own what is recorded (`scenarios`, `atlas`) or how (`record`).
"""

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, cast

from google.protobuf import json_format
from google.protobuf.message import Message

from jackline.v1 import event_pb2
from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.codec.run_view import run_message, tool_call_messages
from jackline_server.core.commands import ended_id
from jackline_server.core.decide import decide
from jackline_server.core.evolve import begin, evolve
from jackline_server.core.facts import Phase, RunStarted
from jackline_server.core.state import RunState
from jackline_server.core.steps import Moment
from jackline_server.runtime.ports.codec import Record
from jackline_server.runtime.ports.command_table import CommandRow, CommandState
from jackline_server.runtime.ports.journal import StoredEvent
from jackline_server.runtime.ports.run_rows import RunRow
from jackline_server.testing.instruments import instruments

FOLDER = Path(__file__).parent
RELEASE = "0.1.0"
"""The release whose logs are recorded now."""

CODEC = ProtoCodec()


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a store holds of a run."""

    row: RunRow
    plan: bytes
    events: tuple[StoredEvent, ...]
    commands: tuple[CommandRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenLog:
    """One recorded run: its row, plan, events and commands, as a store held them.

    `about` says in a sentence what is in it. `owned` is true if a worker held it at the end, and died.
    """

    about: str
    run_id: str
    workflow: str
    created_unix_ms: int
    finished_unix_ms: int | None
    epoch: int
    owned: bool
    phase: Phase
    labels: Mapping[str, str]
    plan_digest: str
    plan: bytes
    summary: bytes
    events: tuple[StoredEvent, ...]
    commands: tuple[CommandRow, ...]


def golden_log(about: str, held: Held) -> GoldenLog:
    """What a store holds of a run, with a sentence about it."""
    row = held.row
    return GoldenLog(
        about=about,
        run_id=row.run_id,
        workflow=row.workflow,
        created_unix_ms=row.created_unix_ms,
        finished_unix_ms=row.finished_unix_ms,
        epoch=row.epoch,
        owned=row.owner is not None,
        phase=row.phase,
        labels=row.labels,
        plan_digest=row.plan_digest,
        plan=held.plan,
        summary=row.summary,
        events=held.events,
        commands=held.commands,
    )


# --- files -------------------------------------------------------------------------------------


def releases() -> list[str]:
    """Every release that has logs."""
    return sorted(path.name for path in FOLDER.iterdir() if path.is_dir() and path.name[0].isdigit())


def names(release: str) -> list[str]:
    """The logs of runs of a release."""
    return sorted(path.stem for path in (FOLDER / release).glob("*.jsonl") if path.stem != "atlas")


def every_log() -> list[tuple[str, str]]:
    """All logs of runs, as release and name."""
    return [(release, name) for release in releases() for name in names(release)]


def text_of(log: GoldenLog) -> str:
    """The file: the run on the first line, then an event a line."""
    head = {
        "about": log.about,
        "run_id": log.run_id,
        "workflow": log.workflow,
        "created_unix_ms": log.created_unix_ms,
        "finished_unix_ms": log.finished_unix_ms,
        "epoch": log.epoch,
        "owned": log.owned,
        "phase": log.phase.value,
        "labels": dict(log.labels),
        "plan_digest": log.plan_digest,
        "plan": _written(log.plan),
        "summary": _written(log.summary),
        "commands": [
            {
                "command_id": row.command_id,
                "ordinal": row.ordinal,
                "payload": _written(row.payload),
                "state": row.state.value,
                "sequence": row.sequence,
                "rejection": row.rejection,
            }
            for row in log.commands
        ],
    }
    return _lines([head, *map(event_line, log.events)])


def event_line(event: StoredEvent) -> Mapping[str, object]:
    """One event as its line has it. The fact's name is there for readers alone."""
    return {
        "sequence": event.sequence,
        "fact": fact_name(event),
        "meta": _written(event.meta),
        "content": _written(event.content),
    }


def read_log(release: str, name: str) -> GoldenLog:
    """A log of a file."""
    head, *events = _read_lines(FOLDER / release / f"{name}.jsonl")
    return GoldenLog(
        about=head["about"],
        run_id=head["run_id"],
        workflow=head["workflow"],
        created_unix_ms=head["created_unix_ms"],
        finished_unix_ms=head["finished_unix_ms"],
        epoch=head["epoch"],
        owned=head["owned"],
        phase=Phase(head["phase"]),
        labels=head["labels"],
        plan_digest=head["plan_digest"],
        plan=base64.b64decode(head["plan"]),
        summary=base64.b64decode(head["summary"]),
        events=tuple(read_event(event) for event in events),
        commands=tuple(
            CommandRow(
                command_id=row["command_id"],
                ordinal=row["ordinal"],
                payload=base64.b64decode(row["payload"]),
                state=CommandState(row["state"]),
                sequence=row["sequence"],
                rejection=row["rejection"],
            )
            for row in head["commands"]
        ),
    )


def read_event(line: Mapping[str, Any]) -> StoredEvent:
    """The event of a line."""
    return StoredEvent(line["sequence"], base64.b64decode(line["meta"]), base64.b64decode(line["content"]))


def read_expected(release: str, name: str) -> object:
    """What a log is known to add up to."""
    return json.loads((FOLDER / release / f"{name}.expected.json").read_text(encoding="utf-8"))


def read_atlas(release: str) -> list[tuple[StoredEvent, object]]:
    """The hand-made events of a release, each with the record that it is known to hold."""
    lines = _read_lines(FOLDER / release / "atlas.jsonl")
    return [(read_event(line), line["record"]) for line in lines]


def expected_text(value: object) -> str:
    """An expectation as a file has it."""
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def _lines(lines: Iterable[Mapping[str, object]]) -> str:
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def _read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _written(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


# --- what a log adds up to ---------------------------------------------------------------------


def fact_name(event: StoredEvent) -> str:
    """The member of the oneof that the metadata holds."""
    return str(event_pb2.StepEvent.FromString(event.meta).WhichOneof("fact"))


def settled_by(event: StoredEvent) -> str:
    """The command that an event settles; empty for any other event."""
    stored = event_pb2.StepEvent.FromString(event.meta)
    child = stored.child_finished.child_run_id
    return (
        stored.command_applied.command_id
        or stored.command_rejected.command_id
        or (ended_id(child) if child else "")
    )


def records(log: GoldenLog) -> list[Record]:
    """The log decoded."""
    return [CODEC.decode(event) for event in log.events]


def states(log: GoldenLog) -> Iterator[RunState]:
    """The state after each event of the log."""
    first, *rest = records(log)
    assert isinstance(first.fact, RunStarted)
    plan = CODEC.decode_plan(log.plan)
    state = begin(log.run_id, plan, first.fact, active_ms=first.envelope.active_ms)
    yield state
    for record in rest:
        state = evolve(state, record.fact, active_ms=record.envelope.active_ms)
        yield state


def folded(log: GoldenLog) -> RunState:
    """The state that the log adds up to."""
    *_, last = states(log)
    return last


def summed_up(log: GoldenLog) -> Mapping[str, object]:
    """What `*.expected.json` says: what the contract shows of the run, by today's codec and today's fold."""
    state = folded(log)
    run = run_message(
        state, created_unix_ms=log.created_unix_ms, finished_unix_ms=log.finished_unix_ms, full=True
    )
    ended = state.finished
    return {
        "run": as_json(run),
        "calls": [as_json(call) for call in tool_call_messages(state, full=True)],
        "facts": dict(sorted(Counter(map(fact_name, log.events)).items())),
        "next": _next_step(log, state),
        "context": state.context,
        "result_sha256": _digest(None if ended is None else ended.result_json),
    }


def as_json(message: Message) -> Any:
    """A message of the contract as JSON, with the names of its fields as the contract writes them."""
    return json_format.MessageToDict(message, preserving_proto_field_name=True)


def holds(found: object, expected: object) -> bool:
    """True if everything that was expected is there; what a later release adds does not matter."""
    match expected:
        case dict():
            if not isinstance(found, dict):
                return False
            there, wanted = cast("dict[str, object]", found), cast("dict[str, object]", expected)
            return all(key in there and holds(there[key], value) for key, value in wanted.items())
        case list():
            if not isinstance(found, list):
                return False
            items, wishes = cast("list[object]", found), cast("list[object]", expected)
            return len(items) == len(wishes) and all(map(holds, items, wishes))
        case _:
            return found == expected


def _next_step(log: GoldenLog, state: RunState) -> str:
    """What the loop would do with the run as it stands."""
    unix_ms = CODEC.decode(log.events[-1]).envelope.unix_ms
    step = decide(state, now=Moment(active_ms=state.active_ms, unix_ms=unix_ms), instruments=instruments())
    return type(step).__name__


def _digest(text: str | None) -> str | None:
    return None if text is None else hashlib.sha256(text.encode()).hexdigest()


def plain(value: object) -> object:
    """A frozen value as JSON: a dataclass as its fields, an enum as its value."""
    match value:
        case Enum():
            return value.value
        case tuple():
            return [plain(item) for item in cast("tuple[object, ...]", value)]
        case _ if is_dataclass(value):
            return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
        case _:
            return value

"""One event for every value that a fact can hold, made by hand: a map of the disk format.

Owns the walk over the closed union. No run is like this; runs are in `scenarios`. A number that moved in the
contract, or a name that was given to another one, shows here even where no recorded run holds the value.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from enum import Enum
from types import NoneType, UnionType
from typing import Any, cast, get_args, get_origin, get_type_hints

from jackline_server.core.facts import Fact, ModelCallStarted, StepStarted
from jackline_server.core.media import ResultMedia
from jackline_server.core.thread_facts import ThreadMessage
from jackline_server.runtime.ports.codec import Envelope, Record
from tests.logs.golden import CODEC, event_line, plain

_STARTED_UNIX_MS = 1_790_000_000_123
_JSON = {
    "input_json": '{"mark":"m"}',
    "subject_json": '{"sub":"ada"}',
    "writes_json": '{"key":[1,2.5,null]}',
    "output_json": '{"ok":true}',
    "result_json": '"done"',
}


def atlas_text() -> str:
    """The file: an event a line, each with the record that it holds."""
    lines: list[str] = []
    for sequence, fact in enumerate(_facts(), start=1):
        record = Record(envelope=_envelope(sequence, fact), fact=fact)
        line: Mapping[str, object] = {**event_line(CODEC.encode(record)), "record": record_of(record)}
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    return "".join(lines)


def record_of(record: Record) -> object:
    """A record as JSON."""
    return {"envelope": plain(record.envelope), "fact": plain(record.fact)}


def _envelope(sequence: int, fact: Fact) -> Envelope:
    """What the codec keeps in the envelope alone is the same there."""
    step_id, visit, iteration = "step", 2, 3
    if isinstance(fact, StepStarted):
        step_id, visit = fact.step_id, fact.visit
    if isinstance(fact, ModelCallStarted):
        iteration = fact.iteration
    return Envelope(
        run_id="run_atlas",
        sequence=sequence,
        unix_ms=_STARTED_UNIX_MS + sequence,
        active_ms=sequence * 10,
        step_id=step_id,
        visit=visit,
        iteration=iteration,
        signal="running",
    )


def _facts() -> Iterator[Fact]:
    """Each kind with all its fields set, once for every value of each enum, and once with little in it."""
    for shape in cast("tuple[type[Fact], ...]", get_args(Fact)):
        full, hints = _filled(shape), get_type_hints(shape)
        yield full
        optional: dict[str, object] = {}
        for field in fields(shape):
            kinds = get_args(hints[field.name]) if _is_union(hints[field.name]) else (hints[field.name],)
            for value in (one for kind in kinds if _is_enum(kind) for one in list(kind)[1:]):
                yield replace(full, **{field.name: value})
            if NoneType in kinds:
                optional[field.name] = None
        if optional:
            if isinstance(full, ModelCallStarted):
                optional["limit_leaf"] = ""  # of a limit alone
            yield replace(full, **optional)


def _filled(shape: type[Any]) -> Any:
    hints = get_type_hints(shape)
    return shape(
        **{
            field.name: _JSON.get(field.name) or _value(hints[field.name], field.name, place)
            for place, field in enumerate(fields(shape), start=1)
        }
    )


def _value(hint: Any, name: str, place: int) -> object:
    """A value of the type that is unlike its neighbours."""
    if _is_union(hint):
        return _value(next(kind for kind in get_args(hint) if kind is not NoneType), name, place)
    if get_origin(hint) is tuple and get_args(hint)[0] is ThreadMessage:
        return (ThreadMessage(digest="0a" * 32), ThreadMessage(digest="0b" * 32))
    if get_origin(hint) is tuple and get_args(hint)[0] is ResultMedia:
        return (
            ResultMedia(media_type="image/png", size=7, name="a \u00fc", blob="0c" * 32),
            ResultMedia(media_type="audio/x-own", size=5),
        )
    if get_origin(hint) is tuple:
        return (f"{name}-1", f"{name}-2")
    if _is_enum(hint):
        return next(iter(hint))
    plain_values: Mapping[Any, object] = {bool: True, int: 100 + place, str: f"{name} ü"}
    return plain_values[hint] if hint in plain_values else _filled(hint)


def _is_union(hint: Any) -> bool:
    return isinstance(hint, UnionType)


def _is_enum(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Enum)

"""What a person gave on the command line, as values: inputs, labels, bounds, durations, workflow files.

Owns reading and refusing it with exit code 2 and one line that says what to write instead. Does not own what
the server checks.
"""

import json
import math
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import cast

import typer
from google.protobuf.duration_pb2 import Duration

from jackline.v1.event_pb2 import StepEvent
from jackline.v1.run_pb2 import RunBounds, RunState
from jackline_client.errors import FieldViolation

_LARGEST_INPUT = 4 * 1024 * 1024
_LARGEST_WORKFLOW = 256 * 1024
_FILE_FOLDERS = ("steering", "skills")
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_MOST_DIGITS = 4_000
_LARGEST_NUMBER = 2**63 - 1
_LARGEST_SMALL_NUMBER = 2**32 - 1
_LONGEST_MS = 315_576_000_000 * 1_000
"""What a Duration of protobuf may be: ten thousand years."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowFiles:
    """A workflow file with the files of its folder that it names."""

    yaml: str
    files: Mapping[str, bytes]
    path: str
    """As it was given; `-` for standard input."""
    hint: str = ""
    """What a person can do about findings, where there is no file to look into."""

    def path_of(self, file: str) -> str:
        """Returns where a file that the server names is; the workflow itself has its own name there."""
        return str(Path(self.path).parent / file) if file in self.files else self.path


def read_input(text: str | None, file: str | None, pairs: Iterable[str]) -> bytes | None:
    """Puts a run's input together as JSON text: exactly as given, or an object with the pairs added."""
    if text is not None and file is not None:
        raise typer.BadParameter("give --input or --input-file, not both")
    given: bytes | None = None
    if text is not None and text != "-":
        given = text.encode("utf-8", "surrogateescape")
    elif text == "-" or file is not None:
        given = read_file(file or "-", limit=_LARGEST_INPUT)
    value: object = None if given is None else _parsed(given)
    added = _pairs(pairs)
    if not added:
        return given
    if value is None:
        value = {}
    if not isinstance(value, dict):
        raise typer.BadParameter("-i adds to an input that is a JSON object")
    return json.dumps({**cast("dict[str, object]", value), **added}, ensure_ascii=False).encode()


def read_fields(pairs: Iterable[str], *, meaning: Callable[[str, str], object] | None = None) -> str:
    """Reads `key=text` and `key:=JSON` as one JSON object; `meaning` says what a key's text stands for."""
    return json.dumps(_pairs(pairs, flag="-f", meaning=meaning), ensure_ascii=False)


def input_hints(violations: Iterable[FieldViolation], pairs: Iterable[str]) -> Iterator[str]:
    """Yields what to write instead of pairs that gave a text where the workflow wants another type."""
    wrong = {violation.field for violation in violations if " type " in violation.description}
    for pair in pairs:
        key, _, text = pair.partition("=")
        if f"input.{key}" in wrong and _is_other_than_text(text):
            yield f"{key}= gives a text; write -i {shlex.quote(f'{key}:={text}')}"


def _is_other_than_text(text: str) -> bool:
    try:
        return not isinstance(json.loads(text), str)
    except (ValueError, RecursionError):
        return False


def event_kinds() -> list[str]:
    """The kinds of events that this version knows, in the contract's order."""
    return [field.name for field in StepEvent.DESCRIPTOR.oneofs_by_name["fact"].fields]


def read_kinds(given: Iterable[str]) -> tuple[str, ...]:
    """Reads kinds of events; dashes do for underscores. A kind may be one that only the server knows."""
    kinds = tuple(kind.replace("-", "_") for kind in given)
    for kind in kinds:
        if not re.fullmatch(r"[a-z][a-z_]*", kind):
            raise typer.BadParameter(f"--kind {kind!r}: one of {', '.join(event_kinds())}")
    return kinds


def read_json(text: str, *, name: str) -> bytes:
    """Reads JSON text exactly as given; `-` reads standard input."""
    given = read_file("-", limit=_LARGEST_INPUT) if text == "-" else text.encode("utf-8", "surrogateescape")
    _parsed(given, name=name)
    return given


def _parsed(given: bytes, *, name: str = "the input") -> object:
    try:
        return _json(given.decode())
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"{name} is not UTF-8: byte {error.start + 1}") from error
    except json.JSONDecodeError as error:
        raise typer.BadParameter(
            f"{name} is not JSON: line {error.lineno}, column {error.colno}: {error.msg}"
        ) from error
    except ValueError as error:
        raise typer.BadParameter(f"{name}: {error}") from error
    except RecursionError as error:
        raise typer.BadParameter(f"{name} is nested too deeply") from error


def _json(text: str) -> object:
    """Reads JSON. Raises ValueError for what is none, and for numbers that can't be passed on."""
    return json.loads(text, parse_int=_whole, parse_float=_finite, parse_constant=_finite)


def _whole(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"a number of {len(text):,} digits; at most {_MOST_DIGITS:,} can be sent")
    return int(text)


def _finite(text: str) -> float:
    found = float(text)
    if not math.isfinite(found):
        raise ValueError(f"{text[:40]} is no number of JSON that can be sent: 1.8e308 is about the largest")
    return found


def _pairs(
    pairs: Iterable[str], *, flag: str = "-i", meaning: Callable[[str, str], object] | None = None
) -> dict[str, object]:
    added: dict[str, object] = {}
    for pair in pairs:
        key, item = _pair(pair, flag, meaning)
        if key in added:
            raise typer.BadParameter(f"{flag} {pair!r}: {key} was given before; give each key once")
        added[key] = item
    return added


def _pair(pair: str, flag: str, meaning: Callable[[str, str], object] | None) -> tuple[str, object]:
    key, separator, value = pair.partition("=")
    if not separator or not key.removesuffix(":"):
        raise typer.BadParameter(f"{flag} {pair!r}: write key=text, or key:=JSON")
    if not key.endswith(":"):
        return key, meaning(key, value) if meaning else value
    try:
        return key.removesuffix(":"), _json(value)
    except (json.JSONDecodeError, RecursionError) as error:
        raise typer.BadParameter(f"{flag} {pair!r}: what follows := is not JSON") from error
    except ValueError as error:
        raise typer.BadParameter(f"{flag} {key}: {error}") from error


def read_labels(pairs: Iterable[str]) -> dict[str, str]:
    """Reads `key=value` labels."""
    labels: dict[str, str] = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise typer.BadParameter(f"--label {pair!r}: write key=value")
        labels[key] = value
    return labels


def read_states(names: Iterable[str], *, flag: str = "--state") -> tuple[RunState.ValueType, ...]:
    """Reads states of runs by their names. Raises BadParameter for one that there is not."""
    known = {name.removeprefix("RUN_STATE_").lower(): value for name, value in RunState.items() if value}
    for name in names:
        if name not in known:
            raise typer.BadParameter(f"{flag} {name!r}: write one of {', '.join(known)}")
    return tuple(known[name] for name in names)


def read_bounds(pairs: Iterable[str]) -> RunBounds | None:
    """Reads the bounds of a run; None without any."""
    bounds = RunBounds()
    given = False
    for pair in pairs:
        given = True
        name, _, value = pair.partition("=")
        match name:
            case "token_budget":
                bounds.token_budget = _number(pair, value, _LARGEST_NUMBER)
            case "cost_budget_usd":
                bounds.cost_budget_micros = _micros(pair, value)
            case "steps":
                bounds.steps = _number(pair, value, _LARGEST_SMALL_NUMBER)
            case "events":
                bounds.events = _number(pair, value, _LARGEST_SMALL_NUMBER)
            case "child_depth":
                bounds.child_depth = _number(pair, value, _LARGEST_SMALL_NUMBER)
            case "run_timeout":
                bounds.run_timeout.CopyFrom(_duration(pair, value))
            case _:
                raise typer.BadParameter(
                    f"--bound {pair!r}: write token_budget=N, cost_budget_usd=0.50, steps=N, events=N, "
                    "child_depth=N or run_timeout=15m"
                )
    return bounds if given else None


def _number(pair: str, value: str, largest: int) -> int:
    if re.fullmatch(r"[0-9]{1,19}", value) is None or int(value) > largest:
        raise typer.BadParameter(f"--bound {pair!r}: not a whole number from 0 to {largest}")
    return int(value)


def _micros(pair: str, value: str) -> int:
    return _usd_micros(f"--bound {pair!r}", value)


def read_usd(text: str, *, flag: str) -> int:
    """Reads an amount of US dollars as millionths."""
    return _usd_micros(f"{flag} {text!r}", text)


def _usd_micros(given: str, value: str) -> int:
    try:
        micros = Decimal(value) * 1_000_000
        if 0 <= micros <= _LARGEST_NUMBER and micros == micros.to_integral_value():
            return int(micros)
    except ArithmeticError:
        pass
    raise typer.BadParameter(f"{given}: not an amount such as 0.50, with at most six decimals")


def _span_ms(given: str, value: str) -> int:
    match = re.fullmatch(r"([0-9]{1,9})(ms|s|m|h|d)", value)
    if match is None:
        raise typer.BadParameter(f"{given}: not a time such as 90s, 15m or 2h")
    milliseconds = int(match[1]) * _UNITS_MS[match[2]]
    if milliseconds > _LONGEST_MS:
        most = f"{_LONGEST_MS // _UNITS_MS['d']}d"
        raise typer.BadParameter(f"{given}: longer than a time can be, which is {most} at most")
    return milliseconds


def _duration(pair: str, value: str) -> Duration:
    return _as_duration(_span_ms(f"--bound {pair!r}", value))


def read_duration(text: str, *, flag: str) -> Duration:
    """Reads a time such as 90s, 15m or 2h."""
    return _as_duration(_span_ms(f"{flag} {text!r}", text))


def _as_duration(milliseconds: int) -> Duration:
    return Duration(seconds=milliseconds // 1000, nanos=milliseconds % 1000 * 1_000_000)


def read_seconds(text: str, *, flag: str) -> float:
    """Reads a time such as 90s, 15m or 2h; 0 is legal."""
    if text == "0":
        return 0.0
    return _span_ms(f"{flag} {text!r}", text) / 1000


def read_workflow(path: str) -> WorkflowFiles:
    """Reads a workflow file and the steering and skill files of its folder that it names; `-` is stdin."""
    given = read_file(path, limit=_LARGEST_WORKFLOW)
    try:
        yaml = given.decode()
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"{path} is not UTF-8: byte {error.start + 1}") from error
    if "\0" in yaml:
        raise typer.BadParameter(f"{path} is not a text file")
    files: dict[str, bytes] = {}
    size = len(given)
    for name, file in _named_files(yaml, Path(path).parent) if path != "-" else ():
        files[name] = read_file(str(file), limit=_LARGEST_WORKFLOW)
        size += len(files[name])
        if size > _LARGEST_WORKFLOW:
            raise typer.BadParameter(
                f"{path} and the files it names are larger than {_LARGEST_WORKFLOW} bytes"
            )
    return WorkflowFiles(yaml=yaml, files=files, path=path)


def _named_files(yaml: str, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yields the files in the steps' own folders that the text names.

    Links are left out: what a folder from elsewhere links to is not meant to leave this machine.
    """
    for kind in _FILE_FOLDERS:
        for own_folder in sorted(folder.glob(f"*/{kind}")):
            if own_folder.is_symlink() or own_folder.parent.is_symlink():
                continue
            for file in sorted(own_folder.rglob("*")):
                if (
                    file.relative_to(own_folder).as_posix() in yaml
                    and file.is_file()
                    and not file.is_symlink()
                ):
                    yield file.relative_to(folder).as_posix(), file


def read_file(path: str, *, limit: int) -> bytes:
    """Reads a file, or standard input for `-`, of at most `limit` bytes."""
    if path == "-":
        # A closed standard input is None, whatever its type says.
        source = getattr(sys.stdin, "buffer", None)
        if source is None:
            raise typer.BadParameter("standard input is closed")
        content = source.read(limit + 1)
    else:
        try:
            with Path(path).open("rb") as file:
                content = file.read(limit + 1)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else "not a file name"
            raise typer.BadParameter(f"{path} can't be read: {reason}") from error
    if len(content) > limit:
        raise typer.BadParameter(f"{path} is larger than {limit} bytes")
    return content

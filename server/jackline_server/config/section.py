"""One table of the config while it is read: typed getters that collect problems instead of raising.

Each getter takes its key off the table; what is left when `finish` is called is unknown.
"""

import difflib
import json
import re
from collections.abc import Collection, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import cast

from jackline_server.config.document import Given, Tree
from jackline_server.config.masking import masked, masked_name
from jackline_server.config.problems import Problem, ProblemCode
from jackline_server.core.plan import JsonValue
from jackline_server.runtime.ports.secrets import Secret

_SPAN = re.compile(r"(\d{1,9})(?:\.(\d{1,3}))?(ms|s|m|h|d)", re.ASCII)
_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_CONTROL = re.compile("[\x00-\x1f\x7f]")
_WORDS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_MICROS = 1_000_000
_MOST_USD = 1_000_000
_LONGEST = 8_192
_LONGEST_SHOWN = 64
_ELSEWHERE = {
    "max_parallel": "concurrency",
    "rate": "calls_per_minute",
    "requests_per_minute": "calls_per_minute",
    "url": "base_url",
    "circuit_breaker": "breaker",
}
"""What people write who know the thing by another name: a key of ours, where the table has it."""
_MOST_BITS = 128
_KINDS = ((bool, "true or false"), (int | Decimal, "a number"), (str, "a string"), (list, "a list"))


class Section:
    """A table at `path`. Problems go to the list that all sections share."""

    def __init__(self, tree: Tree, path: tuple[str, ...], problems: list[Problem]) -> None:
        self._left = dict(tree)
        self._path = path
        self._problems = problems
        self._known: set[str] = set()
        self._places: dict[str, str] = {}
        self._hidden: set[str] = set()

    # --- plain values

    def text(self, key: str, *, default: str | None = None) -> str | None:
        """A string without control characters, or the default; None for one that is no such string."""
        given = self._take(key)
        if given is None:
            return default
        value = given.value
        if not isinstance(value, str):
            return self._misplaced(key, given, "a string")
        if not value.strip() or len(value) > _LONGEST or _CONTROL.search(value):
            return self._bad(key, given, "is empty, too long, or holds a control character")
        return value

    def secret(self, key: str) -> Secret | None:
        """A string that is hidden from now on, or None."""
        value = self.text(key)
        return None if value is None else Secret(value)

    def boolean(self, key: str, *, default: bool | None = None) -> bool | None:
        """True, false, or the default."""
        given = self._take(key)
        if given is None:
            return default
        if given.as_text and isinstance(given.value, str) and given.value.lower() in _WORDS:
            return _WORDS[given.value.lower()]
        return given.value if isinstance(given.value, bool) else self._wrong(key, given, "true or false")

    def integer(self, key: str, *, default: int, least: int, most: int) -> int:
        """A whole number in its range."""
        given = self._take(key)
        if given is None:
            return default
        value = given.value
        if given.as_text and isinstance(value, str) and re.fullmatch(r"[+-]?\d{1,18}", value, re.ASCII):
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            self._wrong(key, given, "a whole number")
            return default
        if not least <= value <= most:
            self._bad(key, given, f"must be from {least} to {most}")
            return default
        return value

    def optional_integer(self, key: str, *, most: int) -> int | None:
        """A whole number from 1, or None if there is none."""
        return self.integer(key, default=0, least=1, most=most) or None

    def span(self, key: str, *, default_ms: int, most_ms: int = 86_400_000) -> int:
        """A time with its unit, `500ms`, `20s`, `5m`, `1h`, above nothing."""
        given = self._take(key)
        if given is None:
            return default_ms
        match = _SPAN.fullmatch(given.value) if isinstance(given.value, str) else None
        if match is None:
            self._wrong(key, given, "a time such as 500ms, 20s or 5m")
            return default_ms
        whole, part, unit = match.groups()
        milliseconds = int(whole) * _UNITS[unit] + int((part or "0").ljust(3, "0")) * _UNITS[unit] // 1_000
        if not 0 < milliseconds <= most_ms:
            self._bad(key, given, f"must be above 0 and at most {most_ms // 1_000}s")
            return default_ms
        return milliseconds

    def optional_span(self, key: str) -> int | None:
        """A time with its unit, or None if there is none."""
        return self.span(key, default_ms=0) or None

    def texts(self, key: str, *, default: Collection[str] = ()) -> tuple[str, ...]:
        """A list of strings; in a variable or a flag, with commas between."""
        given = self._take(key)
        if given is None:
            return tuple(default)
        value = given.value
        if given.as_text and isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        if not isinstance(value, list):
            self._misplaced(key, given, "a list of strings")
            return tuple(default)
        items: list[object] = list(value)  # pyright: ignore[reportUnknownArgumentType] - TOML says not of what
        if not all(isinstance(item, str) and item and not _CONTROL.search(item) for item in items):
            self._misplaced(key, given, "a list of strings")
            return tuple(default)
        return tuple(str(item) for item in items)

    def command(self, key: str) -> tuple[str, ...] | None:
        """A program and its arguments, or None. The program is an absolute path from now on.

        A path that begins with `.` is one from where its source stands; a bare name is refused, so that no
        search path decides what is started.
        """
        given = self._peek(key)
        words = self.texts(key)
        if given is None or not words:
            return None
        program = Path(words[0])
        if words[0].startswith(("./", "../")):
            program = (given.folder / program).absolute()
        if not program.is_absolute():
            return self._bad(
                key, given, "must begin with an absolute path, or one that starts with ./ or ../"
            )
        return (str(program), *words[1:])

    def usd_micros(self, key: str) -> int | None:
        """Dollars as exact millionths, or None. Zero is legal."""
        given = self._take(key)
        if given is None:
            return None
        value = given.value
        try:
            if isinstance(value, bool) or not (
                isinstance(value, int | Decimal) or (given.as_text and isinstance(value, str))
            ):
                return self._wrong(key, given, "an amount of US dollars")
            micros = Decimal(value) * _MICROS
        except ArithmeticError:  # no number, or one beyond what a decimal can hold
            return self._wrong(key, given, "an amount of US dollars")
        if not micros.is_finite() or not 0 <= micros <= _MOST_USD * _MICROS:
            return self._bad(key, given, f"must be from 0 to {_MOST_USD}")
        if micros != micros.to_integral_value():
            return self._bad(key, given, "has more than six decimal places")
        return int(micros)

    def path(self, key: str, *, default: Path | None = None) -> Path | None:
        """A path, absolute or from where its source stands; or the default."""
        given = self._peek(key)
        value = self.text(key)
        return default if value is None or given is None else given.folder / value

    def peeked(self, key: str) -> str | None:
        """The text of a key that stays to be taken; None if there is no text."""
        given = self._peek(key)
        return given.value if given is not None and isinstance(given.value, str) else None

    def plain(self, key: str) -> JsonValue:
        """Any value but a table, as JSON has it; None for one that JSON has not."""
        given = self._take(key)
        if given is None:
            return None
        try:
            return _as_json(_read_text(given.value) if given.as_text else given.value)
        except ValueError:
            return self._misplaced(key, given, "a string, a number, true or false, or a list of those")

    # --- tables

    def table(self, key: str) -> "Section | None":
        """The table of that key, or None."""
        node = self._left.pop(key, None)
        self._known.add(key)
        if node is None:
            return None
        if isinstance(node, Given):
            return self._misplaced(key, node, "a table")
        return self._below(key, node)

    def _below(self, key: str, tree: Tree) -> "Section":
        """A table inside this one, of the same kind as it."""
        return Section(tree, (*self._path, key), self._problems)

    def tables(self) -> "Iterator[tuple[str, Section]]":
        """Each table in this one, by name."""
        for name in tuple(self._left):
            if (section := self.table(name)) is not None:
                yield name, section

    def keys(self) -> Sequence[str]:
        """The keys that nobody took yet."""
        return tuple(self._left)

    def has_seen(self, key: str) -> bool:
        """True if the key was there, well or badly written, and was taken."""
        return key in self._places

    def free(self) -> dict[str, JsonValue]:
        """Everything in this table, whatever its keys are, as JSON has it."""
        read: dict[str, JsonValue] = {}
        for key in self.keys():
            is_value = self._peek(key) is not None
            below = None if is_value else self.table(key)
            read[key] = self.plain(key) if below is None else below.free()
        return read

    # --- what is wrong

    def quoted(self, key: str, value: str) -> str:
        """A value of that key as a message may show it: not at all if it came by a reference."""
        return "what it holds" if key in self._hidden else repr(masked(value[:_LONGEST_SHOWN]))

    def finish(self, *, not_built: Collection[str] = ()) -> None:
        """Report each key that is left, by name, with the nearest one there is."""
        for key in tuple(self._left):
            if key in not_built:
                self.problem(ProblemCode.NOT_BUILT, key, "not built yet; remove it")
                continue
            known = self._known | set(not_built)
            near = [_ELSEWHERE[key]] if _ELSEWHERE.get(key) in known else []
            near = near or difflib.get_close_matches(key, sorted(known), n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            self.problem(ProblemCode.UNKNOWN_KEY, key, f"no such key{hint}")

    def problem(self, code: ProblemCode, key: str, message: str) -> None:
        """Report a problem of a key that is or was here."""
        where = self._places.get(key) or _first_place(self._left.get(key))
        self._report(code, key, where or "config", message)

    def where(self, key: str) -> str:
        """Where a key that was read was given, as problems say it; empty if it was not."""
        return self._places.get(key, "")

    def missing(self, key: str, message: str, *, instead: Collection[str] = ()) -> None:
        """Report a key that has to be there, or one of those in place of it.

        Says nothing where a key that is left looks like a slip of one of these: `finish` reports that.
        """
        wanted = [name for name in (key, *instead) if name not in self._places]
        if any(difflib.get_close_matches(left, wanted, n=1) for left in self._left):
            return
        nodes = (self._left.get(name) for name in self._left)
        places = (*self._places.values(), *map(_first_place, nodes))
        self._report(ProblemCode.MISSING, key, next(filter(None, places), "config"), message)

    def _take(self, key: str) -> Given | None:
        self._known.add(key)
        node = self._left.pop(key, None)
        if node is None:
            return None
        self._places[key] = _first_place(node)
        if isinstance(node, Given) and node.hidden:
            self._hidden.add(key)
        if not isinstance(node, Given):
            self._report(ProblemCode.WRONG_TYPE, key, _first_place(node) or "config", "is not a table")
            return None
        return None if node.value is None else node  # None: its reference was reported already

    def _peek(self, key: str) -> Given | None:
        node = self._left.get(key)
        return node if isinstance(node, Given) else None

    def _wrong(self, key: str, given: Given, wanted: str) -> None:
        self._report(ProblemCode.WRONG_TYPE, key, given.where, f"must be {wanted}{_seen(given)}")

    def _misplaced(self, key: str, given: Given, wanted: str) -> None:
        """As `_wrong`, where no number is wanted: what stands there may be a secret without its quotes."""
        kind = next((name for of, name in _KINDS if isinstance(given.value, of)), "")
        instead = f", not {kind}" if kind and not given.hidden else ""
        self._report(ProblemCode.WRONG_TYPE, key, given.where, f"must be {wanted}{instead}")

    def _bad(self, key: str, given: Given, message: str) -> None:
        self._report(ProblemCode.BAD_VALUE, key, given.where, f"{message}{_seen(given)}")

    def _report(self, code: ProblemCode, key: str, where: str, message: str) -> None:
        dotted = ".".join(map(masked_name, (*self._path, key)))
        self._problems.append(Problem(code=code, where=where, key=dotted, message=message))


def _seen(given: Given) -> str:
    """The number that was given instead, unless hidden. A string never is shown: it may be misplaced."""
    value = given.value
    if given.hidden or not isinstance(value, bool | int | Decimal):
        return ""
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:  # Python refuses to write the longest
        return ", not a number of so many digits"
    return f", not {str(value).lower()[:_LONGEST_SHOWN]}"


def _as_json(value: object) -> JsonValue:
    """The value with its numbers as JSON's. Raises ValueError for one that JSON has not."""
    match value:
        case str() | bool() | int():
            return value
        case Decimal() if value.is_finite():
            return float(value)
        case float():
            return value
        case list():
            return [_as_json(item) for item in cast("list[object]", value)]
        case dict():
            return {str(key): _as_json(item) for key, item in cast("dict[str, object]", value).items()}
        case _:
            raise ValueError(type(value).__name__)


def _read_text(value: object) -> object:
    """What a variable means: JSON if it is that, else itself."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _first_place(node: "Tree | Given | None") -> str:
    while isinstance(node, dict):
        node = next(iter(node.values()), None)
    return node.where if node is not None else ""

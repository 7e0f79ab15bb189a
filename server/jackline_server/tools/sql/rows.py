"""Values between JSON and a database: what a driver is given, and what of its rows is kept.

So many rows and bytes are kept, and every value exactly.

A number that JSON can't hold exactly (a decimal) is text, and so are dates and times, as ISO 8601 has them; a
number without a finite value is the text `NaN`, `Infinity` or `-Infinity`; of binary data only the size is
told. Whatever else a driver makes is its text.
"""

from collections.abc import Sequence
from math import isinf, isnan
from typing import cast

from jackline_server.core import json_text
from jackline_server.core.plan import JsonObject, JsonValue
from jackline_server.tools.results import clean_text
from jackline_server.tools.sql.databases import SqlFailure

_MOST_BITS = 64


def bound(value: JsonValue) -> object:
    """A value as a driver takes it: what is no plain value is its JSON."""
    match value:
        case str():
            return json_text.clean(value)
        case dict() | list():
            return json_text.write(value)
        case _:
            return value


class Rows:
    """The rows of one answer. Takes them one by one."""

    def __init__(self, *, max_rows: int, max_bytes: int) -> None:
        self._max_rows = max_rows
        self._left = max_bytes
        self._max_bytes = max_bytes
        self._names: list[str] | None = None
        self._rows: list[JsonValue] = []
        self._truncated = False

    @property
    def is_full(self) -> bool:
        """True once a row was left out. What comes now is left out too."""
        return self._truncated

    def name(self, columns: Sequence[str]) -> None:
        """The names of the columns, before the first row. One that comes twice gets a number."""
        names: list[str] = []
        for column in columns:
            plain, count = clean_text(column), 1
            name = plain
            while name in names:
                count += 1
                name = f"{plain}_{count}"
            names.append(name)
        self._names = names

    def add(self, row: Sequence[object]) -> None:
        """Keep a row, or leave it out if there is no room."""
        if self._truncated or len(self._rows) >= self._max_rows:
            self._truncated = True
            return
        made: JsonObject = dict(zip(self._names or (), map(plain_value, row), strict=False))
        self._left -= len(json_text.write(made).encode())
        if self._left < 0:
            self._truncated = True
        else:
            self._rows.append(made)

    def answer(self, *, affected: int | None) -> JsonObject:
        """What a model sees. Raises SqlFailure if a read has not even room for its first row."""
        made: JsonObject = {}
        if self._names is not None:
            if self._truncated and not self._rows and affected is None:
                raise SqlFailure(f"The first row alone has more than {self._max_bytes} bytes; select less.")
            made["rows"] = self._rows
        if affected is not None:
            made["rows_affected"] = affected
        if self._truncated:
            made["truncated"] = True
        return made


def plain_value(value: object) -> JsonValue:
    """One value of a row."""
    match value:
        case None | bool():
            return value
        case int() | float():
            return _number(value)
        case bytes():
            return f"[{len(value)} bytes]"
        case list() | tuple():
            return [plain_value(item) for item in cast("Sequence[object]", value)]
        case dict():
            fields = cast("dict[object, object]", value)
            return {clean_text(str(key)): plain_value(item) for key, item in fields.items()}
        case _:  # text, and what is best told by its text: decimals, dates, UUIDs, addresses, ranges
            return clean_text(str(value))


def _number(value: float) -> int | float | str:
    if isinstance(value, int):
        return value if value.bit_length() <= _MOST_BITS else str(value)
    if isnan(value):
        return "NaN"
    if isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value

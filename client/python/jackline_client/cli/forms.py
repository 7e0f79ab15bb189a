"""The forms in which a command writes what it read: a table, JSON, YAML, names, or lines for a person.

Owns choosing and writing them. Does not own what the columns are: each command describes its own listing.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar, cast

import typer
from google.protobuf.descriptor import Descriptor
from google.protobuf.json_format import MessageToDict

from jackline_client.cli.printable import printable
from jackline_client.cli.screen import Screen
from jackline_client.cli.wording import Line
from jackline_client.cli.yaml_text import yaml_text

_CELL = 40
_STRUCT = "google.protobuf.Struct"
_Item = TypeVar("_Item")


class Form(StrEnum):
    """What `-o` may be."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


def chosen_form(output: Form | None, as_json: bool) -> Form | None:
    """Returns the form that the flags ask for; None for what the command shows by itself."""
    if not as_json:
        return output
    if output not in {None, Form.JSON}:
        raise typer.BadParameter(f"--json and -o {output} ask for two forms; give one of them")
    return Form.JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Column(Generic[_Item]):
    """One column: its head, how to fill a cell, how wide it is at least."""

    head: str
    cell: Callable[[_Item], str]
    width: int = 0
    limit: int = _CELL
    """Longer cells are cut."""
    is_wide: bool = False
    """Only shown with `-o wide`."""
    is_number: bool = False

    def padded(self, text: str) -> str:
        """Fills a cell up to the column's width."""
        return f"{text:>{self.width}}" if self.is_number else f"{text:<{self.width}}"


def message_document(message: Any) -> Mapping[str, object]:  # noqa: ANN401 - the listings of messages share it
    """Returns a message as protobuf JSON has it, with the contract's field names and maps by key."""
    found: dict[str, object] = MessageToDict(message, preserving_proto_field_name=True)
    _order_maps(message.DESCRIPTOR, found)
    return found


def _order_maps(descriptor: Descriptor, document: dict[str, Any]) -> None:
    """Bring maps, whose order protobuf leaves open, into the order of their keys."""
    for field in descriptor.fields:
        value = document.get(field.name)
        if value is None or field.message_type is None or not isinstance(value, dict | list):
            continue
        if field.message_type.GetOptions().map_entry or field.message_type.full_name == _STRUCT:
            document[field.name] = _ordered(value)
            continue
        for inner in cast("list[Any]", value if isinstance(value, list) else [value]):
            if isinstance(inner, dict):
                _order_maps(field.message_type, cast("dict[str, Any]", inner))


def _ordered(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    match value:
        case dict():
            return {key: _ordered(value[key]) for key in sorted(cast("dict[str, Any]", value))}
        case list():
            return [_ordered(item) for item in cast("list[Any]", value)]
        case _:
            return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Generic[_Item]):
    """How one kind of thing is written."""

    columns: tuple[Column[_Item], ...]
    name: Callable[[_Item], str] | None
    """What other commands take for it; None for what has no name."""
    none: str = ""
    """What a person is told if there is nothing."""
    document: Callable[[_Item], Mapping[str, object]] = message_document


class Output(Generic[_Item]):
    """Writes things one by one as they come; `end` when there are no more."""

    def __init__(
        self,
        *,
        screen: Screen,
        listing: Listing[_Item],
        form: Form | None,
        lines: Callable[[_Item], Iterator[Line]] | None = None,
    ) -> None:
        """`lines` is what a person is shown without `-o`, where that is not the table."""
        if form is Form.NAME and listing.name is None:
            raise typer.BadParameter("-o name: these have no names; try -o table")
        self._screen = screen
        self._listing = listing
        self._form = form if form is not None or lines is not None else Form.TABLE
        self._lines = lines
        self._shown = 0
        self._columns = [column for column in listing.columns if form is Form.WIDE or not column.is_wide]

    def item(self, item: _Item) -> None:
        """Writes one thing."""
        match self._form:
            case None:
                for line in self._lines(item) if self._lines else ():
                    self._screen.line(line.text, style=line.style)
            case Form.TABLE | Form.WIDE:
                # The head comes with the first row: a call that fails shows none.
                if not self._shown:
                    self._screen.line(self._row([column.head for column in self._columns]), style="head")
                self._screen.line(self._row([self._cell(column, item) for column in self._columns]))
            case Form.JSON:
                self._screen.raw(_json(self._listing.document(item)))
            case Form.YAML:
                self._screen.raw(_yaml(self._listing.document(item), is_first=not self._shown))
            case Form.NAME:
                self._screen.line(self._listing.name(item) if self._listing.name else "")
        self._shown += 1

    @property
    def is_empty(self) -> bool:
        """Whether a person is about to be told that there was nothing."""
        return not self._shown and self._form in {None, Form.TABLE, Form.WIDE}

    def end(self, none: str = "") -> None:
        """Says to a person that there was nothing, in words of one's own if given; a program sees nothing."""
        if self.is_empty and (none or self._listing.none):
            self._screen.line(none or self._listing.none)

    def _cell(self, column: Column[_Item], item: _Item) -> str:
        return printable(column.cell(item), limit=column.limit)

    def _row(self, cells: list[str]) -> str:
        *padded, last = zip(self._columns, cells, strict=True)
        return "  ".join([*(column.padded(cell) for column, cell in padded), last[1]])


def _json(document: Mapping[str, object]) -> str:
    return json.dumps(document, separators=(",", ":"))


def _yaml(document: Mapping[str, object], *, is_first: bool) -> str:
    return ("" if is_first else "---\n") + yaml_text(document).removesuffix("\n")

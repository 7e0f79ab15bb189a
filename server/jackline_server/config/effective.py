"""The settings in effect, each with where it came from: what `jackline config show` prints.

Owns noting what the readers of the sections ask for while they read. A secret never gets in here: what is
noted is already masked (`masking`).
"""

from collections.abc import Collection, Iterator, Mapping
from decimal import Decimal
from pathlib import Path

from jackline_server.config.document import Given, Tree
from jackline_server.config.load import read_config
from jackline_server.config.masking import MASK, masked, masked_command
from jackline_server.config.problems import Problem
from jackline_server.config.section import Section
from jackline_server.config.settings import Config
from jackline_server.core import json_text
from jackline_server.core.frozen import frozen
from jackline_server.core.plan import JsonValue
from jackline_server.runtime.ports.secrets import Secret

DEFAULT = "default"

Shown = str | int | bool | Decimal | list[str] | None

_MICROS = 1_000_000
_UNITS = ((3_600_000, "h"), (60_000, "m"), (1_000, "s"))


@frozen
class Setting:
    """One setting. `value` is what may be shown; `where` is file:line, a variable, a flag or `default`.

    `references` are those that the file has in its place, such as `${env:NAME}`.
    """

    path: tuple[str, ...]
    value: Shown
    where: str
    references: tuple[str, ...] = ()


@frozen
class Effective:
    """The config and its settings in the order of its sections."""

    config: Config
    settings: tuple[Setting, ...]


def effective_settings(
    *, file: Path | None, environ: Mapping[str, str], flags: Mapping[str, str | int | bool]
) -> Effective:
    """Read the config as `load_config` does, and note each setting. Raises ConfigError."""
    noted: dict[tuple[str, ...], Setting] = {}

    def make(tree: Tree, path: tuple[str, ...], problems: list[Problem]) -> Section:
        return _NotedSection(tree, path, problems, noted)

    config = read_config(file=file, environ=environ, flags=flags, make=make)
    return Effective(config=config, settings=tuple(_completed(noted, config)))


def _completed(noted: Mapping[tuple[str, ...], Setting], config: Config) -> Iterator[Setting]:
    """What depends on other settings gets the value that came of them."""
    derived: dict[tuple[str, ...], Shown] = {("server", "reflection"): config.server.reflection}
    for name, profile in config.models.items():
        derived["models", name, "adapter"] = profile.adapter
    for path, setting in noted.items():
        value = setting.value if setting.value == MASK else derived.get(path, setting.value)
        yield Setting(path=path, value=value, where=setting.where, references=setting.references)


class _NotedSection(Section):
    """A table that notes each value that is read from it."""

    def __init__(
        self,
        tree: Tree,
        path: tuple[str, ...],
        problems: list[Problem],
        noted: dict[tuple[str, ...], Setting],
    ) -> None:
        super().__init__(tree, path, problems)
        self._noted = noted

    def _below(self, key: str, tree: Tree) -> Section:
        return _NotedSection(tree, (*self._path, key), self._problems, self._noted)

    def _note(self, key: str, given: Given | None, value: Shown) -> None:
        hides = given is not None and given.hidden and value is not None
        self._noted[*self._path, key] = Setting(
            path=(*self._path, key),
            value=MASK if hides else value,
            where=DEFAULT if given is None else given.where,
            references=() if given is None else given.references,
        )

    def text(self, key: str, *, default: str | None = None) -> str | None:
        given = self._peek(key)
        value = super().text(key, default=default)
        self._note(key, given, None if value is None else masked(value))
        return value

    def secret(self, key: str) -> Secret | None:
        given = self._peek(key)
        value = super().secret(key)
        self._note(key, given, None if value is None else MASK)
        return value

    def boolean(self, key: str, *, default: bool | None = None) -> bool | None:
        given = self._peek(key)
        value = super().boolean(key, default=default)
        self._note(key, given, value)
        return value

    def integer(self, key: str, *, default: int, least: int, most: int) -> int:
        given = self._peek(key)
        value = super().integer(key, default=default, least=least, most=most)
        self._note(key, given, None if given is None and value < least else value)
        return value

    def span(self, key: str, *, default_ms: int, most_ms: int = 86_400_000) -> int:
        given = self._peek(key)
        value = super().span(key, default_ms=default_ms, most_ms=most_ms)
        self._note(key, given, span_text(value) if value else None)
        return value

    def texts(self, key: str, *, default: Collection[str] = ()) -> tuple[str, ...]:
        given = self._peek(key)
        values = super().texts(key, default=default)
        self._note(key, given, None if given is None and not values else [masked(one) for one in values])
        return values

    def command(self, key: str) -> tuple[str, ...] | None:
        given = self._peek(key)
        words = super().command(key)
        self._note(key, given, None if words is None else masked_command(words))
        return words

    def usd_micros(self, key: str) -> int | None:
        given = self._peek(key)
        micros = super().usd_micros(key)
        self._note(key, given, None if micros is None else (Decimal(micros) / _MICROS).normalize())
        return micros

    def plain(self, key: str) -> JsonValue:
        given = self._peek(key)
        value = super().plain(key)
        self._note(key, given, _shown_plain(value))
        return value

    def path(self, key: str, *, default: Path | None = None) -> Path | None:
        given = self._peek(key)
        value = super().path(key, default=default)
        # What was meant as an address would lose its looks in a path.
        is_address = given is not None and "://" in str(given.value)
        self._note(key, given, None if value is None else MASK if is_address else str(value))
        return value


def _shown_plain(value: JsonValue) -> Shown:
    match value:
        case None | bool() | int():
            return value
        case float():
            return Decimal(str(value))
        case str():
            return masked(value)
        case _:
            return masked(json_text.write(value))


def span_text(milliseconds: int) -> str:
    """A time as the config writes it."""
    for size, unit in _UNITS:
        if milliseconds % size == 0 and (unit != "m" or milliseconds > size):
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms"

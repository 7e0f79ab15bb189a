"""The settings in effect, each with where it came from: what `jackline config show` prints.

Owns noting what the readers of the sections ask for while they read, and what of it may be shown. A secret
never gets in here: what is noted is already masked.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from urllib.parse import urlsplit

from jackline_server.config.document import Given, Tree
from jackline_server.config.load import read_config
from jackline_server.config.problems import Problem
from jackline_server.config.section import Section
from jackline_server.config.settings import Config
from jackline_server.core.frozen import frozen
from jackline_server.runtime.secrets import Secret

MASK = "***"
DEFAULT = "default"

Shown = str | int | bool | Decimal | list[str] | None

_MICROS = 1_000_000
_UNITS = ((3_600_000, "h"), (60_000, "m"), (1_000, "s"))
_NAMES_A_SECRET = re.compile(
    r"(api[-_]?key|[-_]key\b|token|secret|passw|credential|\bauth|bearer|private[-_]?key)", re.IGNORECASE
)
_LOOKS_SECRET = re.compile(
    r"\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{12,}|\b(?:gh[opsur]|github_pat|hf)_[A-Za-z0-9_]{16,}"
    r"|\bxox[abeoprs]-[A-Za-z0-9-]{8,}|\bglpat-[A-Za-z0-9_-]{8,}|\bAIza[0-9A-Za-z_-]{20,}|\beyJ[A-Za-z0-9_-]{8,}\S*"
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|(?i:\bbearer)\s+\S+"
    # Long runs of letters and digits, with or without a dash: no word of a language looks so.
    r"|\b(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]{24,}\b|\b(?=\S*[0-9])[A-Za-z0-9_-]{40,}\b"
)


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
        value = derived.get(path, setting.value)
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
        self._note(key, given, span_text(value))
        return value

    def texts(self, key: str, *, default: Collection[str] = ()) -> tuple[str, ...]:
        given = self._peek(key)
        values = super().texts(key, default=default)
        self._note(key, given, None if given is None and not values else masked_words(values))
        return values

    def command(self, key: str) -> tuple[str, ...] | None:
        given = self._peek(key)
        words = super().command(key)
        self._note(key, given, None if words is None else masked_words(words))
        return words

    def usd_micros(self, key: str) -> int | None:
        given = self._peek(key)
        micros = super().usd_micros(key)
        self._note(key, given, None if micros is None else (Decimal(micros) / _MICROS).normalize())
        return micros

    def path(self, key: str, *, default: Path | None = None) -> Path | None:
        given = self._peek(key)
        value = super().path(key, default=default)
        self._note(key, given, None if value is None else str(value))
        return value


def span_text(milliseconds: int) -> str:
    """A time as the config writes it."""
    for size, unit in _UNITS:
        if milliseconds % size == 0 and (unit != "m" or milliseconds > size):
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms"


def masked_words(words: Collection[str]) -> list[str]:
    """The words of a command or list; what follows an option that names a secret is masked."""
    shown: list[str] = []
    hides_next = False
    for word in words:
        name, equals, value = word.partition("=")
        if hides_next and not word.startswith("-"):
            shown.append(MASK)
        elif equals and value and _NAMES_A_SECRET.search(name):
            shown.append(f"{name}={MASK}")
        else:
            shown.append(masked(word))
        hides_next = word.startswith("-") and not equals and _NAMES_A_SECRET.search(word) is not None
    return shown


def masked(text: str) -> str:
    """The text without what looks like a secret: user and query of a URL as a whole, else by its looks."""
    try:
        parts = urlsplit(text) if "://" in text else None
    except ValueError:
        return MASK
    if parts is not None and parts.netloc:
        host = parts.netloc.rpartition("@")[2]
        user = f"{MASK}@" if "@" in parts.netloc else ""
        query = f"?{MASK}" if parts.query else ""
        return f"{parts.scheme}://{user}{host}{_LOOKS_SECRET.sub(MASK, parts.path)}{query}"
    return _LOOKS_SECRET.sub(MASK, text)

"""The faults that the suite has to notice: each one change of the source, and the test that it turns red.

Owns the form of the files in `families/` and what makes one of them wrong. A family is a kind of fault that
loops of this sort are known for; its members differ in where they sit. Does not own how a fault is tried
(`trying`).
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FAMILIES = Path(__file__).parent / "families"
_KEYS = {"fault", "file", "old", "new", "test"}


class BadCatalogue(Exception):
    """A file of the catalogue says something that can't be tried. The text names it and what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One fault. `old` stands once in `file`, a path from the root; `test` is a node id of pytest."""

    family: str
    fault: str
    file: str
    old: str
    new: str
    test: str

    def applied(self, source: str) -> str:
        """The file's text with the fault in it. Raises BadCatalogue: `old` does not stand there once."""
        count = source.count(self.old)
        if count != 1:
            raise BadCatalogue(f"{self.family}: {self.fault!r}: `old` stands {count} times in {self.file}")
        return source.replace(self.old, self.new)


def load(folder: Path = FAMILIES) -> tuple[Mutant, ...]:
    """Every fault, by family. Raises BadCatalogue."""
    return tuple(mutant for path in sorted(folder.glob("*.toml")) for mutant in _read(path))


def _read(path: Path) -> Iterator[Mutant]:
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    if not document.get("title"):
        raise BadCatalogue(f"{path.name}: there is no `title`")
    for entry in document.get("mutant", []):
        if set(entry) != _KEYS:
            raise BadCatalogue(
                f"{path.name}: {entry.get('fault')!r} needs {', '.join(sorted(_KEYS))}, no more"
            )
        if entry["old"] == entry["new"]:
            raise BadCatalogue(f"{path.name}: {entry['fault']!r} changes nothing")
        yield Mutant(family=path.stem, **entry)

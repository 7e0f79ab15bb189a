"""What a measurement says: its figures, their targets, and what was wrong with what it looked at.

Owns both forms of that, one line of JSON and a table for people. Does not measure.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

Figure = float | int | bool | str | None | Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A figure's bound: `at_most`, `at_least` or `equals`; only one of them is given."""

    figure: str
    at_most: float | None = None
    at_least: float | None = None
    equals: bool | None = None

    def is_met(self, figures: Mapping[str, Figure]) -> bool:
        """True if the figure is there and keeps to its bound."""
        value = figures.get(self.figure)
        if self.equals is not None:
            return value is self.equals
        if not isinstance(value, int | float):
            return False
        if self.at_most is not None and value > self.at_most:
            return False
        return self.at_least is None or value >= self.at_least

    def words(self) -> str:
        """The bound in words."""
        if self.equals is not None:
            return str(self.equals).lower()
        return f"at most {self.at_most:g}" if self.at_most is not None else f"at least {self.at_least:,g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One measurement. `problems` says what was not as it has to be; figures then mean nothing."""

    name: str
    figures: Mapping[str, Figure]
    targets: Sequence[Target]
    problems: Sequence[str]
    parameters: Mapping[str, Figure]
    notes: Sequence[str] = field(default_factory=tuple[str, ...])

    @property
    def verified(self) -> bool:
        """True if everything that was looked at was as it has to be."""
        return not self.problems

    @property
    def ok(self) -> bool:
        """True if it is verified and every target is met."""
        return self.verified and all(target.is_met(self.figures) for target in self.targets)

    def unjudged(self) -> "Result":
        """The same without targets: of a size at which a figure says nothing."""
        return replace(
            self, targets=(), notes=(*self.notes, "tiny: no figure means anything, none is judged")
        )


def as_json(result: Result, surroundings: Mapping[str, Any]) -> str:
    """One line: the figures by name, then what they have to be read with."""
    document = {
        "benchmark": result.name,
        "ok": result.ok,
        "verified": result.verified,
        **{name: _rounded(value) for name, value in result.figures.items()},
        "targets": [
            {
                **{name: value for name, value in asdict(target).items() if value is not None},
                "met": target.is_met(result.figures),
            }
            for target in result.targets
        ],
        "problems": list(result.problems),
        "parameters": dict(result.parameters),
        "notes": list(result.notes),
        **surroundings,
    }
    return json.dumps(document, ensure_ascii=True)


def as_table(result: Result) -> str:
    """The same for people."""
    targets = {target.figure: target for target in result.targets}
    width = max(map(len, result.figures), default=0)
    lines = [f"{result.name}: {'ok' if result.ok else 'NOT ok'}"]
    for name, value in result.figures.items():
        bound = ""
        if target := targets.get(name):
            bound = f"   {'ok' if target.is_met(result.figures) else 'MISSED'}, {target.words()}"
        lines.append(f"  {name:<{width}}  {_shown(value)}{bound}")
    with_what = ", ".join(f"{name} {_shown(value)}" for name, value in result.parameters.items())
    lines.append(f"  with {with_what}")
    lines += [f"  {note}" for note in result.notes]
    lines += [f"  PROBLEM {problem}" for problem in result.problems]
    return "\n".join(lines)


def _rounded(value: Figure) -> Figure:
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [round(part, 4) for part in value]
    return value


def _shown(value: Figure) -> str:
    match value:
        case bool():
            return str(value).lower()
        case None:
            return "-"
        case str():
            return value
        case int() | float():
            return f"{value:,.3f}".rstrip("0").rstrip(".")
        case _:
            return " ".join(_shown(part) for part in value)

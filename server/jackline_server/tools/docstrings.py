"""What a docstring says of each parameter: in Google's style, NumPy's, or as Sphinx fields.

Owns finding it, and the text without it. A docstring in no such style is left as it is.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from jackline_server.core.frozen import frozen

_MOST_CHARS = 1_000
_GOOGLE = re.compile(r"(?:Args|Arguments|Parameters|Params):", re.IGNORECASE)
_NUMPY = re.compile(r"Parameters", re.IGNORECASE)
_RULE = re.compile(r"-{3,}")
_FIELD = re.compile(r":(?:param|parameter|arg|argument)\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)")
_GOOGLE_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")
_NUMPY_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?::.*)?")


@frozen
class Told:
    """A docstring: `text` without what it says of parameters, which is in `parameters` by name."""

    text: str
    parameters: Mapping[str, str]


def read(docstring: str, names: Sequence[str]) -> Told:
    """Read a docstring as `inspect.getdoc` gives it. What is said of other names stays text."""
    lines = docstring.splitlines()
    for index, line in enumerate(lines):
        if _GOOGLE.fullmatch(line.strip()) and _indent(line) == 0:
            return _section(lines, index, index + 1, names, google=True)
        under = lines[index + 1] if index + 1 < len(lines) else ""
        if _NUMPY.fullmatch(line.strip()) and _RULE.fullmatch(under.strip()):
            return _section(lines, index, index + 2, names, google=False)
    return _fields(lines, names)


def _section(lines: Sequence[str], head: int, first: int, names: Sequence[str], *, google: bool) -> Told:
    end = first
    while end < len(lines) and not (_ends_google if google else _ends_numpy)(lines, end):
        end += 1
    entry = _GOOGLE_ENTRY if google else _NUMPY_ENTRY
    found = dict(_entries(lines[first:end], entry, names))
    if not found:
        return _whole(lines)
    return Told(text=_joined([*lines[:head], *lines[end:]]), parameters=found)


def _ends_google(lines: Sequence[str], index: int) -> bool:
    return bool(lines[index].strip()) and _indent(lines[index]) == 0


def _ends_numpy(lines: Sequence[str], index: int) -> bool:
    return index + 1 < len(lines) and _RULE.fullmatch(lines[index + 1].strip()) is not None


def _entries(lines: Sequence[str], entry: re.Pattern[str], names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each name with its text: what stands behind it and deeper below it."""
    depth = min((_indent(line) for line in lines if line.strip()), default=0)
    name, said = "", list[str]()
    for line in [*lines, " " * depth + "end:"]:
        if line.strip() and _indent(line) == depth:
            if name in names and (text := _short(said)):
                yield name, text
            match = entry.fullmatch(line.strip())
            name = "" if match is None else match[1]
            said = [match[2]] if match is not None and match.re.groups > 1 else []
        else:
            said.append(line.strip())


def _fields(lines: Sequence[str], names: Sequence[str]) -> Told:
    found: dict[str, str] = {}
    kept: list[str] = []
    into: list[str] | None = None
    name = ""
    for line in lines:
        match = _FIELD.fullmatch(line.strip())
        if match is not None and match[1] in names:
            name, into = match[1], [match[2]]
            found[name] = _short(into)
        elif into is not None and line.strip() and _indent(line) > 0:
            into.append(line.strip())
            found[name] = _short(into)
        else:
            into = None
            kept.append(line)
    said = {name: text for name, text in found.items() if text}
    return Told(text=_joined(kept), parameters=said) if said else _whole(lines)


def _whole(lines: Sequence[str]) -> Told:
    return Told(text=_joined(lines), parameters={})


def _joined(lines: Sequence[str]) -> str:
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _short(said: Sequence[str]) -> str:
    return " ".join(" ".join(said).split())[:_MOST_CHARS]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())

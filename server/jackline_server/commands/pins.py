"""What has changed between two lists of a server's tools: for people who keep a lock file.

Owns the comparison and its lines. Does not own the format of a lock file (`runtime.pinned_tools`).
"""

import difflib
import json
from collections.abc import Iterator

from jackline_server.core.frozen import frozen
from jackline_server.runtime.pinned_tools import Catalog, PinnedTool

_LONGEST = 200


@frozen
class Drift:
    """Names of tools, each in order."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    def __str__(self) -> str:
        parts = [("added", self.added), ("removed", self.removed), ("changed", self.changed)]
        return "; ".join(f"{word} {', '.join(names)}" for word, names in parts if names)


def drift(pinned: Catalog, listed: Catalog) -> Drift:
    """What became of the tools that were pinned."""
    return Drift(
        added=tuple(sorted(set(listed) - set(pinned))),
        removed=tuple(sorted(set(pinned) - set(listed))),
        changed=tuple(
            sorted(name for name in set(pinned) & set(listed) if pinned[name].digest != listed[name].digest)
        ),
    )


def drift_lines(found: Drift, pinned: Catalog, listed: Catalog) -> Iterator[str]:
    """The drift for people: what came, what went, and line by line what is different."""
    for name in found.added:
        yield f"+ {name}: {_first_line(listed[name].description)}"
    for name in found.removed:
        yield f"- {name}: {_first_line(pinned[name].description)}"
    for name in found.changed:
        yield f"~ {name}"
        for line in difflib.unified_diff(_written(pinned[name]), _written(listed[name]), lineterm="", n=0):
            if not line.startswith(("---", "+++", "@@")):
                yield f"    {line[:_LONGEST]}"


def _written(tool: PinnedTool) -> list[str]:
    """A tool as lines, one value each."""
    shown = {
        "description": tool.description,
        "inputSchema": json.loads(tool.input_schema_json),
        "outputSchema": None if tool.output_schema_json is None else json.loads(tool.output_schema_json),
        "annotations": json.loads(tool.annotations_json),
    }
    return json.dumps(shown, ensure_ascii=False, indent=1, sort_keys=True).splitlines()


def _first_line(text: str) -> str:
    line = text.strip().partition("\n")[0]
    return line[:_LONGEST] or "(no description)"

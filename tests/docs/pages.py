"""The pages of docs/ as data: their sections, tables and code blocks.

Owns reading Markdown as far as these pages use it. Does not own what a page has to say.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"^```(?P<info>[^\n]*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A code block: the words after its fence, the first line of its code, and the code."""

    info: str
    line: int
    code: str


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def all_blocks(text: str) -> list[Block]:
    return [
        Block(info=found["info"].strip(), line=text.count("\n", 0, found.start()) + 2, code=found["code"])
        for found in _BLOCK.finditer(text)
    ]


def blocks(text: str, info: str) -> list[Block]:
    return [block for block in all_blocks(text) if block.info == info]


def section(text: str, heading: str) -> str:
    """What stands under a heading, up to the next one of any level."""
    lines = _BLOCK.sub("", text).splitlines()
    start = lines.index(heading) + 1
    end = next((at for at in range(start, len(lines)) if lines[at].startswith("#")), len(lines))
    return "\n".join(lines[start:end])


def rows(text: str) -> Iterator[list[str]]:
    """The cells of each row of every table, without the heads."""
    lines = text.splitlines()
    for at, line in enumerate(lines):
        is_head = at + 1 < len(lines) and lines[at + 1].startswith("|--")
        if line.startswith("| ") and not is_head:
            yield [cell.strip() for cell in line.strip().strip("|").split("|")]


def keys(text: str, heading: str) -> list[str]:
    """The names in the first column of the tables of a section, in order."""
    return [name for row in rows(section(text, heading)) for name in _CODE.findall(row[0])]

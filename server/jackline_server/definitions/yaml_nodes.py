"""The tree of a workflow file, and where its parts stand.

Owns nodes, marks and paths. Does not own parsing (`yaml_text`) or meaning (`shapes`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from jackline_server.core.frozen import frozen
from jackline_server.yaml_scalars import Scalar

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a text, from 1; 0 and 0 for the whole text."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that the subset of YAML does not allow."""

    code: str
    message: str
    mark: Mark


@frozen
class ScalarNode:
    """A scalar: its value, and the text it was written as."""

    value: Scalar
    text: str
    mark: Mark


@frozen
class ListNode:
    """A list."""

    items: tuple["Node", ...]
    mark: Mark


@frozen
class Entry:
    """A key with its value."""

    key: str
    mark: Mark
    value: "Node"


@frozen
class MapNode:
    """A mapping; its keys are texts, each once."""

    entries: tuple[Entry, ...]
    mark: Mark

    def get(self, key: str) -> "Node | None":
        """The value of a key."""
        return next((entry.value for entry in self.entries if entry.key == key), None)


Node = ScalarNode | ListNode | MapNode

Plain = Scalar | tuple["Plain", ...] | dict[str, "Plain"]


def plain(node: Node) -> Plain:
    """The values without their places; lists become tuples. The loader has bounded the depth."""
    match node:
        case ScalarNode():
            return node.value
        case ListNode():
            return tuple(plain(item) for item in node.items)
        case MapNode():
            return {entry.key: plain(entry.value) for entry in node.entries}


def place(root: Node, path: Path, *, of_key: bool = False) -> Mark:
    """Where the value at a path stands, or its key; where it is missing, the nearest that is there."""
    node, mark = root, root.mark
    for index, part in enumerate(path):
        if isinstance(node, MapNode):
            entry = next((one for one in node.entries if one.key == part), None)
            if entry is None:
                return mark
            last = index == len(path) - 1
            node, mark = entry.value, entry.mark if of_key or not last else entry.value.mark
        elif isinstance(node, ListNode) and isinstance(part, int) and part < len(node.items):
            node = node.items[part]
            mark = node.mark
        else:
            return mark
    return mark


def scalars(root: Node, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Every text of a tree, keys included, with its path."""
    match root:
        case ScalarNode():
            yield path, root.text
        case ListNode():
            for index, item in enumerate(root.items):
                yield from scalars(item, (*path, index))
        case MapNode():
            for entry in root.entries:
                yield (*path, entry.key), entry.key
                yield from scalars(entry.value, (*path, entry.key))


def path_text(path: Path) -> str:
    """A path as findings show it: `steps.handle.tools[0].ref`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text

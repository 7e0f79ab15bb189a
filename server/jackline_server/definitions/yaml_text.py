"""YAML text to a tree in which every node knows its line and column.

Owns the subset of YAML that a workflow may use: one document, a mapping at the top, plain scalars by the core
schema of YAML 1.2, no aliases, anchors, tags or merge keys. Does not own what the keys mean.

The tree is built from the parser's events with an explicit stack, so depth costs no recursion.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol, cast

import yaml

from jackline_server import yaml_scalars
from jackline_server.core.frozen import frozen
from jackline_server.definitions import yaml_messages
from jackline_server.definitions.yaml_nodes import Entry, ListNode, MapNode, Mark, Node, Problem, ScalarNode

MAX_BYTES = 256 * 1024
MAX_DEPTH = 32
MAX_NODES = 20_000

_LOADER = cast("type[yaml.SafeLoader]", getattr(yaml, "CSafeLoader", yaml.SafeLoader))
"""The C parser is forty times faster; both read the same events."""

_REFUSED = re.compile("\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff\ud800-\udfff]")
"""Control characters, lone surrogates, and the line breaks of YAML 1.1 that YAML 1.2 reads as text."""


@frozen
class Parsed:
    """What a text holds. `root` is None if it is no tree at all; problems may remain with a tree too."""

    root: MapNode | None
    problems: tuple[Problem, ...]


@dataclass(slots=True)
class _Frame:
    """A mapping or list that is still open."""

    is_map: bool
    mark: Mark
    items: list[Node] = field(default_factory=list[Node])
    entries: list[Entry] = field(default_factory=list[Entry])
    keys: dict[str, Mark] = field(default_factory=dict[str, Mark])
    key: tuple[str, Mark] | None = None

    def closed(self) -> Node:
        if self.is_map:
            return MapNode(entries=tuple(self.entries), mark=self.mark)
        return ListNode(items=tuple(self.items), mark=self.mark)


class _Stop(Exception):
    """A problem after which the rest of the text means nothing."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def parse(text: str) -> Parsed:
    """Read a workflow's text. Never raises for any text."""
    text = text.removeprefix("\ufeff")
    if problem := _unreadable(text):
        return Parsed(root=None, problems=(problem,))
    builder = _Builder()
    try:
        for event in _events(text):
            builder.take(event)
        root = builder.finished()
    except _Stop as stop:
        return Parsed(root=None, problems=(*builder.problems, stop.problem))
    return Parsed(root=root, problems=tuple(builder.problems))


def _unreadable(text: str) -> Problem | None:
    """What makes a text no YAML text at all, before its grammar is looked at."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        return Problem("too_large", f"the file is larger than {MAX_BYTES} bytes", Mark(0, 0))
    found = _REFUSED.search(text)
    if found is None:
        return None
    line = text.count("\n", 0, found.start()) + 1
    column = found.start() - text.rfind("\n", 0, found.start())
    name = (
        "a carriage return without a line feed"
        if found.group() == "\r"
        else f"the character U+{ord(found.group()):04X}"
    )
    message = f"{name} is not allowed here"
    return Problem("bad_character", message, Mark(line, column))


def _events(text: str) -> Iterator[yaml.Event]:
    loader = _LOADER(text)
    try:
        while loader.check_event():
            yield cast("yaml.Event", loader.get_event())  # pyright: ignore[reportUnknownMemberType]  # untyped
    except yaml.MarkedYAMLError as error:
        where = error.problem_mark or error.context_mark
        raise _Stop(Problem("yaml_syntax", yaml_messages.explained(text, error), _mark(where))) from None
    except yaml.YAMLError:
        raise _Stop(Problem("yaml_syntax", "the text is not YAML", Mark(0, 0))) from None
    finally:
        loader.dispose()


class _Builder:
    """Turns events into the tree, collecting what is wrong on the way."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._stack: list[_Frame] = []
        self._documents = 0
        self._nodes = 0
        self._root: Node | None = None

    def take(self, event: yaml.Event) -> None:
        mark = _mark(event.start_mark)
        match event:
            case yaml.DocumentStartEvent():
                self._document(event, mark)
            case yaml.AliasEvent():
                raise _Stop(Problem("alias", "aliases (`*name`) are not allowed; write the value out", mark))
            case yaml.ScalarEvent():
                self._check_properties(event, mark)
                self._scalar(event, mark)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._check_properties(event, mark)
                self._open(mark, is_map=isinstance(event, yaml.MappingStartEvent))
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._place(self._stack.pop().closed())
            case _:
                pass

    def finished(self) -> MapNode:
        if self._root is None:
            raise _Stop(Problem("empty_document", "the file holds no workflow", Mark(0, 0)))
        if isinstance(self._root, MapNode):
            return self._root
        empty = isinstance(self._root, ScalarNode) and self._root.value is None
        code, message = (
            ("empty_document", "the file holds no workflow")
            if empty
            else ("not_a_mapping", "a workflow is a mapping: `name: …`, `flow: …`, `steps: …`")
        )
        raise _Stop(Problem(code, message, self._root.mark))

    def _document(self, event: yaml.DocumentStartEvent, mark: Mark) -> None:
        self._documents += 1
        if self._documents > 1:
            raise _Stop(
                Problem("several_documents", "a file holds one workflow; remove the second `---`", mark)
            )
        if event.tags:
            self.problems.append(Problem("tag", "`%TAG` is not allowed", mark))
        if event.version and tuple(event.version) != (1, 2):
            self.problems.append(
                Problem("yaml_version", "workflows are YAML 1.2; remove the `%YAML` line", mark)
            )

    def _check_properties(self, event: yaml.NodeEvent, mark: Mark) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise _Stop(Problem("too_many_nodes", f"the file has more than {MAX_NODES} values", mark))
        if event.anchor is not None:
            self.problems.append(Problem("anchor", "anchors (`&name`) are not allowed", mark))
        if getattr(event, "tag", None) is not None:
            self.problems.append(Problem("tag", "tags (`!name`) are not allowed", mark))

    def _open(self, mark: Mark, *, is_map: bool) -> None:
        if len(self._stack) >= MAX_DEPTH:
            raise _Stop(Problem("too_deep", f"the file is nested deeper than {MAX_DEPTH} levels", mark))
        if self._stack and self._stack[-1].is_map and self._stack[-1].key is None:
            raise _Stop(Problem("bad_key", "a key is a text, not a list or a mapping", mark))
        self._stack.append(_Frame(is_map=is_map, mark=mark))

    def _scalar(self, event: yaml.ScalarEvent, mark: Mark) -> None:
        plain = bool(event.implicit and event.implicit[0])
        frame = self._stack[-1] if self._stack else None
        if frame is not None and frame.is_map and frame.key is None:
            self._key(frame, event.value, mark, plain=plain)
            return
        try:
            value = yaml_scalars.resolve(event.value) if plain else event.value
        except yaml_scalars.ScalarError as error:
            self.problems.append(Problem("bad_number", str(error), mark))
            value = None
        self._place(ScalarNode(value=value, text=event.value, mark=mark))

    def _key(self, frame: _Frame, text: str, mark: Mark, *, plain: bool) -> None:
        if plain and text == "<<":
            raise _Stop(Problem("merge_key", "merge keys (`<<`) are not allowed; write the keys out", mark))
        if plain and yaml_scalars.is_not_text(text):
            self.problems.append(Problem("bad_key", "a key is a text; put it in quotes", mark))
        first = frame.keys.setdefault(text, mark)
        if first is not mark:
            message = f"the key `{text[:64]}` is on line {first.line} and again on line {mark.line}"
            self.problems.append(Problem("duplicate_key", message, mark))
        frame.key = (text, mark)

    def _place(self, node: Node) -> None:
        if not self._stack:
            self._root = node
            return
        frame = self._stack[-1]
        if not frame.is_map or frame.key is None:
            frame.items.append(node)
            return
        if frame.keys[frame.key[0]] is frame.key[1]:
            frame.entries.append(Entry(key=frame.key[0], mark=frame.key[1], value=node))
        frame.key = None


class _LibraryMark(Protocol):
    """A place as both parsers give it, from 0."""

    @property
    def line(self) -> int: ...
    @property
    def column(self) -> int: ...


def _mark(mark: _LibraryMark | None) -> Mark:
    return Mark(mark.line + 1, mark.column + 1) if mark else Mark(0, 0)

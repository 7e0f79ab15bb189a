"""The config as one tree of given values, each knowing where it came from: file, environment or flag.

Owns resolving the file's references and laying the environment and the flags over it. Does not own what the
values mean (`sections`).
"""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from jackline_server.config.file import FileProblem, read_file
from jackline_server.config.problems import Problem, ProblemCode
from jackline_server.config.references import BadReference, has_reference, references_in, resolved
from jackline_server.core.frozen import frozen

PREFIX = "JACKLINE_"
_HEADER = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]")
_KEY = re.compile(r"\s*([A-Za-z0-9_.\"'-]+)\s*=")


@frozen
class Given:
    """A value as it was given. `folder` is where a relative path starts; a hidden value is never shown.

    `as_text` says that the value is text only because its source knows nothing else. `references` are those
    that stood in it, such as `${env:NAME}`: they may be shown, what they stand for may not.
    """

    value: object
    where: str
    folder: Path
    hidden: bool
    as_text: bool
    references: tuple[str, ...] = ()


Tree = dict[str, "Tree | Given"]


@frozen
class Document:
    """What was read. `problems` may hold some already; then the tree has what could be read."""

    tree: Tree
    notices: Sequence[str]
    problems: Sequence[Problem]


@frozen
class Sources:
    """Where a config comes from. The variables of `server_keys`, those of `[server]`, have short names."""

    file: Path | None
    environ: Mapping[str, str]
    flags: Mapping[str, str | int | bool]
    server_keys: Sequence[str]
    sections: Sequence[str]


def read_document(sources: Sources) -> Document:
    """Read all sources into one tree. Raises nothing: what is wrong is among the problems."""
    tree: Tree = {}
    notices: list[str] = []
    problems: list[Problem] = []
    if sources.file is not None:
        tree = _file_tree(sources.file, sources.environ, notices, problems)
    _lay_environment(tree, sources, notices)
    for name, value in sources.flags.items():
        path = name.split(".") if "." in name else ["server", name]
        _put(tree, path, _outside(value, f"--{name.replace('_', '-')}"))
    return Document(tree=tree, notices=notices, problems=problems)


def hidden_texts(tree: Tree) -> Iterator[str]:
    """Each text of the tree that is never shown."""
    for node in tree.values():
        if not isinstance(node, Given):
            yield from hidden_texts(node)
        elif node.hidden:
            value = node.value
            items = cast("list[object]", value) if isinstance(value, list) else [value]
            yield from (item for item in items if isinstance(item, str))


def _outside(value: object, where: str) -> Given:
    return Given(value=value, where=where, folder=Path(), hidden=False, as_text=isinstance(value, str))


# --- the file ----------------------------------------------------------------------------------


def _file_tree(file: Path, environ: Mapping[str, str], notices: list[str], problems: list[Problem]) -> Tree:
    try:
        read = read_file(file)
    except FileProblem as problem:
        where = f"{file}:{problem.line}" if problem.line else str(file)
        problems.append(Problem(code=problem.code, where=where, key="", message=str(problem)))
        return {}
    if read.notice:
        notices.append(read.notice)
    return _Given(file, read.text, environ, problems).tree(read.tables, ())


class _Given:
    """Turns parsed TOML into given values, with references resolved."""

    def __init__(self, file: Path, text: str, environ: Mapping[str, str], problems: list[Problem]) -> None:
        self._file = file
        self._lines = text.splitlines()
        self._environ = environ
        self._problems = problems

    def tree(self, table: Mapping[str, object], path: tuple[str, ...]) -> Tree:
        made: Tree = {}
        for key, value in table.items():
            below = (*path, key)
            if isinstance(value, dict):
                made[key] = self.tree(cast("dict[str, object]", value), below)
            else:
                made[key] = self._given(value, below)
        return made

    def _given(self, value: object, path: tuple[str, ...]) -> Given:
        line = _line_of(self._lines, path)
        where = f"{self._file}:{line}" if line else str(self._file)
        items = cast("list[object]", value) if isinstance(value, list) else [value]
        hidden = any(isinstance(item, str) and has_reference(item) for item in items)
        named = tuple(name for item in items if isinstance(item, str) for name in references_in(item))
        if hidden:
            try:
                items = [self._resolved(item) if isinstance(item, str) else item for item in items]
            except BadReference as error:
                self._problems.append(
                    Problem(
                        code=ProblemCode.BAD_REFERENCE, where=where, key=".".join(path), message=str(error)
                    )
                )
                items = [None for _ in items]
        resolved_value = items if isinstance(value, list) else items[0]
        return Given(
            value=resolved_value,
            where=where,
            folder=self._file.parent,
            hidden=hidden,
            as_text=False,
            references=named,
        )

    def _resolved(self, text: str) -> str:
        return resolved(text, environ=self._environ, folder=self._file.parent)


def _line_of(lines: Sequence[str], path: tuple[str, ...]) -> int:
    """The line that sets the path, as well as can be told from its looks; 0 if it can't."""
    header: tuple[str, ...] = ()
    for number, line in enumerate(lines, start=1):
        if (match := _HEADER.match(line)) is not None:
            header = _parts(match[1])
        elif (match := _KEY.match(line)) is not None:
            full = (*header, *_parts(match[1]))
            if path[: len(full)] == full:
                return number
    return 0


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))


# --- the environment and the flags -------------------------------------------------------------


def _lay_environment(tree: Tree, sources: Sources, notices: list[str]) -> None:
    short = {f"{PREFIX}{key.upper()}": key for key in sources.server_keys}
    for name, text in sources.environ.items():
        if not name.startswith(PREFIX):
            continue
        section, *rest = name.removeprefix(PREFIX).split("__")
        if name in short:
            _put(tree, ["server", short[name]], _outside(text, name))
        elif rest and section.lower() in sources.sections:
            path = _matching(tree, [section, *rest])
            _put(tree, path, _hidden(_outside(text, name)))
        elif near := difflib.get_close_matches(name, short, n=1, cutoff=0.85):
            notices.append(f"The variable {name} is not a setting; did you mean {near[0]}?")


def _hidden(given: Given) -> Given:
    return Given(
        value=given.value, where=given.where, folder=given.folder, hidden=True, as_text=given.as_text
    )


def _matching(tree: Tree, parts: Sequence[str]) -> list[str]:
    """The path that a variable's parts mean: what the tree has by that name in capitals, else lower-case."""
    path: list[str] = []
    node: Tree | Given = tree
    for part in parts:
        names: dict[str, str] = {}
        if not isinstance(node, Given):
            names = {name.upper().replace("-", "_"): name for name in node}
        name = names.get(part.upper(), part.lower())
        path.append(name)
        node = node.get(name, {}) if not isinstance(node, Given) else node
    return path


def _put(tree: Tree, path: Sequence[str], given: Given) -> None:
    *above, last = path
    node = tree
    for part in above:
        below = node.get(part)
        if below is None or isinstance(below, Given):
            below = {}
            node[part] = below
        node = below
    node[last] = given

"""Workflows in a folder: found, opened safely, and read together with the files that they name.

Owns which files count as workflows, and that nothing outside of the folder is ever opened: each part of a
path is opened from its parent's descriptor without following links, and only regular files are read. Files
that pin the tools of a connection belong to a workflow as those do that its steps name. Does not own watching
the folder or compiling.
"""

import errno
import os
import stat
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from jackline_server.core.frozen import frozen
from jackline_server.definitions import yaml_text
from jackline_server.definitions.assets import MAX_FILES, named_files, path_problem
from jackline_server.definitions.pinned_source import is_pins, pinned_connections
from jackline_server.definitions.reading import read
from jackline_server.definitions.report import Report, TooManyErrors
from jackline_server.definitions.shapes import AnyStep
from jackline_server.runtime.pinned_tools import pins_path
from jackline_server.runtime.ports.definitions import Finding, Severity, Source

MAX_ENTRIES = 20_000
MAX_WORKFLOWS = 1_000
MAX_FILE_BYTES = 256 * 1024

_SUFFIXES = (".yaml", ".yml")
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class FileRefused(Exception):
    """A file can't be read safely; the message says why."""


@frozen
class Loaded:
    """A workflow file of a folder, by its path there. `source` is None if it can't be read at all."""

    file: str
    source: Source | None
    problems: tuple[Finding, ...]


def load_folder(folder: Path) -> list[Loaded]:
    """Read every workflow directly in a folder or in its direct sub-folders, ordered by path.

    One unreadable file is its own problem and no other's. A file named by a step and missing is left out: the
    compiler reports it.

    Raises:
        OSError: the folder itself can't be opened.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        files, excess = _workflow_files(descriptor)
        loaded = [_load(descriptor, file) for file in files]
    finally:
        os.close(descriptor)
    if excess:
        message = f"more than {MAX_WORKFLOWS} workflows or {MAX_ENTRIES} entries; the rest is ignored"
        loaded.append(Loaded(file=".", source=None, problems=(_problem("too_many_files", message, "."),)))
    return loaded


def load_file(path: Path) -> Loaded:
    """Read one workflow file and the files that it names. Raises OSError if its folder can't be opened."""
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return _load(descriptor, path.name)
    finally:
        os.close(descriptor)


def _workflow_files(root: int) -> tuple[list[str], bool]:
    """The workflow files below an open folder, and whether there were too many."""
    found: list[str] = []
    for seen, (prefix, name, is_folder) in enumerate(_entries(root), start=1):
        if seen > MAX_ENTRIES or len(found) >= MAX_WORKFLOWS:
            return sorted(found), True
        if name.endswith(_SUFFIXES) and not is_folder and not name.startswith("."):
            found.append(prefix + name)
    return sorted(found), False


def _entries(root: int) -> Iterator[tuple[str, str, bool]]:
    folders: list[str] = []
    with os.scandir(root) as entries:
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            if is_folder and not entry.name.startswith(".") and len(folders) < MAX_ENTRIES:
                folders.append(entry.name)
            yield "", entry.name, is_folder
    for folder in sorted(folders):
        try:
            descriptor = os.open(folder, _OPEN_FOLDER, dir_fd=root)
        except OSError:
            yield "", f"{folder}.yaml", True  # counted; an unreadable folder holds no workflow for us
            continue
        try:
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    yield f"{folder}/", entry.name, entry.is_dir(follow_symlinks=False)
        finally:
            os.close(descriptor)


def _load(root: int, file: str) -> Loaded:
    folder = file.rpartition("/")[0]
    try:
        text = _read(root, file).decode("utf-8-sig")
    except FileRefused as error:
        return Loaded(file=file, source=None, problems=(_problem("unreadable", str(error), file),))
    except UnicodeDecodeError:
        problem = _problem("bad_encoding", "a workflow is UTF-8", file)
        return Loaded(file=file, source=None, problems=(problem,))
    problems: list[Finding] = []
    assets: dict[str, bytes] = {}
    for name in _named(text):
        try:
            assets[name] = _read(root, f"{folder}/{name}" if folder else name)
        except FileNotFoundError:
            continue
        except FileRefused as error:
            problems.append(_problem("unreadable", str(error), name))
            if is_pins(name):
                assets[name] = b""  # pins nothing, which the compiler refuses: never left out unnoticed
    source = Source(yaml=text, files=assets, file=file)
    return Loaded(file=file, source=source, problems=tuple(problems))


def pinned_connections_of(loaded: Loaded) -> list[str]:
    """The connections with pinned tools that a workflow's steps name, if it can be read that far."""
    return [] if loaded.source is None else pinned_connections(steps_of(loaded.source))


def steps_of(source: Source) -> Mapping[str, AnyStep]:
    """The steps of a workflow; none if it can't be read that far."""
    return _steps(source.yaml)


def _named(text: str) -> list[str]:
    """The files of a workflow: those that its steps name, and the pins of the connections that they name."""
    steps = _steps(text)
    pins = [pins_path(name) for name in pinned_connections(steps)]
    return [name for name in (*pins, *named_files(steps)) if path_problem(name) is None][:MAX_FILES]


def _steps(text: str) -> Mapping[str, AnyStep]:
    root = yaml_text.parse(text).root
    try:
        draft = read(root, Report(file="")) if root is not None else None
    except TooManyErrors:
        draft = None
    return {} if draft is None else draft.steps


def _read(root: int, file: str) -> bytes:
    """The bytes of a regular file below an open folder.

    Raises:
        FileNotFoundError: it is not there.
        FileRefused: a link, no regular file, too large, or not readable.
    """
    *folders, name = file.split("/")
    try:
        with _opened(root, folders) as folder:
            descriptor = os.open(name, _OPEN_FILE, dir_fd=folder)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise FileRefused(f"{file} can't be opened: {_reason(error)}") from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise FileRefused(f"{file} is not a regular file")
        data = _bytes(descriptor)
    except OSError as error:
        raise FileRefused(f"{file} can't be read: {_reason(error)}") from None
    finally:
        os.close(descriptor)
    if len(data) > MAX_FILE_BYTES:
        raise FileRefused(f"{file} is larger than {MAX_FILE_BYTES} bytes")
    return data


def _bytes(descriptor: int) -> bytes:
    """At most one byte more than a file may have."""
    parts: list[bytes] = []
    left = MAX_FILE_BYTES + 1
    while left > 0 and (part := os.read(descriptor, left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


@contextmanager
def _opened(root: int, folders: list[str]) -> Generator[int, None, None]:
    """Walk down from one descriptor to the next, so that no part of the way can be a link."""
    opened = [os.dup(root)]
    try:
        for folder in folders:
            opened.append(os.open(folder, _OPEN_FOLDER, dir_fd=opened[-1]))
        yield opened[-1]
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _reason(error: OSError) -> str:
    return "links are not followed" if error.errno == errno.ELOOP else (error.strerror or "unknown")


def _problem(code: str, message: str, file: str) -> Finding:
    return Finding(severity=Severity.ERROR, code=code, message=message, file=file, line=0, column=0, path="")

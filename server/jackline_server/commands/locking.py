"""Writing and checking lock files: the pins of MCP and gRPC connections.

Owns where they are kept. Does not own their format (`runtime.pinned_tools`) or what has changed (`pins`).
"""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

from jackline_server.bootstrap import workbench
from jackline_server.commands.given import Output, fail, indented, say, say_json
from jackline_server.commands.pins import Drift, drift, drift_lines
from jackline_server.commands.toolshed import NoTools
from jackline_server.commands.writing import write_whole
from jackline_server.config import Config
from jackline_server.core.frozen import frozen
from jackline_server.definitions.catalog import nearest
from jackline_server.definitions.files import Loaded, load_folder, pinned_connections_of
from jackline_server.exit_codes import EXIT_CANT_CREATE, EXIT_FOUND, EXIT_USAGE
from jackline_server.runtime.pinned_tools import BadPins, Catalog, pins_path, read_pins
from jackline_server.tools.locks import read_lock_file
from jackline_server.tools.mcp.failures import ServerDown

_COMMAND = "tools lock"


@frozen
class _Lock:
    """One file: what it pinned before, and what the server lists now. `note` says what was wrong with it."""

    connection: str
    path: Path
    text: str
    before: Catalog
    now: Catalog
    is_there: bool
    note: str

    @property
    def drift(self) -> Drift:
        return drift(self.before, self.now)

    @property
    def is_current(self) -> bool:
        return self.is_there and not self.note and not self.drift


async def locked(config: Config, names: Sequence[str], *, check: bool, output: Output) -> int:
    """Write, or only check, the lock files of those connections, of all without a name; the exit code.

    Raises:
        NoTools: a server does not answer, or nothing says where a file belongs.
    """
    for name in names:
        if name not in config.pinned_connections:
            hint = nearest(name, config.pinned_connections)
            fail(_COMMAND, EXIT_USAGE, f"there is no MCP or gRPC connection `{name}` in the config{hint}")
    places = await asyncio.to_thread(_places, config)
    wanted = list(dict.fromkeys(names)) or list(config.pinned_connections)
    homeless = [name for name in wanted if name not in places]
    if homeless and names:
        raise NoTools(*(_nowhere(name) for name in homeless))
    locks = await _asked(config, {name: places[name] for name in wanted if name in places})
    if not check:
        await asyncio.to_thread(_write, [one for one in locks if not one.is_current])
    if output is Output.JSON:
        say_json([_as_json(one) for one in locks])
    else:
        say(*(line for one in locks for line in _lines(one, check=check)))
        say(*(f"skipped: {_nowhere(name)}" for name in homeless))
    return EXIT_FOUND if check and not all(one.is_current for one in locks) else 0


def _nowhere(name: str) -> str:
    return (
        f"{name}: nothing says where its lock file belongs: give it `lock` in [connections.{name}], or use "
        "it in a workflow of the folder that `workflows` in [server] names"
    )


def _places(config: Config) -> dict[str, list[Path]]:
    """Where the pins of each connection are kept: where the config says, else beside the workflows."""
    found: dict[str, list[Path]] = {}
    for name, connection in config.pinned_connections.items():
        if connection.lock is not None:
            found[name] = [connection.lock]
    folder = config.server.workflows
    for one in _workflows(folder):
        beside = ((folder or Path()) / one.file).parent
        for name in pinned_connections_of(one):
            connection = config.pinned_connections.get(name)
            path = beside / pins_path(name)
            if connection is not None and connection.lock is None and path not in found.get(name, []):
                found.setdefault(name, []).append(path)
    return found


def _workflows(folder: Path | None) -> list[Loaded]:
    if folder is None:
        return []
    try:
        return load_folder(folder)
    except OSError as error:
        raise NoTools(f"the folder of workflows {folder} can't be read: {error.strerror}") from None


async def _asked(config: Config, places: dict[str, list[Path]]) -> list[_Lock]:
    """Ask the servers, all at once. Raises NoTools if one does not answer."""
    async with workbench(config) as bench:
        answers = await asyncio.gather(
            *(bench.catalogs.lock_text(name) for name in places), return_exceptions=True
        )
    locks: list[_Lock] = []
    down: list[str] = []
    for (name, paths), answer in zip(places.items(), answers, strict=True):
        if isinstance(answer, ServerDown):
            down.append(f"the tools of {name} can't be listed: {answer.message}")
        elif isinstance(answer, BaseException):
            raise answer
        else:
            locks += [_compared(name, path, answer) for path in paths]
    if down:
        raise NoTools(*down, unavailable=True)
    return locks


def _compared(name: str, path: Path, text: str) -> _Lock:
    pinned: Catalog = {}
    note, is_there = "", True
    try:
        pinned = read_lock_file(path)
    except FileNotFoundError:
        is_there = False
    except OSError as error:
        note = f"it could not be read: {error.strerror}"
    except BadPins as bad:
        note = f"it pinned nothing: {bad}"
    return _Lock(
        connection=name,
        path=path,
        text=text,
        before=pinned,
        now=read_pins(text),
        is_there=is_there,
        note=note,
    )


def _write(locks: Sequence[_Lock]) -> None:
    for one in locks:
        try:
            one.path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(one.path, one.text)
        except OSError as error:
            fail(_COMMAND, EXIT_CANT_CREATE, f"{one.path} can't be written: {error.strerror}")


def _lines(one: _Lock, *, check: bool) -> Iterator[str]:
    counted = f"{len(one.now)} tool{'' if len(one.now) == 1 else 's'}"
    if one.is_current:
        yield f"{one.connection}: {one.path} is up to date ({counted})"
        return
    if check:
        state = "is out of date" if one.is_there else "is not there"
        command = f"jackline tools lock {one.connection} --config FILE"
        yield f"{one.connection}: {one.path} {state}; write it with: {command}"
    else:
        yield f"{one.connection}: wrote {one.path} ({counted})"
    if one.note:
        yield f"  {one.note}"
    yield from indented(list(drift_lines(one.drift, one.before, one.now)), "  ")


def _as_json(one: _Lock) -> dict[str, object]:
    return {
        "connection": one.connection,
        "path": str(one.path),
        "up_to_date": one.is_current,
        "added": list(one.drift.added),
        "removed": list(one.drift.removed),
        "changed": list(one.drift.changed),
    }

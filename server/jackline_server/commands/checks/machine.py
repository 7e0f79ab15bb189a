"""The machine: Python and packages, the data folder, the address to listen on, the folder of workflows.

Owns what of it keeps a server from starting. Changes nothing: no folder is made, and nothing is written.
"""

import asyncio
import errno
import os
import platform
import re
import shutil
import socket
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from jackline_server.commands.checks.findings import Check, Found, ok, problem, warning
from jackline_server.config import Config, Listen
from jackline_server.folder import cannot_open
from jackline_server.storage.sqlite.probe import FolderLook, look_at
from jackline_server.storage.sqlite.switch_look import engaged_switches

_DISTRIBUTION = "jackline"
_SERVER_EXTRA = 'extra == "server"'
_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?P<range>[^;]*)(;(?P<marker>.*))?")
_LOW_BYTES = 1 << 30
_NO_ROOM_BYTES = 64 << 20
_MIB = 1 << 20
_LONGEST_REASON = 200


def machine_checks() -> list[Check]:
    """What needs no config."""
    return [
        Check(subject="python", look=_python),
        Check(subject="packages", look=lambda: asyncio.to_thread(_packages)),
    ]


def place_checks(config: Config) -> list[Check]:
    """The data folder, and the address."""

    async def place() -> Sequence[Found]:
        held, found = await asyncio.to_thread(_data, config)
        return [*found, await asyncio.to_thread(_listen, config.server.listen, held=held)]

    return [Check(subject="data folder", look=place)]


def folder_problem(folder: Path | None) -> list[Found]:
    """Why the folder of workflows can't be used, if it can't."""
    if folder is None:
        return [ok("workflows", "no folder of workflows: they come by `jackline workflow put`")]
    refused = cannot_open(folder)
    if refused is None:
        return []
    return [problem("workflows", refused, "correct `workflows` in [server], or make the folder")]


async def _python() -> Sequence[Found]:
    return [ok("python", f"{platform.python_implementation()} {platform.python_version()}")]


# --- packages ----------------------------------------------------------------------------------


def _packages() -> list[Found]:
    try:
        wanted = requires(_DISTRIBUTION) or []
    except PackageNotFoundError:
        return [warning("packages", "Jackline runs from source: its packages are not checked")]
    found = list(_unmet(wanted))
    return found or [ok("packages", f"{_DISTRIBUTION} {version(_DISTRIBUTION)} with all that it needs")]


def _unmet(wanted: Sequence[str]) -> Iterator[Found]:
    install = f"pip install '{_DISTRIBUTION}[server]'"
    for text in wanted:
        match = _REQUIREMENT.match(text)
        if match is None or not _concerns_a_server(match["marker"] or ""):
            continue
        try:
            there = version(match["name"])
        except PackageNotFoundError:
            yield problem("packages", f"{match['name']} is missing", install)
            continue
        least = re.search(r">=\s*([0-9.]+)", match["range"])
        if least is not None and _numbers(there) < _numbers(least[1]):
            yield problem("packages", f"{match['name']} {there} is older than {least[1]}", install)


def _concerns_a_server(marker: str) -> bool:
    if "extra" in marker and _SERVER_EXTRA not in marker.replace("'", '"'):
        return False
    return not ("win32" in marker and "!=" in marker and os.name == "nt")


def _numbers(text: str) -> tuple[int, ...]:
    """The leading numbers of a version, without trailing zeros."""
    found = [int(part) for part in text[: len(text) - len(text.lstrip("0123456789."))].split(".") if part]
    while found and found[-1] == 0:
        found.pop()
    return tuple(found)


# --- the data folder ---------------------------------------------------------------------------


def _data(config: Config) -> tuple[bool, list[Found]]:
    """Whether a live server holds the folder, and the findings."""
    path = config.server.data
    if config.server.volatile:
        return False, [ok("data folder", "none: everything is kept in memory")]
    subject = f"data folder {path}"
    try:
        if path.is_dir():
            look = look_at(path)
            return look.held, [*_judged(subject, path, look), *_room(subject, path), *_switches(path, look)]
        return False, _to_be_made(subject, path)
    except OSError as error:
        advice = "give this user a folder of its own"
        return False, [problem(subject, f"it can't be read: {error.strerror}", advice)]


def _to_be_made(subject: str, path: Path) -> list[Found]:
    if path.exists() or path.is_symlink():
        return [problem(subject, "it is no folder", "choose another one with `data` in [server], or --data")]
    above = path.absolute().parent
    while not above.exists():
        above = above.parent
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        advice = f"let this user write there, or choose another folder: make it below {above} by hand"
        return [problem(subject, f"it is not there and can't be made: no right to write in {above}", advice)]
    return [ok(subject, "it is not there yet; the server makes it"), *_room(subject, above)]


def _judged(subject: str, path: Path, look: FolderLook) -> Iterator[Found]:
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        yield problem(
            subject, "this user can't write in it", f"chown it, or start the server as its owner: {path}"
        )
    elif look.open_with_others_files:
        yield problem(
            subject,
            "it is open to other users and holds other files",
            "choose a folder of its own for the store",
        )
    elif look.held:
        yield warning(
            subject, "a running server holds it", "stop that one before you start another on this folder"
        )
    elif look.lived_in and not look.has_database:
        yield problem(
            subject,
            "its database is missing, though a store lived here",
            "restore the file from a backup, or remove the whole folder to begin anew",
        )
    elif look.has_database and not look.is_ours:
        yield problem(
            subject, "its database is not one of Jackline's", "choose another folder, or restore it"
        )
    elif look.is_newer:
        yield problem(
            subject, "a newer version of Jackline wrote it", "install that version again, or a later one"
        )
    else:
        yield ok(subject, "it can be used" if look.has_database else "it is empty and can be used")


def _switches(path: Path, look: FolderLook) -> Iterator[Found]:
    """A line for each tenant whose kill switch is engaged: its runs would not begin."""
    if not look.is_ours or look.is_newer:
        return
    for one in engaged_switches(path):
        since = datetime.fromtimestamp(one.engaged_unix_ms / 1000, tz=UTC).strftime("%Y-%m-%d %H:%M:%S")
        why = f": {one.reason[:_LONGEST_REASON]}" if one.reason else ""
        yield warning(
            f"kill switch of {one.tenant.id}",
            f"engaged since {since} UTC by {one.engaged_by}{why}; no run begins",
            "`jackline kill --release --reason TEXT`, asked of the running server, lets runs begin again",
        )


def _room(subject: str, place: Path) -> Iterator[Found]:
    free = shutil.disk_usage(place).free
    if free < _NO_ROOM_BYTES:
        yield problem(
            subject, f"its disk has {free // _MIB} MiB left", "make room: a store on a full disk stops"
        )
    elif free < _LOW_BYTES:
        yield warning(subject, f"its disk has {free // _MIB} MiB left", "make room")


# --- the address -------------------------------------------------------------------------------


def _listen(listen: Listen, *, held: bool) -> Found:
    subject = f"address {listen}"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen(1)
    except OSError as error:
        if error.errno == errno.EADDRINUSE and held:
            return warning(subject, "in use, most likely by the server that holds the data folder")
        advice = "stop what listens there, or choose another address with --listen"
        return problem(subject, f"nothing can listen there: {error.strerror}", advice)
    return ok(subject, "free" if listen.port else "any free port")

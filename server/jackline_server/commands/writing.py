"""Files that a command writes for a person: whole or not at all, and readable by others.

Owns two ways: `write_whole` for places that the command chooses, `write_named` for one that a person names.
"""

import os
import stat
import tempfile
from pathlib import Path

_MODE = 0o644
_STREAMS = (1, 2)
_DEVICES = frozenset({"dev", "proc"})


def write_whole(path: Path, text: str) -> None:
    """Write a file beside its place, then give it its name: a reader sees the old one or the new one.

    A link in its place is replaced, not followed. Raises OSError, and then the old file is as it was.
    """
    _replace(path, text, mode=_MODE)


def write_named(path: Path, text: str) -> None:
    """The same for a place that a person named: a link is followed and stays, and a file keeps its mode.

    What is no file, such as a device or a pipe, is written to and stays what it is. Raises OSError.
    """
    there = _there(path)
    if there is not None and not _is_replaced(path, there):
        _write_into(path, there, text.encode())
        return
    place = Path(os.path.realpath(path))
    _replace(place, text, mode=_MODE if there is None else stat.S_IMODE(there.st_mode))


def what_keeps_from_writing(path: Path) -> str:
    """Why `write_named` could not write there, in words; nothing if it could."""
    try:
        there = _there(path)
    except OSError as error:
        return error.strerror or str(error)
    if there is not None and stat.S_ISDIR(there.st_mode):
        return "it is a folder"
    if there is not None and not _is_replaced(path, there):
        return "" if os.access(path, os.W_OK) else "it is not yours"
    folder = Path(os.path.realpath(path)).parent
    return "" if os.access(folder, os.W_OK) else "its folder is not there, or not yours"


def _there(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _is_replaced(path: Path, there: os.stat_result) -> bool:
    """True for a file that nobody else is writing, as output that was sent to it, or the way to it, says."""
    is_device = bool(_DEVICES.intersection(path.absolute().parts[1:2]))
    return stat.S_ISREG(there.st_mode) and not is_device and _stream_of(there) is None


def _write_into(path: Path, there: os.stat_result, content: bytes) -> None:
    """Write after what else is written there, and without waiting for a reader to come."""
    stream = _stream_of(there)
    if stream is None:
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        os.set_blocking(descriptor, True)
    else:
        descriptor = os.dup(stream)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def _stream_of(there: os.stat_result) -> int | None:
    """Which of our own outputs it is."""
    return next((one for one in _STREAMS if _is_stream(one, there)), None)


def _is_stream(descriptor: int, there: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), there)
    except OSError:
        return False


def _replace(path: Path, text: str, *, mode: int) -> None:
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
    ) as file:
        made = Path(file.name)
        try:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            made.chmod(mode)
            made.replace(path)
        except BaseException:
            made.unlink(missing_ok=True)
            raise

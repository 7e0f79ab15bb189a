"""Files that a command writes for a person: whole or not at all, and readable by others."""

import os
import stat
import tempfile
from pathlib import Path

_MODE = 0o644


def may_be_written(path: Path) -> bool:
    """False if `write_whole` can't write there, as far as permissions tell."""
    return os.access(path if _is_no_file(path) else path.parent, os.W_OK)


def write_whole(path: Path, text: str) -> None:
    """Write a file beside its place, then give it its name: a reader sees the old one or the new one.

    A link to a file is replaced, not followed. What is there and is no file, such as a device or a pipe, is
    written to. Raises OSError, and then the old file is as it was.
    """
    if _is_no_file(path):
        path.write_text(text, encoding="utf-8")
        return
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
    ) as file:
        made = Path(file.name)
        try:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            made.chmod(_MODE)
            made.replace(path)
        except BaseException:
            made.unlink(missing_ok=True)
            raise


def _is_no_file(path: Path) -> bool:
    """True for a device, a pipe or a socket, also behind a link; a folder the system refuses by itself."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))

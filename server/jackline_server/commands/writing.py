"""Files that a command writes for a person: whole or not at all, and readable by others."""

import os
import tempfile
from pathlib import Path

_MODE = 0o644


def write_whole(path: Path, text: str) -> None:
    """Write a file beside its place, then give it its name: a reader sees the old one or the new one.

    A link in its place is replaced, not followed. Raises OSError, and then the old file is as it was.
    """
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

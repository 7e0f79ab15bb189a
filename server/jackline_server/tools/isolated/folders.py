"""Removing what a function has left in its folder, however deep it made that.

The standard library goes down by recursion and holds a file open for each level: a folder that is deep enough
ends both.
"""

import contextlib
import os
import shutil
import stat

_HOW = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


def remove(folder: str) -> None:
    """Remove it and all that is in it, as far as that can be: what resists stays. Raises nothing."""
    with contextlib.suppress(OSError):
        _empty(folder)
    with contextlib.suppress(OSError, RecursionError):
        shutil.rmtree(folder, ignore_errors=True)


def _empty(folder: str) -> None:
    here = os.open(folder, _HOW)
    try:
        above: list[tuple[str, tuple[int, int], list[str]]] = []
        waiting = _emptied(here)
        while waiting or above:
            if waiting:
                name = waiting.pop()
                inside = _opened(name, here)
                if inside is not None:
                    above.append((name, _identity(here), waiting))
                    os.close(here)
                    here = inside
                    waiting = _emptied(here)
                continue
            name, parent, waiting = above.pop()
            back = os.open("..", _HOW, dir_fd=here)
            os.close(here)
            here = back
            if _identity(here) != parent:
                return  # somebody has moved it meanwhile: what is here is none of ours
            with contextlib.suppress(OSError):
                os.rmdir(name, dir_fd=here)
    finally:
        os.close(here)


def _opened(name: str, folder: int) -> int | None:
    for _ in range(2):
        with contextlib.suppress(OSError):
            return os.open(name, _HOW, dir_fd=folder)
        with contextlib.suppress(OSError):  # of one that its owner has locked
            os.chmod(name, stat.S_IRWXU, dir_fd=folder)
    return None


def _emptied(folder: int) -> list[str]:
    """Remove what is no folder; the names of those that are."""
    names: list[str] = []
    with contextlib.suppress(OSError):
        os.fchmod(folder, stat.S_IRWXU)
        with os.scandir(folder) as entries:
            found = list(entries)
        for one in found:
            if one.is_dir(follow_symlinks=False):
                names.append(one.name)
            else:
                with contextlib.suppress(OSError):
                    os.unlink(one.name, dir_fd=folder)
    return names


def _identity(folder: int) -> tuple[int, int]:
    found = os.fstat(folder)
    return found.st_dev, found.st_ino

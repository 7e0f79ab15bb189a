"""The config file itself: opened safely, once, and parsed.

Owns what kind of file may be a config. Does not own what is in it.
"""

import os
import re
import stat
import tomllib
from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import cast

from jackline_server.config.problems import ProblemCode
from jackline_server.core.frozen import frozen
from jackline_server.plain_files import content_of

_MAX_BYTES = 1_048_576
_MAX_DEPTH = 32
_TOO_DEEP = "nested too deep"
_LONG_NUMBER = re.compile(r"\d[\d_]{4000}", re.ASCII)


class FileProblem(Exception):
    """The file can't be used. `line` is 0 where it is about the whole file."""

    def __init__(self, code: ProblemCode, message: str, *, line: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.line = line


@frozen
class ConfigFile:
    """What was in it. `notice` says that it was reached by a symlink, or is empty."""

    text: str
    tables: Mapping[str, object]
    notice: str


def read_file(file: Path) -> ConfigFile:
    """Read and parse the file; a symlink is followed once. Decimals stay exact.

    Raises:
        FileProblem: not there, not a plain file, open for everybody to write, too long, not TOML.
    """
    try:
        target, notice = _target(file)
        data, mode = _opened(target)
    except OSError as error:
        raise FileProblem(ProblemCode.UNREADABLE, f"can't be read: {error.strerror}") from None
    if not stat.S_ISREG(mode):
        raise FileProblem(ProblemCode.UNSAFE_FILE, "not a regular file")
    if mode & stat.S_IWOTH:
        raise FileProblem(ProblemCode.UNSAFE_FILE, "everybody may write to it; run chmod o-w on it")
    if len(data) > _MAX_BYTES:
        raise FileProblem(ProblemCode.UNREADABLE, f"longer than {_MAX_BYTES} bytes")
    text, tables = _parsed(data)
    return ConfigFile(text=text, tables=tables, notice=notice)


def _target(file: Path) -> tuple[Path, str]:
    if not file.is_symlink():
        return file, ""
    target = file.parent / file.readlink()
    if target.is_symlink():
        raise FileProblem(ProblemCode.UNSAFE_FILE, "a symlink that leads to another symlink")
    return target, f"The config {file} is a symlink; it is read from {target}."


def _opened(target: Path) -> tuple[bytes, int]:
    """The bytes and the mode of the one file that was opened."""
    descriptor = os.open(target, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    return content_of(descriptor, _MAX_BYTES)


def _parsed(data: bytes) -> tuple[str, Mapping[str, object]]:
    try:
        text = data.decode("utf-8-sig")
        tables = tomllib.loads(text, parse_float=Decimal)
    except UnicodeDecodeError:
        raise FileProblem(ProblemCode.SYNTAX, "not UTF-8") from None
    except RecursionError:
        raise FileProblem(ProblemCode.SYNTAX, _TOO_DEEP) from None
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        message = f"not TOML: {error}"
        raise FileProblem(ProblemCode.SYNTAX, message, line=int(line[1]) if line else 0) from None
    except (ValueError, ArithmeticError):  # the parser lets through what Python says of a number
        long = _LONG_NUMBER.search(data.decode("utf-8-sig"))
        line = 0 if long is None else long.string.count("\n", 0, long.start()) + 1
        message = "holds a number that is too long or too large"
        raise FileProblem(ProblemCode.SYNTAX, message, line=line) from None
    _require_shallow(tables)
    return text, tables


def _require_shallow(tables: object) -> None:
    """Refuse tables and lists in one another without end: a key with many dots is enough to make them."""
    level = [tables]
    for _ in range(_MAX_DEPTH):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return
    raise FileProblem(ProblemCode.SYNTAX, _TOO_DEEP)


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return cast("dict[str, object]", value).values()
    return cast("list[object]", value) if isinstance(value, list) else ()

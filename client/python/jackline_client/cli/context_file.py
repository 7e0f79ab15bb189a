"""The file of contexts: names for servers, each with its address and where its token is.

Owns the file's place, form and safety. Holds no token, only where one is. Does not own which context counts
(`server_choice`).

    # Written by `jackline context`.
    current = "prod"

    [contexts."prod"]
    address = "jackline.internal:50051"
    token_file = "/home/ada/.secrets/prod.token"
"""

import os
import re
import stat
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from jackline_client.cli.quoting import quoted
from jackline_client.credentials import check_address
from jackline_client.errors import AddressError
from jackline_client.plain_files import read_plain

_HEAD = "# Written by `jackline context`. Comments are not kept."
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_LARGEST = 1024 * 1024
_KEYS = frozenset({"address", "token_file", "token_env"})


class ContextError(AddressError):
    """The file of contexts can't be used, or has no context of a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """A server by name. At most one of `token_file` and `token_env` is set."""

    name: str
    address: str
    token_file: str = ""
    """An absolute path."""
    token_env: str = ""
    """The name of a variable of the environment."""


def _no_contexts() -> Mapping[str, Context]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contexts:
    """All contexts, and which of them is the current one."""

    by_name: Mapping[str, Context] = field(default_factory=_no_contexts)
    current: str = ""
    """Empty if none is."""

    def named(self, name: str, *, source: str) -> Context:
        """Returns the context of a name. Raises ContextError, which says who asked for it."""
        if name not in self.by_name:
            known = ", ".join(sorted(self.by_name)) or "none"
            raise ContextError(
                f"{source}: there is no context {name!r}; known: {known}. `jackline context set` adds one"
            )
        return self.by_name[name]


def contexts_path(environ: Mapping[str, str] | None = None) -> Path:
    """Returns where the file is, whether it exists or not."""
    environment = os.environ if environ is None else environ
    if own := environment.get("JACKLINE_CONFIG_HOME"):
        folder = Path(own)
    elif shared := environment.get("XDG_CONFIG_HOME"):
        folder = Path(shared) / "jackline"
    else:
        folder = Path(environment["HOME"] if environment.get("HOME") else Path.home()) / ".config/jackline"
    return folder / "contexts.toml"


def check_name(name: str) -> str:
    """Returns the name. Raises ContextError for one that no context can have."""
    if _NAME.fullmatch(name) is None:
        raise ContextError(
            f"{name!r} is no name for a context: letters, digits, `.`, `_` and `-`, at most 63, "
            "a letter or digit first"
        )
    return name


def check_variable(name: str) -> str:
    """Returns the name of a variable. Raises ContextError for what can't be one."""
    if _VARIABLE.fullmatch(name) is None:
        raise ContextError(f"{name!r} is no name of a variable of the environment")
    return name


def check_token_file(path: str) -> str:
    """Returns the path of a token file, or nothing. Raises ContextError: relative, or no path."""
    if path and (not path.startswith("/") or "\0" in path):
        raise ContextError(f"token_file is {path!r}: write an absolute path")
    return path


def read_contexts(path: Path) -> Contexts:
    """Reads the file; no contexts if it is not there. Raises ContextError, which says where it is damaged."""
    text = _read(path)
    if text is None:
        return Contexts()
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"at line (\d+), column (\d+)", str(error))
        where = f"{path}:{place[1]}:{place[2]}" if place else str(path)
        raise ContextError(f"{where}: not TOML: {error}. Mend it, or remove the file") from error
    except (ValueError, RecursionError) as error:  # the parser lets through what Python can't hold
        what = "it is nested too deep" if isinstance(error, RecursionError) else "it holds too long a number"
        raise ContextError(f"{path}: {what}. Mend it, or remove the file") from error
    return _contexts(found, path)


def write_contexts(path: Path, contexts: Contexts) -> None:
    """Puts the file in place of the old one, at once and whole, readable by its owner only.

    Raises ContextError if it can't be written; the old one is then as it was.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, made = tempfile.mkstemp(prefix=".contexts-", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in _lines(contexts))
                file.flush()
                os.fsync(file.fileno())
            Path(made).replace(path)
        except BaseException:
            Path(made).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ContextError(f"{path} can't be written: {error.strerror}") from error


def _lines(contexts: Contexts) -> Iterator[str]:
    yield _HEAD
    if contexts.current:
        yield f"current = {quoted(contexts.current)}"
    for name in sorted(contexts.by_name):
        context = contexts.by_name[name]
        yield ""
        yield f"[contexts.{quoted(name)}]"
        yield f"address = {quoted(context.address)}"
        if context.token_file:
            yield f"token_file = {quoted(context.token_file)}"
        if context.token_env:
            yield f"token_env = {quoted(context.token_env)}"


def _read(path: Path) -> str | None:
    try:
        content, mode = read_plain(path, most_bytes=_LARGEST)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:  # a path that is none is a ValueError
        why = error.strerror if isinstance(error, OSError) else "that is no path"
        raise ContextError(f"{path} can't be read: {why}") from error
    if not stat.S_ISREG(mode):
        raise ContextError(f"{path} is not a regular file")
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ContextError(f"others can change {path}, and with it where tokens go: run `chmod 600 {path}`")
    if len(content) > _LARGEST:
        raise ContextError(f"{path} is larger than {_LARGEST} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ContextError(f"{path}:{line}: not UTF-8. Mend it, or remove the file") from error


def _contexts(found: Mapping[str, object], path: Path) -> Contexts:
    for key in found.keys() - {"current", "contexts"}:
        raise ContextError(f"{path}: {key}: there is no such key; known: current, contexts")
    current, tables = found.get("current", ""), found.get("contexts", {})
    if not isinstance(current, str):
        raise ContextError(f"{path}: current: not a text")
    if not isinstance(tables, dict):
        raise ContextError(f"{path}: contexts: not a table")
    by_name = {name: _context(name, table, path) for name, table in cast("dict[str, object]", tables).items()}
    if current and current not in by_name:
        raise ContextError(f"{path}: current: there is no context {current!r}")
    return Contexts(by_name=by_name, current=current)


def _context(name: str, table: object, path: Path) -> Context:
    place = f"{path}: contexts.{name}"
    if not isinstance(table, dict):
        raise ContextError(f"{place}: not a table")
    values: dict[str, str] = {}
    for key, value in cast("dict[str, object]", table).items():
        if key not in _KEYS:
            raise ContextError(f"{place}.{key}: there is no such key; known: {', '.join(sorted(_KEYS))}")
        if not isinstance(value, str):
            raise ContextError(f"{place}.{key}: not a text")
        values[key] = value
    if values.get("token_file") and values.get("token_env"):
        raise ContextError(f"{place}: has token_file and token_env; one of them says where the token is")
    try:
        check_name(name)
        check_address(values.get("address", ""), source="it")
        if values.get("token_env"):
            check_variable(values["token_env"])
        check_token_file(values.get("token_file", ""))
    except AddressError as error:
        raise ContextError(f"{place}: {error}") from error
    return Context(name=name, **values)

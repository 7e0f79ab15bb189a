"""The token of this machine: made at the first start, so that the first run needs no set-up and all is shut.

Owns its file: `tokens/<host>_<port>.token` in the user's state directory, mode 0600 in directories of mode
0700, one line. The command line's client reads the same path. A file that somebody else could have read or
written is refused, never repaired.
"""

import os
import re
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path

from jackline_server.identity.principals import ALL_SCOPES, Principal
from jackline_server.identity.tokens import KnownToken, digest_of
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT

PREFIX = "jackline_live_"
LOCAL_PRINCIPAL = "local"
_BYTES = 32
_PRIVATE = 0o600
_PRIVATE_DIRECTORY = 0o700
_LOOPBACK = "127.0.0.1"
_SAME_HOST = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0", "::", ""})  # noqa: S104  # names, no bind
_TOKEN = re.compile(rf"{PREFIX}[A-Za-z0-9_-]{{43}}")


class TokenFileRefused(Exception):
    """The token's file can't be trusted or can't be written. The message says what to do."""


def state_directory(environment: Mapping[str, str]) -> Path:
    """Where the user's state is kept: `JACKLINE_STATE_DIR`, or `jackline` below `XDG_STATE_HOME`."""
    own = environment.get("JACKLINE_STATE_DIR", "")
    if own:
        return Path(own)
    shared = environment.get("XDG_STATE_HOME", "")
    home = environment.get("HOME", "")
    fallback = (Path(home) if home else Path.home()) / ".local" / "state"
    return (Path(shared) if shared else fallback) / "jackline"


def token_path(directory: Path, host: str, port: int) -> Path:
    """The file for a listening address. All names of this machine share the one of 127.0.0.1."""
    bare = host.removeprefix("[").removesuffix("]")
    if bare.lower() in _SAME_HOST:
        bare = _LOOPBACK
    address = f"[{bare}]:{port}" if ":" in bare else f"{bare}:{port}"
    text = re.sub(r"[^A-Za-z0-9.-]", "_", address)
    return directory / "tokens" / f"{text}.token"


def obtain_token(path: Path) -> str:
    """The token in the file, made now if there is none.

    Raises:
        TokenFileRefused: it belongs to somebody else, others may read it, it is no regular file, it holds
            no token, or it can't be written.
    """
    try:
        return _read(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise TokenFileRefused(_cannot("read", path, error)) from None
    try:
        return _make(path)
    except OSError as error:
        raise TokenFileRefused(_cannot("write", path, error)) from None


def local_token(path: Path) -> KnownToken:
    """The same, as what the register holds: all scopes, principal `local`. Raises TokenFileRefused."""
    principal = Principal(tenant=DEFAULT_TENANT, name=LOCAL_PRINCIPAL, scopes=ALL_SCOPES)
    return KnownToken(digest=digest_of(obtain_token(path)), principal=principal)


def _cannot(what: str, path: Path, error: OSError) -> str:
    return f"cannot {what} {path}: {error.strerror}. Set JACKLINE_STATE_DIR to a directory of your own."


def _read(path: Path) -> str:
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(handle)
        _trust(path, found)
        text = os.read(handle, found.st_size + 1).decode("ascii", "replace").strip()
    finally:
        os.close(handle)
    if not _TOKEN.fullmatch(text):
        raise TokenFileRefused(f"{path} holds no token. Remove it; a new one is made at the next start.")
    return text


def _trust(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise TokenFileRefused(
            f"{path} is not a regular file. Remove it; a new one is made at the next start."
        )
    if found.st_uid != os.geteuid():
        raise TokenFileRefused(f"{path} belongs to another user. Remove it, or set JACKLINE_STATE_DIR.")
    if stat.S_IMODE(found.st_mode) != _PRIVATE:
        raise TokenFileRefused(
            f"{path} has mode {stat.S_IMODE(found.st_mode):04o}; others may have read it. "
            "Remove it, so that a new token is made."
        )


def _make(path: Path) -> str:
    path.parent.parent.mkdir(mode=_PRIVATE_DIRECTORY, parents=True, exist_ok=True)
    path.parent.mkdir(mode=_PRIVATE_DIRECTORY, exist_ok=True)
    token = PREFIX + secrets.token_urlsafe(_BYTES)
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _PRIVATE)
    try:
        try:
            os.fchmod(handle, _PRIVATE)
            os.write(handle, f"{token}\n".encode())
            os.fsync(handle)
        finally:
            os.close(handle)
        # A link does not replace: of two servers that start together, both use the token of the first.
        os.link(fresh, path)
    except FileExistsError:
        return _read(path)
    finally:
        fresh.unlink(missing_ok=True)
    return token

"""Where the server is and what opens it, from the environment and the user's state directory.

Owns the rule by which client and server find the same token file. Does not own making tokens: the server does
that.

A token comes from `JACKLINE_TOKEN`, else from the file named by `JACKLINE_TOKEN_FILE`, else from the file
that a server on this machine made for its address. It never comes from the command line, where every user of
the machine can read it.
"""

import errno
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from jackline_client.errors import AddressError, CredentialError
from jackline_client.plain_files import read_plain

DEFAULT_ADDRESS = "127.0.0.1:50051"
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1", "[::1]"})
_LONGEST_TOKEN = 8192
_LAST_PORT = 65535


def find_address(given: str | None = None, *, environ: Mapping[str, str] | None = None) -> str:
    """Finds the address: the one given, else `JACKLINE_ADDRESS`, else the default. Raises AddressError."""
    environment = os.environ if environ is None else environ
    if given:
        return check_address(given, source="--address")
    if named := environment.get("JACKLINE_ADDRESS"):
        return check_address(named, source="JACKLINE_ADDRESS")
    return DEFAULT_ADDRESS


def find_token(address: str, *, environ: Mapping[str, str] | None = None) -> str | None:
    """Finds the token for an address; None if there is none anywhere.

    Raises CredentialError for one that can't be used.
    """
    environment = os.environ if environ is None else environ
    if environment.get("JACKLINE_TOKEN"):
        return read_token_variable("JACKLINE_TOKEN", environ=environment)
    if named := environment.get("JACKLINE_TOKEN_FILE"):
        return read_token_file(Path(named), named_by="JACKLINE_TOKEN_FILE")
    made_by_server = token_path(address, environ=environment)
    token = _read_private(made_by_server)
    return None if token is None else _checked_token(token, source=str(made_by_server))


def read_token_file(path: Path, *, named_by: str) -> str:
    """Reads a token file that somebody named. Raises CredentialError: not there, not private, no token."""
    token = _read_private(path)
    if token is None:
        raise CredentialError(f"{named_by} names {path}, which is not there")
    return _checked_token(token, source=str(path))


def read_token_variable(name: str, *, environ: Mapping[str, str] | None = None) -> str:
    """Reads the token that a variable of the environment holds. Raises CredentialError: not set, no token."""
    environment = os.environ if environ is None else environ
    return _checked_token(environment.get(name, "").strip(), source=name)


def check_address(address: str, *, source: str) -> str:
    """Returns the address. Raises AddressError, which names the source, for one that is none."""
    if re.fullmatch(r"unix:[!-~]+", address):
        return address
    match = re.fullmatch(
        r"(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+(%[A-Za-z0-9]+)?\]):(?P<port>[0-9]{1,5})", address
    )
    if match is None or not 0 < int(match["port"]) <= _LAST_PORT:
        raise AddressError(
            f"{source} is not an address: write host:port, such as {DEFAULT_ADDRESS} or [::1]:50051"
        )
    return address


def token_path(address: str, *, environ: Mapping[str, str] | None = None) -> Path:
    """Returns the file in which a server on `address` leaves its token for the user that runs it."""
    environment = os.environ if environ is None else environ
    if state := environment.get("JACKLINE_STATE_DIR"):
        folder = Path(state)
    elif state := environment.get("XDG_STATE_HOME"):
        folder = Path(state) / "jackline"
    else:
        folder = (
            Path(environment["HOME"] if environment.get("HOME") else Path.home()) / ".local/state/jackline"
        )
    return folder / "tokens" / f"{_token_key(address)}.token"


def is_loopback(address: str) -> bool:
    """True if the address never leaves this machine."""
    host, _, _ = address.rpartition(":")
    return host in _LOOPBACK or address.startswith("unix:")


def _token_key(address: str) -> str:
    host, separator, port = address.rpartition(":")
    if separator and host in _LOOPBACK:
        address = f"127.0.0.1:{port}"
    return re.sub(r"[^A-Za-z0-9.-]", "_", address)


def _read_private(path: Path) -> str | None:
    """Reads the first line of a file that only its owner can read; None if it is not there."""
    try:
        content, mode = read_plain(path, most_bytes=_LONGEST_TOKEN)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:  # a path that is none is a ValueError
        number = error.errno if isinstance(error, OSError) else None
        if number == errno.ENOTDIR:
            return None
        why = os.strerror(number) if number else "that is no path"
        raise CredentialError(f"the token file {path} can't be read: {why}") from error
    if not stat.S_ISREG(mode):
        raise CredentialError(f"{path} is not a file that could hold a token")
    if mode & 0o077:
        raise CredentialError(f"others can read the token file {path}: run `chmod 600 {path}`")
    return content.partition(b"\n")[0].decode("ascii", "replace").strip()


def _checked_token(token: str, *, source: str) -> str:
    """Refuses a token that can't stand in a header. The message never shows it."""
    if not token or len(token) > _LONGEST_TOKEN or re.fullmatch(r"[!-~]+", token) is None:
        raise CredentialError(
            f"{source} holds no token: it must be one line of printable ASCII without spaces"
        )
    return token

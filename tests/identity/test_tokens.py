"""Tokens: who they stand for, and the one that a first start makes."""

import os
import re
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jackline_client.credentials import token_path as client_path
from jackline_server.identity.local_token import (
    TokenFileRefused,
    local_token,
    obtain_token,
    state_directory,
    token_path,
)
from jackline_server.identity.principals import ALL_SCOPES, Principal, Scope
from jackline_server.identity.tokens import KnownToken, TokenRegister, digest_of
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT, Tenant

READER = Principal(tenant=Tenant("acme"), name="reader", scopes=frozenset({Scope.RUNS_OBSERVE}))


def test_a_known_token_stands_for_its_principal_and_no_other_for_anybody() -> None:
    register = TokenRegister([KnownToken(digest=digest_of("one-token"), principal=READER)])
    assert register.authenticate("one-token") == READER
    for other in ("", "one-toke", "one-tokenn", "ONE-TOKEN", "x" * 100_000, "\ud800", "é"):
        assert register.authenticate(other) is None


def test_the_register_keeps_no_token() -> None:
    known = KnownToken(digest=digest_of("one-token"), principal=READER)
    assert "one-token" not in repr(known)


def test_the_first_start_makes_a_private_token_and_the_next_one_uses_it(tmp_path: Path) -> None:
    path = token_path(tmp_path / "state", "127.0.0.1", 50051)
    token = obtain_token(path)
    assert re.fullmatch(r"jackline_live_[A-Za-z0-9_-]{43}", token)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.parent.parent.stat().st_mode) == 0o700
    assert [one.name for one in path.parent.iterdir()] == ["127.0.0.1_50051.token"]
    assert obtain_token(path) == token


def test_the_local_token_may_do_everything(tmp_path: Path) -> None:
    path = token_path(tmp_path, "localhost", 1)
    register = TokenRegister([local_token(path)])
    principal = register.authenticate(path.read_text(encoding="ascii").strip())
    assert principal == Principal(tenant=DEFAULT_TENANT, name="local", scopes=ALL_SCOPES)


def test_servers_that_start_together_use_one_token(tmp_path: Path) -> None:
    path = token_path(tmp_path, "127.0.0.1", 1)
    with ThreadPoolExecutor(8) as pool:
        tokens = set(pool.map(obtain_token, [path] * 32))
    assert len(tokens) == 1
    assert list(path.parent.iterdir()) == [path]


def _readable(path: Path) -> None:
    path.chmod(0o644)


def _empty(path: Path) -> None:
    path.write_text("", encoding="ascii")


def _other_text(path: Path) -> None:
    path.write_text("jackline_live_short\n", encoding="ascii")


def _link(path: Path) -> None:
    target = path.with_name("target")
    path.rename(target)
    path.symlink_to(target)


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir(0o600)


def _marks(path: Path) -> tuple[int, ...]:
    found = path.lstat()
    return (found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_uid)


@pytest.mark.parametrize("spoil", [_readable, _empty, _other_text, _link, _pipe, _directory])
def test_a_file_that_cannot_be_trusted_is_refused_and_left_alone(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    path = token_path(tmp_path, "127.0.0.1", 1)
    obtain_token(path)
    spoil(path)
    before = _marks(path)
    with pytest.raises(TokenFileRefused) as refused:
        obtain_token(path)
    assert "jackline_live_" not in str(refused.value)
    assert _marks(path) == before


def test_a_state_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("", encoding="ascii")
    with pytest.raises(TokenFileRefused):
        obtain_token(token_path(blocked, "127.0.0.1", 1))


@pytest.mark.parametrize(
    "host",
    ["localhost", "127.0.0.1", "::1", "[::1]", "0.0.0.0", "::", "LOCALHOST"],
)
def test_all_names_of_this_machine_share_one_file(tmp_path: Path, host: str) -> None:
    assert token_path(tmp_path, host, 50051) == tmp_path / "tokens" / "127.0.0.1_50051.token"


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1:50051"),
        ("127.0.0.1", "localhost:50051"),
        ("::1", "[::1]:50051"),
        ("fd00::1", "[fd00::1]:50051"),
        ("10.0.0.7", "10.0.0.7:50051"),
        ("agents.example", "agents.example:50051"),
    ],
)
@pytest.mark.parametrize(
    "environment",
    [{"JACKLINE_STATE_DIR": "/x"}, {"XDG_STATE_HOME": "/y"}, {"HOME": "/home/somebody"}],
    ids=["own", "xdg", "home"],
)
def test_client_and_server_mean_the_same_file(host: str, address: str, environment: dict[str, str]) -> None:
    assert token_path(state_directory(environment), host, 50051) == client_path(address, environ=environment)

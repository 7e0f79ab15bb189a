"""Where the token and the address come from (BI111), and that client and server would name the same file."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jackline_client.credentials import find_address, find_token, token_path
from jackline_client.errors import AddressError, CredentialError


def write(path: Path, text: str, mode: int = 0o600) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def test_the_environment_comes_before_the_file_and_the_file_before_the_servers(tmp_path: Path) -> None:
    environ = {"JACKLINE_STATE_DIR": str(tmp_path)}
    address = "127.0.0.1:50051"
    assert find_token(address, environ=environ) is None
    write(tmp_path / "tokens/127.0.0.1_50051.token", "made\nsecond line\n")
    assert find_token(address, environ=environ) == "made"
    environ["JACKLINE_TOKEN_FILE"] = str(write(tmp_path / "mine", "from-file\n"))
    assert find_token(address, environ=environ) == "from-file"
    environ["JACKLINE_TOKEN"] = "from-environment"
    assert find_token(address, environ=environ) == "from-environment"


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_all_names_of_the_loopback_share_one_file(host: str) -> None:
    environ = {"JACKLINE_STATE_DIR": "/state"}
    assert token_path(f"{host}:7", environ=environ) == Path("/state/tokens/127.0.0.1_7.token")


def test_other_addresses_are_written_without_odd_characters() -> None:
    assert token_path("[fe80::1]:7", environ={"JACKLINE_STATE_DIR": "/s"}).name == "_fe80__1__7.token"
    assert (
        token_path("unix:/run/x.sock", environ={"JACKLINE_STATE_DIR": "/s"}).name == "unix__run_x.sock.token"
    )
    assert token_path("a:1", environ={"XDG_STATE_HOME": "/x"}) == Path("/x/jackline/tokens/a_1.token")
    assert token_path("a:1", environ={"HOME": "/h"}) == Path("/h/.local/state/jackline/tokens/a_1.token")


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o644, 0o666])
def test_a_token_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    environ = {"JACKLINE_TOKEN_FILE": str(write(tmp_path / "t", "secret-value", mode))}
    with pytest.raises(CredentialError) as refused:
        find_token("a:1", environ=environ)
    assert "secret-value" not in str(refused.value)


@pytest.mark.parametrize("text", ["", "\n", "two words", "tab\tbed", "ümlaut", "a" * 9000])
def test_a_token_that_can_not_stand_in_a_header_is_refused_without_showing_it(
    tmp_path: Path, text: str
) -> None:
    environ = {"JACKLINE_TOKEN_FILE": str(write(tmp_path / "t", text))}
    with pytest.raises(CredentialError) as refused:
        find_token("a:1", environ=environ)
    assert not text.strip() or text not in str(refused.value)


def test_a_named_token_file_that_is_missing_a_folder_or_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name in ("missing", ".", "pipe"):
        with pytest.raises(CredentialError):
            find_token("a:1", environ={"JACKLINE_TOKEN_FILE": str(tmp_path / name)})


@pytest.mark.parametrize(
    "address",
    ["nothing", "host:", ":1", "host:0", "host:65536", "host:x", "http://h:1", "h:1\n", "a b:1", "\x1b:1"],
)
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(AddressError):
        find_address(address, environ={})
    with pytest.raises(AddressError):
        find_address(None, environ={"JACKLINE_ADDRESS": address})


def test_an_address_is_the_flag_else_the_environment_else_the_default() -> None:
    assert find_address("h:1", environ={"JACKLINE_ADDRESS": "e:2"}) == "h:1"
    assert find_address(None, environ={"JACKLINE_ADDRESS": "e:2"}) == "e:2"
    assert find_address(None, environ={}) == "127.0.0.1:50051"


def test_the_client_loads_nothing_of_the_server() -> None:
    program = (
        "import sys, pkgutil, importlib, jackline_client\n"
        "for found in pkgutil.walk_packages(jackline_client.__path__, 'jackline_client.'):\n"
        "    importlib.import_module(found.name)\n"
        "print([name for name in sys.modules if name.split('.')[0] in"
        " ('jackline_server', 'litellm', 'apsw', 'aiohttp', 'pydantic', 'yaml')])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"

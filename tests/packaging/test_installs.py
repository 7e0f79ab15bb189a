"""The wheel, installed where nothing of this tree is: a client alone, and a server."""

from collections.abc import Generator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packaging.environments import ROOT, Environment
from tests.packaging.locks import pinned
from tests.packaging.serving import serving
from tests.packaging.test_archives import PROJECT

pytestmark = pytest.mark.timeout(900)

LOCKED = pinned(ROOT / "requirements" / "server.txt")
PLAIN = {
    *(
        "annotated-doc",
        "googleapis-common-protos",
        "grpcio",
        "grpcio-status",
        "markdown-it-py",
        "mdurl",
    ),
    *("protobuf", "pygments", "rich", "shellingham", "typer", "typing-extensions"),
}
"""All that a plain install brings. It stays light: whoever adds to it does so here."""
NEEDS_SERVER = {
    "backup": ("data.tgz",),
    "doctor": (),
    "eval": ("cases.yaml",),
    "health": (),
    "restore": ("copy.db",),
    "schema": (),
    "replay": ("run_1",),
    "serve": (),
    "tools": ("test",),
}
"""Commands that the server extra brings, with arguments that take them to their work."""
NEED_NO_MORE = {"config", "init"}
"""Commands of the server that happen to need nothing that a plain install lacks."""
EXIT_USAGE = 2


def test_a_plain_install_brings_the_client_and_nothing_of_the_server(plain: Environment) -> None:
    found = plain.installed()
    assert found.keys() == {"jackline", *PLAIN}
    assert {name: found[name].version for name in PLAIN} == {name: LOCKED[name] for name in PLAIN}
    extra = {canonicalize_name(Requirement(text).name) for text in PROJECT["optional-dependencies"]["server"]}
    assert {"pydantic", "apsw", "litellm", "mcp"} <= extra - found.keys()


def test_a_plain_install_tells_its_version_and_its_commands(plain: Environment, tmp_path: Path) -> None:
    version = plain.call("--version", home=tmp_path)
    assert (version.returncode, version.stdout) == (0, f"jackline {PROJECT['version']}\n")
    helped = plain.call("--help", home=tmp_path)
    assert helped.returncode == 0
    assert {"run", "watch", "serve"} <= set(helped.stdout.split())


def test_each_command_of_the_server_is_tried_here() -> None:
    assert set(PROJECT["entry-points"]["jackline.commands"]) == {*NEEDS_SERVER, *NEED_NO_MORE}


@pytest.mark.parametrize("command", NEEDS_SERVER)
def test_a_command_of_the_server_says_how_to_get_it(plain: Environment, tmp_path: Path, command: str) -> None:
    ended = plain.call(command, *NEEDS_SERVER[command], home=tmp_path)
    assert ended.returncode == EXIT_USAGE
    assert "pip install 'jackline[server]'" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "Warning" not in ended.stderr


def test_a_project_of_a_plain_install_is_written_with_what_to_install_first(
    plain: Environment, tmp_path: Path
) -> None:
    ended = plain.call("init", str(tmp_path / "project"), home=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    told, _, then = ended.stdout.partition("Next:\n")
    assert "pip install 'jackline[server]'" in told
    assert "jackline serve" in then


def test_what_is_locked_is_what_the_server_extra_asks_for(server: Environment) -> None:
    found = server.installed()
    assert {name: each.version for name, each in found.items() if name != "jackline"} == LOCKED
    wanted = [Requirement(text) for text in found["jackline"].requires or []]
    for each in wanted:
        if each.marker is None or each.marker.evaluate({"extra": "server"}):
            assert each.specifier.contains(LOCKED[canonicalize_name(each.name)]), each


@pytest.fixture
def served(server: Environment, tmp_path: Path) -> Generator[str]:
    """The address of an installed server."""
    with serving(server, tmp_path) as address:
        yield address


def test_an_installed_client_streams_a_run_of_an_installed_server(
    served: str, plain: Environment, server: Environment, tmp_path: Path
) -> None:
    assert server.call("health", "--address", served, home=tmp_path).returncode == 0
    ended = plain.call(
        "run", "greeting", "-i", "name=Ada", home=tmp_path, environ={"JACKLINE_ADDRESS": served}
    )
    assert ended.returncode == 0, ended.stderr
    assert "Hello, Ada." in ended.stdout
    assert "run succeeded" in ended.stdout

"""Connections of kind mcp: commands by path alone, an environment of their own, nothing silently ignored."""

from pathlib import Path

import pytest

from jackline_server.config import Config, ConfigError, ProblemCode, load_config
from jackline_server.runtime.ports.http import Origin
from jackline_server.runtime.ports.mcp import McpEndpoint, McpProcess

STDIO = "[connections.a]\nkind = 'mcp'\ntransport = 'stdio'\n"
HTTP = "[connections.a]\nkind = 'mcp'\ntransport = 'http'\n"
COMMAND = "command = ['/opt/server']\n"


def loaded(folder: Path, toml: str) -> Config:
    file = folder / "jackline.toml"
    file.write_text(toml)
    return load_config(file=file, environ={"TOKEN": "hush-hush"})


def problems(folder: Path, toml: str) -> list[tuple[ProblemCode, str]]:
    with pytest.raises(ConfigError) as caught:
        loaded(folder, toml)
    return [(problem.code, problem.key) for problem in caught.value.problems]


def test_a_process_and_an_endpoint_are_read(tmp_path: Path):
    config = loaded(
        tmp_path,
        STDIO
        + COMMAND
        + "env = {TOKEN = '${env:TOKEN}'}\ntrusted = true\nallow = ['read']\nlock = './a.lock'\n"
        + HTTP.replace(".a]", ".b]")
        + "url = 'https://tools.internal/mcp'\nheaders = {authorization = 'Bearer ${env:TOKEN}'}\n",
    )
    a, b = config.mcp_connections["a"], config.mcp_connections["b"]
    assert isinstance(a.transport, McpProcess)
    assert a.transport.command == ("/opt/server",)
    assert {name: value.reveal() for name, value in a.transport.environment.items()} == {"TOKEN": "hush-hush"}
    assert (a.trusted, a.allow, a.lock) == (True, frozenset({"read"}), tmp_path / "a.lock")
    assert isinstance(b.transport, McpEndpoint)
    assert b.transport.origin == Origin(scheme="https", host="tools.internal", port=443)
    assert (b.transport.path, b.trusted, b.allow, b.lock) == ("/mcp", False, None, None)
    assert config.connections == {}
    assert "hush-hush" not in repr(config)


def test_a_command_beside_the_config_becomes_absolute(tmp_path: Path):
    config = loaded(tmp_path, STDIO + "command = ['./bin/server', '-v']\n")
    transport = config.mcp_connections["a"].transport
    assert isinstance(transport, McpProcess)
    assert transport.command == (str(tmp_path / "bin/server"), "-v")


@pytest.mark.parametrize("command", ["['server']", "['bin/server']", "['sh', '-c', 'x']", "['~/server']"])
def test_a_command_that_a_search_path_would_decide_is_refused(tmp_path: Path, command: str):
    toml = f"{STDIO}command = {command}\n"
    assert problems(tmp_path, toml) == [(ProblemCode.BAD_VALUE, "connections.a.command")]


@pytest.mark.parametrize(
    ("toml", "code", "key"),
    [
        ("[connections.a]\nkind = 'mcp'\n" + COMMAND, ProblemCode.MISSING, "transport"),
        (STDIO.replace("stdio", "pipe") + COMMAND, ProblemCode.BAD_VALUE, "transport"),
        (STDIO, ProblemCode.MISSING, "command"),
        (STDIO + "command = '/opt/server -v'\n", ProblemCode.WRONG_TYPE, "command"),
        (HTTP, ProblemCode.MISSING, "url"),
        (HTTP + "url = 'file:///etc/passwd'\n", ProblemCode.BAD_VALUE, "url"),
        (HTTP + "url = 'https://u:p@host/mcp'\n", ProblemCode.BAD_VALUE, "url"),
        (STDIO + COMMAND + "env = {'A=B' = 'x'}\n", ProblemCode.BAD_VALUE, "env.A***"),
        (STDIO + COMMAND + "url = 'https://host'\n", ProblemCode.UNKNOWN_KEY, "url"),
        (STDIO + COMMAND + "alow = ['x']\n", ProblemCode.UNKNOWN_KEY, "alow"),
    ],
)
def test_what_is_wrong_is_said_at_its_key(tmp_path: Path, toml: str, code: ProblemCode, key: str):
    assert problems(tmp_path, toml) == [(code, f"connections.a.{key}")]

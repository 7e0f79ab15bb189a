"""Connections of kind grpc: in the clear to this machine alone unless said, metadata that gRPC takes."""

from pathlib import Path

import pytest

from jackline_server.config import Config, ConfigError, ProblemCode, load_config
from jackline_server.runtime.ports.connection_guards import Breaker, GuardedConnection
from jackline_server.runtime.ports.grpc import GrpcTls

HEAD = "[connections.a]\nkind = 'grpc'\n"


def loaded(folder: Path, toml: str) -> Config:
    file = folder / "jackline.toml"
    file.write_text(toml)
    return load_config(file=file, environ={"TOKEN": "hush-hush"})


def test_a_connection_is_read_with_every_default(tmp_path: Path):
    text = HEAD + "target = 'billing.internal:443'\nheaders = {Authorization = 'Bearer ${env:TOKEN}'}\n"
    made = loaded(tmp_path, text).grpc_connections["a"]

    assert made.tls == GrpcTls(roots=None, certificate=None, key=None)
    assert {name: value.reveal() for name, value in made.metadata.items()} == {
        "authorization": "Bearer hush-hush"
    }
    assert (made.descriptors, made.trusted, made.allow, made.lock) == (None, False, None, None)
    assert "hush-hush" not in repr(made)


@pytest.mark.parametrize(
    ("target", "more", "secure"),
    [
        ("127.0.0.1:7071", "", False),
        ("[::1]:7071", "", False),
        ("unix:/run/billing.sock", "", False),
        ("127.0.0.1:7071", "tls = true\n", True),
        ("dns:///billing.internal:443", "", True),
        ("10.0.0.7:443", "", True),
        ("10.0.0.7:443", "tls = false\n", False),
    ],
)
def test_only_this_machine_is_spoken_to_in_the_clear_unless_said(
    tmp_path: Path, target: str, more: str, secure: bool
):
    made = loaded(tmp_path, f"{HEAD}target = '{target}'\n{more}").grpc_connections["a"]

    assert (made.tls is not None) is secure


@pytest.mark.parametrize("word", ["descriptors = 'reflection'\n", "", "descriptors = './billing.binpb'\n"])
def test_descriptors_are_asked_for_or_a_file(tmp_path: Path, word: str):
    made = loaded(tmp_path, f"{HEAD}target = 'localhost:1'\n{word}").grpc_connections["a"]

    assert made.descriptors == (tmp_path / "billing.binpb" if "binpb" in word else None)


@pytest.mark.parametrize(
    ("toml", "code", "key"),
    [
        ("", ProblemCode.MISSING, "target"),
        ("target = 'https://billing.internal'\n", ProblemCode.BAD_VALUE, "target"),
        ("target = 'localhost:70000'\n", ProblemCode.BAD_VALUE, "target"),
        ("target = 'localhost:1'\nca = 'x.pem'\n", ProblemCode.BAD_VALUE, "ca"),
        ("target = 'a.b:1'\nkey = 'x.key'\n", ProblemCode.BAD_VALUE, "certificate"),
        ("target = 'localhost:1'\nheaders = {grpc-timeout = '1S'}\n", ProblemCode.BAD_VALUE, "headers"),
        ("target = 'localhost:1'\nheaders = {traceparent = 'x'}\n", ProblemCode.BAD_VALUE, "headers"),
        ("target = 'localhost:1'\nheaders = {token-bin = 'x'}\n", ProblemCode.BAD_VALUE, "headers"),
        ("target = 'localhost:1'\nheaders = {token = '\u00fc'}\n", ProblemCode.BAD_VALUE, "headers"),
        ("target = 'localhost:1'\ndescriptors = 7\n", ProblemCode.WRONG_TYPE, "descriptors"),
        ("target = 'localhost:1'\nmethod = 'x'\n", ProblemCode.UNKNOWN_KEY, "method"),
    ],
)
def test_what_is_wrong_is_said_at_its_key(tmp_path: Path, toml: str, code: ProblemCode, key: str):
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, HEAD + toml)

    assert [(one.code, one.key) for one in caught.value.problems] == [(code, f"connections.a.{key}")]


@pytest.mark.parametrize(
    "where",
    [
        "[connections.a]\nkind = 'http'\nbase_url = 'https://a.internal'\n",
        f"{HEAD}target = 'localhost:1'\n",
        "[connections.a]\nkind = 'mcp'\ntransport = 'http'\nurl = 'https://a.internal/mcp'\n",
        "[data_sources.a]\nfile = 'a.db'\n",
    ],
    ids=["http", "grpc", "mcp", "data source"],
)
def test_every_kind_of_connection_is_spared_in_the_same_words(tmp_path: Path, where: str):
    def made(more: str) -> GuardedConnection:
        config = loaded(tmp_path, where + more)
        kinds = (config.connections, config.mcp_connections, config.grpc_connections, config.data_sources)
        return next(kind["a"] for kind in kinds if "a" in kind)

    plain, spared = made(""), made("calls_per_minute = 9\nbreaker = {failures = 0, cool_off = '2m'}\n")
    assert (plain.calls_per_minute, plain.breaker) == (None, Breaker(failures=5, cool_off_ms=30_000))
    assert (spared.calls_per_minute, spared.breaker) == (9, Breaker(failures=0, cool_off_ms=120_000))

"""Data sources: a file or a server, read only unless said, hidden where they hold a password."""

from pathlib import Path

import pytest

from jackline_server.config import Config, ConfigError, ProblemCode, load_config
from jackline_server.runtime.ports.secrets import Secret
from jackline_server.runtime.ports.sql import PostgresServer, SqliteFile

URL = "url = 'postgresql://me:${env:WORD}@db.internal/shop'\n"


def loaded(folder: Path, toml: str) -> Config:
    file = folder / "jackline.toml"
    file.write_text(toml)
    return load_config(file=file, environ={"WORD": "hush-hush"})


def test_a_file_and_a_server_are_read(tmp_path: Path):
    text = f"[data_sources.a]\nfile = './a.db'\n[data_sources.b]\n{URL}writes = true\nmax_rows = 5\n"
    config = loaded(tmp_path, text)

    a, b = config.data_sources["a"], config.data_sources["b"]
    assert (a.database, a.writes, a.max_rows) == (SqliteFile(file=tmp_path / "a.db"), False, 1_000)
    assert (b.writes, b.max_rows) == (True, 5)
    assert b.database == PostgresServer(url=Secret("postgresql://me:hush-hush@db.internal/shop"))
    assert "hush-hush" not in repr(config)
    assert isinstance(b.database, PostgresServer)
    assert b.database.url in list(config.all_hidden)


@pytest.mark.parametrize(
    ("toml", "code", "key"),
    [
        ("writes = true\n", ProblemCode.MISSING, "file"),
        ("file = 'a.db'\n" + URL, ProblemCode.BAD_VALUE, "url"),
        ("url = 'mysql://host/x'\n", ProblemCode.BAD_VALUE, "url"),
        ("url = 'sqlite:///a.db'\n", ProblemCode.BAD_VALUE, "url"),
        ("file = 'a.db'\nmax_rows = 0\n", ProblemCode.BAD_VALUE, "max_rows"),
        ("file = 'a.db'\nmax_bytes = 9000000\n", ProblemCode.BAD_VALUE, "max_bytes"),
        ("file = 'a.db'\nwrite = true\n", ProblemCode.UNKNOWN_KEY, "write"),
        ("file = 7\n", ProblemCode.WRONG_TYPE, "file"),
    ],
)
def test_what_is_wrong_is_said_at_its_key(tmp_path: Path, toml: str, code: ProblemCode, key: str):
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, "[data_sources.a]\n" + toml)

    assert [(one.code, one.key) for one in caught.value.problems] == [(code, f"data_sources.a.{key}")]


def test_a_source_may_come_by_variables(tmp_path: Path):
    config = load_config(environ={"JACKLINE_DATA_SOURCES__SHOP__URL": "postgresql://x/y"})

    assert isinstance(config.data_sources["shop"].database, PostgresServer)

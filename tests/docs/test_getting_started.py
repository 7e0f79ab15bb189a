"""docs/getting-started.md, followed from its top to its end in an empty folder."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from jackline_server.config import load_config
from jackline_server.models.script import load_script
from tests.architecture.test_committed_files import committed_files
from tests.docs.following import reader_in
from tests.docs.pages import ROOT, blocks, page
from tests.support.openai_endpoint import Endpoint, scripted, serve

PAGE = page("getting-started.md")
INSTALL_S = 500
FOLLOW_S = 300
_OF_INSTALLERS = re.compile(r"(PIP|UV|SSL_CERT)_\w+|\w+_(proxy|PROXY)|LANG")


@pytest.fixture
def checkout(tmp_path: Path) -> Generator[Path]:
    """What git holds, in a folder of its own."""
    folder = tmp_path / "checkout"
    for path in committed_files():
        copy = folder / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, copy)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.timeout(INSTALL_S)
def test_its_install_ends_with_a_command_that_serves(checkout: Path, tmp_path: Path) -> None:
    commands = "".join(block.code for block in blocks(PAGE, "bash install"))
    assert commands.count("pip install") == 2
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(Path(sys.executable).resolve())
    known = {name: value for name, value in os.environ.items() if _OF_INSTALLERS.fullmatch(name)}
    ended = subprocess.run(
        ["bash", "-c", f"set -euo pipefail\n{commands}\ncd / && jackline --version && jackline serve --help"],  # noqa: S607 - bash of this machine, as for a reader of the page
        cwd=checkout,
        env={
            **known,
            "PIP_NO_COMPILE": "1",
            "HOME": str(tmp_path),
            "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.defpath}",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=INSTALL_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert re.search(r"^jackline \d", ended.stdout, re.MULTILINE)


@pytest.mark.timeout(FOLLOW_S)
async def test_following_it_leads_where_it_says(tmp_path: Path) -> None:
    (clerk,) = blocks(PAGE, "yaml file=clerk.yaml")
    script = tmp_path / "clerk.yaml"
    script.write_text(clerk.code, encoding="utf-8")
    home = tmp_path / "home"
    home.mkdir()
    async with serve(scripted(load_script(script))) as provider, _reader_of(provider, home) as reader:
        done = await reader.follow(PAGE)
    assert done.count("bash serve") == 3
    assert sum("shows" in info for info in done) >= 10
    called = {tool["function"]["name"] for hit in provider.hits for tool in hit["tools"]}
    assert called == {"find_berths", "book_berth"}


def _reader_of(provider: Endpoint, home: Path):
    """A reader whose provider is this one."""
    return reader_in(home, OPENAI_API_KEY="sk-of-a-reader", OPENAI_BASE_URL=provider.base_url)


def test_its_config_of_a_real_model_loads(tmp_path: Path) -> None:
    (block,) = blocks(PAGE, "toml config")
    file = tmp_path / "jackline.toml"
    file.write_text(block.code, encoding="utf-8")
    config = load_config(file=file, environ={"OPENAI_API_KEY": "sk-of-a-reader"})
    assert config.models["clerk"].model == "openai/gpt-4o-mini"

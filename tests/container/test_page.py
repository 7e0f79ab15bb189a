"""docs/container.md, executed as it stands: the image of the Dockerfile, run, called, stopped and upgraded.

In place of the engine there is `engine`, in place of the reader's machine `host`.
"""

import re
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.container.host import ROOT, Host
from tests.container.image import Image

BLOCK = re.compile(r"^```bash container=(?P<name>[\w-]+)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = "===== block "

SHOWN: Mapping[str, tuple[str, ...]] = {
    "build": (),
    "secret": (),
    "run": (),
    "wait": (),
    "token": (),
    "start": ("run_",),
    "watch": ("Hello, Ada.", "RUN_STATE_SUCCEEDED"),
    "client": ("Hello, Grace.", "run succeeded"),
    "health": ("SERVING",),
    "stop": ("0",),
    "backup": (),
    "upgrade": (),
    "still-there": ("greeting",),
    "compose": ("Hello, Linus.", "stopped with 0"),
}
"""Each block of the page, and what its output has to show."""


def blocks() -> dict[str, str]:
    page = (ROOT / "docs" / "container.md").read_text(encoding="utf-8")
    return {match["name"]: match["code"] for match in BLOCK.finditer(page)}


def test_every_block_of_the_page_is_known_here() -> None:
    assert list(blocks()) == list(SHOWN)


def test_the_upgrade_starts_the_server_as_the_first_start_did() -> None:
    page = blocks()
    assert page["run"] in page["upgrade"]
    assert page["wait"] in page["upgrade"]


@pytest.mark.timeout(900)
def test_the_page_builds_runs_calls_stops_and_upgrades_a_container(image: Image, tmp_path: Path) -> None:
    host = Host(tmp_path, image)
    ended = host.run("\n".join(f"echo '{MARK}{name}'\n{code}" for name, code in blocks().items()))
    shown = {part.partition("\n")[0]: part.partition("\n")[2] for part in ended.out.split(MARK) if part}
    assert ended.code == 0, f"block {list(shown)[-1]}: {ended.err}{ended.logs}"
    missing = [(name, word) for name, words in SHOWN.items() for word in words if word not in shown[name]]
    assert missing == [], ended.out
    with tarfile.open(host.clone / "jackline-data.tgz") as backup:
        assert {"./data", "./state"} <= set(backup.getnames())

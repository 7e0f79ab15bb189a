"""The commands of docs/operations.md, executed as they stand against a real server."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
BLOCK = re.compile(r"^```bash run=(?P<name>[\w-]+)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = "===== block "
SLOW_TURN_MS = 1500  # long enough for a command to find the run alive
SECONDS = 60

SHOWN: Mapping[str, tuple[str, ...]] = {
    "set-up": (),
    "health": ('"SERVING"',),
    "server-info": ('"DURABILITY_CLASS_FSYNC"', '"fast"', '"COMMAND_KIND_STEER"'),
    "start": ("run_",),
    "watch": ('"runStarted"', '"runFinished"', '"issue_refund"'),
    "get": ('"RUN_STATE_SUCCEEDED"', '"handle"', '"reply"'),
    "list": ('"totalSize": "1"',),
    "tool-calls": ('"lookup_order"', '"issue_refund"', '"TOOL_CALL_STATUS_COMPLETED"'),
    "messages": ('"MESSAGE_ROLE_SYSTEM"', '"MESSAGE_ROLE_TOOL"'),
    "wait": ('"finished": true',),
    "pause": ('"reached": true', '"COMMAND_DISPOSITION_APPLIED"'),
    "steer": ('"commandId": "steer-1"',),
    "resume": ('"COMMAND_DISPOSITION_APPLIED"',),
    "abort": ('"reached": true',),
    "interrupts": (),
    "request": (),
    "validate": ('"valid": true',),
    "put": ('"name": "refunds-trial"', '"created": true'),
    "workflows": ('"refunds"', '"refunds-trial"'),
    "describe": ('"worstCase"', '"issue_refund"'),
}
"""Each block of the page, and what its output has to show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A server with the refund example: where it is, and what a client of it needs in its environment."""

    address: str
    environ: Mapping[str, str]


def blocks() -> dict[str, str]:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    return {match["name"]: match["code"] for match in BLOCK.finditer(page)}


def address_of(process: subprocess.Popen[str]) -> str:
    """Where a process says that it listens; its other lines before that are passed on."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("listening on "):
            return line.removeprefix("listening on ").split()[0]
        sys.stderr.write(line)
    raise AssertionError(f"{process.args} ended with {process.wait()} before it listened")


def end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.communicate(timeout=SECONDS)
    finally:
        process.kill()


@pytest.fixture
def served(tmp_path: Path) -> Generator[Served]:
    example = tmp_path / "refunds"
    shutil.copytree(ROOT / "examples" / "refunds", example)
    script = example / "script.yaml"
    slow = script.read_text(encoding="utf-8").replace("delay_ms: 150", f"delay_ms: {SLOW_TURN_MS}")
    script.write_text(slow, encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JACKLINE_")}
    environ = {
        **kept,
        "JACKLINE_STATE_DIR": str(tmp_path / "state"),
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }

    def start(*command: str, **added: str) -> subprocess.Popen[str]:
        return subprocess.Popen(command, env={**environ, **added}, stdout=subprocess.PIPE, text=True)

    ledger = str(tmp_path / "ledger.jsonl")
    orders = start(sys.executable, str(example / "order_service.py"), "--ledger", ledger)
    try:
        url = f"http://{address_of(orders)}"
        server = start(
            *(str(BIN / "jackline"), "serve", "--config", str(example / "jackline.toml")),
            *("--workflows", str(example), "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0"),
            ORDERS_URL=url,
            HELPDESK_URL=f"{url}/helpdesk",
        )
        try:
            yield Served(address=address_of(server), environ=environ)
        finally:
            end(server)
    finally:
        end(orders)


def test_every_block_of_the_page_is_known_here() -> None:
    assert list(blocks()) == list(SHOWN)


def test_the_commands_of_the_page_do_what_it_says(served: Served, tmp_path: Path) -> None:
    folder = tmp_path / "clone"
    folder.mkdir()
    (folder / "examples").symlink_to(ROOT / "examples")
    script = "set -euo pipefail\n" + "".join(
        f"echo '{MARK}{name}'\n{code}\n" for name, code in blocks().items()
    )
    ended = subprocess.run(
        ["bash", "-c", script],  # noqa: S607 - bash of this machine, as for a reader of the page
        cwd=folder,
        env={**served.environ, "ADDRESS": served.address},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    shown = {part.partition("\n")[0]: part.partition("\n")[2] for part in ended.stdout.split(MARK) if part}
    assert ended.returncode == 0, f"block {list(shown)[-1]}: {ended.stderr}"
    missing = [(name, word) for name, words in SHOWN.items() for word in words if word not in shown[name]]
    assert missing == [], ended.stdout

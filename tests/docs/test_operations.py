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

from jackline_server.core.recorded.request_differences import Kind
from tests.docs.pages import page, rows, section

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
BLOCK = re.compile(
    r"^```bash (?P<mark>run|rpc)=(?P<name>[\w-]+)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)
GRPCURL = "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4"
TOOLS = ROOT / ".jackline" / "tools"
BUILD_SECONDS = 400
MARK = "===== block "
SLOW_TURN_MS = 1500  # long enough for a command to find the run alive
SECONDS = 60

SHOWN: Mapping[str, tuple[str, ...]] = {
    "set-up": (),
    "health": ('"SERVING"',),
    "server-info": ('"DURABILITY_CLASS_FSYNC"', '"fast"', '"COMMAND_KIND_STEER"'),
    "connections": ('"CONNECTION_KIND_MODEL"',),
    "start": ("run_",),
    "watch": ('"runStarted"', '"runFinished"', '"issue_refund"'),
    "watch-kinds": ('"toolCallFinished"', '"runFinished"'),
    "watch-owner": ('"runFinished"',),
    "fork": ('"RUN_STATE_SUCCEEDED"', '"forkedFrom"', '"trial"'),
    "get": ('"RUN_STATE_SUCCEEDED"', '"handle"', '"reply"'),
    "list": ('"totalSize": "1"',),
    "tool-calls": ('"lookup_order"', '"issue_refund"', '"TOOL_CALL_STATUS_COMPLETED"'),
    "messages": ('"MESSAGE_ROLE_SYSTEM"', '"MESSAGE_ROLE_TOOL"'),
    "wait": ('"finished": true',),
    "pause": ('"reached": true', '"COMMAND_DISPOSITION_APPLIED"'),
    "steer": ('"commandId": "steer-1"',),
    "resume": ('"COMMAND_DISPOSITION_APPLIED"',),
    "abort": ('"reached": true',),
    "bulk-preview": ("{",),
    "bulk": ("{",),
    "kill-switch": ('"engaged": true', "it books the wrong berths", '"releasedBy"'),
    "interrupts": (),
    "request": (),
    "validate": ('"valid": true',),
    "put": ('"name": "refunds-trial"', '"created": true'),
    "workflows": ('"refunds"', '"refunds-trial"'),
    "describe": ('"worstCase"', '"issue_refund"'),
    "workers": ("{",),
}
"""Each block of the page, and what its output has to show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A server with the refund example: where it is, and what a client of it needs in its environment."""

    address: str
    environ: Mapping[str, str]


def blocks(mark: str) -> dict[str, str]:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    return {match["name"]: match["code"] for match in BLOCK.finditer(page) if match["mark"] == mark}


def camel_case(printed: str) -> str:
    """What was printed, with the names of fields as buf prints them."""
    return re.sub(
        r'"[a-z]+(_[a-z0-9]+)+":',
        lambda match: re.sub(r"_([a-z0-9])", lambda letter: letter[1].upper(), match[0]),
        printed,
    )


def folder_of(tool: str) -> Path:
    """Where a tool is. grpcurl is built if Go is there and it is not; skips the test without either."""
    if found := shutil.which(tool, path=f"{BIN}{os.pathsep}{os.environ['PATH']}{os.pathsep}{TOOLS}"):
        return Path(found).parent
    go = shutil.which("go")
    if go is None:
        pytest.skip("neither grpcurl nor Go is on this machine")
    TOOLS.mkdir(parents=True, exist_ok=True)
    built = subprocess.run(
        [go, "install", GRPCURL],
        env={**os.environ, "GOBIN": str(TOOLS)},
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    if built.returncode != 0:
        pytest.skip(f"grpcurl can't be built here: {built.stderr[-200:]}")
    return TOOLS


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
            *(
                "--workflows",
                str(example / "workflows"),
                "--data",
                str(tmp_path / "data"),
                "--listen",
                "127.0.0.1:0",
            ),
            ORDERS_URL=url,
            HELPDESK_URL=f"{url}/helpdesk",
        )
        try:
            yield Served(address=address_of(server), environ=environ)
        finally:
            end(server)
    finally:
        end(orders)


def test_its_kinds_of_differences_are_those_that_there_are() -> None:
    shown = [row[0].strip("`") for row in rows(section(page("operations.md"), "## Before a new revision"))]
    assert sorted(shown) == sorted(kind.value for kind in Kind)


def test_every_block_of_the_page_is_known_here() -> None:
    assert list(blocks("run")) == list(SHOWN)
    assert list(blocks("rpc")) == ["buf", "grpcurl"]


@pytest.mark.timeout(BUILD_SECONDS + 3 * SECONDS)
@pytest.mark.parametrize("tool", ["buf", "grpcurl"])
def test_the_commands_of_the_page_do_what_it_says(served: Served, tmp_path: Path, tool: str) -> None:
    folder = tmp_path / "clone"
    folder.mkdir()
    (folder / "examples").symlink_to(ROOT / "examples")
    script = f"set -euo pipefail\n{blocks('rpc')[tool]}\n" + "".join(
        f"echo '{MARK}{name}'\n{code}\n" for name, code in blocks("run").items()
    )
    path = f"{folder_of(tool)}{os.pathsep}{served.environ['PATH']}"
    ended = subprocess.run(
        ["bash", "-c", script],  # noqa: S607 - bash of this machine, as for a reader of the page
        cwd=folder,
        env={**served.environ, "ADDRESS": served.address, "PATH": path},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    printed = camel_case(ended.stdout)
    shown = {part.partition("\n")[0]: part.partition("\n")[2] for part in printed.split(MARK) if part}
    assert ended.returncode == 0, f"block {list(shown)[-1]}: {ended.stderr}"
    missing = [(name, word) for name, words in SHOWN.items() for word in words if word not in shown[name]]
    assert missing == [], printed

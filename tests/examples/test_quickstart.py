"""The quickstart as a person runs it: message and order decide the path, and nothing is left behind."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = ROOT / "examples" / "refunds" / "quickstart.py"
SECONDS = 100

READS = {"GET /eu/orders", "GET /eu/policies"}
REFUND = {"POST /eu/orders"}
TICKET = {"POST /helpdesk/tickets"}


def environment(tmp_path: Path) -> dict[str, str]:
    hidden = ("JACKLINE_", "OPENAI_", "ANTHROPIC_", "GEMINI_", "MISTRAL_")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    return {**environ, "TMPDIR": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}


def outcome(tmp_path: Path, *arguments: str) -> tuple[int, set[str], str]:
    """The exit code, what the order service was asked (without ids), and all that was printed."""
    ended = subprocess.run(
        [sys.executable, str(QUICKSTART), "--once", *arguments],
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    requests = re.findall(r"^  (GET|POST) +(/\w+/\w+)", ended.stdout, re.MULTILINE)
    return ended.returncode, {f"{method} {path}" for method, path in requests}, ended.stdout


@pytest.mark.parametrize(
    ("arguments", "requests"),
    [
        ((), READS | REFUND),
        (("--order", "A-1004", "--message", "When does my order arrive?"), READS),
        (("--order", "A-1003", "--message", "It is broken. Refund it."), READS | TICKET),
        (("--order", "A-9999", "--message", "It is broken. Refund it."), READS | TICKET),
        (("--message", "My lawyer will call you."), TICKET),
    ],
    ids=["refund", "question", "too dear", "unknown order", "for people only"],
)
def test_the_message_and_the_order_decide_the_path(
    tmp_path: Path, arguments: tuple[str, ...], requests: set[str]
) -> None:
    code, asked, shown = outcome(tmp_path, *arguments)
    assert (code, asked) == (0, requests), shown


def test_a_finished_quickstart_leaves_nothing_behind(tmp_path: Path) -> None:
    code, _, shown = outcome(tmp_path)
    assert code == 0, shown
    assert list(tmp_path.iterdir()) == []


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A quickstart that stays up: its process, and what it has printed so far."""

    process: subprocess.Popen[str]
    shown: str


@contextmanager
def kept(tmp_path: Path, *arguments: str) -> Generator[Kept]:
    """A quickstart in a data folder of its own, once it has said what to try; ended by SIGTERM."""
    command = [sys.executable, "-u", str(QUICKSTART), "--data", str(tmp_path / "data"), *arguments]
    process = subprocess.Popen(
        command,
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
    )
    try:
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line)
            if "still there when you start it again" in line:
                break
        yield Kept(process=process, shown="".join(lines))
        process.terminate()
        process.communicate(timeout=SECONDS)
        assert process.returncode == 128 + signal.SIGTERM
    finally:
        process.kill()
        process.wait()


def test_the_commands_that_are_shown_steer_a_run_as_they_are_pasted(tmp_path: Path) -> None:
    with kept(tmp_path, "--slow", "--message", "My lawyer will call you.") as quickstart:
        pasted = re.search(r"^  RUN=.*?^  \S+ watch [^\n]*$", quickstart.shown, re.MULTILINE | re.DOTALL)
        assert pasted is not None, quickstart.shown
        ended = subprocess.run(
            ["bash", "-euc", pasted[0]],  # noqa: S607 - bash of this machine, as for a reader
            env=environment(tmp_path),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    assert ended.returncode == 0, ended.stdout
    for words in ("paused by local", "guidance by local: Be generous.", "run succeeded"):
        assert words in ended.stdout
    assert "rejected" not in ended.stdout


def test_a_second_quickstart_says_where_the_first_one_is_and_leaves_its_log_alone(tmp_path: Path) -> None:
    log = tmp_path / "data" / "server.log"
    with kept(tmp_path) as first:
        before = log.read_bytes()
        address = re.search(r"The server is up at (\S+);", first.shown)
        assert address is not None
        second = subprocess.run(
            [sys.executable, str(QUICKSTART), "--data", str(tmp_path / "data"), "--fresh"],
            env=environment(tmp_path),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert second.returncode == 1
        assert f"already running at {address[1]}" in second.stderr
        assert log.read_bytes().startswith(before)
    with kept(tmp_path, "--message", "My lawyer will call you.") as again:
        asked = re.findall(r"^  (GET|POST) +(/\w+/\w+)", again.shown, re.MULTILINE)
        assert asked == [("POST", "/helpdesk/tickets")], "requests of earlier runs are not this one's"
    assert log.read_bytes().startswith(before)

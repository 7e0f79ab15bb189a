"""The quickstart as a person runs it: message and order decide the path, and nothing is left behind."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = ROOT / "examples" / "refunds" / "quickstart.py"
SECONDS = 100

READS = {"GET /eu/orders", "GET /eu/policies"}
REFUND = {"POST /eu/orders"}
TICKET = {"POST /helpdesk/tickets"}


def outcome(tmp_path: Path, *arguments: str) -> tuple[int, set[str], str]:
    """The exit code, what the order service was asked (without ids), and all that was printed."""
    hidden = ("JACKLINE_", "OPENAI_", "ANTHROPIC_", "GEMINI_", "MISTRAL_")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    ended = subprocess.run(
        [sys.executable, str(QUICKSTART), "--once", *arguments],
        env={**environ, "TMPDIR": str(tmp_path)},
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

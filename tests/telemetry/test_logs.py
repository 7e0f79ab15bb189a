"""What a log line looks like, judged on the lines of a process of its own."""

import json
import subprocess
import sys
from datetime import datetime
from typing import Any

from jackline_server.telemetry.logs import MAX_FIELD

PROGRAM = """
import logging
from jackline_server.telemetry.logs import configure_logs

configure_logs()
log = logging.getLogger("harbour.berths")
log.info("moored %s", "Ada\\nsecond line", extra={"run_id": "run_1", "size": 5, "long": "x" * 5_000})
log.debug("not told")
try:
    1 / 0
except ZeroDivisionError:
    log.exception("adrift", extra={"shape": object})
"""


def lines() -> list[dict[str, Any]]:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout == ""
    return [json.loads(line) for line in ended.stderr.splitlines()]


def test_a_line_is_one_json_object_with_what_who_and_when_first() -> None:
    first, *_ = lines()
    assert list(first)[:4] == ["event", "level", "logger", "timestamp"]
    assert (first["event"], first["level"], first["logger"]) == (
        "moored Ada\nsecond line",
        "info",
        "harbour.berths",
    )
    assert datetime.fromisoformat(first["timestamp"]).utcoffset() is not None
    assert (first["run_id"], first["size"]) == ("run_1", 5)
    assert "message" not in first


def test_a_long_field_is_cut_and_says_how_long_it_was() -> None:
    first, *_ = lines()
    assert first["long"] == "x" * MAX_FIELD + "... (5000 characters)"


def test_an_exception_is_in_its_line_and_what_is_no_json_does_not_lose_the_line() -> None:
    _, last = lines()
    assert (last["event"], last["level"]) == ("adrift", "error")
    assert last["exception"].endswith("ZeroDivisionError: division by zero")
    assert "shape" in last

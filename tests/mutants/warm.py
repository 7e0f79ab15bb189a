"""Runs pytest over and over from one process that has imported what every run of it needs.

Owns that process: it forks for each run, so that nothing of one reaches the next, and imports nothing of
ours, which a fault may have changed. Speaks lines of JSON: a list of arguments comes in, `{"code", "output"}`
goes out; `code` is None for a run that had to be ended. Started as a script; the folder it is in is not on
its path.
"""

import gc
import importlib
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

_NEEDED = (
    "pytest",
    "hypothesis",
    "hypothesis.strategies",
    "pytest_asyncio.plugin",
    "pytest_timeout",
    "xdist.plugin",
    "anyio.pytest_plugin",
    "pydantic",
    "google.protobuf.struct_pb2",
    "google.rpc.status_pb2",
    "grpc.aio",
    "aiohttp",
    "jsonschema",
    "apsw",
    "yaml",
)
_LOOK_S = 0.01


def main() -> None:
    """Serve until there are no more lines."""
    sys.path.insert(0, str(Path.cwd()))
    for name in _NEEDED:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
    gc.freeze()
    for line in sys.stdin:
        asked = json.loads(line)
        sys.stdout.write(json.dumps(_run(asked["arguments"], asked["within_s"])) + "\n")
        sys.stdout.flush()


def _run(arguments: list[str], within_s: float) -> dict[str, object]:
    with tempfile.TemporaryFile() as output:
        child = os.fork()
        if child == 0:
            _become_pytest(arguments, output.fileno())
        code = _end_of(child, within_s)
        output.seek(0)
        return {"code": code, "output": output.read().decode(errors="replace")}


def _become_pytest(arguments: list[str], output: int) -> None:
    """Never returns. An error that pytest lets through is a failure, as in a process of its own."""
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    code = 1
    try:
        import pytest  # noqa: PLC0415 - imported before the fork, or else here

        code = int(pytest.main(arguments))
    except BaseException:  # noqa: BLE001 - a process ends here
        traceback.print_exc(file=sys.stdout)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _end_of(child: int, within_s: float) -> int | None:
    """Its exit code; None if it was ended, with all that it had started, since its time was over."""
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(_LOOK_S)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


if __name__ == "__main__":
    main()

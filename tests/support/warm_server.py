"""Servers without the seconds of a cold start: forked off an interpreter that has imported one, no more.

Owns that interpreter, the nursery. A child is a process of its own and runs the console script's own `main`
with the words and the environment that it is given; no loop, thread, socket or file of a server exists before
the fork. A test that kills one run fifty times needs this; what concerns the start itself starts cold.
"""

import asyncio
import atexit
import ctypes
import gc
import importlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

MODULES = ("jackline_client.cli.main", "jackline_server.commands", "jackline_server.serving")
"""What `jackline serve` imports on its way."""

_MESSAGE = 256 * 1024
_PARENT_DIED = 1  # PR_SET_PDEATHSIG


class Nursery:
    """Starts servers by fork. Close it when they have ended: whoever still lives then is killed."""

    def __init__(self, modules: Sequence[str] = MODULES) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.warm_server", str(theirs.fileno()), *modules],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={
                    "PATH": os.environ["PATH"],
                    "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
                    "LITELLM_MODE": "PRODUCTION",
                },
                cwd=Path(__file__).parent.parent.parent,
            )
        self._control = ours

    def start(self, words: Sequence[str], environ: Mapping[str, str], *, out: int, err: int) -> int:
        """Run `jackline` with these words; `out` and `err` are descriptors that it gets. Returns its pid."""
        return self._ask({"words": list(words), "environ": dict(environ)}, [out, err])

    def reap(self, pid: int) -> int:
        """The exit code of a child that has ended; negative for a signal. Until then its pid is its own."""
        return self._ask({"reap": pid}, [])

    def close(self) -> None:
        """End the nursery, and with it all of its children."""
        self._control.close()
        self._process.wait(30)

    def _ask(self, question: dict[str, Any], descriptors: list[int]) -> int:
        socket.send_fds(self._control, [json.dumps(question).encode()], descriptors)
        answer = self._control.recv(_MESSAGE)
        if not answer:
            raise RuntimeError("the nursery of warm servers has died; its words are above")
        return int(answer)


@cache
def shared(*more: str) -> Nursery:
    """The one nursery of this process that has these modules too; closed when the process ends."""
    nursery = Nursery((*MODULES, *more))
    atexit.register(nursery.close)
    return nursery


# --- the nursery itself ------------------------------------------------------------------------


def _watch_over(control: socket.socket) -> Mapping[str, Any] | None:
    """Fork a child for each request until the other side closes; in a child, return what it was asked for."""
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, _MESSAGE, 2)
        if not data:
            return None
        question: dict[str, Any] = json.loads(data)
        if "reap" in question:
            _, status = os.waitpid(question["reap"], 0)
            control.send(str(os.waitstatus_to_exitcode(status)).encode())
            continue
        pid = os.fork()
        if pid == 0:
            control.close()
            _stand_alone(descriptors)
            return question
        for descriptor in descriptors:
            os.close(descriptor)
        control.send(str(pid).encode())


def _stand_alone(descriptors: list[int]) -> None:
    out, err = descriptors
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.close(out)
    os.close(err)
    # What the nursery's own streams knew of their files no longer holds.
    sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), line_buffering=True)
    sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), line_buffering=True)
    ctypes.CDLL(None).prctl(_PARENT_DIED, signal.SIGKILL)


def _load_litellm() -> None:
    """Import litellm with all that it puts off until its first call: one that nobody answers."""
    litellm: Any = importlib.import_module("litellm")
    litellm.suppress_debug_info = True
    call = litellm.acompletion(
        model="openai/none",
        messages=[{"role": "user", "content": "."}],
        api_base="http://127.0.0.1:9/v1",
        api_key="none",
        max_retries=0,
    )
    try:
        asyncio.run(call)
    except importlib.import_module("openai").APIError:
        return


def _main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    for name in sys.argv[2:]:
        importlib.import_module(name)
    if "litellm" in sys.argv:
        _load_litellm()
    gc.collect()
    gc.freeze()
    question = _watch_over(control)
    if question is None:
        return
    os.environ.clear()
    os.environ.update(question["environ"])
    sys.argv = ["jackline", *question["words"]]
    importlib.import_module("jackline_client.cli.main").main()


if __name__ == "__main__":
    _main()

"""The program of a function's process: it is told one call, makes it, and says what came of it.

Run as a file, with two file descriptors as its arguments: it reads the call from the first and answers on the
second. Nothing of the server is imported before the process has its limits. The first descriptor stays open
as long as the server lives and wants the call; its end is that of this process and of all that it started.
"""

import contextlib
import fcntl
import json
import os
import resource
import signal
import sys
import threading
from typing import Any

_HEAD = 8


def main() -> None:
    """Make the call."""
    control, answers = (int(text) for text in sys.argv[1:3])
    for descriptor in (control, answers):
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - it takes no name
    call: dict[str, Any] = json.loads(_exactly(control, int.from_bytes(_exactly(control, _HEAD), "big")))
    _end_with(control)
    threading.Thread(target=_watch, args=(control,), name="jackline-watch", daemon=True).start()
    _limit(call["limits"])
    sys.path[:] = call["path"]
    from jackline_server.tools.isolated.work import work  # noqa: PLC0415 - not before the limits and the path

    for kind_and_body in work(call):
        _flush()
        _write(answers, kind_and_body)
    threading.Event().wait()  # the server ends this process, with whatever is left of it


def _end_with(control: int) -> None:
    """Have the system kill the whole group at the end of the pipe, also while native code holds up the watch.

    Not a signal for the death of a parent: it would reach this process alone, and mostly before its watch
    could end what it has started. Whoever reads nothing more of the pipe may arm it: whatever comes kills.
    """
    if not sys.platform.startswith("linux"):
        return
    fcntl.fcntl(control, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(control, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(control, fcntl.F_SETFL, fcntl.fcntl(control, fcntl.F_GETFL) | os.O_ASYNC)


def _watch(control: int) -> None:
    while os.read(control, 4096):
        continue
    os.killpg(0, signal.SIGKILL)


def _limit(limits: dict[str, int | None]) -> None:
    """Limits that can be lowered from here on, and not raised again but by root.

    CPU time has a second more: at its end comes a signal of its own, and only then one that anybody may send.
    """
    os.umask(0o077)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name, value in limits.items():
        if value is not None:
            which: int = getattr(resource, f"RLIMIT_{name}")
            _, hard = resource.getrlimit(which)
            most = value if hard == resource.RLIM_INFINITY else min(value, hard)
            last = most + 1 if name == "CPU" and most != hard else most
            resource.setrlimit(which, (most, last))


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # the function may have put anything in its place
            stream.flush()


def _exactly(descriptor: int, size: int) -> bytes:
    parts: list[bytes] = []
    while size:
        part = os.read(descriptor, size)
        if not part:
            sys.exit(1)  # the server is gone, or no longer wants the call
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


if __name__ == "__main__":
    main()

"""Functions that do to their process what none may do to the server's."""

import ctypes
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from datetime import date
from pathlib import Path
from typing import Any

from jackline_server.tools import ToolCall

calls = 0


def count() -> int:
    """How often it was called in this process."""
    global calls  # noqa: PLW0603 - what a process keeps between calls is what is shown
    calls += 1
    return calls


def where(call: ToolCall) -> dict[str, Any]:
    """What its process is, has and may."""
    folder = Path.cwd()
    return {
        "pid": os.getpid(),
        "session": os.getsid(0),
        "environment": dict(os.environ),
        "descriptors": sorted(int(one.name) for one in Path("/proc/self/fd").iterdir()),
        "folder": str(folder),
        "mode": folder.stat().st_mode & 0o777,
        "umask": os.umask(0),
        "limits": {
            name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[0]
            for name in ("CORE", "AS", "CPU", "NOFILE", "FSIZE", "NPROC")
        },
        "stdin": sys.stdin.read(),
        "key": call.call_key,
        "subject": dict(call.subject),
    }


async def wait_for(day: date) -> str:
    """An async one, with an argument that is no JSON."""
    return day.isoformat()


def end(how: str) -> None:
    """Ends its process."""
    if how == "exit":
        os._exit(3)
    if how == "segv":
        ctypes.string_at(0)
    os.kill(os.getpid(), getattr(signal, how))


def prints(text: str, times: int) -> str:
    """Prints, and writes to both of its outputs."""
    for _ in range(times):
        os.write(1, text.encode())
        os.write(2, text.encode())
    sys.stdout.write(text)
    return "printed"


def hoard() -> int:
    """Takes more memory than there is for it."""
    return len(bytearray(8 * 1024**3))


def spins() -> int:
    """Takes CPU time without end."""
    number = 0
    while True:
        number += 1


def writes(mib: int) -> int:
    """Writes one file."""
    return Path("large").write_bytes(bytes(mib * 1024**2))


def opens(files: int) -> int:
    """Holds so many files open at once."""
    return len([os.open("/dev/null", os.O_RDONLY) for _ in range(files)])


def leaves_behind(note: str) -> str:
    """Starts a program that holds its outputs and would outlive it."""
    program = f"import os, time; open({note!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    child = subprocess.Popen([sys.executable, "-c", program], close_fds=False)
    while not Path(note).exists() or not Path(note).read_text():
        time.sleep(0.01)
    return str(child.pid)


def blocks(note: str) -> None:
    """Notes who it is, and never ends."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path(note).write_text(str(os.getpid()))
    while True:
        threading.Event().wait(1)


def dies_with_a_child(note: str) -> None:
    """Forks a child that holds every pipe, and ends itself."""
    pid = os.fork()
    if pid == 0:
        time.sleep(600)
    Path(note).write_text(str(pid))
    os._exit(0)


def holds_the_interpreter_with_a_child(note: str) -> None:
    """Starts a child in its own group, and is then in native code that lets no thread of its process run."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(note).write_text(f"{os.getpid()} {child.pid}")
    ctypes.PyDLL(None).sleep(600)


def forges() -> str:
    """Writes what is no answer where the answers go."""
    for descriptor in range(3, 32):
        try:
            os.write(descriptor, b"?" * 64)
        except OSError:
            continue
    return "forged"


def nests(levels: int) -> str:
    """Makes a folder in a folder, and so on, and locks the innermost."""
    top = Path.cwd()
    for _ in range(levels):
        Path("d").mkdir()
        os.chdir("d")
    Path("d").mkdir(mode=0)
    return str(top)


def escapes(note: str) -> list[int]:
    """Starts processes that leave its session: a program, and forks of forks. With a note it never ends."""
    program = "import os, time; os.chdir('/'); print(os.getpid(), flush=True); time.sleep(600)"
    child = subprocess.Popen([sys.executable, "-c", program], start_new_session=True, stdout=subprocess.PIPE)
    assert child.stdout is not None
    pids = [int(child.stdout.readline())]
    reads, writes = os.pipe()
    for _ in range(20):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.write(writes, f"{os.getpid()}\n".encode())
                time.sleep(600)
            os._exit(0)
    with os.fdopen(reads) as told:
        pids += [int(told.readline()) for _ in range(20)]
    if note:
        Path(note).write_text(" ".join(map(str, pids)))
        threading.Event().wait()
    return pids


def closes_everything() -> str:
    """Closes every file that its process has."""
    os.closerange(0, 256)
    return "closed"


def finds_folder() -> str:
    """Leaves a file in its folder."""
    Path("left").write_text("left")
    return str(Path.cwd())

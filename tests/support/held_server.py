"""An MCP server over stdio behind a door: while the file `shut` is there, no answer to a call gets out.

    held_server.py FOLDER COMMAND...

In FOLDER, `pid` names the process of the server, `calls` has a line for each call that it was sent, and
`kept` one for each answer that was kept back. When the server ends this ends, and such an answer is lost: as
with a server that dies between its work and its answer. Standard library only: it starts fast.
"""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

FOLDER = Path(sys.argv[1])
SHUT, PID, CALLS, KEPT = (FOLDER / name for name in ("shut", "pid", "calls", "kept"))


def to_server(server: IO[bytes], calls: set[object]) -> None:
    """Pass on what it is told; the ids of calls are noted before it has them."""
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if message.get("method") == "tools/call":
            calls.add(message["id"])
            with CALLS.open("a", encoding="utf-8") as file:
                file.write(message["params"]["name"] + "\n")
        server.write(line)
        server.flush()
    server.close()


def main() -> None:
    server = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    PID.write_text(str(server.pid), encoding="utf-8")
    calls: set[object] = set()
    threading.Thread(target=to_server, args=(server.stdin, calls), daemon=True).start()
    for line in server.stdout:
        if json.loads(line).get("id") in calls and SHUT.exists():
            with KEPT.open("a", encoding="utf-8") as file:
                file.write("kept\n")
            continue
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
    os._exit(1)  # the other thread waits for more to pass on


main()

"""An MCP server over stdio, on the standard library alone, whose one tool never answers.

    python hanging_mcp.py CALLED CANCELLED

It writes the file CALLED when the tool is called, and into CANCELLED when it read that the call is cancelled,
by the monotonic clock of the machine.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

TOOL: dict[str, Any] = {
    "name": "wait_mcp",
    "description": "Waits.",
    "inputSchema": {"type": "object", "properties": {}},
}
_UNKNOWN = -32_601


def main(called: Path, cancelled: Path) -> None:
    """Serve until the input ends."""
    for line in sys.stdin:
        message: dict[str, Any] = json.loads(line)
        match message.get("method"):
            case "initialize":
                _answer(
                    message,
                    {
                        "protocolVersion": message["params"]["protocolVersion"],
                        "capabilities": {"tools": {}},
                        "serverInfo": {"name": "pier", "version": "1"},
                    },
                )
            case "tools/list":
                _answer(message, {"tools": [TOOL]})
            case "tools/call":
                called.write_text("called")
            case "notifications/cancelled":
                cancelled.write_text(repr(time.monotonic()))
            case _ if "id" in message:
                error = {"code": _UNKNOWN, "message": "no such method"}
                _write({"jsonrpc": "2.0", "id": message["id"], "error": error})
            case _:
                pass


def _answer(message: dict[str, Any], result: dict[str, Any]) -> None:
    _write({"jsonrpc": "2.0", "id": message["id"], "result": result})


def _write(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

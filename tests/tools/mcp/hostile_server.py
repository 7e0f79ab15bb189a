"""An MCP server over stdio that misbehaves as its first argument says. Standard library only: it starts fast.

Each request that it gets goes to the ledger, the file of the second argument, one JSON line each.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

MODE, LEDGER = sys.argv[1], Path(sys.argv[2])
OBJECT = {"type": "object", "properties": {"text": {"type": "string"}}}
READ = {"readOnlyHint": True}
TOOLS: list[dict[str, Any]] = [
    {"name": "echo", "description": "Says it again.", "inputSchema": OBJECT, "annotations": READ},
    {"name": "charge", "description": "Charges.", "inputSchema": OBJECT},
    {"name": "odd", "description": "Odd blocks.", "inputSchema": OBJECT},
    {"name": "failing", "description": "Fails.", "inputSchema": OBJECT},
    {"name": "refusing", "description": "Refuses.", "inputSchema": OBJECT},
    {"name": "asking", "description": "Asks a person.", "inputSchema": OBJECT},
    {
        "name": "promise",
        "description": "Breaks its promise.",
        "inputSchema": OBJECT,
        "outputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    },
]
BIG = "x" * (32 * 1024 * 1024)
PAGE = os.environ.get("PAGE", "https://x.example/in")


def note(**entry: object) -> None:
    with LEDGER.open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


def write(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def say(request: object, result: object) -> None:
    write(json.dumps({"jsonrpc": "2.0", "id": request, "result": result}).encode())


def refuse(request: object, code: int, message: str, data: object = None) -> None:
    error = {"code": code, "message": message, "data": data}
    write(json.dumps({"jsonrpc": "2.0", "id": request, "error": error}).encode())


def text(words: str, **more: object) -> dict[str, object]:
    return {"content": [{"type": "text", "text": words}], **more}


def listing(cursor: str | None) -> dict[str, object]:  # noqa: C901 - one case a way to misbehave
    page = int(cursor or "0")
    tools, following = TOOLS, ""
    match MODE:
        case "duplicates":
            tools = [TOOLS[0], TOOLS[0]]
        case "endless":
            tools, following = [{**TOOLS[0], "name": f"echo{page}"}], str(page + 1)
        case "circle":
            tools, following = [], "0"
        case "crowd":
            tools = [{**TOOLS[0], "name": f"echo{number}"} for number in range(10_000)]
        case "wordy":
            tools = [{**tool, "description": "x" * 900_000} for tool in TOOLS]
        case "shuffled":
            turn = asked() % len(TOOLS)
            tools = TOOLS[turn:] + TOOLS[:turn]
        case "drift":
            tools = [{**TOOLS[0], "description": f"Says it again, for the {asked()}. time."}, *TOOLS[1:]]
        case "pages":
            tools, following = [TOOLS[page]], str(page + 1) if page + 1 < len(TOOLS) else ""
        case _:
            pass
    return {"tools": tools, "nextCursor": following} if following else {"tools": tools}


def asked() -> int:
    """How often the tools were asked for."""
    return sum("tools/list" in line for line in lines())


def lines() -> list[str]:
    """The ledger."""
    return LEDGER.read_text("utf-8").splitlines()


def call(  # noqa: C901, PLR0912, PLR0915 - one case a way to misbehave
    request: object, name: str, arguments: dict[str, object], token: object
) -> None:
    note(called=name, arguments=arguments)
    match MODE, name:
        case "die_mid_call", _:
            os._exit(3)
        case "long_line", "echo":
            say(request, text(BIG))
        case "long_line", "charge":
            write(json.dumps({"result": text(BIG), "id": request, "jsonrpc": "2.0"}).encode())
        case "long_news", "charge":
            write(json.dumps(call_of("news", "notifications/message", {"data": BIG})).encode())
            write(json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "data": BIG}).encode())
            write(json.dumps({"id": request, "jsonrpc": "2.0", "method": "ping", "data": BIG}).encode())
            say(request, text("charged"))
        case ("silent_call", _) | ("silent_echo", "echo"):
            pass
        case "huge_image", "echo":
            image = {"type": "image", "data": "A" * (50 * 1024 * 1024), "mimeType": "image/png"}
            say(request, {"content": [image]})
        case "wrong_id", "echo":
            say(4711, text("not yours"))
        case "bad_utf8", _:
            line = json.dumps({"jsonrpc": "2.0", "id": request, "result": text("caf@")}).encode()
            write(line.replace(b"@", b"\xe9"))
        case "twice", _:
            say(request, text("first"))
            say(request, text("second"))
        case "announces", "echo":
            write(b'{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}')
            say(request, text("announced"))
        case "page_first", "charge" if not sum('{"called"' in line for line in lines()) % 2:
            say(request, text("charged"))
        case "page_first", "charge":
            page = {"mode": "url", "message": "Sign in.", "url": PAGE, "elicitationId": "e"}
            refuse(request, -32042, "sign in first", {"elicitations": [page]})
        case "page_nowhere", "charge":
            refuse(request, -32042, "sign in first", ["https://x.example/in"])
        case "steps", _:
            say(request, text(str(steps(request, token))))
        case _, "asking":
            ask(request)
        case _, "odd":
            say(request, ODD)
        case _, "failing":
            say(request, text("no " * 100_000, isError=True))
        case _, "refusing":
            refuse(request, -32602, "no such text")
        case _, "promise":
            say(request, text("words", structuredContent={"n": "not a number"}))
        case _:
            say(request, text(json.dumps(arguments, sort_keys=True)))


ODD = {
    "content": [
        {"type": "text", "text": "words"},
        {"type": "hologram", "data": "?"},
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        {"type": "resource_link", "name": "a page", "uri": "http://127.0.0.1:1/never"},
        {"type": "resource", "resource": {"uri": "file:///a", "text": "inner words"}},
        {"type": "resource", "resource": {"uri": "file:///b", "blob": "AAAA"}},
    ]
}


def step(token: object, **said: object) -> bytes:
    params = {"progressToken": token, **said}
    return json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}).encode()


def steps(request: object, token: object) -> int:
    """How far it is, as this call's argument says; the number of things that were said."""
    match os.environ["STEPS"]:
        case "plain":
            said = [step(token, progress=n, total=3, message=f"page {n}") for n in (1, 2, 3)]
        case "odd":
            said = [
                step(token, progress=float("nan"), total=float("inf"), message=7, id=0),
                step(token, progress=10**400, total=True, message="large", id=0),
                step(token, progress="1", message="words", id=0),
                step(token, message="x" * 2_000_000, id=0),
                step([token], progress=1),
                step("somebody's", progress=1),
                step(1, progress=1),
                step(request, progress=1),
                b'{"jsonrpc": "2.0", "method": "notifications/progress"}',
                b'{"jsonrpc": "2.0", "method": "notifications/progress", "params": []}',
                step(token, progress=3, total=3, message="the last"),
            ]
        case _:
            said = [step(token, progress=n, total=50_000, message="x" * 50) for n in range(1, 50_001)]
    for chunk in range(0, len(said), 1_000):
        write(b"\n".join(said[chunk : chunk + 1_000]))
    return len(said)


FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
waiting: dict[object, object] = {}


def ask(request: object) -> None:
    """Ask a person before the call goes on."""
    question = f"q{request}"
    waiting[question] = request
    params: dict[str, Any] = {"message": "What is it called?", "requestedSchema": FORM}
    if MODE == "asks_by_page":
        params = {"mode": "url", "message": "Sign in.", "url": PAGE, "elicitationId": "e"}
    if MODE == "asks_for_a_model":
        sampling: dict[str, Any] = {"messages": [], "maxTokens": 5}
        write(json.dumps(call_of(question, "sampling/createMessage", sampling)).encode())
        return
    write(json.dumps(call_of(question, "elicitation/create", params)).encode())


def call_of(request: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request, "method": method, "params": params}


def answered(message: dict[str, Any]) -> None:
    """Somebody has said something: the call goes on with it, or asks the same once more."""
    request = waiting.pop(message["id"])
    said: dict[str, Any] = message.get("result") or {"error": message["error"]["code"]}
    note(said=said)
    if MODE == "asks_for_ever":
        ask(request)
        return
    say(request, text(json.dumps(said)))


def answer(message: dict[str, Any]) -> None:
    request: object = message.get("id")
    params: dict[str, Any] = message.get("params") or {}
    if MODE == "garbage":
        write(b"Server ready!")
        write(b"{not json")
        write(b"\xff\xfe\x00")
        write(b'{"jsonrpc": "2.0"}')
        write(b"[]")
    match message["method"]:
        case "server/discover":
            refuse(request, -32601, "Method not found")
        case "initialize":
            capabilities = {"tools": {"listChanged": True}}
            info = {"name": "hostile", "version": "1"}
            say(
                request,
                {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info},
            )
        case "tools/list":
            say(request, listing(params.get("cursor")))
        case "tools/call":
            call(request, params["name"], params.get("arguments") or {}, params["_meta"].get("progressToken"))
        case _ if request is not None:
            refuse(request, -32601, "Method not found")
        case _:
            pass


def main() -> None:
    note(started=os.getpid())
    if MODE == "die_at_start":
        sys.exit(3)
    if MODE == "stubborn":  # a child that outlives us, holds our pipes, and nobody listens to signals
        child = subprocess.Popen(["/bin/sh", "-c", "trap '' TERM; while :; do sleep 1; done"])
        note(child=child.pid)
    for line in sys.stdin.buffer:
        message = json.loads(line)
        note(method=message.get("method"), params=message.get("params"))
        if MODE != "mute" and "method" in message:
            answer(message)
        elif "method" not in message:
            answered(message)
    if MODE == "stubborn":
        sys.stdin.close()
        while True:
            subprocess.run(["/bin/sleep", "60"], check=False)


main()

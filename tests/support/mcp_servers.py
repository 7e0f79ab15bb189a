"""Where the real MCP servers of the tests are, and one over HTTP in this process.

Owns no connection to them; each test makes its own.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from starlette.applications import Starlette

ROOT = Path(__file__).resolve().parents[2]
FILES = ROOT / "examples" / "files"
GIT = ROOT / "examples" / "git"
HELD_SERVER = Path(__file__).with_name("held_server.py")
NPM = Path(__file__).with_name("npm")
SERVER = "node_modules/@modelcontextprotocol/server-{name}/dist/index.js"


def beside_python(name: str) -> str:
    """A program that was installed with a package of Python."""
    return str(Path(sys.executable).with_name(name))


def installed_filesystem_server() -> Path:
    """The script of the example's npm server, installed if it is not."""
    return _installed(FILES, "filesystem")


def installed_npm_server(name: str) -> Path:
    """The script of one of the npm servers that only tests talk to, installed if it is not."""
    return _installed(NPM, name)


def _installed(folder: Path, name: str) -> Path:
    """Skips the test without Node.js, but not in CI."""
    if not os.environ.get("CI") and (shutil.which("npm") is None or shutil.which("node") is None):
        pytest.skip("Node.js with npm is not installed")
    subprocess.run([str(folder / "install")], check=True)
    return folder / SERVER.format(name=name)


def repository(folder: Path) -> Path:
    """A repository with one commit."""
    folder.mkdir(parents=True, exist_ok=True)

    def git(*words: str) -> None:
        subprocess.run(
            ["git", "-c", "user.name=Ann", "-c", "user.email=ann@example.org", *words],  # noqa: S607 - git of this machine
            cwd=folder,
            check=True,
            capture_output=True,
        )

    git("init", "-q", "-b", "main")
    (folder / "kettle.txt").write_text("whistles\n", encoding="utf-8")
    git("add", "kettle.txt")
    git("commit", "-q", "-m", "The kettle whistles")
    return folder


@asynccontextmanager
async def served_over_http(
    *, json_response: bool = False, stateless: bool = False, old: bool = False
) -> AsyncGenerator[tuple[int, list[str]]]:
    """A server of the SDK's, over streamable HTTP or as one of 2024: its port, and what it was told."""
    said: list[str] = []
    server = talker(said)
    app = (
        server.sse_app()
        if old
        else server.streamable_http_app(json_response=json_response, stateless_http=stateless)
    )
    async with served(app) as port:
        yield port, said


def talker(said: list[str]) -> "MCPServer[None]":
    """A server that notes what it is told."""
    server = MCPServer("talker")

    @server.tool()
    def say(text: str) -> str:  # pyright: ignore[reportUnusedFunction] - the SDK calls it
        """Says a text."""
        said.append(text)
        return f"said {text}"

    @server.tool()
    async def count(context: Context[Any, Any], to: int) -> str:  # pyright: ignore[reportUnusedFunction] - see above
        """Counts, and says how far it is."""
        for number in range(1, to + 1):
            await context.report_progress(number, to, f"at {number}")
        return "counted"

    @server.tool()
    async def wait() -> str:  # pyright: ignore[reportUnusedFunction] - the SDK calls it
        """Waits for ever."""
        said.append("waiting")
        try:
            await asyncio.Event().wait()
        finally:
            said.append("told to stop")
        return ""

    return server


@asynccontextmanager
async def served(app: Starlette, *, port: int = 0) -> AsyncGenerator[int]:
    """The app on a port of this machine."""
    config = uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error", ws="none", lifespan="on")
    http = uvicorn.Server(config)
    task = asyncio.create_task(http.serve())
    try:
        async with asyncio.timeout(10):
            while not http.started:
                await asyncio.get_running_loop().run_in_executor(None, lambda: None)
        yield http.servers[0].sockets[0].getsockname()[1]
    finally:
        http.should_exit = True
        http.force_exit = True
        await asyncio.wait({task}, timeout=10)


def graph(file: Path) -> list[str]:
    """The names in the file of the memory server, in its order: what it really did."""
    text = file.read_text("utf-8") if file.exists() else ""
    return [json.loads(line)["name"] for line in text.splitlines()]

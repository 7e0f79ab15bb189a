"""Folders with a config for the commands of the server, and the console that runs in them.

Owns no server: these commands need none.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cli.console import Console, Done

HOSTILE = Path(__file__).parents[1] / "tools/mcp/hostile_server.py"

WORKFLOW = """\
name: payer
model: fast
input: {schema: {type: object, properties: {text: {type: string}}, required: [text]}}
bounds: {run_timeout: 2m, token_budget: 20000}
flow: [pay]
steps:
  pay:
    kind: agent
    steering: Charge.
    tools: [{from: till, allow: [echo, charge], bind: {text: /input/text}}]
    answer: text
    outcome: {output_key: said}
    routes: {error: end}
"""
SCRIPT = 'turns: [{text: "done"}]\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A folder, and the command in it."""

    folder: Path

    async def run(self, *words: str, **environ: str) -> Done:
        """Runs it with no server and no token in its environment."""
        console = Console(address="", home=self.folder)
        return await console.run(*words, given=None, cwd=self.folder, **{"JACKLINE_TOKEN": "", **environ})

    def write(self, name: str, text: str) -> Path:
        """A file of the project."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def till(self, mode: str = "plain", *, more: str = "") -> str:
        """A connection to a server over stdio that behaves as the mode says."""
        command = [sys.executable, "-I", "-S", str(HOSTILE), mode, str(self.folder / "ledger.jsonl")]
        return (
            f'[connections.till]\nkind = "mcp"\ntransport = "stdio"\ncommand = {json.dumps(command)}\n{more}'
        )

    def config(
        self, more: str = "", *, server: str = 'listen = "127.0.0.1:0"\nworkflows = "flows"\n'
    ) -> None:
        """A config with a scripted model, and whatever else it is to have."""
        self.write("script.yaml", SCRIPT)
        self.write("jackline.toml", f'[server]\n{server}[models.fast]\nscript = "script.yaml"\n{more}')

    def files(self) -> dict[str, bytes]:
        """Everything that is there, but for the ledger of the MCP server."""
        return {
            str(path.relative_to(self.folder)): path.read_bytes()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file() and path.name != "ledger.jsonl"
        }

    def calls(self) -> list[Any]:
        """The arguments of each call that the MCP server got."""
        ledger = self.folder / "ledger.jsonl"
        lines = ledger.read_text("utf-8").splitlines() if ledger.exists() else []
        return [entry["arguments"] for entry in map(json.loads, lines) if "arguments" in entry]

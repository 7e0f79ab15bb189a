"""What all peers are asked to do: runs at once, each of so many turns with a tool call, and an answer.

Owns the words that go to and fro with whoever measures, and the count of what was really done. CPU is read
from outside: between the word to begin and the word that all is done, the process does nothing else.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

STEERING = "Look each berth up before you answer."
QUESTION = '{"subject": "berths"}'
BERTH = "north quay 12"
ANSWER = "Every berth that was looked up is free."
TOOL = "look_up"


@dataclass(slots=True, kw_only=True)
class Workload:
    """`runs` of `turns` turns, in a folder of their own. `calls` counts the calls of the tool."""

    runs: int
    turns: int
    folder: Path
    calls: int = 0
    notes: dict[str, str | int] = field(default_factory=dict[str, str | int])

    async def look_up(self, berth: str) -> dict[str, str]:
        """Looks a berth up."""
        self.calls += 1
        return {"berth": berth, "state": "free"}


Run = Callable[[str], Awaitable[str]]
"""Does one run under that name; its answer."""

Peer = Callable[[Workload], AbstractAsyncContextManager[Run]]
"""Sets a framework up, for the time of the context. What it adds to `notes` when it ends is passed on."""


def play(peer: Peer) -> None:
    """Take the order from standard input, do one run for warmth, say so; on the word do all, and say so."""
    with os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a framework prints is no answer
        asyncio.run(_play(peer, answers))


async def _play(peer: Peer, out: TextIO) -> None:
    order = json.loads(sys.stdin.readline())
    workload = Workload(runs=order["runs"], turns=order["turns"], folder=Path(order["folder"]))
    async with peer(workload) as run:
        await run("warm")
        workload.calls = 0
        _say(out, {"ready": True})
        await asyncio.to_thread(sys.stdin.readline)
        answers = await asyncio.gather(*(run(f"run-{number}") for number in range(workload.runs)))
        _say(out, {"done": True})
    right = sum(answer == ANSWER for answer in answers)
    _say(out, {"answers": right, "calls": workload.calls, "notes": workload.notes})


def _say(out: TextIO, answer: dict[str, object]) -> None:
    out.write(json.dumps(answer) + "\n")
    out.flush()


Setup = AsyncGenerator[Run]
"""What a peer's own set-up yields once."""

"""`--peers`: other frameworks on the workload of `loop`, side by side with it.

Owns the list of them, their environments and their lock files. Each environment is made with uv in
`.cache/bench-peers` from a committed lock with hashes, `peers/NAME.txt`, made of `peers/NAME.in`. The
programs are in `peers`; what they cost is read from the operating system, as with the server.
"""

import hashlib
import shutil
import statistics
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import loop
from benchmarks.loop import LoopParameters
from benchmarks.metering import cpu_s
from benchmarks.outside import program
from benchmarks.results import Figure, Result
from benchmarks.served import ROOT

FOLDER = Path(__file__).with_name("peers")
ENVIRONMENTS = ROOT / ".cache" / "bench-peers"
LOWEST_PYTHON = "3.11"
_UV = Path(sys.executable).with_name("uv")


class LockTrouble(Exception):
    """A lock file is missing or not made from its requirements, or what it names can't be installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A framework, and what survives here if its process dies in the middle of a run."""

    name: str
    package: str
    durability: str
    folder: Path = FOLDER

    @property
    def requirements(self) -> Path:
        """What is asked for."""
        return self.folder / f"{self.name}.in"

    @property
    def lock(self) -> Path:
        """Every package of it by version and hash."""
        return self.folder / f"{self.name}.txt"

    @property
    def module(self) -> str:
        """Its program."""
        return f"benchmarks.peers.{self.name}_loop"


PEERS = (
    Peer(
        name="langgraph",
        package="langgraph",
        durability="a checkpoint of each step in SQLite (WAL, FULL) before the next begins: durability=sync",
    ),
    Peer(name="pydantic_ai", package="pydantic-ai-slim", durability="none: a run lives in memory"),
    Peer(
        name="agno",
        package="agno",
        durability="the session in SQLite (WAL, FULL) when the run has ended; nothing before",
    ),
    Peer(
        name="openai_agents",
        package="openai-agents",
        durability="the conversation in SQLite (WAL, FULL) after each turn: SQLiteSession",
    ),
)
JACKLINE = "every fact in SQLite (WAL, FULL) before what follows from it begins; resumed by itself"


async def compare(parameters: LoopParameters, folder: Path) -> AsyncGenerator[Result]:
    """Jackline first, then each peer, as measured. Raises LockTrouble, ServerTrouble and ProgramFailed."""
    pythons = {peer.name: environment(peer) for peer in PEERS}
    ours = await loop.measure(parameters, folder / "jackline")
    yield _ours(ours)
    cost = ours.figures["cpu_us_per_turn"]
    for peer in PEERS:
        yield await _measured(peer, pythons[peer.name], parameters, (folder, cost))


def _ours(result: Result) -> Result:
    kept = ("cpu_us_per_turn", "wall_s")
    return Result(
        name="peers: jackline",
        figures={name: result.figures[name] for name in kept},
        targets=(),
        problems=result.problems,
        parameters=result.parameters,
        notes=(
            f"durable: {JACKLINE}",
            "a server over gRPC, each run streamed to a client in another process",
        ),
    )


async def _measured(
    peer: Peer, python: Path, parameters: LoopParameters, beside: tuple[Path, Figure]
) -> Result:
    folder, ours = beside
    turns = parameters.runs * parameters.turns
    rounds: list[float] = []
    problems: list[str] = []
    told: Mapping[str, Any] = {}
    for number in range(parameters.rounds):
        place = folder / peer.name / str(number)
        place.mkdir(parents=True)
        order = {"runs": parameters.runs, "turns": parameters.turns, "folder": str(place)}
        async with program(peer.module, order, python=python) as running:
            await running.answer()
            before = cpu_s(running.pid)
            running.tell({"go": True})
            await running.answer()
            rounds.append((cpu_s(running.pid) - before) / turns * 1e6)
            told = await running.answer()
        problems += _problems(told, parameters)
    cost = statistics.median(rounds)
    return Result(
        name=f"peers: {peer.name}",
        figures={
            "cpu_us_per_turn": cost,
            "cpu_us_per_turn_rounds": rounds,
            "times_jackline": cost / ours if isinstance(ours, int | float) else None,
        },
        targets=(),
        problems=problems,
        parameters={"version": version_of(peer), "runs": parameters.runs, "turns": parameters.turns},
        notes=(
            f"durable: {peer.durability}",
            *(f"{name}: {value}" for name, value in told.get("notes", {}).items()),
            "a library in one process; nothing is streamed to anybody",
        ),
    )


def _problems(told: Mapping[str, Any], parameters: LoopParameters) -> list[str]:
    found: list[str] = []
    if told["answers"] != parameters.runs:
        found.append(f"{told['answers']} right answers, not {parameters.runs}")
    if told["calls"] != parameters.runs * parameters.turns:
        found.append(f"{told['calls']} tool calls, not {parameters.runs * parameters.turns}")
    return found


# --- environments and locks --------------------------------------------------------------------


def environment(peer: Peer) -> Path:
    """The Python of the peer's environment, made now if it is not the one of the lock. Raises LockTrouble."""
    problem = stale(peer)
    if problem:
        raise LockTrouble(problem)
    place, digest = ENVIRONMENTS / peer.name, hashlib.sha256(peer.lock.read_bytes()).hexdigest()
    stamp, python = place / ".made-from", place / "bin" / "python"
    if not stamp.exists() or stamp.read_text(encoding="ascii") != digest:
        sys.stderr.write(f"Making the environment of {peer.package}.\n")
        shutil.rmtree(place, ignore_errors=True)
        _uv("venv", "--python", sys.executable, str(place))
        _uv("pip", "install", "--python", str(python), "--require-hashes", "-r", str(peer.lock))
        stamp.write_text(digest, encoding="ascii")
    return python


def make_lock(peer: Peer) -> None:
    """Resolve the peer's requirements anew. Raises LockTrouble."""
    peer.lock.unlink(missing_ok=True)
    _uv(
        "pip", "compile", str(peer.requirements), "--output-file", str(peer.lock), "--universal",
        "--python-version", LOWEST_PYTHON, "--generate-hashes", "--no-header", "--no-annotate",
        "--no-emit-index-url", "--no-emit-find-links",
    )  # fmt: skip
    peer.lock.write_text(header(peer) + peer.lock.read_text(encoding="utf-8"), encoding="utf-8")


def header(peer: Peer) -> str:
    """The lines that open a lock file."""
    digest = hashlib.sha256(peer.requirements.read_bytes()).hexdigest()
    made = f"# Made by scripts/bench --lock-peers from {peer.name}.in; not edited by hand."
    return f"{made}\n# made-from: {digest}\n"


def stale(peer: Peer) -> str:
    """Why the peer's lock can't be used; empty if it can."""
    if not peer.lock.exists():
        return f"{peer.lock.name} is missing: run scripts/bench --lock-peers"
    if not peer.lock.read_text(encoding="utf-8").startswith(header(peer)):
        return f"{peer.lock.name} is not made from {peer.requirements.name}: run scripts/bench --lock-peers"
    return ""


def version_of(peer: Peer) -> str:
    """The version that the lock names."""
    for line in peer.lock.read_text(encoding="utf-8").splitlines():
        name, _, rest = line.partition("==")
        if name == peer.package:
            return rest.split()[0]
    raise LockTrouble(f"{peer.lock.name} does not name {peer.package}")


def _uv(*words: str) -> None:
    command = [str(_UV), *words, "--quiet", "--no-config"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise LockTrouble(f"uv {words[0]} ended with {ended.returncode}: {ended.stderr.strip()[-1000:]}")

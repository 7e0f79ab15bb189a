"""The peers: never run here, but each has a fresh lock with hashes and a program that Python can read."""

import ast
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.comparing import FOLDER, PEERS, Peer, stale, version_of


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_a_lock_is_made_from_its_requirements_and_pins_everything_by_hash(peer: Peer) -> None:
    assert stale(peer) == ""
    assert version_of(peer)
    lines = peer.lock.read_text(encoding="utf-8").splitlines()
    pins = [number for number, line in enumerate(lines) if "==" in line and not line.startswith((" ", "#"))]
    assert pins
    assert all(lines[number + 1].strip().startswith("--hash=sha256:") for number in pins)
    assert not [line for line in lines if line.startswith("-")]


def test_a_lock_is_stale_when_its_requirements_have_changed_or_it_is_missing(tmp_path: Path) -> None:
    peer = replace(PEERS[0], folder=tmp_path)
    shutil.copy(PEERS[0].requirements, tmp_path)
    assert stale(peer)
    shutil.copy(PEERS[0].lock, tmp_path)
    assert stale(peer) == ""
    peer.requirements.write_text(f"{peer.package}\nanother-package\n", encoding="utf-8")
    assert stale(peer)


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_a_program_plays_the_workload_of_all(peer: Peer) -> None:
    program = FOLDER / f"{peer.name}_loop.py"
    tree = ast.parse(program.read_text(encoding="utf-8"))
    taken = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "benchmarks.peers.workload"
        for alias in node.names
    }
    assert taken >= {"ANSWER", "BERTH", "QUESTION", "STEERING", "TOOL", "play"}


def test_every_program_and_lock_belongs_to_a_peer() -> None:
    found = {path.name.removesuffix("_loop.py") for path in FOLDER.glob("*_loop.py")}
    assert found == {path.stem for path in FOLDER.glob("*.txt")} == {peer.name for peer in PEERS}

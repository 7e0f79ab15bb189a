"""Makes and checks the lock files. Owns their format; `scripts/lock` is how it is called.

Each file names in its first lines the digest of what it was made from, so that a check needs no network: a
lock is fresh when that digest is the one of pyproject.toml today and its pins meet each direct requirement.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "requirements"
LOWEST_PYTHON = "3.11"
EDITABLE = "editables>=0.5"  # what hatchling asks for when it makes an editable install


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """One lock file: its name, what it pins directly, and the locks it has to agree with."""

    name: str
    requirements: tuple[str, ...]
    agrees_with: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """Where it is committed."""
        return FOLDER / f"{self.name}.txt"

    @property
    def digest(self) -> str:
        """The digest of what it is made from."""
        made_from = json.dumps([LOWEST_PYTHON, sorted(self.requirements), self.agrees_with])
        return hashlib.sha256(made_from.encode()).hexdigest()

    @property
    def header(self) -> str:
        """The lines that open the file."""
        return (
            f"# Made by scripts/lock from pyproject.toml; not edited by hand.\n# made-from: {self.digest}\n"
        )


def locks() -> tuple[Lock, ...]:
    """All lock files, in the order in which they are made."""
    document: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    runtime = (*document["project"]["dependencies"], *document["project"]["optional-dependencies"]["server"])
    development = (*runtime, *document["project"]["optional-dependencies"]["dev"])
    build = (*document["build-system"]["requires"], EDITABLE)
    return (
        Lock(name="dev", requirements=(*development, *build)),
        Lock(name="server", requirements=runtime, agrees_with=("dev",)),
        Lock(name="build", requirements=build, agrees_with=("dev",)),
    )


def make(lock: Lock, *, upgrade: bool) -> None:
    """Resolve one lock and write its file. Raises CalledProcessError if there is no solution."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder) / "wanted.in"
        pinned = Path(folder) / "pinned.txt"
        wanted.write_text("\n".join(lock.requirements) + "\n", encoding="utf-8")
        if lock.path.exists() and not upgrade:
            pinned.write_text(lock.path.read_text(encoding="utf-8"), encoding="utf-8")
        uv = Path(sys.executable).with_name("uv")
        command = [
            str(uv), "pip", "compile", str(wanted), "--output-file", str(pinned), "--quiet", "--no-config",
            "--universal", "--python-version", LOWEST_PYTHON, "--generate-hashes",
            "--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links",
        ]  # fmt: skip
        for other in lock.agrees_with:
            command += ["--constraint", str(FOLDER / f"{other}.txt")]
        subprocess.run(command, check=True)  # noqa: S603 - uv of this environment, with arguments from above
        lock.path.write_text(lock.header + pinned.read_text(encoding="utf-8"), encoding="utf-8")
    print(f"made requirements/{lock.name}.txt")


def pins(lock: Lock) -> dict[str, set[str]]:
    """The versions that a lock pins, by canonical name; several where platforms differ."""
    found: dict[str, set[str]] = {}
    for line in lock.path.read_text(encoding="utf-8").splitlines():
        if "==" in line and not line.startswith(("#", " ")):
            requirement = Requirement(line.rstrip("\\ "))
            (specifier,) = requirement.specifier
            found.setdefault(canonicalize_name(requirement.name), set()).add(specifier.version)
    return found


def problems(lock: Lock) -> list[str]:
    """Why a committed lock is stale; empty if it is fresh."""
    if not lock.path.exists():
        return ["it does not exist"]
    if not lock.path.read_text(encoding="utf-8").startswith(lock.header):
        return ["pyproject.toml has changed since it was made"]
    pinned = pins(lock)
    found: list[str] = []
    for text in lock.requirements:
        wanted = Requirement(text)
        versions = pinned.get(canonicalize_name(wanted.name), set())
        if not versions or not all(wanted.specifier.contains(version) for version in versions):
            found.append(f"no pin of it meets `{text}`")
    for other in (each for each in locks() if each.name in lock.agrees_with and each.path.exists()):
        theirs = pins(other)
        found += [
            f"{name} is pinned otherwise in {other.name}.txt"
            for name in pinned
            if pinned[name] != theirs.get(name)
        ]
    return found


def check() -> int:
    """Report stale locks. Returns the exit code."""
    stale = [(lock.name, problem) for lock in locks() for problem in problems(lock)]
    for name, problem in stale:
        print(f"requirements/{name}.txt is stale: {problem}. Run scripts/lock.", file=sys.stderr)
    if not stale:
        print("The lock files are fresh.")
    return 1 if stale else 0


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="scripts/lock", description="Make or check the lock files.")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--check", action="store_true", help="fail if a lock file is stale")
    kind.add_argument("--upgrade", action="store_true", help="take the newest versions allowed")
    arguments = parser.parse_args()
    if arguments.check:
        return check()
    FOLDER.mkdir(exist_ok=True)
    for lock in locks():
        make(lock, upgrade=arguments.upgrade)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The programs of `client/`, built as their README says, once for a state of their sources.

Owns which tools a language takes, how its programs are built and called, and what says that a build still
holds. Builds are kept in `.cache/clients` and in the tools' own folders. Does not own running the programs.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CLIENT = ROOT / "client"
CACHE = ROOT / ".cache" / "clients"
BUILD_S = 540


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A command of this machine, how it tells its version, and the lowest one that will do."""

    version: tuple[str, ...]
    least: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """One language's programs. Commands run in `folder`; `sources` decide whether a build still holds."""

    folder: Path
    tools: tuple[Tool, ...]
    builds: tuple[tuple[str, ...], ...]
    program: tuple[str, ...]
    worker: tuple[str, ...]
    sources: tuple[Path, ...] = ()


GO, JAVA, TYPESCRIPT = CLIENT / "go", CLIENT / "java", CLIENT / "typescript"
# Tests start many, and none runs for long.
_JAVA = (
    "java",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-cp",
    f"{JAVA / 'target/classes'}:{JAVA / 'target/lib'}/*",
)

LANGUAGES: Mapping[str, Language] = {
    "go": Language(
        folder=GO,
        tools=(Tool(version=("go", "env", "GOVERSION"), least=24),),
        builds=(
            ("go", "vet", "./..."),
            ("go", "build", "-o", str(CACHE / "go-example"), "./example"),
            ("go", "build", "-o", str(CACHE / "go-policy"), "./policy"),
            ("go", "build", "-o", str(CACHE / "go-supervisor"), "./supervisor"),
            ("go", "build", "-o", str(CACHE / "go-till"), "./till"),
            ("go", "build", "-o", str(CACHE / "go-seats"), "./seats"),
        ),
        program=(str(CACHE / "go-example"),),
        worker=(str(CACHE / "go-seats"),),
    ),
    "java": Language(
        folder=JAVA,
        tools=(
            Tool(version=("javac", "-version"), least=17),
            Tool(version=("mvn", "--batch-mode", "-version"), least=3),
        ),
        builds=(("mvn", "--batch-mode", "--no-transfer-progress", "--quiet", "package"),),
        program=(*_JAVA, "jackline.example.Example"),
        worker=(*_JAVA, "jackline.example.Seats"),
        sources=(ROOT / "proto" / "jackline", ROOT / "buf.gen.java.yaml"),
    ),
    "typescript": Language(
        folder=TYPESCRIPT,
        tools=(
            Tool(version=("node", "--version"), least=20),
            Tool(version=("npm", "--version"), least=9),
        ),
        builds=(("./install",), ("npm", "run", "--silent", "build")),
        program=("node", str(TYPESCRIPT / "dist" / "example.js")),
        worker=("node", str(TYPESCRIPT / "dist" / "seats.js")),
    ),
}

_MADE = frozenset({"node_modules", "target", "dist"})
_VERSION = re.compile(r"(?:go1\.|javac |Maven |v|^)(\d+)")


def lacking(language: Language) -> str:
    """What this machine lacks for a language, in words; empty if nothing."""
    for tool in language.tools:
        command = tool.version[0]
        if shutil.which(command) is None:
            return f"no {command}"
        told = subprocess.run(tool.version, capture_output=True, text=True, check=False)
        found = _VERSION.search(told.stdout)
        if found is None or int(found[1]) < tool.least:
            return f"{command} is too old: {told.stdout.strip()}"
    return ""


def built(name: str) -> tuple[str, ...]:
    """Build a language's programs if its sources are newer than its build; the words that call the first."""
    language = LANGUAGES[name]
    CACHE.mkdir(parents=True, exist_ok=True)
    stamp = CACHE / f"{name}.built-from"
    with _alone(CACHE / f"{name}.lock"):
        wanted = _digest(language)
        if not _holds(language, stamp, wanted):
            for command in language.builds:
                _build(command, language.folder)
            stamp.write_text(wanted, encoding="utf-8")
    return language.program


def _build(command: tuple[str, ...], folder: Path) -> None:
    ended = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"},  # buf
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
    assert ended.returncode == 0, f"{' '.join(command)} in {folder}:\n{ended.stdout}{ended.stderr}"


def _holds(language: Language, stamp: Path, wanted: str) -> bool:
    words = (*language.program, *language.worker)
    there = [Path(word.split(":")[0]) for word in words if word.startswith("/")]
    return (
        stamp.exists() and stamp.read_text(encoding="utf-8") == wanted and all(one.exists() for one in there)
    )


def _digest(language: Language) -> str:
    found = hashlib.sha256()
    for source in (language.folder, *language.sources):
        for path in sorted(source.rglob("*")) if source.is_dir() else [source]:
            if path.is_file() and not _MADE.intersection(path.relative_to(ROOT).parts):
                found.update(
                    f"{path.relative_to(ROOT)}\0{path.stat().st_size}\0".encode() + path.read_bytes()
                )
    return found.hexdigest()


@contextmanager
def _alone(lock: Path) -> Generator[None]:
    """Tests run in several processes, and two of them may want the same program."""
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield

"""Tries faults: each in a copy of the source, with the one test that has to notice it.

Owns the copies, and what the run of a test means: a fault is noticed only if its test is green without it. A
copy is complete and comes first on the path of its tests, so nothing of the tree that somebody works in is
changed or imported.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.catalogue import ROOT, BadCatalogue, Mutant

TIMEOUT_S = 300
_IMPORTED = ("proto/gen/python", "client/python", "server")
_COPIED = (*_IMPORTED, "tests", "examples", "pyproject.toml")


class Verdict(Enum):
    """What came of a fault."""

    NOTICED = "noticed"
    SURVIVED = "survived"
    BROKEN = "broken"  # its test is red without it, or does not run: nothing is proven


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A fault with what came of it. `words` is what the test said."""

    mutant: Mutant
    verdict: Verdict
    words: str = ""


def try_all(
    mutants: Sequence[Mutant], *, at_once: int, tell: Callable[[Trial], None], root: Path = ROOT
) -> list[Trial]:
    """Try each fault, so many at once; `tell` hears of each as it ends, from the thread that tried it."""
    with tempfile.TemporaryDirectory(prefix="jackline-mutants-") as folder:
        copies = SimpleQueue["_Copy"]()
        for number in range(at_once):
            copies.put(_Copy(root, Path(folder) / str(number)))

        def is_green(test: str) -> bool:
            with _taken(copies) as copy:
                return copy.pytest(test).returncode == 0

        def attempt(mutant: Mutant) -> Trial:
            if sound[mutant.test]:
                with _taken(copies) as copy:
                    trial = copy.tried(mutant)
            else:
                words = "without it its test is red already, or not there"
                trial = Trial(mutant=mutant, verdict=Verdict.BROKEN, words=words)
            tell(trial)
            return trial

        with ThreadPoolExecutor(at_once) as pool:
            tests = sorted({mutant.test for mutant in mutants})
            sound = dict(zip(tests, pool.map(is_green, tests), strict=True))
            return list(pool.map(attempt, mutants))


@contextmanager
def _taken(copies: "SimpleQueue[_Copy]") -> "Generator[_Copy]":
    copy = copies.get()
    try:
        yield copy
    finally:
        copies.put(copy)


class _Copy:
    """One copy of the tree, used by one thread at a time."""

    def __init__(self, root: Path, folder: Path) -> None:
        folder.mkdir()
        for name in _COPIED:
            source = root / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            elif source.is_file():
                shutil.copy2(source, folder / name)
        self._folder = folder

    def tried(self, mutant: Mutant) -> Trial:
        """Run the fault's test with the fault, and put the file back."""
        try:
            with _changed(self._folder / mutant.file, mutant):
                ran = self.pytest(mutant.test)
        except BadCatalogue as error:
            return Trial(mutant=mutant, verdict=Verdict.BROKEN, words=str(error))
        except subprocess.TimeoutExpired:
            return Trial(mutant=mutant, verdict=Verdict.BROKEN, words=f"no end within {TIMEOUT_S} s")
        words = "\n".join(ran.stdout.strip().splitlines()[-6:])
        match ran.returncode:
            case 0:
                verdict = Verdict.SURVIVED
            case 1:  # tests ran, and one failed: a source that can't be imported is no fault
                verdict = Verdict.NOTICED
            case _:
                verdict = Verdict.BROKEN
        return Trial(mutant=mutant, verdict=verdict, words=words)

    def pytest(self, test: str) -> subprocess.CompletedProcess[str]:
        """Run one test here. Raises TimeoutExpired."""
        path = os.pathsep.join(str(self._folder / name) for name in _IMPORTED)
        own = {"PYTHONPATH": path, "HYPOTHESIS_STORAGE_DIRECTORY": str(self._folder / "found")}
        options = ["-q", "-x", "--no-header", "--tb=line", "-p", "no:cacheprovider", test]
        return subprocess.run(
            [sys.executable, "-m", "pytest", f"--rootdir={self._folder}", *options],
            cwd=self._folder,
            env=os.environ | own,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )


@contextmanager
def _changed(path: Path, mutant: Mutant) -> Generator[None]:
    """The file with the fault in it, under a time of its own: what was compiled of the sound one is old."""
    source, stat = path.read_text(encoding="utf-8"), path.stat()
    try:
        path.write_text(mutant.applied(source), encoding="utf-8")
        os.utime(path, (stat.st_atime, stat.st_mtime + 10))
        yield
    finally:
        path.write_text(source, encoding="utf-8")
        os.utime(path, (stat.st_atime, stat.st_mtime))

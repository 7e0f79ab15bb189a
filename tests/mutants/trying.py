"""Tries faults: each in a copy of the source, with the one test that has to notice it.

Owns the copies, and what the run of a test means: a fault is noticed only if its test is green without it. A
copy is complete and comes first on the path of its tests, so nothing of the tree that somebody works in is
changed or imported. Most of what a run of one test takes is imports: each copy has a process that has made
them (`warm`), which puts the fault into what is imported. A test that does not notice it like that is run
again with the fault in its place before it all. Many a fault shows in that something never comes: its test is
given a few times as long as it takes without the fault, and not the minutes that a slow machine may need.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import ChainMap
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from queue import SimpleQueue
from typing import Self

from tests.mutants.catalogue import ROOT, BadCatalogue, Mutant
from tests.mutants.warm import PROFILE

TIMEOUT_S = 300
SWAPPED_S = 100
"""How long a run may take that proves something only if it is red. One that hangs is made again afresh."""
PATIENCE_S = 6.0
PATIENCE_TIMES = 4
"""How long the test of a fault may take: so much, and so many times what it takes without the fault."""
_IMPORTED = ("proto/gen/python", "client/python", "server")
_WARM = Path(__file__).with_name("warm.py")
_REWRITTEN = "ignore::pytest.PytestAssertRewriteWarning"
"""A plugin that is imported already has its own assertions told plainly, which is no matter here."""
_GREEN, _RED = "PASSED", ("FAILED", "ERROR")
_ENDS = (_GREEN, *_RED)
_COPIED = (*_IMPORTED, "client/go", "tests", "examples", "pyproject.toml")


class Verdict(Enum):
    """What came of a fault."""

    NOTICED = "noticed"
    SURVIVED = "survived"
    BROKEN = "broken"  # its test is red without it, or does not run: nothing is proven


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A fault with what came of it, and how long that took. `words` is what the test said."""

    mutant: Mutant
    verdict: Verdict
    words: str = ""
    took_s: float = 0.0


def try_all(
    mutants: Sequence[Mutant], *, at_once: int, tell: Callable[[Trial], None], root: Path = ROOT
) -> list[Trial]:
    """Try each fault, so many at once; `tell` hears of each as it ends, from the thread that tried it."""
    with tempfile.TemporaryDirectory(prefix="jackline-mutants-") as folder, ExitStack() as warm:
        copies = SimpleQueue["_Copy"]()
        for number in range(at_once):
            copies.put(warm.enter_context(_Copy(root, Path(folder) / str(number))))

        def sound_of(tests: Sequence[str]) -> Mapping[str, float]:
            with _taken(copies) as copy:
                return copy.sound(tests)

        def attempt(mutant: Mutant) -> Trial:
            if mutant.test in sound:
                with _taken(copies) as copy:
                    began = time.monotonic()
                    trial = copy.tried(mutant, sound_s=sound[mutant.test])
                    trial = replace(trial, took_s=time.monotonic() - began)
            else:
                words = "without it its test is red already, or not there"
                trial = Trial(mutant=mutant, verdict=Verdict.BROKEN, words=words)
            tell(trial)
            return trial

        with ThreadPoolExecutor(at_once) as pool:
            tests = sorted({mutant.test for mutant in mutants})
            shares = [tests[number::at_once] for number in range(min(at_once, len(tests)))]
            sound = dict(ChainMap(*map(dict, pool.map(sound_of, shares))))
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
        self._tried = 0
        path = os.pathsep.join(str(folder / name) for name in _IMPORTED)
        own = {"PYTHONPATH": path, "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "found")}
        self._warm = subprocess.Popen(
            [sys.executable, "-P", str(_WARM)],
            cwd=folder,
            env=os.environ | own,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        """The copy itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End its process, which has no run by now."""
        self._warm.communicate()

    def sound(self, tests: Sequence[str]) -> Mapping[str, float]:
        """Those of the tests that are green without any fault, and how long each takes, in seconds.

        All run in one process: they are many. Of a test with several cases, the longest counts.
        """
        options = ("-rpfE", "--durations=0", "--durations-min=0")
        ran = self._pytest(*options, *tests, within_s=TIMEOUT_S * len(tests))
        ends = [line.split(" ", 1) for line in ran.output.splitlines()]
        said = {tuple(end) for end in ends if end[0] in _ENDS}
        if ran.code not in (0, 1) and len(tests) > 1:
            # One that is not there, or can't be imported, keeps all of them from running.
            return dict(ChainMap(*(dict(self.sound([test])) for test in tests)))

        def ended(test: str, word: str) -> bool:
            return any(end == word and _is_of(test, words) for end, words in said)

        took = list(_durations(ran.output))
        return {
            test: max((took_s for words, took_s in took if _is_of(test, words)), default=0.0)
            for test in tests
            if ended(test, _GREEN) and not any(ended(test, word) for word in _RED)
        }

    def tried(self, mutant: Mutant, *, sound_s: float) -> Trial:
        """Run the fault's test with the fault, and put the file back. Without, it takes `sound_s`."""
        within = f"--timeout={PATIENCE_S + PATIENCE_TIMES * sound_s:.0f}"
        options = ("-x", within, f"--hypothesis-profile={PROFILE}", mutant.test)
        try:
            self._tried += 1
            with _changed(self._folder / mutant.file, mutant, number=self._tried) as change:
                ran = self._pytest(*options, change=change, swapped=True, within_s=SWAPPED_S)
                if ran.code != 1:  # whatever else it was, what is imported with the fault in it decides
                    ran = self._pytest(*options, change=change)
        except BadCatalogue as error:
            return Trial(mutant=mutant, verdict=Verdict.BROKEN, words=str(error))
        words = "\n".join(ran.output.strip().splitlines()[-6:])
        match ran.code:
            case None:
                verdict, words = Verdict.BROKEN, f"no end within {TIMEOUT_S} s"
            case 0:
                verdict = Verdict.SURVIVED
            case 1:  # tests ran, and one failed: a source that can't be imported is no fault
                verdict = Verdict.NOTICED
            case _:
                verdict = Verdict.BROKEN
        return Trial(mutant=mutant, verdict=verdict, words=words)

    def _pytest(
        self, *tests: str, change: "_Change | None" = None, swapped: bool = False, within_s: int = TIMEOUT_S
    ) -> "_Ran":
        """Run tests here, with a changed file if there is one: see `warm` for how it gets to them."""
        options = ["-q", "--no-header", "--tb=line", "-p", "no:cacheprovider", f"--rootdir={self._folder}"]
        asked = {
            "arguments": [*options, "-W", _REWRITTEN, *tests],
            "within_s": within_s,
            "changed": change and str(change.path),
            "was": change and change.was,
            "swapped": swapped,
        }
        if self._warm.stdin is None or self._warm.stdout is None:
            raise AssertionError("its process was started with both")
        self._warm.stdin.write(json.dumps(asked) + "\n")
        self._warm.stdin.flush()
        answer = json.loads(self._warm.stdout.readline())
        return _Ran(code=answer["code"], output=answer["output"])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ran:
    """A run of pytest with what it said. `code`: None if it had no end in time, words if it was not begun."""

    code: int | str | None
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """A file with a fault in it, and its text without."""

    path: Path
    was: str


def _durations(output: str) -> Iterator[tuple[str, float]]:
    """What of the tests took how long, in seconds: lines such as `0.25s call     tests/test_a.py::test_b`."""
    for line in output.splitlines():
        match line.split():
            case [took, "setup" | "call" | "teardown", test] if took.endswith("s"):
                yield test, float(took[:-1])
            case _:
                pass


def _is_of(test: str, words: str) -> bool:
    """True if a line about an end, behind its first word, is about that test or one of its cases."""
    return words.startswith(test) and words[len(test) : len(test) + 1] in ("", "[", " ")


@contextmanager
def _changed(path: Path, mutant: Mutant, *, number: int) -> Generator[_Change]:
    """The file with the fault in it, under a time of its own.

    What was compiled of the sound one is old by that, and of an earlier fault too, which may be as long.
    """
    source, stat = path.read_text(encoding="utf-8"), path.stat()
    try:
        path.write_text(mutant.applied(source), encoding="utf-8")
        os.utime(path, (stat.st_atime, stat.st_mtime + 10 * number))
        yield _Change(path=path, was=source)
    finally:
        path.write_text(source, encoding="utf-8")
        os.utime(path, (stat.st_atime, stat.st_mtime))

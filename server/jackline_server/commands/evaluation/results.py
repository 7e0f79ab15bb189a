"""What came of cases, as it is written to a file and read again.

Owns the format. A reader takes what a later version adds; what is there is checked. Money is in millionths of
a US dollar, time in milliseconds of the run's active time.
"""

from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from jackline_server.plain_files import read_regular

MAX_BYTES = 64 * 1024 * 1024


class ResultsRefused(Exception):
    """A file holds no results. The message names it."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Verdict(StrEnum):
    """What came of a try or a case. ERROR: it could not be tried, or not judged."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"


class Spent(_Part):
    """What a run used."""

    tokens: int = 0
    cost_micros: int = 0
    iterations: int = 0
    tool_calls: int = 0
    active_ms: int = 0


class Missed(_Part):
    """One thing that was not as expected."""

    what: str
    expected: str
    actual: str

    @property
    def line(self) -> str:
        """It in one line."""
        return f"{self.what}: expected {self.expected}, got {self.actual}"


class Judged(_Part):
    """What a judge said, in a run of its own that is not counted with the judged one."""

    run_id: str
    passed: bool | None
    reason: str
    spent: Spent = Spent()


class Try(_Part):
    """One run of a case. `problem` says why there is no verdict on it."""

    number: int
    verdict: Verdict
    run_id: str = ""
    state: str = ""
    exit: str = ""
    spent: Spent = Spent()
    missed: tuple[Missed, ...] = ()
    judged: Judged | None = None
    problem: str = ""
    notes: tuple[str, ...] = ()


class CaseResult(_Part):
    """All tries of a case."""

    name: str
    verdict: Verdict
    reviewed: str = ""
    pass_at_least: int = 1
    tries: tuple[Try, ...] = ()

    @property
    def passed_tries(self) -> int:
        """How many tries passed."""
        return sum(one.verdict is Verdict.PASSED for one in self.tries)


class SuiteResult(_Part):
    """The cases of one file."""

    name: str
    path: str
    cases: tuple[CaseResult, ...] = ()


class Results(_Part):
    """A whole evaluation. `complete` is false for one that was interrupted."""

    version: int = Field(default=1, ge=1)
    server: str = ""
    started_at: str = ""
    complete: bool = True
    suites: tuple[SuiteResult, ...] = ()

    def cases(self) -> dict[tuple[str, str], CaseResult]:
        """Every case by the names of its suite and its own."""
        return {(suite.name, case.name): case for suite in self.suites for case in suite.cases}

    @property
    def passed(self) -> bool:
        """True if every case has passed."""
        return self.complete and all(case.verdict is Verdict.PASSED for case in self.cases().values())

    def text(self) -> str:
        """The results as a JSON document."""
        return self.model_dump_json(indent=1) + "\n"


def verdict_of(tries: tuple[Try, ...], *, pass_at_least: int) -> Verdict:
    """What a case comes to: an error if it could pass only had those tries been possible that were not."""
    passed = sum(one.verdict is Verdict.PASSED for one in tries)
    if passed >= pass_at_least:
        return Verdict.PASSED
    errors = sum(one.verdict is Verdict.ERROR for one in tries)
    return Verdict.ERROR if passed + errors >= pass_at_least else Verdict.FAILED


def total(spent: tuple[Spent, ...]) -> Spent:
    """The sum."""
    return Spent(
        tokens=sum(one.tokens for one in spent),
        cost_micros=sum(one.cost_micros for one in spent),
        iterations=sum(one.iterations for one in spent),
        tool_calls=sum(one.tool_calls for one in spent),
        active_ms=sum(one.active_ms for one in spent),
    )


def load_results(path: Path) -> Results:
    """Read what `--save` or `-o json` wrote. Raises ResultsRefused."""
    try:
        data = read_regular(path, most_bytes=MAX_BYTES)
    except OSError as error:
        raise ResultsRefused(f"{path} can't be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise ResultsRefused(f"{path} is larger than {MAX_BYTES} bytes")
    try:
        found = Results.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise ResultsRefused(f"{path} holds no results of `jackline eval`: {where}: {first['msg']}") from None
    if not found.suites:
        raise ResultsRefused(f"{path} holds no results of `jackline eval`: there are no suites in it")
    return found

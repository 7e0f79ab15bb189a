"""A file of cases, read as strictly as a workflow: every mistake at its line, all of them at once.

Owns what a case is once `defaults` are laid under it, and which keys go together. Does not own the keys
(`shapes`) or what is done with a case. Asks no server: whether a workflow is there, it says when a case
starts.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import date
from pathlib import Path

from jackline_server.commands.evaluation.shapes import (
    CASE_NAME,
    AnswerShape,
    BoundsShape,
    CalledShape,
    CaseShape,
    DefaultsShape,
    ExpectShape,
    SuiteShape,
)
from jackline_server.commands.evaluation.sight import USED, VARIABLES
from jackline_server.core.frozen import change, frozen
from jackline_server.core.plan import JsonValue
from jackline_server.definitions import yaml_text
from jackline_server.definitions.catalog import nearest
from jackline_server.definitions.files import load_file
from jackline_server.definitions.parameters import as_json
from jackline_server.definitions.reading import validated
from jackline_server.definitions.report import Report, TooManyErrors
from jackline_server.definitions.yaml_nodes import Path as Place
from jackline_server.definitions.yaml_nodes import Plain, Problem, plain
from jackline_server.expressions.cel import CelExpressions
from jackline_server.plain_files import read_regular
from jackline_server.runtime.ports.definitions import Finding, Severity, Source

_OTHER_WORDS = {
    "empty_document": "the file holds no cases",
    "not_a_mapping": "a file of cases is a mapping: `cases: [{name: …, workflow: …, expect: …}]`",
    "several_documents": "a file of cases holds one document; remove the second `---`",
}
_OF_A_START = ("input", "bounds", "deadline", "times", "pass_at_least", "answers")


class CasesRefused(Exception):
    """A file of cases can't be used. The findings say why, the worst first."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        super().__init__("the cases can't be used")
        self.findings = tuple(findings)


@frozen
class Stored:
    """The run of a workflow that the server has, as `name`, `name@alias` or `name@digest`."""

    workflow: str


@frozen
class Given:
    """The run of a workflow file beside the cases."""

    path: str
    source: Source


@frozen
class Existing:
    """A run that there is already: nothing is started."""

    run_id: str


_NOWHERE = Stored(workflow="")
"""For a case whose origin is refused: what else is wrong with it is said as well."""


@frozen
class Case:
    """One case with the defaults of its file laid under it. `input_json` is None without an input.

    `reviewed` says by whom and when; empty for a case that nobody has looked over.
    """

    name: str
    origin: Stored | Given | Existing
    input_json: JsonValue
    has_input: bool
    bounds: BoundsShape | None
    deadline_ms: int | None
    times: int
    pass_at_least: int
    answers: tuple[AnswerShape, ...]
    expect: ExpectShape
    judge_model: str
    reviewed: str


@frozen
class Suite:
    """A file's cases. `notes` are findings that keep nothing from running."""

    name: str
    path: str
    cases: tuple[Case, ...]
    notes: tuple[Finding, ...]


def load_cases(path: Path) -> Suite:
    """Read a file of cases and the workflow files that it names. Raises CasesRefused."""
    report = Report(file=str(path))
    try:
        data = read_regular(path, most_bytes=yaml_text.MAX_BYTES)
        text = data.decode("utf-8-sig")
    except OSError as error:
        report.error("unreadable", f"it can't be read: {error.strerror}")
        raise CasesRefused(report.findings()) from None
    except UnicodeDecodeError:
        report.error("bad_encoding", "a file of cases is UTF-8")
        raise CasesRefused(report.findings()) from None
    return parse_cases(text, path=path, report=report)


def parse_cases(text: str, *, path: Path, report: Report | None = None) -> Suite:
    """Read the text of a file of cases; `path` is where it stands. Raises CasesRefused."""
    report = report or Report(file=str(path))
    suite: SuiteShape | None = None
    cases: list[Case] = []
    try:
        suite = _shape(text, report)
        if suite is not None:
            cases = list(_Reader(suite=suite, folder=path.parent, report=report).cases())
    except TooManyErrors:
        suite = None
    if suite is None or report.has_errors:
        raise CasesRefused(report.findings())
    return Suite(
        name=suite.name or path.name.partition(".")[0],
        path=str(path),
        cases=tuple(cases),
        notes=report.findings(),
    )


def _shape(text: str, report: Report) -> SuiteShape | None:
    parsed = yaml_text.parse(text)
    if parsed.root is not None:
        report.locate_in(parsed.root)
    for problem in parsed.problems:
        report.error_at(problem.code, _words(problem), problem.mark)
    if parsed.root is None:
        return None
    written = plain(parsed.root)
    found = validated(SuiteShape, written, (), report, place_of=_nowhere)
    _check_names(written, report)
    return found


def _check_names(written: Plain, report: Report) -> None:
    """Report cases of one name, also of a file in which something else keeps it from being read."""
    cases = written.get("cases") if isinstance(written, dict) else None
    names: set[str] = set()
    for index, case in enumerate(cases if isinstance(cases, tuple) else ()):
        name = case.get("name") if isinstance(case, dict) else None
        if not isinstance(name, str):
            continue
        if name in names:
            report.error("bad_name", f"the case `{name[:64]}` is there twice", ("cases", index, "name"))
        names.add(name)


def _words(problem: Problem) -> str:
    return _OTHER_WORDS.get(problem.code, problem.message)


def _nowhere(place: Place) -> str:
    """The hint for a key of a case that stands at the top, or in `expect`, and the other way round."""
    key = str(place[-1])
    inside = {
        "in `expect` of a case": ExpectShape,
        "in a case": CaseShape,
        "at the top of the file": SuiteShape,
    }
    return next(
        (
            f"; it stands {where}"
            for where, shape in inside.items()
            if key in shape.model_fields and key not in DefaultsShape.model_fields
        ),
        "",
    )


class _Reader:
    """Makes cases of their shapes; what does not go together goes into the report."""

    def __init__(self, *, suite: SuiteShape, folder: Path, report: Report) -> None:
        self._suite = suite
        self._defaults = suite.defaults
        self._folder = folder
        self._report = report
        self._expressions = CelExpressions()
        self._files: dict[str, Given | None] = {}

    def cases(self) -> Iterator[Case]:
        self._check_common(self._defaults, ("defaults",))
        for index, shape in enumerate(self._suite.cases):
            place: Place = ("cases", index)
            self._check_common(shape, place)
            self._check_expect(shape.expect, (*place, "expect"))
            origin = self._origin(shape, place)
            case = self._case(shape, place, origin or _NOWHERE)
            if origin is not None:
                yield case

    def _case(self, shape: CaseShape, place: Place, origin: Stored | Given | Existing) -> Case:
        defaults = self._defaults
        is_existing = isinstance(origin, Existing)
        times = shape.times or (None if is_existing else defaults.times) or 1
        least = shape.pass_at_least or (None if is_existing else defaults.pass_at_least) or times
        if least > times:
            where = (*place, "pass_at_least" if shape.pass_at_least else "times")
            self._report.error(
                "out_of_range", f"`pass_at_least` is {least}, and it runs {_times(times)}", where
            )
        answers = shape.answers if shape.answers is not None else defaults.answers
        judge = shape.expect.judge
        judge_model = (judge.model if judge is not None else None) or defaults.judge_model or ""
        if judge is not None and not judge_model:
            message = "a judge needs a `model`; `judge_model` in `defaults` names one for all"
            self._report.error("missing_key", message, (*place, "expect", "judge"), of_key=True)
        return Case(
            name=shape.name,
            origin=origin,
            input_json=as_json(shape.input),
            has_input="input" in shape.model_fields_set,
            bounds=shape.bounds or defaults.bounds,
            deadline_ms=shape.deadline or defaults.deadline,
            times=times,
            pass_at_least=least,
            answers=answers or (),
            expect=shape.expect,
            judge_model=judge_model,
            reviewed=self._reviewed(shape, place),
        )

    def _reviewed(self, shape: CaseShape, place: Place) -> str:
        if shape.reviewed_by is None:
            if shape.reviewed_on is not None:
                self._report.error("missing_key", "`reviewed_on` without `reviewed_by`: say who", place)
            return ""
        if shape.reviewed_on is None:
            return shape.reviewed_by
        try:
            date.fromisoformat(shape.reviewed_on)
        except ValueError:
            self._report.error("bad_value", "there is no such day", (*place, "reviewed_on"))
        return f"{shape.reviewed_by}, {shape.reviewed_on}"

    # --- what a case is a run of ---------------------------------------------------------------

    def _origin(self, shape: CaseShape, place: Place) -> Stored | Given | Existing | None:
        own = [name for name in ("workflow", "file", "run") if getattr(shape, name) is not None]
        if len(own) > 1:
            both = " and ".join(f"`{name}`" for name in own)
            self._report.error("bad_value", f"{both}: a case has one of them", place)
            return None
        if shape.run is not None:
            return self._existing(shape, shape.run, place)
        source, where = (shape, place) if own else (self._defaults, ("defaults",))
        if source.file is not None:
            return self._given(source.file, (*where, "file"))
        if source.workflow is not None:
            return Stored(workflow=source.workflow)
        message = "a case needs a `workflow`, a `file` or a `run`; `defaults` may have one for all"
        self._report.error("missing_key", message, place)
        return None

    def _existing(self, shape: CaseShape, run_id: str, place: Place) -> Existing:
        for name in _OF_A_START:
            if name in shape.model_fields_set:
                message = f"`{name}` with `run`, which starts nothing: leave one of them out"
                self._report.error("bad_value", message, (*place, name), of_key=True)
        return Existing(run_id=run_id)

    def _given(self, name: str, place: Place) -> Given | None:
        if name not in self._files:
            self._files[name] = self._loaded(name, place)
        return self._files[name]

    def _loaded(self, name: str, place: Place) -> Given | None:
        path = self._folder / name
        try:
            loaded = load_file(path)
        except OSError as error:
            self._report.error("unreadable", f"{path} can't be read: {error.strerror}", place)
            return None
        except ValueError:
            self._report.error("unreadable", f"{name!r} is no path", place)
            return None
        for problem in loaded.problems:
            self._report.error("unreadable", problem.message, place)
        if loaded.source is None:
            if not loaded.problems:
                self._report.error("unreadable", f"{path} can't be read", place)
            return None
        return Given(path=str(path), source=loaded.source)

    # --- what does not go together -------------------------------------------------------------

    def _check_common(self, shape: CaseShape | DefaultsShape, place: Place) -> None:
        if isinstance(shape, DefaultsShape) and shape.workflow is not None and shape.file is not None:
            self._report.error("bad_value", "`workflow` and `file`: there is one of them", place)
        for index, answer in enumerate(shape.answers or ()):
            if answer.text is not None and answer.value is not None:
                message = "`text` and `value`: an answer has one of them"
                self._report.error("bad_value", message, (*place, "answers", index))

    def _check_expect(self, expect: ExpectShape, place: Place) -> None:
        for index, called in enumerate(expect.tools.called):
            self._check_called(called, (*place, "tools", "called", index))
        twice = {one.name for one in expect.tools.called} & set(expect.tools.not_called)
        for name in sorted(twice):
            self._report.error(
                "bad_value", f"`{name}` is in `called` and in `not_called`", (*place, "tools", "not_called")
            )
        if expect.that is not None:
            self._check_that(expect.that, (*place, "that"))

    def _check_called(self, called: CalledShape, place: Place) -> None:
        least, most = called.at_least, called.at_most
        if called.times is not None and (least is not None or most is not None):
            self._report.error("bad_value", "`times` with `at_least` or `at_most`: keep one", place)
        if least is not None and most is not None and least > most:
            self._report.error("out_of_range", "`at_least` is above `at_most`", place)

    def _check_that(self, expression: str, place: Place) -> None:
        if problem := self._expressions.check(expression):
            self._report.error("bad_expression", problem, place)
            return
        for name in sorted(self._expressions.variables(expression) - VARIABLES):
            hint = nearest(name, VARIABLES) or f"; there are {', '.join(sorted(VARIABLES))}"
            self._report.error("bad_expression", f"there is no `{name}`{hint}", place)
        for members in sorted(self._expressions.members(expression)):
            if members[0] == "used" and members[1:] and members[1] not in USED:
                hint = nearest(members[1], USED) or f"; there are {', '.join(sorted(USED))}"
                message = f"`used` has no `{members[1][:64]}`{hint}"
                self._report.error("bad_expression", message, place)


def only_cases(suites: Sequence[Suite], names: Collection[str]) -> list[Suite]:
    """The suites with the cases of these names alone; with all where no name is given."""
    if not names:
        return list(suites)
    chosen = [
        change(suite, cases=tuple(case for case in suite.cases if case.name in names)) for suite in suites
    ]
    return [suite for suite in chosen if suite.cases]


def is_case_name(text: str) -> bool:
    """True for a text that can name a case."""
    return re.fullmatch(CASE_NAME, text) is not None


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def line_of(finding: Finding) -> str:
    """A finding as `file:line:column: severity: message [code]`."""
    where = f"{finding.file}:{finding.line}:{finding.column}" if finding.line else finding.file
    severity = "error" if finding.severity is Severity.ERROR else finding.severity.value
    return f"{where}: {severity}: {finding.message} [{finding.code}]"

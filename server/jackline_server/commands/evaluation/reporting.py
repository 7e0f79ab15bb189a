"""What came of cases, for people and for programs that read JUnit's XML.

Owns the words and the XML. Does not own the results' own format (`results`), nor where anything is written.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple
from xml.etree import ElementTree as ET

from jackline_server.commands.evaluation.expecting import dollars
from jackline_server.commands.evaluation.results import (
    CaseResult,
    Results,
    Spent,
    Try,
    Verdict,
    total,
)

Style = Literal["", "good", "bad", "ask", "dim"]

_WORDS = {Verdict.PASSED: "pass", Verdict.FAILED: "FAIL", Verdict.ERROR: "ERROR"}
_STYLES: dict[Verdict, Style] = {Verdict.PASSED: "good", Verdict.FAILED: "bad", Verdict.ERROR: "ask"}
_NAME = 32
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
"""What no XML document may hold, or should not."""


class Line(NamedTuple):
    """One line, and how it is coloured on a terminal."""

    text: str
    style: Style = ""


def case_lines(suite: str, case: CaseResult, *, several: bool, flag: str = "") -> Iterator[Line]:
    """A case as soon as it is over: a row, then why it is no pass, a line each.

    `several` names the suite too; `flag` is what names the server in a command to type.
    """
    name = f"{suite}/{case.name}" if several else case.name
    passed = f"{case.passed_tries}/{len(case.tries)}"
    mark = "" if case.reviewed else "  unreviewed"
    spent = total(tuple(one.spent for one in case.tries))
    row = f"{_WORDS[case.verdict]:<5}  {name:<{_NAME}}  {passed:>5}  {_spent(spent)}{mark}"
    yield Line(row, _STYLES[case.verdict])
    alike: dict[tuple[str, ...], list[Try]] = {}
    for one in case.tries:
        alike.setdefault((*reasons(one), *one.notes), []).append(one)
    for tries in alike.values():
        yield from _try_lines(tries, alone=len(case.tries) == 1, flag=flag)


def _try_lines(tries: Sequence[Try], *, alone: bool, flag: str) -> Iterator[Line]:
    """Tries that have come to the same, once."""
    numbers = ", ".join(str(one.number) for one in tries)
    what = "try" if len(tries) == 1 else "tries"
    begin = "       " if alone else f"       {what} {numbers}: "
    for why in reasons(tries[0]):
        yield Line(f"{begin}{why}")
    for note in tries[0].notes:
        yield Line(f"{begin}{note}", "dim")
    run_id = next((one.run_id for one in tries if one.run_id), "")
    if tries[0].verdict is not Verdict.PASSED and run_id:
        yield Line(f"{begin}look closer: jackline explain {run_id}{flag}", "dim")


def reasons(one: Try) -> Iterator[str]:
    """Why a try is no pass, a line each."""
    yield from (missed.line for missed in one.missed)
    if one.problem:
        yield one.problem


def _spent(spent: Spent) -> str:
    money = dollars(spent.cost_micros)
    return f"{spent.tokens:>9,} tokens  {money:>10}  {spent.active_ms / 1_000:>7.1f} s"


def summary(results: Results) -> Iterator[Line]:
    """The sum of it all."""
    cases = list(results.cases().values())
    counts = {verdict: sum(case.verdict is verdict for case in cases) for verdict in Verdict}
    tries = [one for case in cases for one in case.tries]
    parts = [f"{counts[Verdict.PASSED]} of {len(cases)} cases passed"]
    if counts[Verdict.FAILED]:
        parts.append(f"{counts[Verdict.FAILED]} failed")
    if counts[Verdict.ERROR]:
        parts.append(f"{counts[Verdict.ERROR]} could not be judged")
    yield Line(", ".join(parts), "good" if results.passed else "bad")
    yield Line(f"runs    {_spent(total(tuple(one.spent for one in tries)))}")
    judged = tuple(one.judged.spent for one in tries if one.judged is not None)
    if judged:
        yield Line(f"judges  {_spent(total(judged))}")
    unreviewed = sum(not case.reviewed for case in cases)
    if unreviewed:
        what = "1 case is" if unreviewed == 1 else f"{unreviewed} cases are"
        yield Line(f"{what} unreviewed: look them over and say `reviewed_by`", "dim")


# --- JUnit -------------------------------------------------------------------------------------


def junit(results: Results) -> str:
    """The results as JUnit's XML: a suite each file, a test case each case."""
    root = ET.Element("testsuites", name="jackline eval")
    for suite in results.suites:
        verdicts = [case.verdict for case in suite.cases]
        element = ET.SubElement(
            root,
            "testsuite",
            name=_xml(suite.name),
            file=_xml(suite.path),
            timestamp=_xml(results.started_at),
            tests=str(len(verdicts)),
            failures=str(verdicts.count(Verdict.FAILED)),
            errors=str(verdicts.count(Verdict.ERROR)),
            time=_seconds(total(tuple(one.spent for case in suite.cases for one in case.tries))),
        )
        for case in suite.cases:
            _test_case(element, suite.name, case)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _test_case(suite: ET.Element, name: str, case: CaseResult) -> None:
    spent = total(tuple(one.spent for one in case.tries))
    element = ET.SubElement(
        suite, "testcase", classname=_xml(name), name=_xml(case.name), time=_seconds(spent)
    )
    properties = ET.SubElement(element, "properties")
    for key, value in (
        ("passed_tries", str(case.passed_tries)),
        ("tries", str(len(case.tries))),
        ("tokens", str(spent.tokens)),
        ("cost_usd", f"{spent.cost_micros / 1_000_000:.6f}"),
        ("reviewed", case.reviewed),
    ):
        ET.SubElement(properties, "property", name=key, value=_xml(value))
    if case.verdict is not Verdict.PASSED:
        lines = list(dict.fromkeys(line for one in case.tries for line in reasons(one)))
        kind = "failure" if case.verdict is Verdict.FAILED else "error"
        why = ET.SubElement(
            element, kind, message=_xml(lines[0] if lines else "not tried"), type=case.verdict.value
        )
        why.text = _xml("\n".join(lines))
    runs = " ".join(one.run_id for one in case.tries if one.run_id)
    if runs:
        ET.SubElement(element, "system-out").text = _xml(f"runs: {runs}")


def _seconds(spent: Spent) -> str:
    return f"{spent.active_ms / 1_000:.3f}"


def _xml(text: str) -> str:
    """The text without what XML can't hold, each such character as its escape."""
    return _NOT_XML.sub(lambda found: ascii(found[0])[1:-1], text)

"""Results: what they come to, the XML that build servers read, comparisons."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from jackline_server.commands.evaluation.comparing import compared, comparison_lines
from jackline_server.commands.evaluation.reporting import case_lines, junit, summary
from jackline_server.commands.evaluation.results import (
    CaseResult,
    Judged,
    Missed,
    Results,
    ResultsRefused,
    Spent,
    SuiteResult,
    Try,
    Verdict,
    load_results,
    verdict_of,
)

PASSED, FAILED, ERROR = Verdict.PASSED, Verdict.FAILED, Verdict.ERROR
MISS = Missed(what="exit", expected="a", actual="b")


def tried(*verdicts: Verdict, tokens: int = 100) -> tuple[Try, ...]:
    return tuple(
        Try(
            number=number,
            verdict=verdict,
            run_id=f"run_{number}",
            spent=Spent(tokens=tokens, cost_micros=tokens * 2, active_ms=1_000),
            missed=(MISS,) if verdict is FAILED else (),
            problem="no such workflow" if verdict is ERROR else "",
        )
        for number, verdict in enumerate(verdicts, start=1)
    )


def case(name: str, *verdicts: Verdict, least: int = 1, tokens: int = 100) -> CaseResult:
    tries = tried(*verdicts, tokens=tokens)
    return CaseResult(
        name=name, verdict=verdict_of(tries, pass_at_least=least), pass_at_least=least, tries=tries
    )


def results(*cases: CaseResult, complete: bool = True) -> Results:
    return Results(
        started_at="2026-11-02T10:00:00+00:00",
        complete=complete,
        suites=(SuiteResult(name="s", path="cases.yaml", cases=cases),),
    )


@pytest.mark.parametrize(
    ("verdicts", "least", "verdict"),
    [
        ((PASSED, FAILED, PASSED), 2, PASSED),
        ((PASSED, FAILED, FAILED), 2, FAILED),
        ((PASSED, FAILED, ERROR), 2, ERROR),
        ((FAILED, FAILED, ERROR), 2, FAILED),
        ((ERROR,), 1, ERROR),
    ],
)
def test_a_case_passes_with_as_many_tries_as_it_needs(
    verdicts: tuple[Verdict, ...], least: int, verdict: Verdict
) -> None:
    assert verdict_of(tried(*verdicts), pass_at_least=least) is verdict


def test_an_interrupted_evaluation_has_not_passed() -> None:
    assert results(case("a", PASSED)).passed
    assert not results(case("a", PASSED), complete=False).passed
    assert not results(case("a", FAILED)).passed


def test_what_was_written_is_read_as_it_was(tmp_path: Path) -> None:
    made = results(case("a", PASSED, FAILED), case("b", ERROR))
    (tmp_path / "r.json").write_text(made.text(), encoding="utf-8")
    assert load_results(tmp_path / "r.json") == made


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"suites": [{"name": 1}]}', "not JSON"])
def test_a_file_of_something_else_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(text, encoding="utf-8")
    with pytest.raises(ResultsRefused):
        load_results(tmp_path / "r.json")


def test_a_row_says_why_once_for_tries_that_came_to_the_same() -> None:
    lines = [one.text for one in case_lines("s", case("a", FAILED, PASSED, FAILED, least=3), several=True)]
    assert lines[0].split()[:3] == ["FAIL", "s/a", "1/3"]
    assert [line.strip() for line in lines[1:]] == [
        "tries 1, 3: exit: expected a, got b",
        "tries 1, 3: look closer: jackline explain run_1",
    ]


def test_the_judges_are_summed_apart() -> None:
    judged = Judged(run_id="run_j", passed=True, reason="", spent=Spent(tokens=7, cost_micros=9))
    one = case("a", PASSED)
    with_judge = one.model_copy(update={"tries": (one.tries[0].model_copy(update={"judged": judged}),)})
    lines = {line.text.split()[0]: line.text for line in summary(results(with_judge))}
    assert "100 tokens" in lines["runs"]
    assert "7 tokens" in lines["judges"]


# --- JUnit -------------------------------------------------------------------------------------


def read_xml(text: str) -> ET.Element:
    return ET.fromstring(text.encode())  # noqa: S314 - it was made a line ago


def test_a_build_server_reads_each_case_with_its_verdict() -> None:
    root = read_xml(junit(results(case("a", PASSED), case("b", FAILED), case("c", ERROR))))
    assert root.tag == "testsuites"
    (suite,) = root.findall("testsuite")
    assert {key: suite.get(key) for key in ("name", "tests", "failures", "errors", "time")} == {
        "name": "s",
        "tests": "3",
        "failures": "1",
        "errors": "1",
        "time": "3.000",
    }
    a, b, c = suite.findall("testcase")
    assert [(one.get("classname"), one.get("name")) for one in (a, b, c)] == [
        ("s", "a"),
        ("s", "b"),
        ("s", "c"),
    ]
    assert {one.tag for one in a} == {"properties", "system-out"}
    failure, error = b.find("failure"), c.find("error")
    assert failure is not None
    assert (failure.get("type"), failure.get("message")) == ("failed", "exit: expected a, got b")
    assert error is not None
    assert error.get("message") == "no such workflow"


HOSTILE = "<&>\"' \x00\x1b[31m\x85 \ud800 \ufffe ]]> ü 漢 \U0001f6a2"


def test_what_xml_can_not_hold_is_an_escape_and_the_document_stays_one() -> None:
    miss = Missed(what=HOSTILE, expected=HOSTILE, actual=HOSTILE)
    one = Try(number=1, verdict=FAILED, run_id="run_1", missed=(miss,), problem=HOSTILE)
    text = junit(results(CaseResult(name="a", verdict=FAILED, tries=(one,))))
    failure = read_xml(text).find("testsuite/testcase/failure")
    assert failure is not None
    assert "漢 \U0001f6a2" in (failure.get("message") or "")
    assert "\\x00\\x1b" in (failure.text or "")


# --- comparing ---------------------------------------------------------------------------------


def test_what_broke_comes_first_and_a_new_or_lost_case_is_neither_broken_nor_mended() -> None:
    before = results(
        case("broke", PASSED), case("mended", FAILED), case("still", FAILED), case("lost", PASSED)
    )
    after = results(case("mended", PASSED), case("broke", ERROR), case("still", ERROR), case("new", FAILED))
    found = compared(before, after)
    assert found.regressed == (("s", "broke"),)
    assert found.fixed == (("s", "mended"),)
    assert found.failing == (("s", "still"),)
    assert found.added == (("s", "new"),)
    assert found.gone == (("s", "lost"),)
    assert not found.is_sound
    lines = [line.text.split()[0] for line in comparison_lines(before, after)]
    assert lines[:2] == ["regressed", "no"]
    assert [one for one in lines if one in ("regressed", "fixed", "new", "gone")] == [
        "regressed",
        "fixed",
        "new",
        "gone",
    ]
    assert compared(before, before).is_sound


def test_what_an_interrupted_evaluation_has_not_tried_is_neither_broken_nor_mended_nor_passed() -> None:
    whole = results(case("a", PASSED), case("b", PASSED))
    cut = results(case("a", PASSED), case("b"), complete=False)
    for found in (compared(whole, cut), compared(cut, whole)):
        assert (found.regressed, found.fixed, found.untried) == ((), (), (("s", "b"),))
        assert not found.is_sound
    told = [line.text for line in comparison_lines(cut, whole)]
    assert told[0] == "not tried  s/b  none -> 1/1"
    assert told[-1] == "0 regressed, 0 fixed, 1 as before, 0 new, 0 gone, 1 not tried in both"


def spread(*tokens: int) -> Results:
    tries = tuple(
        Try(number=number, verdict=PASSED, spent=Spent(tokens=one))
        for number, one in enumerate(tokens, start=1)
    )
    return results(CaseResult(name="a", verdict=PASSED, tries=tries))


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ((100,), (100,), False),
        ((100,), (105,), False),
        ((100,), (150,), True),
        ((150,), (100,), True),
        ((100, 200, 300), (220, 240, 260), True),
        ((100, 200, 300), (150, 220, 310), False),
        ((0,), (0,), False),
        ((0,), (10,), True),
    ],
)
def test_a_change_of_use_is_told_unless_it_lies_within_both_spreads(
    before: tuple[int, ...], after: tuple[int, ...], told: bool
) -> None:
    lines = [line.text for line in comparison_lines(spread(*before), spread(*after))]
    assert any(line.startswith("tokens") for line in lines) is told

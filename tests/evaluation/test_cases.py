"""Files of cases: what they come to, and every mistake at its place."""

from pathlib import Path

import pytest

from jackline_server.commands.evaluation.cases import CasesRefused, Existing, Given, Stored, load_cases
from jackline_server.commands.evaluation.sight import Used
from tests.evaluation.sights import RUN, findings, suite

TWO = """\
defaults: {workflow: a, times: 3, pass_at_least: 2, bounds: {steps: 3}, judge_model: fast}
cases:
  - {name: x, input: {n: 1.5, list: [1]}, reviewed_by: ada, reviewed_on: "2026-11-02"}
  - {name: y, workflow: b@prod, times: 1, pass_at_least: 1, expect: {judge: {criteria: c, model: slow}}}
"""


def test_a_case_has_the_defaults_of_its_file_unless_it_says_otherwise() -> None:
    x, y = suite(TWO).cases
    assert (x.origin, x.times, x.pass_at_least) == (Stored(workflow="a"), 3, 2)
    assert (y.origin, y.times, y.pass_at_least) == (Stored(workflow="b@prod"), 1, 1)
    assert x.input_json == {"n": 1.5, "list": [1]}
    assert (x.has_input, y.has_input) == (True, False)
    assert (x.reviewed, y.reviewed) == ("ada, 2026-11-02", "")
    assert (x.judge_model, y.judge_model) == ("fast", "slow")
    assert x.bounds is not None
    assert x.bounds.steps == 3


def test_a_suite_is_named_by_itself_or_by_its_file(tmp_path: Path) -> None:
    assert suite(TWO).name == "cases"
    assert suite("name: other\n" + TWO).name == "other"


def test_tries_that_a_case_needs_not_say_all_have_to_pass() -> None:
    (case,) = suite("cases: [{name: x, workflow: a, times: 4}]").cases
    assert case.pass_at_least == 4


def test_a_run_that_there_is_is_looked_at_once_whatever_the_defaults_say() -> None:
    (case,) = suite(f"defaults: {{times: 3, workflow: a}}\ncases: [{{name: x, run: {RUN}}}]").cases
    assert (case.origin, case.times, case.pass_at_least) == (Existing(run_id=RUN), 1, 1)


def test_a_workflow_beside_the_cases_is_read_with_its_files(tmp_path: Path) -> None:
    (tmp_path / "s" / "steering").mkdir(parents=True)
    (tmp_path / "s" / "steering" / "tone.md").write_text("Be brief.", encoding="utf-8")
    text = "name: a\nmodel: m\nflow: [s]\nsteps: {s: {kind: agent, steering_files: [tone.md]}}\n"
    (tmp_path / "a.yaml").write_text(text, encoding="utf-8")
    (case,) = suite("cases: [{name: x, file: a.yaml}]", tmp_path).cases
    assert isinstance(case.origin, Given)
    assert case.origin.source.yaml == text
    assert dict(case.origin.source.files) == {"s/steering/tone.md": b"Be brief."}


CASE = "cases:\n  - {name: x, workflow: a, "


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [(0, 0, "empty_document")]),
        ("[1]\n", [(1, 1, "not_a_mapping")]),
        ("cases: [\n", [(2, 1, "yaml_syntax")]),
        ("cases: []\n", [(1, 8, "out_of_range")]),
        ("cases: [{name: x, workflow: a}]\ncase: []\n", [(2, 1, "unknown_key")]),
        (CASE + "inptu: {}}\n", [(2, 28, "unknown_key")]),
        (CASE + "expect: {sate: failed}}\n", [(2, 37, "unknown_key")]),
        (CASE + "expect: {state: done}}\n", [(2, 44, "bad_value")]),
        (CASE + "times: 0}\n", [(2, 35, "out_of_range")]),
        (CASE + "times: 2, pass_at_least: 3}\n", [(2, 53, "out_of_range")]),
        (CASE + "bounds: {run_timeout: 5}}\n", [(2, 50, "bad_duration")]),
        (CASE + "reviewed_on: '2026-11-02'}\n", [(2, 5, "missing_key")]),
        (CASE + "reviewed_by: a, reviewed_on: '2026-02-31'}\n", [(2, 57, "bad_value")]),
        (CASE + "answers: [{text: a}]}\n", [(2, 38, "missing_key")]),
        (CASE + "answers: [{option: a, text: a, value: {}}]}\n", [(2, 38, "bad_value")]),
        (CASE + "expect: {that: exit == }}\n", [(2, 43, "bad_expression")]),
        (CASE + "expect: {that: exti == 'a'}}\n", [(2, 43, "bad_expression")]),
        (CASE + "expect: {that: used.token < 3}}\n", [(2, 43, "bad_expression")]),
        (CASE + "expect: {that: 'used[\"cost\"] < 3'}}\n", [(2, 43, "bad_expression")]),
        (CASE + "expect: {judge: {criteria: c}}}\n", [(2, 37, "missing_key")]),
        (CASE + "expect: {tools: {called: [{name: t, times: 1, at_most: 2}]}}}\n", [(2, 54, "bad_value")]),
        (
            CASE + "expect: {tools: {called: [{name: t, at_least: 3, at_most: 2}]}}}\n",
            [(2, 54, "out_of_range")],
        ),
        (CASE + "expect: {tools: {called: [{name: t}], not_called: [t]}}}\n", [(2, 78, "bad_value")]),
        (CASE + f"run: {RUN}}}\n", [(2, 5, "bad_value")]),
        (f"cases: [{{name: x, run: {RUN}, input: 1}}]\n", [(1, 56, "bad_value")]),
        ("cases: [{name: x}]\n", [(1, 9, "missing_key")]),
        ("cases: [{name: x, file: nowhere.yaml}]\n", [(1, 25, "unreadable")]),
        ("cases: [{name: x, workflow: a}, {name: x, workflow: a}]\n", [(1, 40, "bad_name")]),
        ("defaults: {workflow: a, file: b}\ncases: [{name: x, workflow: a}]\n", [(1, 11, "bad_value")]),
    ],
)
def test_a_mistake_is_found_where_it_stands(
    text: str, expected: list[tuple[int, int, str]], tmp_path: Path
) -> None:
    assert findings(text, tmp_path) == expected


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    found = findings(
        "cases:\n  - {name: x, workflow: a, times: 2, pass_at_least: 3, expect: {that: exti}}\n"
        "  - {name: x, file: nix.yaml, reviewed_on: '2026-11-02'}\n",
        tmp_path,
    )
    assert [code for _, _, code in found] == [
        "out_of_range",
        "bad_expression",
        "missing_key",
        "bad_name",
        "unreadable",
    ]


def test_a_name_that_is_there_twice_is_told_beside_a_key_that_is_none(tmp_path: Path) -> None:
    text = "cases:\n  - {name: x, workflow: a, inptu: 1}\n  - {name: x, workflow: a}\n  - {name: 3}\n"
    found = findings(text, tmp_path)
    assert (3, 12, "bad_name") in found
    assert (2, 28, "unknown_key") in found


def test_what_a_run_has_used_may_be_read_by_every_name_that_it_has() -> None:
    that = " && ".join(f"used.{name} >= {value!r}" for name, value in Used().variables().items())
    (case,) = suite(f"cases: [{{name: x, workflow: a, expect: {{that: '{that}'}}}}]").cases
    assert case.expect.that == that
    suite("cases: [{name: x, workflow: a, expect: {that: 'calls.all(used, used.tool != exit)'}}]")


def test_an_unknown_key_is_told_what_it_may_be_or_where_it_stands() -> None:
    with pytest.raises(CasesRefused) as refused:
        suite("cases:\n  - {name: x, workflow: a, inptu: 1, judge: {criteria: c}}\n")
    words = [one.message for one in refused.value.findings]
    assert "did you mean `input`?" in words[0]
    assert "in `expect` of a case" in words[1]


@pytest.mark.parametrize("data", [b"\xff\xfe", b"cases: \x00"])
def test_a_file_that_is_no_text_is_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "cases.yaml").write_bytes(data)
    with pytest.raises(CasesRefused):
        load_cases(tmp_path / "cases.yaml")


def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    with pytest.raises(CasesRefused):
        load_cases(tmp_path)
    with pytest.raises(CasesRefused):
        load_cases(tmp_path / "nix")

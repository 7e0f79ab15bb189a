"""Targets, exit codes and both forms of a result."""

import json

import pytest

from benchmarks.__main__ import WrongWord, main, parameters_of
from benchmarks.catalog import BENCHMARKS
from benchmarks.loop import LoopParameters
from benchmarks.results import Figure, Result, Target, as_json, as_table


def result(*, value: Figure = 1.0, problems: tuple[str, ...] = ()) -> Result:
    return Result(
        name="loop",
        figures={"cost": value},
        targets=(Target(figure="cost", at_most=2),),
        problems=problems,
        parameters={"runs": 3},
    )


@pytest.mark.parametrize(
    ("target", "value", "met"),
    [
        (Target(figure="x", at_most=2), 2.0, True),
        (Target(figure="x", at_most=2), 2.1, False),
        (Target(figure="x", at_least=2), 2, True),
        (Target(figure="x", at_least=2), 1.9, False),
        (Target(figure="x", equals=False), False, True),
        (Target(figure="x", equals=False), True, False),
        (Target(figure="x", equals=False), 0, False),
        (Target(figure="x", at_most=2), None, False),
        (Target(figure="y", at_most=2), 1.0, False),
    ],
)
def test_a_target_is_met_within_its_bound_only(target: Target, value: Figure, met: bool) -> None:
    assert target.is_met({"x": value}) is met


def test_a_result_with_a_problem_is_not_ok_however_good_its_figures_are() -> None:
    assert result().ok
    assert not result(value=3.0).ok
    assert not result(problems=("a watcher missed an event",)).ok


def test_json_is_one_line_that_has_the_figures_by_name_and_what_they_are_read_with() -> None:
    text = as_json(result(value=1.23456), {"machine": {"cores": 2}})
    assert "\n" not in text
    told = json.loads(text)
    assert told["benchmark"] == "loop"
    assert (told["ok"], told["verified"], told["cost"]) == (True, True, 1.2346)
    assert told["targets"] == [{"figure": "cost", "at_most": 2, "met": True}]
    assert told["parameters"] == {"runs": 3}
    assert told["machine"] == {"cores": 2}


def test_a_table_shows_figures_targets_and_problems() -> None:
    table = as_table(result(value=3.0, problems=("a watcher missed an event",)))
    assert {"cost", "MISSED,", "PROBLEM"} <= set(table.split())


def test_the_names_are_fixed() -> None:
    assert list(BENCHMARKS) == [
        "loop", "concurrent", "fanout", "start", "control", "abort", "paused", "model",
    ]  # fmt: skip


def test_a_parameter_can_be_changed_on_the_command_line() -> None:
    changed = parameters_of(BENCHMARKS["loop"], tiny=False, changes=["runs=7", "turns=3"])
    assert changed == LoopParameters(runs=7, turns=3)


@pytest.mark.parametrize("change", ["walks=3", "runs=many", "runs=0", "runs"])
def test_a_change_of_what_there_is_not_is_refused(change: str) -> None:
    with pytest.raises(WrongWord):
        parameters_of(BENCHMARKS["loop"], tiny=True, changes=[change])


@pytest.mark.parametrize("words", [["nothing"], ["loop", "--set", "walks=3"], ["--peers", "start"]])
def test_a_wrong_word_ends_with_2(words: list[str]) -> None:
    assert main(words) == 2


def test_list_names_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(BENCHMARKS)

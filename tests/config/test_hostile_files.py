"""Files in place of a config that no parser likes: each is refused, none crashes or is waited for."""

import os
from pathlib import Path

import pytest

from jackline_server.config import ConfigError, Problem, ProblemCode, load_config


def problem_of(file: Path) -> Problem:
    with pytest.raises(ConfigError) as caught:
        load_config(file=file, environ={})
    (problem,) = caught.value.problems
    return problem


@pytest.mark.parametrize(
    ("toml", "line"),
    [
        ("[server]\nmax_active_runs = " + "9" * 5_000, 2),
        ("x = " + "[" * 3_000 + "]" * 3_000, 0),
        ("x = " + "[" * 100 + "]" * 100, 0),
        ("a" + ".a" * 5_000 + " = 1", 0),
        ("x = " + "{a = " * 100 + "1" + "}" * 100, 0),
        ("x = 1e9999999999999999999999", 0),
    ],
    ids=["long number", "brackets", "fewer brackets", "dots", "tables", "large number"],
)
def test_what_a_parser_can_not_hold_is_a_mistake_of_the_file(tmp_path: Path, toml: str, line: int):
    file = tmp_path / "jackline.toml"
    file.write_text(toml, "utf-8")
    problem = problem_of(file)
    assert (problem.code, problem.where) == (ProblemCode.SYNTAX, f"{file}:{line}" if line else str(file))


@pytest.mark.parametrize(
    "toml",
    [
        "[server]\nmax_active_runs = 0x" + "f" * 5_000,
        "[models.m.price]\ninput_per_million = 1e999999\noutput_per_million = 0\n[models.m]\nmodel = 'a/b'\n",
        "[models.m.price]\ninput_per_million = 0x" + "f" * 5_000 + "\noutput_per_million = 0\n"
        "[models.m]\nmodel = 'a/b'\n",
    ],
    ids=["runs", "exponent", "price"],
)
def test_a_number_that_python_will_not_write_is_out_of_range(tmp_path: Path, toml: str):
    file = tmp_path / "jackline.toml"
    file.write_text(toml, "utf-8")
    problem = problem_of(file)
    assert problem.code in {ProblemCode.BAD_VALUE, ProblemCode.WRONG_TYPE}
    assert len(str(problem)) < 300 + len(str(file))


def test_a_pipe_or_a_device_that_a_reference_names_is_not_waited_for(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    file = tmp_path / "jackline.toml"
    for name in ("pipe", "/dev/zero"):
        file.write_text(f'[models.m]\nmodel = "a/b"\napi_key = "${{file:{name}}}"\n', "utf-8")
        assert problem_of(file).code is ProblemCode.BAD_REFERENCE

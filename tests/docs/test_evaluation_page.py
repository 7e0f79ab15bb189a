"""docs/evaluation.md has every key of a file of cases, and its examples are such files."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from jackline_server.commands.evaluation import shapes
from jackline_server.commands.evaluation.cases import load_cases, parse_cases
from jackline_server.commands.evaluation.sight import VARIABLES
from jackline_server.definitions.shapes import Shape
from tests.docs.pages import ROOT, blocks, keys, page

PAGE = page("evaluation.md")
RUNS = "## What a case runs"
SHAPES: Mapping[tuple[str, ...], type[Shape]] = {
    ("## The file",): shapes.SuiteShape,
    (RUNS, "## `defaults`"): shapes.DefaultsShape,
    (RUNS, "## A case"): shapes.CaseShape,
    ("### `bounds`",): shapes.BoundsShape,
    ("### `answers`",): shapes.AnswerShape,
    ("## `expect`",): shapes.ExpectShape,
    ("### `tools`",): shapes.ToolsShape,
    ("### `called`",): shapes.CalledShape,
    ("### `used`",): shapes.UsedShape,
    ("### `judge`",): shapes.JudgeShape,
}


@pytest.mark.parametrize("headings", SHAPES)
def test_each_section_has_the_keys_of_its_shape(headings: tuple[str, ...]) -> None:
    written = {field.alias or name for name, field in SHAPES[headings].model_fields.items()}
    assert {key for heading in headings for key in keys(PAGE, heading)} == written


def test_the_examples_of_the_page_are_files_of_cases() -> None:
    shown = blocks(PAGE, "yaml cases")
    assert shown
    for block in shown:
        assert parse_cases(block.code, path=Path("cases.yaml")).cases


def test_every_file_of_cases_of_the_examples_is_one() -> None:
    found = sorted((ROOT / "examples" / "evaluation").glob("cases*.yaml"))
    assert found
    for path in found:
        assert load_cases(path).cases


def test_the_page_names_what_an_expression_may_read() -> None:
    for name in VARIABLES:
        assert f"`{name}`" in PAGE

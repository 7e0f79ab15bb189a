"""Every key of a workflow file has an example in `examples/options` that is run and shows what it does.

An example says which places of its workflow it shows. It is run as it stands, and once more without each of
them, or with another value there: then something that it expects has to come otherwise, so that no place is
shown for nothing.
"""

import asyncio
import copy
import re
from pathlib import Path
from typing import Any

import pytest

from scripts import _defaults_table, _options_page
from tests.examples.option_keys import Where, all_keys, all_values, key_at, values_at
from tests.examples.option_sights import differences
from tests.examples.option_world import Example, examples, placed

EXAMPLES = examples()


def place(text: str) -> Where:
    return tuple(int(part) if part.isdecimal() else part for part in re.split(r"\.", text))


def shown_at(shows: str | dict[str, Any]) -> str:
    """The place that something is shown at."""
    return shows if isinstance(shows, str) else next(iter(shows))


def otherwise(workflow: dict[str, Any], shows: str | dict[str, Any]) -> dict[str, Any]:
    """The workflow without what is shown, or with another value there."""
    made = copy.deepcopy(workflow)
    inner: Any = made
    *way, last = place(shown_at(shows))
    for part in way:
        inner = inner[part]
    if isinstance(shows, str):
        del inner[last]
    else:
        inner[last] = shows[shown_at(shows)]
    return made


@pytest.mark.parametrize("example", [pytest.param(one, id=one.name) for one in EXAMPLES])
async def test_an_example_runs_as_it_says_and_otherwise_without_what_it_shows(
    example: Example, tmp_path: Path
):
    async with placed(example, tmp_path) as there:
        variants = [example.workflow, *(otherwise(example.workflow, one) for one in example.shows)]
        whole, *others = await asyncio.gather(*(there.seen(one) for one in variants))

    assert differences(example.expect, whole) == [], whole
    idle = [
        name
        for name, seen in zip(example.shows, others, strict=True)
        if not differences(example.expect, seen)
    ]
    assert idle == [], "without these the run goes as with them"


def shown_keys() -> set[str]:
    """The keys that an example shows, and those around them."""
    return {
        key_at(one.workflow, place(shown_at(where))[: end + 1])
        for one in EXAMPLES
        for where in one.shows
        for end in range(len(place(shown_at(where))))
    }


def test_every_key_of_a_workflow_file_has_an_example_that_is_run():
    assert all_keys() - shown_keys() == set()


def test_every_value_of_a_closed_set_has_an_example_that_is_run():
    shown = {
        (key_at(one.workflow, place(shown_at(where))), value)
        for one in EXAMPLES
        for where in one.shows
        for value in values_at(one.workflow, place(shown_at(where)))
    }

    assert all_values() - shown == set()


def test_every_row_of_the_table_of_defaults_that_names_a_key_has_an_example_that_is_run():
    named = {name for label, _ in _defaults_table.ROWS for name in re.findall(r"`([a-z_.]+)`", label)}
    shown = {key.partition(".")[2] for key in shown_keys()}

    assert {name for name in named if name.rpartition(".")[2] not in shown} == set()


def test_the_list_of_the_examples_is_fresh():
    assert _options_page.PAGE.read_text(encoding="utf-8") == _options_page.page()

"""docs/concepts.md: its blocks, followed in their order, and its tables against the code."""

import re
from pathlib import Path

import pytest

from jackline_client.cli.exit_codes import ExitCode
from jackline_server.core.decide import MAX_CRASHES
from jackline_server.core.facts import Phase
from jackline_server.core.plan import Effect
from tests.docs.following import reader_in
from tests.docs.pages import page, rows, section

PAGE = page("concepts.md")
NOT_BUILT = (
    "supervisor",
    "judge",
    "webhook",
    "PostgreSQL",
    "Redis",
    "dashboard",
)


@pytest.mark.timeout(240)
async def test_following_it_leads_where_it_says(tmp_path: Path) -> None:
    async with reader_in(tmp_path) as reader:
        done = await reader.follow(PAGE)
    assert done.count("bash run") == 9
    assert done.count("text shows") == 8


def test_its_exits_end_runs_in_every_terminal_state_and_with_the_codes_of_the_command() -> None:
    shown = {row[1]: int(row[2]) for row in rows(section(PAGE, "## Exits and signals"))}
    assert set(shown) == {
        phase.value
        for phase in (Phase.SUCCEEDED, Phase.EXHAUSTED, Phase.FAILED, Phase.NEEDS_REVIEW, Phase.ABORTED)
    }
    assert shown == {
        "succeeded": ExitCode.OK,
        "exhausted": ExitCode.EXHAUSTED,
        "failed": ExitCode.RUN_FAILED,
        "needs_review": ExitCode.NEEDS_REVIEW,
        "aborted": ExitCode.ABORTED,
    }


def test_its_effects_are_those_that_there_are() -> None:
    shown = [row[0].strip("`") for row in rows(section(PAGE, "## Tools and effects"))]
    assert shown == [effect.value for effect in Effect]


def test_a_step_may_crash_as_often_as_it_says() -> None:
    assert "takes the server down four times" in " ".join(PAGE.split())
    assert MAX_CRASHES + 1 == 4


@pytest.mark.parametrize("word", NOT_BUILT)
def test_it_names_nothing_that_is_not_built(word: str) -> None:
    assert re.search(rf"\b{word}", PAGE, re.IGNORECASE) is None

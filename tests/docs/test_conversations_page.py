"""docs/conversations.md: its blocks, followed in their order, and its tables against the code."""

from pathlib import Path

import pytest

from jackline_server.runtime.reading.histories import MOST_BYTES, MOST_MESSAGES
from jackline_server.runtime.service.joining import MOST_WAITING
from jackline_server.runtime.use_cases import OnBusy
from tests.docs.following import reader_in
from tests.docs.pages import page, rows, section

PAGE = page("conversations.md")


@pytest.mark.timeout(240)
async def test_following_it_leads_where_it_says(tmp_path: Path) -> None:
    async with reader_in(tmp_path) as reader:
        done = await reader.follow(PAGE)
    assert (sum(info.startswith("bash run") for info in done), done.count("text shows")) == (5, 5)


def test_it_knows_every_way_to_meet_a_busy_thread() -> None:
    shown = [row[0].strip("`") for row in rows(section(PAGE, "## One run at a time"))]
    assert shown == [one.value for one in OnBusy]


def test_its_numbers_are_those_of_the_code() -> None:
    text = " ".join(PAGE.split())
    assert f"the newest {MOST_MESSAGES} of them and {MOST_BYTES // 1024 // 1024} MiB at most" in text
    assert f"at most {MOST_WAITING} wait in one thread" in text

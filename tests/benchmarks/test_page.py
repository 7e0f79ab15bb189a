"""docs/benchmarks.md says what the code measures against."""

from benchmarks.catalog import BENCHMARKS
from tests.docs.pages import page, rows, section

PAGE = page("benchmarks.md")


def test_the_page_has_a_section_for_each_measurement() -> None:
    headings = [line for line in PAGE.splitlines() if line.startswith("## `")]
    assert headings == [f"## `{name}`" for name in BENCHMARKS]


def test_the_page_has_every_target_and_no_other() -> None:
    told = [tuple(row) for row in rows(section(PAGE, "## Targets"))]
    assert told == [
        (f"`{name}`", f"`{target.figure}`", target.words())
        for name, benchmark in BENCHMARKS.items()
        for target in benchmark.targets
    ]

"""docs/README.md leads to every page, and every link of the pages, anchors too, leads somewhere."""

import re

import pytest

from tests.docs.pages import ROOT, page

DOCS = ROOT / "docs"
PAGES = sorted(file.name for file in DOCS.glob("*.md"))
_LINK = re.compile(r"\]\(([^)]+)\)")
_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_NOT_OF_AN_ANCHOR = re.compile(r"[^\w\- ]")


def anchors(text: str) -> set[str]:
    """Where a link may lead in a page, as its headings are made into names."""
    headings = re.findall(r"^#+ (.+)$", _BLOCK.sub("", text), re.MULTILINE)
    return {_NOT_OF_AN_ANCHOR.sub("", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_index_leads_to_every_page() -> None:
    linked = {target.partition("#")[0] for target in _LINK.findall(page("README.md"))}
    assert set(PAGES) - {"README.md"} <= linked


def test_the_readme_of_the_project_leads_to_the_index_and_the_pages_for_users() -> None:
    linked = set(_LINK.findall((ROOT / "README.md").read_text(encoding="utf-8")))
    assert {f"docs/{name}" for name in PAGES} - {"docs/dependencies.md"} <= linked
    assert [target for target in linked if "://" not in target and not (ROOT / target).exists()] == []


@pytest.mark.parametrize("name", PAGES)
def test_every_anchor_that_a_page_links_is_a_heading(name: str) -> None:
    for target in _LINK.findall(page(name)):
        file, has_anchor, anchor = target.partition("#")
        if has_anchor and "://" not in target and (file.endswith(".md") or not file):
            text = (DOCS / file).read_text(encoding="utf-8") if file else page(name)
            assert anchor in anchors(text), f"{name}: {target}"

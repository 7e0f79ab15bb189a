"""The pages for people who come from elsewhere: their program compiles, and ours does what the page shows."""

import ast
import re
from pathlib import Path

import pytest

from tests.docs.following import reader_in
from tests.docs.pages import blocks, page, rows, section

PEERS = {
    "coming-from-langgraph.md": ("langgraph 1.2", "langgraph"),
    "coming-from-pydantic-ai.md": ("pydantic-ai 2.68", "pydantic_ai"),
    "coming-from-openai-agents.md": ("openai-agents 0.24", "agents"),
    "coming-from-adk.md": ("google-adk 2.13", "google.adk"),
}
"""Each page, the version whose names it has, and the package that its program is written with."""


@pytest.mark.parametrize("name", PEERS)
def test_their_program_is_python_that_uses_what_the_page_is_about(name: str) -> None:
    version, package = PEERS[name]
    text = page(name)
    (theirs,) = blocks(text, "python theirs")
    compile(theirs.code, name, "exec")
    imported = {
        node.module
        for node in ast.walk(ast.parse(theirs.code))
        if isinstance(node, ast.ImportFrom) and node.module
    }
    assert any(module == package or module.startswith(f"{package}.") for module in imported)
    assert version in text.partition("## ")[0]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", PEERS)
async def test_our_program_is_valid_and_does_what_the_page_shows(name: str, tmp_path: Path) -> None:
    text = page(name)
    (workflow,) = re.findall(r"^```yaml file=(workflows/\w+\.yaml)$", text, re.MULTILINE)
    async with reader_in(tmp_path) as reader:
        done = await reader.follow(text)
        checked = await reader.run(f"jackline validate {workflow}")
    assert checked.failed == ()
    assert re.search(r"\b(error|warning)\b", checked.text) is None, checked.text
    assert done.count("text shows") == 1


@pytest.mark.parametrize("name", PEERS)
def test_every_concept_has_a_counterpart_or_the_word_that_there_is_none(name: str) -> None:
    table = list(rows(section(page(name), "## Concept by concept")))
    assert len(table) > 12
    assert all(len(row) == 2 and all(row) for row in table)
    assert any("Not there" in row[1] for row in table)

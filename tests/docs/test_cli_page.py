"""docs/cli.md says what the command says about itself, and what is written by hand holds."""

import shlex
import tomllib
from collections.abc import Mapping

import pytest
import typer

from jackline_client.cli.context_file import contexts_path, read_contexts
from jackline_client.cli.exit_codes import MEANINGS
from jackline_client.cli.forms import Form
from jackline_client.cli.main import app
from scripts import _cli_page
from tests.docs.pages import blocks, page, rows, section

PAGE = page("cli.md")


def test_the_commands_of_the_page_are_fresh() -> None:
    assert _cli_page.with_commands(PAGE) == PAGE, "run scripts/generate"


def test_every_command_and_every_flag_of_it_is_on_the_page() -> None:
    names = [name for name, _ in _cli_page.commands()]
    assert {"run", "context set", "workflow put", "serve"} <= set(names)
    for name, command in _cli_page.commands():
        text = PAGE.partition(f"### `jackline {name}`\n")[2].partition("\n### ")[0]
        for parameter in command.params:
            flag = parameter.opts[0]
            assert not flag.startswith("-") or flag == "--help" or f"`{flag}`" in text, (name, flag)


def test_every_exit_code_is_on_the_page() -> None:
    shown = {row[0]: row[1].replace("`", "") for row in rows(section(PAGE, "## Exit codes"))}
    assert shown == {str(code.value): meaning for code, meaning in MEANINGS.items()}


def test_every_form_of_output_is_on_the_page() -> None:
    shown = [row[0] for row in rows(section(PAGE, "## Output"))]
    assert ", ".join(filter(None, shown)).replace("`", "").split(", ") == [form.value for form in Form]


def test_the_example_of_a_file_of_contexts_is_one(tmp_path_factory: pytest.TempPathFactory) -> None:
    (block,) = blocks(PAGE, "toml")
    environ: Mapping[str, str] = {"JACKLINE_CONFIG_HOME": str(tmp_path_factory.mktemp("config"))}
    path = contexts_path(environ)
    path.write_text(block.code, encoding="utf-8")
    path.chmod(0o600)
    assert set(read_contexts(path).by_name) == set(tomllib.loads(block.code)["contexts"])


def test_the_commands_in_its_examples_are_ones_that_there_are() -> None:
    root = typer.main.get_command(app)
    for block in blocks(PAGE, ""):
        for line in block.code.splitlines():
            words = shlex.split(line, comments=True)
            if words and words[0] == "jackline" and "$(" not in line:
                root.main(
                    args=[*_until_flags(words[1:]), "--help"], prog_name="jackline", standalone_mode=False
                )


def _until_flags(words: list[str]) -> list[str]:
    """The command itself; a group's command is the second word."""
    return words[:2] if words[0] in {"context", "workflow"} else words[:1]

"""Writes the commands into docs/cli.md: what the `jackline` command says about itself, as tables.

Owns the part of the page between its two marks. Does not own the sections that people write.
`_pages.py` writes or checks it.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, cast

import typer

from jackline_client.cli.main import app

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"
BEGIN = "<!-- From here on made by scripts/generate. -->"
SHARED = ("--address", "--context", "--output", "--json", "--reconnect-for", "--reason", "--no-deltas")
"""Flags that several commands have; described once."""
_NO_DEFAULT = (None, "", False, ())


class Parameter(Protocol):
    """A flag or an argument, as far as it is told of here."""

    name: str
    opts: list[str]
    secondary_opts: list[str]
    metavar: str | None
    default: object
    required: bool
    param_type_name: str


class Command(Protocol):
    """A command."""

    help: str | None
    params: list[Parameter]


class Group(Protocol):
    """A command that has others."""

    def list_commands(self, ctx: object) -> list[str]:
        """Their names."""
        ...

    def resolve_command(self, ctx: object, args: list[str]) -> tuple[str, Command, list[str]]:
        """The one that is named."""
        ...


def with_commands(page: str) -> str:
    """The page with its commands as they are now.

    Raises ValueError if the mark is missing, or a command can't be loaded: nothing is left out unnoticed.
    """
    written, mark, _ = page.partition(BEGIN)
    if not mark:
        raise ValueError(f"the page has no line {BEGIN!r}")
    return written + BEGIN + "\n\n" + "\n".join(_lines()) + "\n"


def commands() -> Iterator[tuple[str, Command]]:
    """Each command with its name, those of groups one by one."""
    root: Any = typer.main.get_command(app)
    context = root.make_context("jackline", [], resilient_parsing=True)
    yield from _below(cast("Group", root), context, "")


def _below(group: Group, context: object, before: str) -> Iterator[tuple[str, Command]]:
    for name in group.list_commands(context):
        _, command, _ = group.resolve_command(context, [name])
        if getattr(command, "hidden", False):
            continue
        if hasattr(command, "list_commands"):
            yield from _below(cast("Group", command), context, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def _lines() -> Iterator[str]:
    found = list(commands())
    if silent := [name for name, command in found if not command.help]:
        raise ValueError(
            f"can't be loaded: {', '.join(silent)}; this environment has an older list of commands:"
            " uv pip install -e . --no-deps --no-build-isolation"
        )
    shared: dict[str, Parameter] = {}
    for one in (one for _, command in found for one in command.params if one.opts[0] in SHARED):
        shared.setdefault(one.opts[0], one)
    for name, command in found:
        yield from (f"### `jackline {name}`", "", _help(command), "")
        own = [one for one in command.params if one.name != "help" and not _is_among(shared, one)]
        if own:
            yield from ("| | |", "|---|---|", *(_row(one) for one in own), "")
        flags = ", ".join(f"`{one.opts[0]}`" for one in command.params if _is_among(shared, one))
        if flags:
            yield from (f"[Shared](#flags-that-several-commands-have): {flags}.", "")
    yield from ("### Flags that several commands have", "")
    yield from ("| | |", "|---|---|", *(_row(shared[flag]) for flag in SHARED if flag in shared))


def _is_among(shared: Mapping[str, Parameter], one: Parameter) -> bool:
    """True for the flag that is described once, not for another of the same name."""
    described = shared.get(one.opts[0])
    return described is not None and _row(described) == _row(one)


def _help(command: Command) -> str:
    text = (command.help or "").replace("\b", "")
    paragraphs = (" ".join(part.split()) for part in text.split("\n\n"))
    return "\n\n".join(part for part in paragraphs if part)


def _row(one: Parameter) -> str:
    if one.param_type_name == "argument":
        return f"| `{_metavar(one)}` | {_meaning(one)} |"
    flags = ", ".join(f"`{flag}`" for flag in (*one.opts, *one.secondary_opts))
    value = "" if getattr(one, "is_flag", False) else f" `{_metavar(one)}`"
    return f"| {flags}{value} | {_meaning(one)} |"


def _metavar(one: Parameter) -> str:
    choices = getattr(getattr(one, "type", None), "choices", None)
    if one.metavar or not choices:
        return one.metavar or one.name.upper()
    return "/".join(str(getattr(choice, "value", choice)) for choice in choices)


def _meaning(one: Parameter) -> str:
    text = " ".join((getattr(one, "help", None) or "").split())
    if getattr(one, "multiple", False):
        text += " May be repeated."
    text = re.sub(r"\[default: (.+)\]$", r"Default: `\1`.", text)
    default = getattr(one.default, "value", one.default)
    if default not in _NO_DEFAULT and not callable(default) and not one.required:
        text += f" Default: `{default}`."
    return text.replace("|", "\\|").strip()


def page() -> str:
    """The page as it has to be."""
    return with_commands(PAGE.read_text(encoding="utf-8"))

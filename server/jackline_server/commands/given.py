"""What the server's commands share: the flags that lay over the config, reading it, and ending with a code.

Does not own what a setting means (`config`) nor what a code means (`exit_codes`).
"""

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from jackline_server.config import Config, ConfigError, load_config

_SPAN = re.compile(r"([0-9]{1,6}(?:[.][0-9]{1,3})?)(ms|s|m|h)")
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0}

Flags = Mapping[str, str | int | bool]

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", help="The operator's config, a TOML file.  [default: JACKLINE_CONFIG]"),
]
WorkflowsFolder = Annotated[
    Path | None, typer.Option("--workflows", help="A folder of workflows to import and watch.")
]
DataFolder = Annotated[Path | None, typer.Option("--data", help="The data folder.  [default: ./data]")]
ListenAddress = Annotated[
    str | None,
    typer.Option("--listen", help="HOST:PORT; port 0 takes a free one.  [default: 127.0.0.1:50051]"),
]
InsecureBind = Annotated[bool, typer.Option("--insecure-bind", help="Listen beyond loopback without TLS.")]
MaxActiveRuns = Annotated[
    int | None, typer.Option("--max-active-runs", help="Runs driven at once.  [default: 1000]")
]
DrainGrace = Annotated[
    str | None,
    typer.Option("--drain-grace", help="How long runs may take to a boundary on SIGTERM.  [default: 20s]"),
]
Volatile = Annotated[bool, typer.Option("--volatile", help="Keep everything in memory: for test suites.")]


class Output(StrEnum):
    """How a command prints: for people, or for programs."""

    TEXT = "text"
    JSON = "json"


OutputForm = Annotated[Output, typer.Option("--output", "-o", help="text or json.")]


def flags_given(given: Mapping[str, Path | str | int | bool | None]) -> Flags:
    """The flags that were given, as `load_config` takes them; one that is None or False was not."""
    return {
        name: str(value) if isinstance(value, Path) else value
        for name, value in given.items()
        if value is not None and value is not False
    }


def config_for(command: str, file: Path | None, flags: Flags | None = None, *, code: int) -> Config:
    """The config; else every problem on standard error, and the end with that code."""
    try:
        return load_config(file=file, environ=os.environ, flags=flags or {})
    except ConfigError as error:
        fail(command, code, *(str(problem) for problem in error.problems))


def group(summary: str) -> typer.Typer:
    """A command with commands below it."""
    app = typer.Typer(
        add_completion=False,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        help=summary,
    )
    app.callback()(_keeps_the_name_of_a_single_command)
    return app


def _keeps_the_name_of_a_single_command() -> None:
    """Typer takes a lone command for the group itself, unless the group has a callback."""


def say(*lines: str) -> None:
    """Print lines on standard output, without control characters that others may have put into them."""
    for line in lines:
        sys.stdout.write(f"{printable(line)}\n")


def say_json(value: object) -> None:
    """Print one JSON document on standard output, hidden characters as escapes."""
    text = json.dumps(value, ensure_ascii=False, indent=2, default=float)
    sys.stdout.write(f"{printable_json(text)}\n")


def fail(command: str, code: int, *lines: str) -> NoReturn:
    """Say on standard error what is wrong, and end with the code."""
    for line in lines:
        sys.stderr.write(f"jackline {command}: {printable(line)}\n")
    raise typer.Exit(code)


def printable(text: str) -> str:
    """The text with each control character but line ends and tabs as its escape."""
    return "".join(one if one.isprintable() or one in "\n\t" else ascii(one)[1:-1] for one in text)


def printable_json(text: str) -> str:
    """JSON text that means the same, each hidden character in its texts as JSON's own escape."""
    return "".join(one if one.isprintable() or one == "\n" else json.dumps(one)[1:-1] for one in text)


def indented(lines: Sequence[str], by: str) -> list[str]:
    """The lines, moved to the right."""
    return [f"{by}{line}" if line else line for line in lines]


def span_s(text: str) -> float:
    """A time such as `500ms`, `20s` or `2m` in seconds. Raises typer.BadParameter."""
    found = _SPAN.fullmatch(text)
    if found is None or float(found[1]) == 0:
        raise typer.BadParameter(
            f"{text!r} is no time; write a number with its unit, such as 500ms, 20s or 2m"
        )
    return float(found[1]) * _UNITS_S[found[2]]

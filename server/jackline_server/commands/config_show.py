"""`jackline config show`: the settings in effect, each with where it came from.

Owns how they are printed: as TOML whose comments tell the source, or as JSON. What may be shown is decided
where settings are noted (`config.effective`).
"""

import json
import os
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from jackline_server.commands.given import (
    ConfigFile,
    DataFolder,
    DrainGrace,
    InsecureBind,
    ListenAddress,
    MaxActiveRuns,
    Volatile,
    WorkflowsFolder,
    fail,
    flags_given,
    group,
    say,
    say_json,
)
from jackline_server.config import ConfigError
from jackline_server.exit_codes import EXIT_DATA

if TYPE_CHECKING:
    from jackline_server.config.effective import Effective, Setting, Shown

app = group("Show the operator's config.")

_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_WIDEST = 60


class Form(StrEnum):
    """How the settings are printed."""

    TOML = "toml"
    JSON = "json"


@app.command()
def show(  # noqa: PLR0913 - one parameter a flag
    *,
    config: ConfigFile = None,
    workflows: WorkflowsFolder = None,
    data: DataFolder = None,
    listen: ListenAddress = None,
    max_active_runs: MaxActiveRuns = None,
    drain_grace: DrainGrace = None,
    insecure_bind: InsecureBind = False,
    volatile: Volatile = False,
    output: Annotated[Form, typer.Option("--output", "-o", help="toml or json.")] = Form.TOML,
) -> None:
    """Show the settings in effect and where each came from, as `serve` with these flags would take them.

    Secrets are masked: API keys, headers, the environment of MCP servers, and whatever came by a reference.
    """
    from jackline_server.config.effective import effective_settings  # noqa: PLC0415 - help needs none of it

    flags = flags_given(
        {
            "workflows": workflows,
            "data": data,
            "listen": listen,
            "max_active_runs": max_active_runs,
            "drain_grace": drain_grace,
            "insecure_bind": insecure_bind,
            "volatile": volatile,
        }
    )
    try:
        effective = effective_settings(file=config, environ=os.environ, flags=flags)
    except ConfigError as error:
        fail("config show", EXIT_DATA, *(str(problem) for problem in error.problems))
    if output is Form.JSON:
        say_json(_document(effective))
    else:
        say(*_lines(effective))


def _in_order(settings: Sequence["Setting"]) -> dict[tuple[str, ...], list["Setting"]]:
    """The settings by table, tables in the order of the reference."""
    from jackline_server.config.sections import SECTIONS  # noqa: PLC0415 - see `show`

    tables: dict[tuple[str, ...], list[Setting]] = {}
    for setting in sorted(settings, key=lambda one: SECTIONS.index(one.path[0])):
        tables.setdefault(setting.path[:-1], []).append(setting)
    return tables


# --- JSON --------------------------------------------------------------------------------------


def _document(effective: "Effective") -> dict[str, object]:
    return {
        "file": None if effective.config.file is None else str(effective.config.file),
        "settings": [
            {
                "key": ".".join(setting.path),
                "value": setting.value,
                "from": setting.where,
                "references": list(setting.references),
            }
            for table in _in_order(effective.settings).values()
            for setting in table
        ],
        "notices": list(effective.config.notices),
    }


# --- TOML --------------------------------------------------------------------------------------


def _lines(effective: "Effective") -> Iterator[str]:
    yield f"# config: {effective.config.file or 'no file'}"
    for notice in effective.config.notices:
        yield f"# {notice}"
    for table, settings in _in_order(effective.settings).items():
        yield ""
        yield f"[{'.'.join(map(_key, table))}]"
        written = [(f"{_key(one.path[-1])} = {_value(one.value)}", one) for one in settings]
        width = max((len(text) for text, one in written if one.value is not None), default=0)
        for text, one in written:
            if one.value is None:
                yield f"# {_key(one.path[-1])} is not set"
            else:
                yield f"{text:<{min(width, _WIDEST)}}  # {', '.join((one.where, *one.references))}"


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else json.dumps(key, ensure_ascii=False)


def _value(value: "Shown") -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Decimal):
        return f"{value:f}"
    return json.dumps(value, ensure_ascii=False)

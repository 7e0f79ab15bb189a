"""`jackline tools test` and `jackline tools lock`: what a model would see, one call of it, and its pins.

Owns the words of both. What the tools are is `toolshed`'s, where pins are kept `locking`'s.
"""

import asyncio
import json
import logging
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from jackline_server.commands.given import (
    ConfigFile,
    Output,
    OutputForm,
    WorkflowsFolder,
    config_for,
    fail,
    flags_given,
    group,
    indented,
    say,
    say_json,
)
from jackline_server.config import Config
from jackline_server.core.frozen import frozen
from jackline_server.exit_codes import EXIT_DATA, EXIT_FOUND, EXIT_UNAVAILABLE, EXIT_USAGE

if TYPE_CHECKING:
    from jackline_server.bootstrap import Workbench
    from jackline_server.commands.tool_search import Found
    from jackline_server.commands.toolshed import Group, NoTools, Shown
    from jackline_server.runtime.ports.tools import ToolResult

app = group("Try the tools of a config, and pin those of servers.")

_TEST = "tools test"
_LOCK = "tools lock"
_HARMLESS = "read"
_NAMED = 30
"""As many tools are named to one who has named another."""


@frozen
class _Wanted:
    """Which tools: of a connection, of a workflow, or all of the config."""

    connection: str | None
    workflow: Path | None
    step: str | None


@app.command("test")
def try_tools(  # noqa: PLR0913 - one parameter a flag
    tool: Annotated[str | None, typer.Argument(help="The tool to call; left out: list them.")] = None,
    *,
    connection: Annotated[
        str | None, typer.Option(help="Only the tools of this MCP or gRPC connection.", metavar="NAME")
    ] = None,
    workflow: Annotated[
        Path | None, typer.Option(help="The tools of this workflow's agents.", metavar="FILE")
    ] = None,
    step: Annotated[
        str | None, typer.Option(help="With --workflow: of this step alone.", metavar="ID")
    ] = None,
    arguments: Annotated[
        str, typer.Option("--args", help="What the tool is called with: a JSON object.", metavar="JSON")
    ] = "{}",
    yes: Annotated[bool, typer.Option("--yes", help="Call a tool that may change something.")] = False,
    config: ConfigFile = None,
    workflows: WorkflowsFolder = None,
    output: OutputForm = Output.TEXT,
) -> None:
    """Show tools as a model would see them, or call one of them once.

    Without --connection and --workflow: the tools of every MCP and gRPC connection and of every workflow
    of the folder. To call one, a step of a flow may be named as well. A call takes the way of a call in a
    run, and what is printed is the text that the model would get, cut as the step says. The exit code is 1 if
    the tool fails.
    """
    if connection is not None and workflow is not None:
        raise typer.BadParameter("give --connection or --workflow, not both")
    if step is not None and workflow is None:
        raise typer.BadParameter("--step belongs to --workflow")
    given = _json_object(arguments)
    loaded = config_for(_TEST, config, flags_given({"workflows": workflows}), code=EXIT_DATA)
    _note_no_file(_TEST, loaded)
    wanted = _Wanted(connection=connection, workflow=workflow, step=step)
    if tool is None:
        _run(_TEST, lambda: _listed(loaded, wanted, output))
    else:
        _run(_TEST, lambda: _called(loaded, wanted, tool, given, may_change=yes, output=output))


@app.command()
def lock(
    names: Annotated[
        list[str] | None, typer.Argument(help="MCP and gRPC connections.", metavar="[NAME]...")
    ] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Every one of them.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 1 if there is a change.")
    ] = False,
    config: ConfigFile = None,
    workflows: WorkflowsFolder = None,
    output: OutputForm = Output.TEXT,
) -> None:
    """Pin the tools of MCP and gRPC servers as they are now, and show what has changed since then.

    Writes the file that `lock` of the connection names; without one, connections/NAME.lock beside each
    workflow of the folder that uses the connection.
    """
    if bool(names) == every:
        raise typer.BadParameter("name connections, or give --all")
    loaded = config_for(_LOCK, config, flags_given({"workflows": workflows}), code=EXIT_DATA)
    _note_no_file(_LOCK, loaded)
    from jackline_server.commands.locking import locked  # noqa: PLC0415 - help needs none of it

    _run(_LOCK, lambda: locked(loaded, names or [], check=check, output=output))


def _note_no_file(command: str, config: Config) -> None:
    """Say that there is no config: what it would declare is then missing for no other reason."""
    if config.file is None:
        words = "no config file is read; name one with --config or JACKLINE_CONFIG"
        sys.stderr.write(f"jackline {command}: {words}\n")


def _run(command: str, work: Callable[[], Coroutine[Any, Any, int]]) -> None:
    """Do it, and end with its code, or with that of what keeps it from being done.

    The work begins here: without the server extra the import fails, and nothing is left that nobody awaits.
    """
    from jackline_server.commands.toolshed import NoTools  # noqa: PLC0415 - help needs none of it

    logging.getLogger().addHandler(logging.NullHandler())  # what is worth saying is said here
    try:
        code = asyncio.run(work())
    except NoTools as refused:
        fail(command, _code_of(refused), *refused.lines)
    raise typer.Exit(code)


def _json_object(text: str) -> dict[str, Any]:
    if text == "-":
        text = sys.stdin.read()
    try:
        value: object = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise typer.BadParameter(f"--args is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise typer.BadParameter('--args is a JSON object, such as \'{"order_id": "A-1"}\'')
    return cast("dict[str, Any]", value)


# --- list --------------------------------------------------------------------------------------


async def _listed(config: Config, wanted: _Wanted, output: Output) -> int:
    from jackline_server.bootstrap import workbench  # noqa: PLC0415 - help needs none of it
    from jackline_server.commands import tool_search, toolshed  # noqa: PLC0415 - see above

    async with workbench(config) as bench:
        if wanted.connection is not None:
            _require_connection(config, wanted.connection)
            groups = [await toolshed.group_of_connection(wanted.connection, bench)]
        elif wanted.workflow is not None:
            groups = [await toolshed.group_of_workflow(wanted.workflow, bench, step_id=wanted.step)]
        else:
            groups = await tool_search.every_tool(config, bench)
    is_one = wanted.connection is not None or wanted.workflow is not None
    if is_one and groups[0].refused is not None:
        raise groups[0].refused
    if output is Output.JSON:
        say_json(
            [
                {
                    "of": one.title,
                    "tools": [_as_json(tool) for tool in one.tools],
                    "problems": list(one.refused.lines if one.refused else ()),
                }
                for one in groups
            ]
        )
    else:
        for one in groups:
            say(one.title, *indented(list(_group_lines(one)), "  "))
        if not groups:
            say("there are no MCP or gRPC connections and no workflows; name a file with --workflow")
    return max((_code_of(one.refused) for one in groups if one.refused), default=0)


def _group_lines(group: "Group") -> Iterator[str]:
    if group.refused is not None:
        yield from group.refused.lines
    elif not group.tools:
        yield "no tools"
    for tool in group.tools:
        yield from _lines(tool)


def _code_of(refused: "NoTools") -> int:
    return EXIT_UNAVAILABLE if refused.unavailable else EXIT_DATA


def _require_connection(config: Config, name: str) -> None:
    from jackline_server.definitions.catalog import nearest  # noqa: PLC0415 - help needs none of it

    if name in config.connections:
        what = f"{name} is a connection of kind http: its tools are steps of workflows"
        fail(_TEST, EXIT_USAGE, f"{what}; name one with --workflow FILE")
    if name in config.worker_connections:
        what = f"{name} is a pool of workers, which are connected to a server"
        fail(_TEST, EXIT_USAGE, f"{what}: jackline workers {name} shows them and their tools")
    if name not in config.pinned_connections:
        hint = nearest(name, config.pinned_connections)
        fail(_TEST, EXIT_USAGE, f"there is no MCP or gRPC connection `{name}` in the config{hint}")


def _lines(tool: "Shown") -> Iterator[str]:
    yield f"{tool.name}  [{tool.effect}]"
    yield from indented(tool.description.splitlines() or ["(no description)"], "    ")
    yield f"    from {tool.origin}{f'; {tool.pin}' if tool.pin else ''}"
    if tool.bound:
        yield f"    set by the engine in a run: {', '.join(tool.bound)}"
    yield f"    parameters: {json.dumps(tool.parameters, ensure_ascii=False)}"
    if tool.refusal:
        yield f"    can't be used: {tool.refusal}"


def _as_json(tool: "Shown") -> dict[str, object]:
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "bound": list(tool.bound),
        "effect": tool.effect,
        "from": tool.origin,
        "pin": tool.pin,
        "refusal": tool.refusal,
    }


# --- call --------------------------------------------------------------------------------------


async def _called(
    config: Config, wanted: _Wanted, name: str, given: dict[str, Any], *, may_change: bool, output: Output
) -> int:
    from jackline_server.bootstrap import workbench  # noqa: PLC0415 - help needs none of it
    from jackline_server.commands import tool_sight  # noqa: PLC0415 - see above
    from jackline_server.runtime.ports.tools import ToolEnding  # noqa: PLC0415 - see above

    async with workbench(config) as bench:
        tool = _named(await _found(config, wanted, bench, name), name)
        _require_callable(tool)
        if tool.effect != _HARMLESS and not may_change:
            fail(_TEST, EXIT_USAGE, f"{tool.name} may change something ({tool.effect}): add --yes to call it")
        invocation = _invocation(tool, given)
        started = time.monotonic()
        result = await bench.toolbox.call(invocation)
        took_ms = round((time.monotonic() - started) * 1000)
    text = tool_sight.told(tool, invocation.arguments, result)
    notes = list(tool_sight.notes(result, text))
    if output is Output.JSON:
        seen = {"seen_by_model": text, "notes": notes}
        say_json({"tool": tool.name, "duration_ms": took_ms, **_result(result), **seen})
    else:
        say(f"{tool.name}: {result.ending.value} in {took_ms} ms; the model is told")
        say(*text.split("\n"), *(f"({note})" for note in notes))
    return 0 if result.ending is ToolEnding.COMPLETED else EXIT_FOUND


async def _found(config: Config, wanted: _Wanted, bench: "Workbench", name: str) -> "Found":
    """Wherever the tool of that name may be."""
    from jackline_server.commands import tool_search, toolshed  # noqa: PLC0415 - help needs none of it

    if wanted.connection is not None:
        _require_connection(config, wanted.connection)
        group = await toolshed.group_of_connection(wanted.connection, bench)
        return tool_search.Found(groups=[group], names=())
    if wanted.workflow is not None:
        return await tool_search.tool_of_workflow(wanted.workflow, bench, name, step_id=wanted.step)
    return await tool_search.one_tool(config, bench, name)


def _named(found: "Found", name: str) -> "Shown":
    """The tool of that name. Raises NoTools if it may be one of those that can't be had."""
    from jackline_server.definitions.catalog import nearest  # noqa: PLC0415 - help needs none of it

    groups = found.groups
    tools = [tool for group in groups for tool in group.tools]
    alike = [one for one in tools if one.answers_to(name)]
    exact = [one for one in alike if one.name == name] or alike
    refused = [group.refused for group in groups if group.refused is not None]
    if not exact and refused:
        raise refused[0]
    if not exact:
        names = sorted({*found.names, *(one.name for one in tools)})
        fail(_TEST, EXIT_USAGE, f"there is no tool `{name}`{nearest(name, names)}", _there_are(names))
    if len({one.origin for one in exact}) > 1:
        origins = ", ".join(dict.fromkeys(one.origin for one in exact))
        fail(_TEST, EXIT_USAGE, f"`{name}` is the name of several: {origins}; say --connection or --workflow")
    if any(not _calls_alike(one, exact[0]) for one in exact):
        titles = ", ".join(group.title for group in groups if any(one in exact for one in group.tools))
        what = f"`{name}` is not the same tool everywhere ({titles}): what it does or may change differs"
        fail(_TEST, EXIT_USAGE, f"{what}; say --connection or --workflow")
    return exact[0]


def _there_are(names: Sequence[str]) -> str:
    if not names:
        return "there are none; name a file with --workflow"
    more = f", and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"there are {', '.join(names[:_NAMED])}{more}"


def _require_callable(tool: "Shown") -> None:
    """Ends the command for a tool that is only to be had where runs are."""
    from jackline_server.core.plan import (  # noqa: PLC0415 - help needs none of it
        ChildAction,
        HumanAction,
        WorkerAction,
    )

    match None if tool.step is None else tool.step.action:
        case ChildAction():
            what = f"{tool.name} is a run of its own ({tool.origin}), and runs are a server's"
        case HumanAction():
            what = f"{tool.name} asks a person, who answers at a server"
        case WorkerAction(connection=pool):
            what = (
                f"{tool.name} is served by workers, which are connected to a server (jackline workers {pool})"
            )
        case _:
            return
    fail(_TEST, EXIT_USAGE, f"{what}: try it with `jackline run` and a workflow that calls it")


def _calls_alike(one: "Shown", other: "Shown") -> bool:
    """True if a call of either is the same call, whatever its step is named and wherever it stands."""
    from jackline_server.core.frozen import change  # noqa: PLC0415 - help needs none of it

    if one.step is None or other.step is None:
        return one.step is other.step and one.effect == other.effect
    nowhere: dict[str, str] = {}
    placeless = {"step_id": "", "routes": nowhere, "next_step": "", "output_key": "", "description": ""}
    return change(one.step, **placeless) == change(other.step, **placeless)


def _invocation(tool: "Shown", given: dict[str, Any]):  # noqa: ANN202 - a type whose module is loaded late
    """The call as the runtime would make it. What a run takes from its context comes from --args as well."""
    from jackline_server.expressions.schemas import JsonSchemas  # noqa: PLC0415 - help needs none of it
    from jackline_server.runtime.ports.tools import Invocation  # noqa: PLC0415 - see above

    if tool.step is None:
        fail(_TEST, EXIT_DATA, f"{tool.name} can't be used: {tool.refusal}")
    of_context = {name for name in (*tool.bound, *tool.given_by_step) if name in given}
    arguments = {name: value for name, value in given.items() if name not in of_context}
    misfit = JsonSchemas().problem(json.dumps(tool.parameters), arguments)
    if misfit is not None:
        fail(_TEST, EXIT_USAGE, f"--args does not fit the parameters of {tool.name}: {misfit}")
    return Invocation(
        step=tool.step,
        run_id="run_of_tools_test",
        call_key=f"tools-test-{time.time_ns()}",
        attempt=1,
        arguments=arguments,
        bound={name: given[name] for name in tool.bound if name in given},
        step_input={name: given[name] for name in tool.given_by_step if name in given},
        subject={},
        timeout_ms=tool.step.timeout_ms,
    )


def _result(result: "ToolResult") -> dict[str, object]:
    output = None if result.output_json is None else json.loads(result.output_json)
    return {
        "status": result.ending.value,
        "output": output,
        "error": result.error,
        "cut_from_bytes": result.cut_from_bytes,
    }

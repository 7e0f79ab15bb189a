"""The entry point of the `jackline` command.

Owns the table of commands and loading one when it is called: `--help` and `--version` start without gRPC. A
command is a typer function, or a typer application for a group; those of the server extra come by the entry
point group `jackline.commands`. Does not own any command.
"""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from jackline_client.cli.exit_codes import ExitCode, exit_code_table
from jackline_client.cli.printable import printable_lines
from jackline_client.cli.streams import OutputLost, heed_lost_output, lost_output, prepare_streams

_GROUP = "jackline.commands"
_COMPLETING = "_JACKLINE_COMPLETE"
_INSTALL_SERVER = "pip install 'jackline[server]'"
_ANY_ARGUMENTS: Mapping[str, object] = {
    "ignore_unknown_options": True,
    "allow_extra_args": True,
    "help_option_names": [],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Own:
    target: str
    summary: str


_OWN: Mapping[str, _Own] = {
    "run": _Own(target="running:run", summary="Start a run and show it until it ends."),
    "watch": _Own(target="running:watch", summary="Show a run from its first event until it ends."),
    "fork": _Own(target="forking:fork", summary="Start a run from the first events of another."),
    "get": _Own(target="reading:get", summary="Show where a run stands and what it came to."),
    "ls": _Own(target="reading:ls", summary="List runs, newest first."),
    "pause": _Own(target="controlling:pause", summary="Hold a run before its next call."),
    "resume": _Own(target="controlling:resume", summary="Let a paused run go on."),
    "steer": _Own(target="controlling:steer", summary="Put guidance into a run's conversation."),
    "abort": _Own(target="controlling:abort", summary="End a run."),
    "bulk": _Own(target="bulk:app", summary="Give every run that matches one command."),
    "kill": _Own(target="killing:kill", summary="End every run, and let none begin; or release that."),
    "answer": _Own(target="answering:answer", summary="Answer an open question of a run."),
    "approve": _Own(target="approving:approve", summary="Let a tool call start that waits for it."),
    "reject": _Own(target="approving:reject", summary="Do not let a tool call start that waits."),
    "submit": _Own(target="controlling:submit", summary="Say what a tool call of unknown outcome returned."),
    "adjust": _Own(target="adjusting:adjust", summary="Change the bounds of a live run."),
    "inbox": _Own(target="reading:inbox", summary="List the open questions of all runs."),
    "calls": _Own(target="inspecting:calls", summary="List the tool calls of a run."),
    "result": _Own(target="results:result", summary="Print the whole result of a tool call."),
    "explain": _Own(target="explaining:explain_run", summary="Show why a run ended, from its log."),
    "messages": _Own(
        target="inspecting:messages", summary="Show the conversation of a step as the model saw it."
    ),
    "threads": _Own(target="threads:app", summary="List, read and append to conversations."),
    "workflow": _Own(target="workflows:app", summary="List, read, put and describe workflows."),
    "workers": _Own(target="workers:workers", summary="List the pools of tool workers, and who serves them."),
    "connections": _Own(
        target="connections:connections", summary="List what a server reaches, and how that goes just now."
    ),
    "webhooks": _Own(
        target="webhooks:app", summary="List webhooks and deliveries, send one again, try one out."
    ),
    "validate": _Own(target="checking:validate", summary="Check a workflow file."),
    "info": _Own(target="inspecting:info", summary="Show what a server is and what it serves."),
    "context": _Own(target="contexts:app", summary="Name servers, and choose the one that commands talk to."),
    "token": _Own(target="tokens:app", summary="Print the token for a server."),
}
# Listed also where the server extra, which brings them, is not installed.
_SERVER: Mapping[str, str] = {
    "serve": "Run a server.",
    "init": "Write a first project: a config and a workflow.",
    "config": "Show the server's config as it is read.",
    "doctor": "Check that a server could start and reach what it needs.",
    "tools": "Try tools out, and pin those of MCP servers.",
    "schema": "Print the JSON Schema of the files.",
    "eval": "Run cases, and say which came out as expected.",
    "replay": "Decide recorded runs again, and show the first step that differs.",
    "backup": "Copy the data of a server, which may run, to a file.",
    "restore": "Put a copy in the place of the data of a stopped server.",
    "health": "Ask whether a server serves.",
}


class LazyGroup(TyperGroup):
    """A group that knows its commands by name and loads the one that is called."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 - typer 0.20 and 0.29 have different classes for it
        """Names all commands, loading none."""
        return [*_OWN, *_SERVER, *sorted(set(_provided()) - {*_OWN, *_SERVER})]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401 - see above
        """Returns a stand-in that carries the summary: help asks for every command."""
        if cmd_name not in self.list_commands(ctx):
            return None
        summary = (
            _OWN[cmd_name].summary if cmd_name in _OWN else _SERVER.get(cmd_name, "Provided by the server.")
        )
        return _command(cmd_name, lambda: None, summary=summary)

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - see above
        """Calls the command. What is said to be wrong with a line may quote a server."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = "\n".join(printable_lines(error.message))
            raise

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - see above
        """Loads the command that is called."""
        name = args[0]
        if name not in self.list_commands(ctx):
            return super().resolve_command(ctx, args)
        if name not in _OWN and not ctx.resilient_parsing:
            for flag in ("address", "context"):
                if ctx.params.get(flag) is not None:
                    ctx.fail(
                        f"`{name}` takes no --{flag} before it; `jackline {name} --help` has what it takes"
                    )
        return name, _command(name, _load(name)), args[1:]


@cache
def _provided() -> Mapping[str, EntryPoint]:
    """The commands of the server extra; looking for them means reading the metadata of every distribution."""
    return {found.name: found for found in entry_points(group=_GROUP)}


def _load(name: str) -> Any:  # noqa: ANN401 - a typer function of any signature, or an application
    if name in _OWN:
        module, _, attribute = _OWN[name].target.partition(":")
        return getattr(import_module(f"jackline_client.cli.commands.{module}"), attribute)
    found = _provided().get(name)
    if found is None:
        return _missing(name, None)
    try:
        return found.load()
    except ModuleNotFoundError as error:
        return _missing(name, error.name)


def _missing(name: str, module: str | None) -> Callable[..., None]:
    def stand_in() -> None:
        typer.echo(_what_to_install(f"`{name}`", module), err=True)
        raise typer.Exit(ExitCode.USAGE)

    return stand_in


def _what_to_install(what: str, module: str | None) -> str:
    why = f" ({module} is missing)" if module else ""
    return f"jackline: {what} needs the server{why}: {_INSTALL_SERVER}"


def _command(name: str, target: Any, *, summary: str | None = None) -> Any:  # noqa: ANN401 - see `_load`
    if isinstance(target, typer.Typer):
        return typer.main.get_command(target)
    holder = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    is_stand_in = getattr(target, "__name__", "") == "stand_in"
    holder.command(name, help=summary, context_settings=dict(_ANY_ARGUMENTS) if is_stand_in else None)(target)
    command = typer.main.get_command(holder)
    command.name = name
    return command


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Start, watch and steer bounded agent runs on a Jackline server.",
    epilog="Exit codes:\n\n\b\n" + exit_code_table(),
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"jackline {_version()}")
        raise typer.Exit


def _version() -> str:
    try:
        return version("jackline")
    except PackageNotFoundError:
        return "(not installed as a package)"


def _complete_contexts(incomplete: str) -> list[str]:
    from jackline_client.cli.completing import contexts  # noqa: PLC0415 - help and version do without it

    return contexts(incomplete)


@app.callback()
def root(
    *,
    address: Annotated[
        str | None,
        typer.Option("--address", metavar="HOST:PORT", help="The server; may stand after the command too."),
    ] = None,
    context: Annotated[
        str | None,
        typer.Option(
            "--context",
            metavar="NAME",
            autocompletion=_complete_contexts,
            help="The server by its name; may stand after the command too.",
        ),
    ] = None,
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Start, watch and steer bounded agent runs on a Jackline server."""


def main() -> None:
    """Runs the command line of this process and exits."""
    prepare_streams()
    if _COMPLETING in os.environ:
        # A shell that completes is in the middle of somebody's line: nothing may be written into it.
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - lives as long as the process
    # gRPC's C core would write its own lines about lost connections between ours.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        _run_to_its_end()
    except OutputLost as lost:
        heed_lost_output()
        for line in lost.lines():
            typer.echo(line, err=True)
        sys.exit(lost.code)
    except UnicodeEncodeError as error:
        # A byte of the command line that is no UTF-8, or JSON that names half of a pair: no request has it.
        if not 0xD800 <= ord(error.object[error.start]) <= 0xDFFF:  # noqa: PLR2004 - surrogates
            raise
        where = f"its character {error.start + 1} is no whole one"
        typer.echo(f"jackline: what was given is not UTF-8: {where}; write it anew", err=True)
        sys.exit(ExitCode.USAGE)
    except ModuleNotFoundError as error:
        # A command that loads what it needs only when it runs. What we bring ourselves is never missing.
        if (error.name or "jackline").partition(".")[0] in {"jackline", "jackline_client"}:
            raise
        typer.echo(_what_to_install("this command", error.name), err=True)
        sys.exit(ExitCode.USAGE)


def _run_to_its_end() -> None:
    """Calls the command and exits with its code. Raises OutputLost if all went well but for the output."""
    try:
        app(prog_name="jackline")
    except SystemExit as end:
        sys.stdout.flush()
        if not end.code and (lost := lost_output()) is not None:
            raise lost from None
        raise


if __name__ == "__main__":
    main()

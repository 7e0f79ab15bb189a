"""`jackline context ls`, `show`, `use`, `set` and `rm`."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from jackline_client.cli import completing
from jackline_client.cli.context_file import (
    Context,
    ContextError,
    Contexts,
    check_name,
    check_variable,
    contexts_path,
    read_contexts,
    write_contexts,
)
from jackline_client.cli.exit_codes import ExitCode, exit_code_of_error
from jackline_client.cli.forms import Column, Listing, Output, chosen_form
from jackline_client.cli.options import AddressOption, ContextOption, JsonOption, OutputOption
from jackline_client.cli.screen import Screen, make_screen
from jackline_client.cli.server_choice import ADDRESS_VARIABLE, CONTEXT_VARIABLE, Named
from jackline_client.cli.wording import Line
from jackline_client.credentials import check_address, is_loopback
from jackline_client.errors import CredentialError, JacklineError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Name servers, and choose the one that commands talk to.",
)

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The context.", autocompletion=completing.contexts)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A context, or a server that comes from elsewhere and has no name."""

    name: str
    address: str
    token: str
    """Where its token is, never the token."""
    is_current: bool
    source: str = ""


def _document(row: _Row) -> Mapping[str, object]:
    found = {"name": row.name, "address": row.address, "token": row.token, "source": row.source}
    return {key: value for key, value in found.items() if value} | {"current": row.is_current}


_LISTING: Listing[_Row] = Listing(
    columns=(
        Column(head="CURRENT", width=7, cell=lambda row: "*" if row.is_current else ""),
        Column(head="CONTEXT", width=20, cell=lambda row: row.name),
        Column(head="ADDRESS", width=30, limit=120, cell=lambda row: row.address),
        Column(head="TOKEN", is_wide=True, limit=300, cell=lambda row: row.token),
    ),
    name=lambda row: row.name,
    none="no contexts; `jackline context set NAME --address HOST:PORT` adds one",
    document=_document,
)


@app.command("ls")
def list_contexts(*, output: OutputOption = None, as_json: JsonOption = False) -> None:
    """List the contexts by name; a star is at the current one."""
    form = chosen_form(output, as_json)

    def work(screen: Screen) -> None:
        contexts = read_contexts(contexts_path())
        shown = Output(screen=screen, listing=_LISTING, form=form)
        for name in sorted(contexts.by_name):
            shown.item(_row(contexts.by_name[name], is_current=name == contexts.current))
        shown.end()

    _carry_out(work)


@app.command("show")
def show_context(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="The context. Left out: what a command would use now.",
            autocompletion=completing.contexts,
        ),
    ] = None,
    *,
    output: OutputOption = None,
    as_json: JsonOption = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """Show which server a command would talk to, why, and where its token comes from. Never the token."""
    form = chosen_form(output, as_json)
    if name is not None and (address or context):
        raise typer.BadParameter("NAME and a flag both name a server; give one of them")

    def work(screen: Screen) -> None:
        contexts = read_contexts(contexts_path())
        if name is not None:
            found = contexts.named(name, source=name)
            row = _row(found, is_current=name == contexts.current)
        else:
            row = _chosen(Named(address=address, context=context), contexts)
        Output(screen=screen, listing=_LISTING, form=form, lines=_lines).item(row)

    _carry_out(work)


@app.command("use")
def use_context(name: NameArgument) -> None:
    """Make a context the current one: commands talk to its server from now on."""

    def work(screen: Screen) -> None:
        path = contexts_path()
        contexts = read_contexts(path)
        found = contexts.named(name, source="use")
        write_contexts(path, replace(contexts, current=name))
        screen.line(f"commands talk to {found.address} now", style="good")
        for variable in (ADDRESS_VARIABLE, CONTEXT_VARIABLE):
            if os.environ.get(variable):
                screen.problem(f"jackline: warning: {variable} is set, which wins over the current context")

    _carry_out(work)


@app.command("set")
def set_context(
    name: NameArgument,
    *,
    address: Annotated[
        str | None, typer.Option("--address", metavar="HOST:PORT", help="The server; needed for a new one.")
    ] = None,
    token_file: Annotated[
        str | None,
        typer.Option(
            "--token-file", metavar="FILE", help="The file its token is in, which only you may read."
        ),
    ] = None,
    token_env: Annotated[
        str | None,
        typer.Option(
            "--token-env", metavar="VARIABLE", help="The variable its token is in, in place of a file."
        ),
    ] = None,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Forget where its token is; the usual places are looked at.")
    ] = False,
    use: Annotated[bool, typer.Option("--use", help="Make it the current one too.")] = False,
) -> None:
    """Name a server, or change what a name stands for; what is not given stays.

    A token is never kept here, only where one is.
    """
    if (token_file is not None) + (token_env is not None) + no_token > 1:
        raise typer.BadParameter("give one of --token-file, --token-env, --no-token")

    def work(screen: Screen) -> None:
        path = contexts_path()
        contexts = read_contexts(path)
        old = contexts.by_name.get(check_name(name))
        if old is None and not address:
            raise ContextError(f"{name} is new: give its address with --address")
        made = old if old is not None else Context(name=name, address="")
        if address:
            made = replace(made, address=check_address(address, source="--address"))
        if token_file is not None or token_env is not None or no_token:
            made = replace(
                made,
                token_file=str(Path(token_file).expanduser().absolute()) if token_file else "",
                token_env=check_variable(token_env) if token_env else "",
            )
        write_contexts(
            path,
            Contexts(by_name={**contexts.by_name, name: made}, current=name if use else contexts.current),
        )
        screen.line(f"{name} is {made.address}" + (", the current context" if use else ""), style="good")
        if made.token_file and not Path(made.token_file).is_file():
            screen.problem(f"jackline: warning: there is no file {made.token_file} yet")

    _carry_out(work)


@app.command("rm")
def remove_context(name: NameArgument) -> None:
    """Remove a context. If it is the current one, none is afterwards."""

    def work(screen: Screen) -> None:
        path = contexts_path()
        contexts = read_contexts(path)
        contexts.named(name, source="rm")
        left = {other: context for other, context in contexts.by_name.items() if other != name}
        current = "" if contexts.current == name else contexts.current
        write_contexts(path, Contexts(by_name=left, current=current))
        screen.line(f"{name} is removed" + ("; no context is current" if not current else ""))

    _carry_out(work)


def _row(context: Context, *, is_current: bool) -> _Row:
    token = f"the file {context.token_file}" if context.token_file else ""
    token = f"the variable {context.token_env}" if context.token_env else token
    return _Row(name=context.name, address=context.address, token=token, is_current=is_current)


def _chosen(named: Named, contexts: Contexts) -> _Row:
    chosen = named.choose()
    name = chosen.context.name if chosen.context is not None else ""
    try:
        state = "found" if chosen.token() is not None else "none there"
    except CredentialError as error:
        state = str(error)
    return _Row(
        name=name,
        address=chosen.address,
        token=f"{state}; looked at {chosen.token_sources()}",
        is_current=bool(name) and name == contexts.current,
        source=chosen.source,
    )


def _lines(row: _Row) -> Iterator[Line]:
    for label, value in (
        ("context", row.name or "none"),
        ("address", row.address),
        ("named by", row.source),
        ("token", row.token or "looked for in the usual places"),
    ):
        if value:
            yield Line(text=f"{label:<9} {value}")
    if not is_loopback(row.address):
        yield Line(text="          the connection is not encrypted", style="ask")


def _carry_out(work: Callable[[Screen], None]) -> None:
    screen = make_screen()
    try:
        work(screen)
    except JacklineError as error:
        screen.problem(f"jackline: {error}")
        raise typer.Exit(exit_code_of_error(error)) from error
    raise typer.Exit(ExitCode.OK)

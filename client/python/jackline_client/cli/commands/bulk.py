"""`jackline bulk`: one command to every run that matches, which is shown first and given only with --yes."""

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, cast

import typer

import jackline_client
from jackline.v1.bulk_control_pb2 import BulkResult
from jackline.v1.error_reason_pb2 import ErrorReason
from jackline.v1.run_pb2 import RunState
from jackline_client.cli import completing
from jackline_client.cli.exit_codes import ExitCode
from jackline_client.cli.forms import Column, Form, Listing, Output, chosen_form
from jackline_client.cli.given import read_labels, read_seconds, read_states
from jackline_client.cli.options import AddressOption, ContextOption, JsonOption, OutputOption, ReasonOption
from jackline_client.cli.said_words import read_words
from jackline_client.cli.screen import Screen
from jackline_client.cli.server_choice import Named
from jackline_client.cli.session import carry_out
from jackline_client.cli.wording import count, enum_word

if TYPE_CHECKING:
    from jackline_client import JacklineClient, RunFilter

_LARGEST_PAGE = 500

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="Give every run that matches one command: which they are is shown first, and --yes gives it.",
)

AllOption = Annotated[bool, typer.Option("--all", help="Every run that lives; needed without a filter.")]
StateOption = Annotated[
    list[str] | None,
    typer.Option("--state", metavar="STATE", help="Such as paused.", autocompletion=completing.run_states),
]
WorkflowOption = Annotated[
    str | None,
    typer.Option(
        "--workflow", metavar="NAME", help="Only of this workflow.", autocompletion=completing.workflows
    ),
]
LabelOption = Annotated[
    list[str] | None, typer.Option("--label", metavar="KEY=VALUE", help="Only with these.")
]
ThreadOption = Annotated[
    str | None,
    typer.Option("--thread", metavar="ID", help="Only of this thread.", autocompletion=completing.threads),
]
ParentOption = Annotated[
    str | None,
    typer.Option(
        "--parent", metavar="RUN", help="Only those that this one started.", autocompletion=completing.runs
    ),
]
OlderOption = Annotated[
    str | None,
    typer.Option("--older-than", metavar="TIME", help="Only those that began so long ago, such as 1h."),
]
NewerOption = Annotated[
    str | None, typer.Option("--newer-than", metavar="TIME", help="Only those that began since, such as 10m.")
]
YesOption = Annotated[bool, typer.Option("--yes", help="Give the command; without it nothing is sent.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class _How:
    """What is to be done with the runs, why, and how it is shown."""

    name: str
    reason: str
    sure: bool
    form: Form | None
    server: Named


def _filter(
    *,
    every: AllOption = False,
    state: StateOption = None,
    workflow: WorkflowOption = None,
    label: LabelOption = None,
    thread: ThreadOption = None,
    parent: ParentOption = None,
    older: OlderOption = None,
    newer: NewerOption = None,
) -> "RunFilter | None":
    """The filter; None for every run. Refuses none at all, one beside --all, and an option with nothing.

    A script gives that whose variable is empty; overlooked, it would be more runs than were meant.
    """
    if "" in (workflow, thread, parent, older, newer):
        raise typer.BadParameter("an option of the filter is empty: nothing was done")
    found = jackline_client.RunFilter(
        states=read_states(state or []),
        workflow=workflow or "",
        labels=read_labels(label or ()),
        created_before=_ago(older, "--older-than"),
        created_after=_ago(newer, "--newer-than"),
        thread_id=thread or "",
        parent_run_id=parent or "",
    )
    empty = found == jackline_client.RunFilter()
    if empty and not every:
        raise typer.BadParameter("say which runs, such as with --workflow NAME, or --all for every one")
    if every and not empty:
        raise typer.BadParameter("--all is every run that lives; leave it out, or the filter")
    return None if empty else found


def _manner(
    name: str,
    *,
    reason: ReasonOption = "",
    sure: YesOption = False,
    output: OutputOption = None,
    as_json: JsonOption = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> _How:
    server = Named(address=address, context=context)
    return _How(name=name, reason=reason, sure=sure, form=chosen_form(output, as_json), server=server)


def _to_many(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options that all of these have, in place of its `runs` and `how`."""
    before, own, after = (_parameters(one) for one in (_filter, command, _manner))
    words = [one for one in own if one.kind is one.POSITIONAL_OR_KEYWORD and one.name not in ("runs", "how")]
    flags = [one for one in own if one.kind is one.KEYWORD_ONLY]
    shown = [*words, *before, *flags, *(one for one in after if one.kind is one.KEYWORD_ONLY)]

    @functools.wraps(command)
    def given(**options: object) -> None:
        filtered = {one.name: options.pop(one.name) for one in before}
        manner = {one.name: options.pop(one.name) for one in after if one.name in options}
        call = cast("Callable[..., RunFilter | None]", _filter)
        command(call(**filtered), cast("Callable[..., _How]", _manner)(command.__name__, **manner), **options)

    given.__annotations__ = {one.name: one.annotation for one in shown}
    given.__signature__ = inspect.Signature(shown)  # pyright: ignore[reportAttributeAccessIssue] - what typer reads
    return given


def _parameters(function: Callable[..., object]) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())


_Give = Callable[["JacklineClient", bool], AsyncGenerator[BulkResult]]
"""Gives the command, or only says to which runs."""


def _ago(text: str | None, flag: str) -> datetime | None:
    if not text:
        return None
    try:
        return datetime.now(UTC) - timedelta(seconds=read_seconds(text, flag=flag))
    except OverflowError:
        raise typer.BadParameter(f"{flag} {text!r} is longer ago than the year 1") from None


def _outcome(result: BulkResult) -> str:
    if result.refusal:
        return f"refused ({enum_word(ErrorReason.Name, result.refusal, 'ERROR_REASON_').upper()})"
    if not result.HasField("receipt"):
        return ""
    if result.receipt.already_terminal:
        return "had ended"
    return "given before" if result.receipt.repeated else "given"


RESULTS: Listing[BulkResult] = Listing(
    columns=(
        Column(head="RUN", width=30, cell=lambda one: one.run_id),
        Column(head="STATE", width=12, cell=lambda one: enum_word(RunState.Name, one.state, "RUN_STATE_")),
        Column(head="WORKFLOW", width=20, cell=lambda one: one.workflow),
        Column(head="COMMAND", cell=_outcome),
    ),
    name=lambda one: one.run_id,
    none="no run matches",
)


@app.command("pause")
@_to_many
def pause(runs: "RunFilter | None", how: _How) -> None:
    """Hold every run that matches before its next call."""
    _carry_out(
        lambda client, preview: client.bulk.pause(
            runs, reason=how.reason, preview=preview, page_size=_LARGEST_PAGE
        ),
        how,
    )


@app.command("resume")
@_to_many
def resume(runs: "RunFilter | None", how: _How) -> None:
    """Let every run that matches go on, if it is paused or about to be; others go on as they do."""
    _carry_out(
        lambda client, preview: client.bulk.resume(
            runs, reason=how.reason, preview=preview, page_size=_LARGEST_PAGE
        ),
        how,
    )


@app.command("steer")
@_to_many
def steer(
    runs: "RunFilter | None",
    how: _How,
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="The guidance; - reads it from standard input.")
    ],
) -> None:
    """Put guidance into the conversation of every run that matches."""
    words = read_words(text, name="TEXT")
    _carry_out(
        lambda client, preview: client.bulk.steer(
            runs, words, reason=how.reason, preview=preview, page_size=_LARGEST_PAGE
        ),
        how,
    )


@app.command("abort")
@_to_many
def abort(
    runs: "RunFilter | None",
    how: _How,
    *,
    graceful: Annotated[
        bool, typer.Option("--graceful", help="At the next boundary instead of at once.")
    ] = False,
    skip_routes: Annotated[
        bool, typer.Option("--skip-routes", help="Leave out a routed cleanup path.")
    ] = False,
) -> None:
    """End every run that matches. `jackline kill` ends all and lets none begin."""
    _carry_out(
        lambda client, preview: client.bulk.abort(
            runs,
            graceful=graceful,
            skip_routes=skip_routes,
            reason=how.reason,
            preview=preview,
            page_size=_LARGEST_PAGE,
        ),
        how,
    )


def _carry_out(give: _Give, how: _How) -> None:
    async def work(client: "JacklineClient", screen: Screen) -> ExitCode:
        shown = Output(screen=screen, listing=RESULTS, form=how.form)
        refused = given = 0
        async with aclosing(give(client, not how.sure)) as results:
            async for result in results:
                shown.item(result)
                given += not result.refusal
                refused += bool(result.refusal)
        shown.end()
        if how.form is None:
            for line in _summary(how, given=given, refused=refused):
                screen.line(line, style="dim")
        if not how.sure:
            return ExitCode.USAGE if given else ExitCode.OK
        return ExitCode.REFUSED if refused else ExitCode.OK

    carry_out(work, server=how.server)


def _summary(how: _How, *, given: int, refused: int) -> Iterator[str]:
    if not how.sure:
        if given:
            yield f"nothing was sent: --yes gives {count(given, 'run')} the command {how.name}"
        return
    if given or refused:
        yield f"{how.name}: {count(given, 'run')}" + (f", {refused} refused" if refused else "")

"""`jackline fork`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

import jackline_client
from jackline.v1.run_service_pb2 import ForkRunResponse, StartDisposition
from jackline_client.cli import completing
from jackline_client.cli.exit_codes import ExitCode
from jackline_client.cli.following import Following, follow, how_to_go_on
from jackline_client.cli.given import read_bounds, read_labels, read_seconds
from jackline_client.cli.json_lines import json_line
from jackline_client.cli.options import (
    MOST_SEQUENCE,
    RECONNECT_FOR,
    AddressOption,
    ContextOption,
    JsonOption,
    NoDeltasOption,
    ReconnectOption,
    RunArgument,
)
from jackline_client.cli.said_words import required_words
from jackline_client.cli.screen import Screen
from jackline_client.cli.server_choice import Named
from jackline_client.cli.session import carry_out

if TYPE_CHECKING:
    from jackline_client import ForkOptions, JacklineClient


def fork(
    run_id: RunArgument,
    *,
    at: Annotated[
        int, typer.Option("--at", min=1, max=MOST_SEQUENCE, metavar="N", help="The last event to take over.")
    ],
    bound: Annotated[
        list[str] | None,
        typer.Option("--bound", metavar="NAME=VALUE", help="As for run; in place of the run's own."),
    ] = None,
    steer: Annotated[
        str | None, typer.Option("--steer", metavar="TEXT", help="Guidance that the model is given first.")
    ] = None,
    workflow: Annotated[
        str,
        typer.Option(
            "--workflow",
            metavar="NAME[@REV]",
            help="Another revision of its workflow.",
            autocompletion=completing.workflows,
        ),
    ] = "",
    label: Annotated[
        list[str] | None, typer.Option("--label", metavar="KEY=VALUE", help="Set over the run's own.")
    ] = None,
    request_id: Annotated[
        str | None,
        typer.Option("--request-id", metavar="ID", help="A repeat with the same id starts nothing new."),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Show the fork from there until it ends.")] = False,
    as_json: JsonOption = False,
    no_deltas: NoDeltasOption = False,
    reconnect_for: ReconnectOption = RECONNECT_FOR,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """Start a run from the first events of another, and print its id.

    What those events did is not done again; what they spent counts. The run itself is left as it is.
    """
    server = Named(address=address, context=context)
    how = Following(as_json=as_json, deltas=not no_deltas, after_sequence=at, server=server)
    policy = jackline_client.WatchPolicy(reconnect_for_s=read_seconds(reconnect_for, flag="--reconnect-for"))
    options = _options(bound or (), label or (), workflow=workflow, steer=steer)
    forked: list[str] = []

    async def work(client: "JacklineClient", screen: Screen) -> ExitCode:
        answer = await client.fork_run(run_id, at, request_id=request_id, **options)
        forked.append(answer.run.run_id)
        _say_forked(screen, answer, watched=watch, as_json=as_json)
        return await follow(client, screen, answer.run.run_id, how) if watch else ExitCode.OK

    def when_interrupted() -> Iterator[str]:
        if forked:
            return how_to_go_on(forked[0], how)
        return iter(
            ("jackline: interrupted before the server answered; look whether it started: `jackline ls`",)
        )

    carry_out(work, server=server, when_interrupted=when_interrupted, watch_policy=policy)


def _options(
    bounds: list[str] | tuple[()], labels: list[str] | tuple[()], *, workflow: str, steer: str | None
) -> "ForkOptions":
    words = "" if steer is None else required_words(steer, name="--steer")
    options = jackline_client.ForkOptions(workflow=workflow, steer=words, labels=read_labels(labels))
    if (read := read_bounds(bounds)) is not None:
        options["bounds"] = read
    return options


def _say_forked(screen: Screen, answer: ForkRunResponse, *, watched: bool, as_json: bool) -> None:
    run = answer.run
    if as_json:
        screen.raw(json_line(answer))
    elif not watched:
        screen.line(run.run_id)
    elif answer.disposition == StartDisposition.START_DISPOSITION_QUEUED:
        screen.line(f"run {run.run_id} waits for a free place", style="dim")
    else:
        origin = run.forked_from
        screen.line(f"run {run.run_id} goes on from event {origin.sequence} of {origin.run_id}", style="dim")

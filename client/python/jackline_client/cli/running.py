"""`jackline run` and `jackline watch`."""

from collections.abc import Iterable, Iterator
from typing import Annotated

import typer

from jackline.v1.run_service_pb2 import StartDisposition, StartRunResponse
from jackline_client import JacklineClient, StartOptions, WatchPolicy
from jackline_client.cli.exit_codes import ExitCode
from jackline_client.cli.following import Following, follow, how_to_go_on
from jackline_client.cli.given import (
    WorkflowFiles,
    read_bounds,
    read_input,
    read_labels,
    read_seconds,
    read_workflow,
)
from jackline_client.cli.json_lines import json_line
from jackline_client.cli.options import (
    RECONNECT_FOR,
    AddressOption,
    JsonOption,
    NoDeltasOption,
    ReconnectOption,
    RunArgument,
)
from jackline_client.cli.screen import Screen
from jackline_client.cli.session import carry_out


def run(
    workflow: Annotated[
        str | None,
        typer.Argument(metavar="[WORKFLOW]", help="name, name@alias or name@digest, or use --file."),
    ] = None,
    *,
    input_text: Annotated[
        str | None, typer.Option("--input", metavar="JSON", help="The input; - reads it.")
    ] = None,
    input_file: Annotated[
        str | None, typer.Option("--input-file", metavar="FILE", help="The input as a file.")
    ] = None,
    pairs: Annotated[
        list[str] | None,
        typer.Option("-i", metavar="KEY=TEXT", help="One key of the input; key:=JSON for other than text."),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option(
            "--file", metavar="FILE", help="A workflow file in place of WORKFLOW, with its steps' files."
        ),
    ] = None,
    request_id: Annotated[
        str | None,
        typer.Option("--request-id", metavar="ID", help="A repeat with the same id starts nothing new."),
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option("--label", metavar="KEY=VALUE", help="To find it again.")
    ] = None,
    bound: Annotated[
        list[str] | None,
        typer.Option(
            "--bound", metavar="NAME=VALUE", help="token_budget, cost_budget_usd, steps, events, run_timeout."
        ),
    ] = None,
    detach: Annotated[bool, typer.Option("--detach", help="Print the run's id and leave.")] = False,
    as_json: JsonOption = False,
    no_deltas: NoDeltasOption = False,
    reconnect_for: ReconnectOption = RECONNECT_FOR,
    address: AddressOption = None,
) -> None:
    """Start a run and show it until it ends.

    With --json the first line is the answer to the start and each further one an event.
    """
    if (workflow is None) == (file is None):
        raise typer.BadParameter("give a workflow's name, or a workflow file with --file")
    value = read_input(input_text, input_file, pairs or ())
    given = read_workflow(file) if file is not None else None
    options = _start_options(given, label or (), bound or ())
    how = Following(as_json=as_json, deltas=not no_deltas, address=address)
    policy = WatchPolicy(reconnect_for_s=read_seconds(reconnect_for, flag="--reconnect-for"))
    started: list[str] = []

    async def work(client: JacklineClient, screen: Screen) -> ExitCode:
        answer = await client.start_run(workflow, input=value, request_id=request_id, **options)
        started.append(answer.run.run_id)
        _say_started(screen, answer, detach=detach, as_json=as_json)
        return ExitCode.OK if detach else await follow(client, screen, answer.run.run_id, how)

    def when_interrupted() -> Iterator[str]:
        if started:
            return how_to_go_on(started[0], how)
        return iter(
            ("jackline: interrupted before the server answered; look whether it started: `jackline ls`",)
        )

    carry_out(work, address=address, when_interrupted=when_interrupted, given=given, watch_policy=policy)


def _start_options(given: WorkflowFiles | None, labels: Iterable[str], bounds: Iterable[str]) -> StartOptions:
    options = StartOptions(labels=read_labels(labels))
    if (read := read_bounds(bounds)) is not None:
        options["bounds"] = read
    if given is not None:
        options["inline_yaml"] = given.yaml
        options["files"] = given.files
    return options


def _say_started(screen: Screen, answer: StartRunResponse, *, detach: bool, as_json: bool) -> None:
    if as_json:
        screen.raw(json_line(answer))
    elif detach:
        screen.line(answer.run.run_id)
    elif answer.disposition == StartDisposition.START_DISPOSITION_QUEUED:
        screen.line(f"run {answer.run.run_id} waits for a free place", style="dim")
    elif answer.disposition == StartDisposition.START_DISPOSITION_DEDUPLICATED:
        screen.line(f"this request was made before: run {answer.run.run_id}", style="dim")


def watch(
    run_id: RunArgument,
    after: Annotated[int, typer.Option("--after", min=0, metavar="N", help="Start after this event.")] = 0,
    *,
    as_json: JsonOption = False,
    no_deltas: NoDeltasOption = False,
    reconnect_for: ReconnectOption = RECONNECT_FOR,
    address: AddressOption = None,
) -> None:
    """Show a run from its first event until it ends; a finished one is shown again."""
    how = Following(as_json=as_json, deltas=not no_deltas, after_sequence=after, address=address)
    policy = WatchPolicy(reconnect_for_s=read_seconds(reconnect_for, flag="--reconnect-for"))

    async def work(client: JacklineClient, screen: Screen) -> ExitCode:
        return await follow(client, screen, run_id, how)

    carry_out(work, address=address, when_interrupted=lambda: how_to_go_on(run_id, how), watch_policy=policy)

"""`jackline pause`, `resume`, `steer`, `abort` and `submit`."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated

import typer

import jackline_client
from jackline.v1.control_pb2 import ReceiptStage
from jackline.v1.run_service_pb2 import ControlResponse
from jackline_client import ControlOptions, JacklineClient
from jackline_client.cli.exit_codes import ExitCode
from jackline_client.cli.given import read_file, read_json
from jackline_client.cli.options import (
    AddressOption,
    ContextOption,
    JsonOption,
    OpenRunArgument,
    ReasonOption,
)
from jackline_client.cli.receipts import WAIT_S, Asked, Stage, report
from jackline_client.cli.screen import Screen
from jackline_client.cli.server_choice import Named
from jackline_client.cli.session import carry_out

if TYPE_CHECKING:
    from jackline_client import ControlOptions, JacklineClient

_LARGEST_TEXT = 64 * 1024


WaitOption = Annotated[
    Stage,
    typer.Option(
        "--wait", metavar="STAGE", help="Wait until it is accepted, effective or settled, at most 10 s."
    ),
]
_STAGES = {
    Stage.ACCEPTED: ReceiptStage.RECEIPT_STAGE_ACCEPTED,
    Stage.EFFECTIVE: ReceiptStage.RECEIPT_STAGE_EFFECTIVE,
    Stage.SETTLED: ReceiptStage.RECEIPT_STAGE_SETTLED,
}
_Send = Callable[["JacklineClient"], Awaitable[ControlResponse]]


def pause(
    run_id: OpenRunArgument,
    *,
    reason: ReasonOption = "",
    wait: WaitOption = Stage.EFFECTIVE,
    as_json: JsonOption = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """Hold a run before its next call, until it is resumed."""
    _command(
        lambda client: client.pause(run_id, **control_options(reason, wait)),
        Asked(
            run_id=run_id,
            name="pause",
            wait=wait,
            as_json=as_json,
            server=Named(address=address, context=context),
        ),
    )


def resume(
    run_id: OpenRunArgument,
    *,
    reason: ReasonOption = "",
    wait: WaitOption = Stage.EFFECTIVE,
    as_json: JsonOption = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """Let a paused run go on."""
    _command(
        lambda client: client.resume(run_id, **control_options(reason, wait)),
        Asked(
            run_id=run_id,
            name="resume",
            wait=wait,
            as_json=as_json,
            server=Named(address=address, context=context),
        ),
    )


def steer(
    run_id: OpenRunArgument,
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="The guidance; - reads it from standard input.")
    ],
    *,
    reason: ReasonOption = "",
    wait: WaitOption = Stage.EFFECTIVE,
    as_json: JsonOption = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """Put guidance into a run's conversation."""
    words = _text(text)
    _command(
        lambda client: client.steer(run_id, words, **control_options(reason, wait)),
        Asked(
            run_id=run_id,
            name="steer",
            wait=wait,
            as_json=as_json,
            server=Named(address=address, context=context),
        ),
    )


def abort(
    run_id: OpenRunArgument,
    *,
    graceful: Annotated[
        bool, typer.Option("--graceful", help="At the next boundary instead of at once.")
    ] = False,
    skip_routes: Annotated[
        bool, typer.Option("--skip-routes", help="Leave out a routed cleanup path.")
    ] = False,
    reason: ReasonOption = "",
    wait: WaitOption = Stage.SETTLED,
    as_json: JsonOption = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """End a run."""
    _command(
        lambda client: client.abort(
            run_id, graceful=graceful, skip_routes=skip_routes, **control_options(reason, wait)
        ),
        Asked(
            run_id=run_id,
            name="abort",
            wait=wait,
            as_json=as_json,
            server=Named(address=address, context=context),
        ),
    )


def submit(
    run_id: OpenRunArgument,
    call_id: Annotated[
        str, typer.Argument(metavar="CALL", help="The call; `jackline calls RUN` lists them.")
    ],
    *,
    output: Annotated[
        str | None, typer.Option("--output", metavar="JSON", help="What it returned; - reads it.")
    ] = None,
    error: Annotated[
        str | None, typer.Option("--error", metavar="TEXT", help="What went wrong; nothing happened.")
    ] = None,
    reason: ReasonOption = "",
    wait: WaitOption = Stage.EFFECTIVE,
    as_json: JsonOption = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """Say what a tool call of unknown outcome returned, in place of answering its question."""
    if (output is None) == (error is None):
        raise typer.BadParameter("give --output with what the call returned, or --error with what went wrong")
    value = read_json(output, name="--output") if output is not None else None
    _command(
        lambda client: client.submit_tool_result(
            run_id, call_id, output=value, error=error, **control_options(reason, wait)
        ),
        Asked(
            run_id=run_id,
            name="submit",
            wait=wait,
            as_json=as_json,
            server=Named(address=address, context=context),
        ),
    )


def control_options(reason: str, wait: Stage) -> "ControlOptions":
    """What every command says beside itself."""
    return jackline_client.ControlOptions(reason=reason, wait=_STAGES[wait], timeout_s=WAIT_S)


def _text(text: str) -> str:
    if text != "-":
        return text
    return read_file("-", limit=_LARGEST_TEXT).decode("utf-8", "replace").strip()


def _command(send: _Send, asked: Asked) -> None:
    async def work(client: "JacklineClient", screen: Screen) -> ExitCode:
        return await report(client, screen, await send(client), asked)

    carry_out(work, server=asked.server)

"""`jackline pause`, `resume`, `steer`, `abort` and `submit`."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated

import typer

import jackline_client
from jackline.v1.control_pb2 import Expectation, ReceiptStage
from jackline.v1.run_pb2 import RunState
from jackline.v1.run_service_pb2 import ControlResponse
from jackline_client import ControlOptions, JacklineClient
from jackline_client.cli.exit_codes import ExitCode
from jackline_client.cli.given import read_json, read_states
from jackline_client.cli.options import (
    AddressOption,
    ContextOption,
    ExpectSequenceOption,
    ExpectStateOption,
    JsonOption,
    OpenRunArgument,
    ReasonOption,
)
from jackline_client.cli.receipts import WAIT_S, Asked, Stage, report
from jackline_client.cli.said_words import read_words, required_words
from jackline_client.cli.screen import Screen
from jackline_client.cli.server_choice import Named
from jackline_client.cli.session import carry_out

if TYPE_CHECKING:
    from jackline_client import ControlOptions, JacklineClient


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
    expect_state: ExpectStateOption = None,
    expect_sequence: ExpectSequenceOption = None,
    wait: WaitOption = Stage.EFFECTIVE,
    as_json: JsonOption = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """Hold a run before its next call, until it is resumed."""
    options = control_options(reason, wait, expectation(expect_state, expect_sequence))
    _command(
        lambda client: client.pause(run_id, **options),
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
    expect_state: ExpectStateOption = None,
    expect_sequence: ExpectSequenceOption = None,
    wait: WaitOption = Stage.EFFECTIVE,
    as_json: JsonOption = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """Let a paused run go on."""
    options = control_options(reason, wait, expectation(expect_state, expect_sequence))
    _command(
        lambda client: client.resume(run_id, **options),
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
    expect_state: ExpectStateOption = None,
    expect_sequence: ExpectSequenceOption = None,
    wait: WaitOption = Stage.EFFECTIVE,
    as_json: JsonOption = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """Put guidance into a run's conversation."""
    words = read_words(text, name="TEXT")
    options = control_options(reason, wait, expectation(expect_state, expect_sequence))
    _command(
        lambda client: client.steer(run_id, words, **options),
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
    expect_state: ExpectStateOption = None,
    expect_sequence: ExpectSequenceOption = None,
    wait: WaitOption = Stage.SETTLED,
    as_json: JsonOption = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """End a run."""
    options = control_options(reason, wait, expectation(expect_state, expect_sequence))
    _command(
        lambda client: client.abort(run_id, graceful=graceful, skip_routes=skip_routes, **options),
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
    expect_state: ExpectStateOption = None,
    expect_sequence: ExpectSequenceOption = None,
    wait: WaitOption = Stage.EFFECTIVE,
    as_json: JsonOption = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """Say what a tool call of unknown outcome returned, in place of answering its question."""
    if (output is None) == (error is None):
        raise typer.BadParameter("give --output with what the call returned, or --error with what went wrong")
    value = read_json(output, name="--output") if output is not None else None
    if error is not None:
        required_words(error, name="--error")
    options = control_options(reason, wait, expectation(expect_state, expect_sequence))
    _command(
        lambda client: client.submit_tool_result(run_id, call_id, output=value, error=error, **options),
        Asked(
            run_id=run_id,
            name="submit",
            wait=wait,
            as_json=as_json,
            server=Named(address=address, context=context),
        ),
    )


def control_options(reason: str, wait: Stage, expect: Expectation | None = None) -> "ControlOptions":
    """What every command says beside itself."""
    options = jackline_client.ControlOptions(reason=reason, wait=_STAGES[wait], timeout_s=WAIT_S)
    if expect is not None:
        options["expect"] = expect
    return options


def expectation(state: str | None, sequence: int | None) -> Expectation | None:
    """What a command takes its run for; None if it is not said. Raises BadParameter for no state."""
    if state is None and sequence is None:
        return None
    (known,) = (
        (RunState.RUN_STATE_UNSPECIFIED,) if state is None else read_states([state], flag="--expect-state")
    )
    return Expectation(state=known, sequence=sequence)


def _command(send: _Send, asked: Asked) -> None:
    async def work(client: "JacklineClient", screen: Screen) -> ExitCode:
        return await report(client, screen, await send(client), asked)

    carry_out(work, server=asked.server)

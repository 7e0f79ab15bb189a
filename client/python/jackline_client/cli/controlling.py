"""`jackline pause`, `resume`, `steer`, `abort`, `answer` and `submit`."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated

import typer

import jackline_client
from jackline.v1.control_pb2 import ReceiptStage
from jackline.v1.run_pb2 import Interrupt, View
from jackline.v1.run_service_pb2 import ControlResponse
from jackline_client import ControlOptions, JacklineClient
from jackline_client.cli.below import asked_below, has_living_children
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
from jackline_client.cli.wording import answer_commands, count
from jackline_client.errors import InterruptNotFound, UnknownOption

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


def answer(
    run_id: OpenRunArgument,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[INTERRUPT] OPTION", help="INTERRUPT may be left out if exactly one is open."
        ),
    ] = None,
    *,
    text: Annotated[
        str, typer.Option("--text", metavar="TEXT", help="Words for the model, or for the record.")
    ] = "",
    reason: ReasonOption = "",
    wait: WaitOption = Stage.EFFECTIVE,
    as_json: JsonOption = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """Answer an open question of a run. Without OPTION: list the answers that there are."""
    match words or []:
        case []:
            interrupt_id = option = None
        case [option]:
            interrupt_id = None
        case [interrupt_id, option]:
            pass
        case _:
            raise typer.BadParameter("write RUN [INTERRUPT] OPTION")
    server = Named(address=address, context=context)

    async def work(client: "JacklineClient", screen: Screen) -> ExitCode:
        if interrupt_id is not None and option is not None:
            of, chosen, word = run_id, interrupt_id, option
        else:
            found = await _open_questions(client, run_id)
            if option is None or len(found) != 1:
                _show_answers(screen, run_id, found, server.flag)
                return ExitCode.USAGE if option is None else ExitCode.REFUSED
            of, chosen, word = found[0].run_id or run_id, found[0].interrupt_id, option
        try:
            response = await client.answer(of, chosen, word, text=text, **control_options(reason, wait))
        except (UnknownOption, InterruptNotFound):
            _show_answers(screen, run_id, await _open_questions(client, run_id), server.flag)
            raise
        asked = Asked(run_id=of, name="answer", wait=wait, as_json=as_json, server=server)
        return await report(client, screen, response, asked)

    carry_out(work, server=server)


async def _open_questions(client: "JacklineClient", run_id: str) -> list[Interrupt]:
    """The open questions of a run; of those below it where it has none itself."""
    run = await client.get_run(run_id, view=View.VIEW_METADATA)
    if run.interrupts or not has_living_children(run):
        return list(run.interrupts)
    return await asked_below(client, run_id, view=View.VIEW_METADATA)


def _show_answers(screen: Screen, run_id: str, found: list[Interrupt], flag: str) -> None:
    """Says on standard error which answers there are, as commands for typing."""
    if not found:
        screen.problem(f"jackline: the run {run_id} has no open question")
        return
    where = "" if all(one.run_id == run_id for one in found) else " below it"
    screen.problem(f"jackline: the run {run_id} has {count(len(found), 'open question')}{where}:")
    for interrupt in found:
        for command in answer_commands(interrupt.run_id or run_id, interrupt, flag):
            screen.problem(f"  {command}")


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

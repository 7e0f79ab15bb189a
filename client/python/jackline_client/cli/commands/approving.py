"""`jackline approve` and `jackline reject`."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated

import typer

from jackline.v1.run_pb2 import Interrupt, InterruptKind, View
from jackline.v1.run_service_pb2 import ControlResponse
from jackline_client.cli.below import asked_below, has_living_children
from jackline_client.cli.commands.controlling import WaitOption, control_options
from jackline_client.cli.exit_codes import ExitCode
from jackline_client.cli.given import read_json
from jackline_client.cli.late_answers import what_became
from jackline_client.cli.options import (
    AddressOption,
    ContextOption,
    JsonOption,
    OpenRunArgument,
    ReasonOption,
)
from jackline_client.cli.receipts import Asked, Stage, report
from jackline_client.cli.screen import Screen
from jackline_client.cli.server_choice import Named
from jackline_client.cli.session import carry_out
from jackline_client.cli.wording import answer_commands, count, short
from jackline_client.errors import AlreadyDecided, InterruptExpired

if TYPE_CHECKING:
    from jackline_client import JacklineClient

CallArgument = Annotated[
    str,
    typer.Argument(
        metavar="[CALL]", help="The call, or its interrupt; may be left out if exactly one waits."
    ),
]
_Send = Callable[["JacklineClient", str, Interrupt], Awaitable[ControlResponse]]


def approve(
    run_id: OpenRunArgument,
    call: CallArgument = "",
    *,
    edit_json: Annotated[
        str | None,
        typer.Option("--edit-json", metavar="JSON", help="Other arguments, as a JSON object; - reads them."),
    ] = None,
    reason: ReasonOption = "",
    wait: WaitOption = Stage.EFFECTIVE,
    as_json: JsonOption = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """Let a tool call start that waits for it, once, with the arguments that `jackline inbox` shows."""
    edited = None if edit_json is None else read_json(edit_json, name="--edit-json")
    options = control_options(reason, wait)

    async def send(client: "JacklineClient", of: str, asked: Interrupt) -> ControlResponse:
        if edited is None:
            return await client.approve(of, asked.interrupt_id, asked.arguments_digest, **options)
        return await client.edit_and_approve(
            of, asked.interrupt_id, asked.arguments_digest, arguments=edited, **options
        )

    asked = Asked(
        run_id=run_id,
        name="approve",
        wait=wait,
        as_json=as_json,
        server=Named(address=address, context=context),
    )
    _decide(call, send, asked)


def reject(
    run_id: OpenRunArgument,
    call: CallArgument = "",
    *,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why; a model that asked for it is told.")
    ] = "",
    wait: WaitOption = Stage.EFFECTIVE,
    as_json: JsonOption = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """Do not let a tool call start that waits to be approved.

    A model that asked for it is told the reason, and goes on; a step of the flow ends with `error`.
    """

    async def send(client: "JacklineClient", of: str, asked: Interrupt) -> ControlResponse:
        return await client.reject(of, asked.interrupt_id, text=reason, **control_options("", wait))

    asked = Asked(
        run_id=run_id,
        name="reject",
        wait=wait,
        as_json=as_json,
        server=Named(address=address, context=context),
    )
    _decide(call, send, asked)


def _decide(call: str, send: _Send, asked: Asked) -> None:
    async def work(client: "JacklineClient", screen: Screen) -> ExitCode:
        found = await _waiting(client, asked.run_id)
        chosen = _meant(found, call)
        if chosen is None:
            await _show(client, screen, asked.run_id, call, found, asked.server.flag)
            return ExitCode.USAGE if found and not call else ExitCode.REFUSED
        of = chosen.run_id or asked.run_id
        try:
            response = await send(client, of, chosen)
        except (AlreadyDecided, InterruptExpired):
            said = await what_became(client, of, chosen.interrupt_id)
            if said:
                screen.problem(f"  {said}")
            raise
        decided = Asked(
            run_id=of, name=asked.name, wait=asked.wait, as_json=asked.as_json, server=asked.server
        )
        return await report(client, screen, response, decided)

    carry_out(work, server=asked.server)


async def _waiting(client: "JacklineClient", run_id: str) -> list[Interrupt]:
    """The calls of a run that wait to be approved; those below it where it has none itself."""
    run = await client.get_run(run_id, view=View.VIEW_METADATA)
    found = list(run.interrupts)
    if not found and has_living_children(run):
        found = await asked_below(client, run_id, view=View.VIEW_METADATA)
    return [one for one in found if one.kind == InterruptKind.INTERRUPT_KIND_APPROVAL]


def _meant(found: list[Interrupt], call: str) -> Interrupt | None:
    """What was named, or the only one that waits."""
    if call:
        return next((one for one in found if call in (one.interrupt_id, one.call_id)), None)
    return found[0] if len(found) == 1 else None


async def _show(
    client: "JacklineClient", screen: Screen, run_id: str, call: str, found: list[Interrupt], flag: str
) -> None:
    """Says on standard error which calls wait, as commands for typing."""
    if not found:
        screen.problem(f"jackline: no call of the run {run_id} waits to be approved")
        said = await what_became(client, run_id, call or None)
        if said:
            screen.problem(f"  {said}")
        return
    named = f"no such call waits: {short(call)}; " if call else ""
    screen.problem(f"jackline: {named}the run {run_id} has {count(len(found), 'call')} to approve:")
    for one in found:
        screen.problem(f"  {short(one.tool)}:")
        for command in answer_commands(one.run_id or run_id, one, flag):
            screen.problem(f"    {command}")

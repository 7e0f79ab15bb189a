"""`jackline calls`, `messages` and `info`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from jackline.v1.control_pb2 import CommandKind
from jackline.v1.run_pb2 import Effect, MessageRole, RunMessage, ToolCall, ToolCallStatus, View
from jackline.v1.run_service_pb2 import DurabilityClass, GetServerInfoResponse
from jackline_client.cli.exit_codes import ExitCode
from jackline_client.cli.forms import Output, chosen_form
from jackline_client.cli.listings import CALLS, MESSAGES, SERVER
from jackline_client.cli.options import (
    MOST_SMALL,
    AddressOption,
    ContextOption,
    JsonOption,
    OutputOption,
    RunArgument,
)
from jackline_client.cli.printable import printable, printable_lines
from jackline_client.cli.screen import Screen
from jackline_client.cli.server_choice import Named
from jackline_client.cli.session import carry_out
from jackline_client.cli.waits import wait_words, waited
from jackline_client.cli.wording import LONG, Line, arguments, count, enum_word, json_words, short, stamp

if TYPE_CHECKING:
    from jackline_client import JacklineClient


def calls(
    run_id: RunArgument,
    *,
    output: OutputOption = None,
    as_json: JsonOption = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """List the tool calls of a run in the order they were asked for, with their results."""
    form = chosen_form(output, as_json)

    async def work(client: "JacklineClient", screen: Screen) -> ExitCode:
        shown = Output(screen=screen, listing=CALLS, form=form, lines=_call)
        for call in await client.list_tool_calls(run_id, view=View.VIEW_FULL):
            shown.item(call)
        shown.end()
        return ExitCode.OK

    carry_out(work, server=Named(address=address, context=context))


def _call(call: ToolCall) -> Iterator[Line]:
    status = enum_word(ToolCallStatus.Name, call.status, "TOOL_CALL_STATUS_")
    turn = f", turn {call.iteration}" if call.iteration else ""
    effect = enum_word(Effect.Name, call.effect, "EFFECT_") + ", " if call.effect else ""
    attempts = count(call.attempts, "attempt")
    yield Line(text=f"{call.call_id}  {short(call.tool)}({arguments(call.arguments_json)})", style="head")
    yield Line(
        text=f"  {status} ({effect}{attempts}, step {short(call.step_id)}{turn}, "
        f"{call.duration.ToMilliseconds():,} ms{waited(call.waited.ToMilliseconds())})"
    )
    if call.HasField("wait"):
        yield Line(text=f"  waits for {wait_words(call.wait)}, since {stamp(call.wait.since)} UTC")
    if call.reused_from:
        yield Line(text=f"  the result of {short(call.reused_from)}, an equal call")
    if call.cut_from_bytes:
        kept = f"jackline result RUN {short(call.call_id)}" if call.stored else "only both ends were kept"
        yield Line(text=f"  {call.cut_from_bytes:,} bytes in all: {kept}")
    for part in range(1, call.media + 1):
        words = f"jackline result RUN {short(call.call_id)} --part {part} --to FILE"
        yield Line(text=f"  part {part} is no text: {words}")
    if call.result:
        yield Line(text=f"  {printable(call.result, limit=LONG)}", style="dim")


def messages(
    run_id: RunArgument,
    step: Annotated[
        str, typer.Option("--step", metavar="STEP", help="The step; the last one if left out.")
    ] = "",
    visit: Annotated[
        int,
        typer.Option(
            "--visit", min=0, max=MOST_SMALL, metavar="N", help="The visit, from 1; the last if left out."
        ),
    ] = 0,
    *,
    output: OutputOption = None,
    as_json: JsonOption = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """Show the conversation of one visit of a step as the model saw it."""
    form = chosen_form(output, as_json)

    async def work(client: "JacklineClient", screen: Screen) -> ExitCode:
        shown = Output(screen=screen, listing=MESSAGES, form=form, lines=_message)
        for message in await client.list_run_messages(run_id, step_id=step, visit=visit):
            shown.item(message)
        shown.end()
        return ExitCode.OK

    carry_out(work, server=Named(address=address, context=context))


def _message(message: RunMessage) -> Iterator[Line]:
    role = enum_word(MessageRole.Name, message.role, "MESSAGE_ROLE_")
    about = f" {short(message.call_id)}" if message.call_id else ""
    source = f" ({short(message.provenance)})" if message.provenance not in {"", role, "model"} else ""
    yield Line(text=f"{role}{source}{about}", style="head")
    if message.text:
        for text in printable_lines(message.text):
            yield Line(text=f"  {text}")
    for call in message.tool_calls:
        yield Line(text=f"  → {short(call.tool)}({json_words(call.arguments_json)})  {short(call.call_id)}")


def info(
    *,
    output: OutputOption = None,
    as_json: JsonOption = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """Show what a server is: its version, durability, models, step kinds, commands and limits."""
    form = chosen_form(output, as_json)

    async def work(client: "JacklineClient", screen: Screen) -> ExitCode:
        shown = Output(screen=screen, listing=SERVER, form=form, lines=_info)
        shown.item(await client.get_server_info())
        return ExitCode.OK

    carry_out(work, server=Named(address=address, context=context))


def _info(found: GetServerInfoResponse) -> Iterator[Line]:
    commands = (enum_word(CommandKind.Name, kind, "COMMAND_KIND_") for kind in found.commands)
    yield Line(text=f"version     {short(found.version)}")
    yield Line(text=f"durability  {enum_word(DurabilityClass.Name, found.durability, 'DURABILITY_CLASS_')}")
    for name, values in (
        ("models", found.models),
        ("step kinds", found.step_kinds),
        ("commands", commands),
        ("features", found.features),
    ):
        yield Line(text=f"{name:<11} {', '.join(short(value) for value in values) or 'none'}")
    if found.kill_switch_engaged:
        yield Line(text="kill switch engaged: no run begins; `jackline kill` says why", style="bad")
    for limit in found.limits:
        yield Line(text=f"limit       {short(limit.name)} = {limit.value:,}")

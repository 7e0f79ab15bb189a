"""`jackline calls`, `messages` and `info`."""

from collections.abc import Iterator
from typing import Annotated

import typer

from jackline.v1.control_pb2 import CommandKind
from jackline.v1.run_pb2 import Effect, MessageRole, RunMessage, ToolCall, ToolCallStatus, View
from jackline.v1.run_service_pb2 import DurabilityClass, GetServerInfoResponse
from jackline_client import JacklineClient
from jackline_client.cli.exit_codes import ExitCode
from jackline_client.cli.json_lines import json_line
from jackline_client.cli.options import AddressOption, JsonOption, RunArgument
from jackline_client.cli.printable import printable, printable_lines
from jackline_client.cli.screen import Screen
from jackline_client.cli.session import carry_out
from jackline_client.cli.wording import LONG, Line, arguments, count, enum_word, json_words, short


def calls(run_id: RunArgument, *, as_json: JsonOption = False, address: AddressOption = None) -> None:
    """List the tool calls of a run in the order they were asked for, with their results."""

    async def work(client: JacklineClient, screen: Screen) -> ExitCode:
        found = await client.list_tool_calls(run_id, view=View.VIEW_FULL)
        for call in found:
            if as_json:
                screen.raw(json_line(call))
                continue
            for line in _call(call):
                screen.line(line.text, style=line.style)
        if not found and not as_json:
            screen.line("no tool calls")
        return ExitCode.OK

    carry_out(work, address=address)


def _call(call: ToolCall) -> Iterator[Line]:
    status = enum_word(ToolCallStatus.Name, call.status, "TOOL_CALL_STATUS_")
    turn = f", turn {call.iteration}" if call.iteration else ""
    effect = enum_word(Effect.Name, call.effect, "EFFECT_") + ", " if call.effect else ""
    attempts = count(call.attempts, "attempt")
    yield Line(text=f"{call.call_id}  {short(call.tool)}({arguments(call.arguments_json)})", style="head")
    yield Line(
        text=f"  {status} ({effect}{attempts}, step {short(call.step_id)}{turn}, "
        f"{call.duration.ToMilliseconds():,} ms)"
    )
    if call.result:
        yield Line(text=f"  {printable(call.result, limit=LONG)}", style="dim")


def messages(
    run_id: RunArgument,
    step: Annotated[
        str, typer.Option("--step", metavar="STEP", help="The step; the last one if left out.")
    ] = "",
    visit: Annotated[
        int, typer.Option("--visit", min=0, metavar="N", help="The visit, from 1; the last if left out.")
    ] = 0,
    *,
    as_json: JsonOption = False,
    address: AddressOption = None,
) -> None:
    """Show the conversation of one visit of a step as the model saw it."""

    async def work(client: JacklineClient, screen: Screen) -> ExitCode:
        found = await client.list_run_messages(run_id, step_id=step, visit=visit)
        for message in found:
            if as_json:
                screen.raw(json_line(message))
                continue
            for line in _message(message):
                screen.line(line.text, style=line.style)
        if not found and not as_json:
            screen.line("no messages")
        return ExitCode.OK

    carry_out(work, address=address)


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


def info(*, as_json: JsonOption = False, address: AddressOption = None) -> None:
    """Show what a server is: its version, durability, models, step kinds, commands and limits."""

    async def work(client: JacklineClient, screen: Screen) -> ExitCode:
        found = await client.get_server_info()
        if as_json:
            screen.raw(json_line(found))
            return ExitCode.OK
        for line in _info(found):
            screen.line(line)
        return ExitCode.OK

    carry_out(work, address=address)


def _info(found: GetServerInfoResponse) -> Iterator[str]:
    commands = (enum_word(CommandKind.Name, kind, "COMMAND_KIND_") for kind in found.commands)
    yield f"version     {short(found.version)}"
    yield f"durability  {enum_word(DurabilityClass.Name, found.durability, 'DURABILITY_CLASS_')}"
    for name, values in (
        ("models", found.models),
        ("step kinds", found.step_kinds),
        ("commands", commands),
        ("features", found.features),
    ):
        yield f"{name:<11} {', '.join(short(value) for value in values) or 'none'}"
    for limit in found.limits:
        yield f"limit       {short(limit.name)} = {limit.value:,}"

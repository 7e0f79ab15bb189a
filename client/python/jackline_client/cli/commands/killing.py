"""`jackline kill`: the switch that lets no run begin and ends every one that lives."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from jackline.v1.kill_switch_pb2 import GetKillSwitchResponse, KillSwitchState
from jackline_client.cli.exit_codes import ExitCode
from jackline_client.cli.json_lines import json_line
from jackline_client.cli.options import AddressOption, ContextOption, JsonOption
from jackline_client.cli.printable import printable
from jackline_client.cli.screen import Screen
from jackline_client.cli.server_choice import Named
from jackline_client.cli.session import carry_out
from jackline_client.cli.wording import count, stamp

if TYPE_CHECKING:
    from jackline_client import JacklineClient

_LONG = 200


def kill(
    *,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Engage the switch, for this reason.")
    ] = "",
    release: Annotated[
        bool, typer.Option("--release", help="Let runs begin again; --reason may say why.")
    ] = False,
    sure: Annotated[
        bool, typer.Option("--yes", help="Engage it; without it nothing is done, and the runs are counted.")
    ] = False,
    as_json: JsonOption = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """End every run, and let none begin until the switch is released. Alone: say where the switch stands."""
    if (sure or reason) and not (reason.strip() or release):
        raise typer.BadParameter("say why, with --reason: nothing was done")

    async def work(client: "JacklineClient", screen: Screen) -> ExitCode:
        if release or (reason and sure):
            done = await (
                client.kill_switch.release(reason) if release else client.kill_switch.engage(reason)
            )
            if as_json:
                screen.raw(json_line(done))
                return ExitCode.OK
            screen.line(_done(release=release, changed=done.changed, told=done.told_runs))
            for line in _standing(done.state):
                screen.line(line, style="dim")
            return ExitCode.OK
        _show(await client.kill_switch.get(), screen, as_json=as_json)
        if reason:
            screen.problem("jackline: nothing was done: --yes ends them and lets no run begin")
        return ExitCode.USAGE if reason else ExitCode.OK

    carry_out(work, server=Named(address=address, context=context))


def _show(found: GetKillSwitchResponse, screen: Screen, *, as_json: bool) -> None:
    if as_json:
        screen.raw(json_line(found))
        return
    for line in _standing(found.state):
        screen.line(line)
    screen.line(f"{count(found.living_runs, 'run')} live", style="dim")


def _done(*, release: bool, changed: bool, told: int) -> str:
    if release:
        return "released: runs begin again" if changed else "nothing to do: it was not engaged"
    again = "" if changed else " (it was before)"
    return f"engaged{again}: no run begins, and {count(told, 'run')} told to end"


def _standing(state: KillSwitchState) -> Iterator[str]:
    if not state.HasField("engaged_at"):
        yield "the kill switch was never engaged"
        return
    head = "the kill switch is engaged" if state.engaged else "the kill switch is released"
    yield head
    yield f"  engaged {stamp(state.engaged_at)} UTC by {_said(state.engaged_by, state.reason)}"
    if state.HasField("released_at"):
        yield f"  released {stamp(state.released_at)} UTC by {_said(state.released_by, state.release_reason)}"


def _said(who: str, why: str) -> str:
    return printable(f"{who}: {why}" if why else who, limit=_LONG)

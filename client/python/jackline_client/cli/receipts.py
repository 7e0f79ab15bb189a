"""The receipt of a command, for a person: what it did, what it did not, and what the run waits for now.

Owns the words, and looking at the run where the receipt does not say enough. Does not own the commands.
"""

import asyncio
from contextlib import aclosing, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from jackline.v1.control_pb2 import CommandDisposition, ReceiptStage
from jackline.v1.error_reason_pb2 import ErrorReason
from jackline.v1.run_pb2 import RunState, View
from jackline.v1.run_service_pb2 import ControlResponse
from jackline_client.cli.exit_codes import ExitCode
from jackline_client.cli.json_lines import json_line
from jackline_client.cli.screen import Screen
from jackline_client.cli.server_choice import Named
from jackline_client.cli.wording import enum_word, stamp
from jackline_client.errors import JacklineError

if TYPE_CHECKING:
    from jackline_client import JacklineClient

# The server answers shortly before the call's time is over, with how far the command has come.
WAIT_S = 10.0
# For words beside the receipt: they are left out rather than waited for.
_LOOK_S = 3.0
_IDLE = {"pause": "it was paused, or is being ended", "resume": "it was not paused"}
"""Commands that may change nothing, and why."""
_CONSEQUENCES = frozenset({"paused", "resumed"})


class Stage(StrEnum):
    """How far to wait."""

    ACCEPTED = "accepted"
    EFFECTIVE = "effective"
    SETTLED = "settled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was typed: the command, how far to wait for it, and how to show what comes of it."""

    run_id: str
    name: str
    wait: Stage
    as_json: bool
    server: Named


async def report(
    client: "JacklineClient", screen: Screen, response: ControlResponse, asked: Asked
) -> ExitCode:
    """Shows the answer to a command and returns the exit code.

    REFUSED if it was rejected, UNFINISHED if it is accepted and did not get as far as it was waited for.
    """
    receipt = response.receipt
    rejected = receipt.disposition == CommandDisposition.COMMAND_DISPOSITION_REJECTED
    if asked.as_json:
        screen.raw(json_line(response))
    elif rejected:
        reason = enum_word(ErrorReason.Name, receipt.rejection, "ERROR_REASON_").upper()
        screen.problem(f"jackline: {asked.name} was rejected [{reason}]")
    elif receipt.already_terminal:
        screen.line("the run had ended before")
    elif receipt.stage in (ReceiptStage.RECEIPT_STAGE_SETTLED, ReceiptStage.RECEIPT_STAGE_EFFECTIVE):
        screen.line(f"{asked.name}: {await _effect(client, response, asked)}")
    else:
        screen.line(f"{asked.name}: accepted{await _acceptance(client, response, asked)}")
    if rejected:
        return ExitCode.REFUSED
    return ExitCode.OK if response.reached or receipt.already_terminal else ExitCode.UNFINISHED


async def _acceptance(client: "JacklineClient", response: ControlResponse, asked: Asked) -> str:
    """What a command that is accepted waits for, and that it was waited for in vain."""
    later = "; it takes effect at the run's next boundary"
    if response.reached:
        return later
    return f", not {asked.wait} within {WAIT_S:.0f} s{later}{await _standing(client, asked)}"


async def _effect(client: "JacklineClient", response: ControlResponse, asked: Asked) -> str:
    """What a command that took effect has changed, and how the run stands now where that is another thing."""
    receipt = response.receipt
    settled = receipt.stage == ReceiptStage.RECEIPT_STAGE_SETTLED
    event = f"(event {receipt.sequence})"
    if not response.reached:
        return f"in effect {event}, not {asked.wait} within {WAIT_S:.0f} s"
    if asked.name in _IDLE and not await _was_followed(client, receipt.sequence, asked):
        return f"nothing to do {event}: {_IDLE[asked.name]}{await _standing(client, asked)}"
    waits = await _standing(client, asked) if asked.name == "resume" else ""
    return f"{'done' if settled else 'in effect'} {event}{waits}"


async def _was_followed(client: "JacklineClient", sequence: int, asked: Asked) -> bool:
    """False if the run's log says that the command changed nothing: no event of its kind comes after it."""
    with suppress(JacklineError, TimeoutError):
        async with asyncio.timeout(_LOOK_S):
            run = await client.get_run(asked.run_id, view=View.VIEW_METADATA)
            if run.head_sequence <= sequence:
                return False
            frames = client.watch(asked.run_id, after_sequence=sequence, view=View.VIEW_METADATA)
            async with aclosing(frames):
                async for frame in frames:
                    for event in frame.events:
                        return event.WhichOneof("fact") in _CONSEQUENCES
    return True


async def _standing(client: "JacklineClient", asked: Asked) -> str:
    """What the run waits for and the command that ends that, if one does; empty if nothing, or if unknown."""
    with suppress(JacklineError, TimeoutError):
        async with asyncio.timeout(_LOOK_S):
            run = await client.get_run(asked.run_id, view=View.VIEW_METADATA)
            match run.state:
                case RunState.RUN_STATE_PAUSED if asked.name != "resume":
                    return f"; the run is paused: jackline resume {asked.run_id}{asked.server.flag}"
                case RunState.RUN_STATE_WAITING:
                    return f"; the run waits for an answer: jackline inbox {asked.run_id}{asked.server.flag}"
                case RunState.RUN_STATE_QUEUED if run.HasField("start_time"):
                    return f"; the run begins at {stamp(run.start_time)} UTC"
                case RunState.RUN_STATE_QUEUED:
                    return "; the run has not begun yet: it waits for a place, or for its turn in its thread"
                case _:
                    pass
    return ""

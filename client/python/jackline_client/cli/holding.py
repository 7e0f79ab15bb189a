"""Who holds a run and why, from its log, and the command that lets it go on.

Owns these words. Does not own whether it is held: its state says so.
"""

import asyncio
import shlex
from collections.abc import Iterator
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

from jackline.v1.event_pb2 import StepEvent
from jackline.v1.run_pb2 import Run, RunState, View
from jackline_client.cli.printable import printable
from jackline_client.cli.wording import LONG, Line, short, stamp
from jackline_client.errors import JacklineError

if TYPE_CHECKING:
    from jackline_client import JacklineClient

# For words beside the run: they are left out rather than waited for.
_LOOK_S = 3.0
_KINDS = ("paused", "resumed", "command_applied", "rule_fired")


async def held_lines(client: "JacklineClient", run: Run, flag: str) -> list[Line]:
    """Lines for a run that is paused; none for any other."""
    if run.state != RunState.RUN_STATE_PAUSED:
        return []
    said = list[Line]()
    with suppress(JacklineError, TimeoutError):
        async with asyncio.timeout(_LOOK_S):
            said = await _said(client, run)
    return [*said, Line(text=f"    jackline resume {shlex.quote(run.run_id)}{flag}", style="ask")]


async def _said(client: "JacklineClient", run: Run) -> list[Line]:
    """Who holds it, from the newest pause of its log; nothing if it was resumed since."""
    held: StepEvent | None = None
    before: StepEvent | None = None
    why = ""
    frames = client.watch(run.run_id, kinds=_KINDS, view=View.VIEW_FULL)
    async with aclosing(frames):
        async for frame in frames:
            for event in frame.events:
                if event.HasField("paused"):
                    held = event
                    follows = before is not None and before.sequence + 1 == event.sequence
                    why = before.content.text if before is not None and follows else ""
                elif event.HasField("resumed"):
                    held = None
                before = event
            if frame.sent_through >= run.head_sequence:
                break
    return [] if held is None else list(_lines(held, why))


def _lines(held: StepEvent, why: str) -> Iterator[Line]:
    fact = held.paused
    until = f", until {stamp(fact.expires_at)} UTC at most" if fact.HasField("expires_at") else ""
    words = f": {printable(why, limit=LONG)}" if why else ""
    yield Line(
        text=f"  held by {short(fact.principal)} since {stamp(held.time)} UTC{until}{words}", style="ask"
    )

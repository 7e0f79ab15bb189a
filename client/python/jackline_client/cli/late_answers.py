"""What became of the questions of a run, for whoever comes too late to answer one.

Owns reading it from the run's log. Does not own why a late answer is refused: the server says.
"""

from contextlib import aclosing
from typing import TYPE_CHECKING

from jackline.v1.event_pb2 import StepEvent
from jackline_client.cli.wording import short, stamp

if TYPE_CHECKING:
    from jackline_client import JacklineClient


async def what_became(client: "JacklineClient", run_id: str, interrupt_id: str | None) -> str:
    """How and when the question ended, or the newest without an id; empty if none has."""
    head = (await client.get_run(run_id)).head_sequence
    said = ""
    if not head:
        return said
    async with aclosing(client.watch(run_id, kinds=("interrupt_resolved",))) as frames:
        async for frame in frames:
            for event in frame.events:
                said = _said(event, interrupt_id) or said
            if frame.sent_through >= head:
                break
    return said


def _said(event: StepEvent, interrupt_id: str | None) -> str:
    fact = event.interrupt_resolved
    if event.WhichOneof("fact") != "interrupt_resolved" or interrupt_id not in (None, fact.interrupt_id):
        return ""
    name, when = short(fact.interrupt_id), f"{stamp(event.time)} UTC"
    if not fact.option:
        return f"{name} expired {when}"
    return f"{name} was answered {when}: {short(fact.option)} by {short(fact.principal)}"

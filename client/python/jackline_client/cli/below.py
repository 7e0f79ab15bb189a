"""Questions that are asked below a run: by a run that it started, or by one that such a run started.

Owns who is asked for them, and the lines. A parent itself has nothing to say while its children live.
"""

from collections.abc import Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING

from jackline.v1.run_pb2 import Interrupt, Run, View
from jackline_client.cli.approval_lines import around_lines, decided_lines
from jackline_client.cli.printable import LONGEST
from jackline_client.cli.questions import question_lines
from jackline_client.cli.wording import Line, answer_commands, short

if TYPE_CHECKING:
    from jackline_client import JacklineClient


def has_living_children(run: Run) -> bool:
    """True while a run that it started goes on."""
    return any(not child.state for child in run.children)


async def asked_below(
    client: "JacklineClient", run_id: str, *, view: View.ValueType = View.VIEW_FULL
) -> list[Interrupt]:
    """The open questions of the runs below that live. Ask only where such runs do."""
    async with aclosing(client.list_interrupts(run_id, children=True, view=view)) as asked:
        return [one async for one in asked if one.run_id != run_id]


def asked_lines(interrupt: Interrupt) -> Iterator[str]:
    """The question in lines; its id where the words are not shown."""
    return question_lines(interrupt.question or interrupt.interrupt_id, interrupt.options, limit=LONGEST)


def below_lines(asked: list[Interrupt], flag: str) -> Iterator[Line]:
    """Which run below asks, what, and the commands that answer it."""
    for interrupt in asked:
        words, *more = asked_lines(interrupt)
        yield Line(text=f"  ? {interrupt.run_id} asks, step {short(interrupt.step_id)}: {words}", style="ask")
        yield from (Line(text=f"  {text}", style="ask") for text in more)
        yield from (Line(text=f"    | {text}") for text in decided_lines(interrupt, interrupt.arguments_json))
        yield from (Line(text=f"    {text}") for text in around_lines(interrupt))
        for command in answer_commands(interrupt.run_id, interrupt, flag):
            yield Line(text=f"    {command}", style="ask")

"""One step that writes, killed somewhere around its write: the way there, back, and to the end of the run.

What was written is counted by whoever was written to.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from jackline.v1.run_pb2 import RunState
from jackline_client import TERMINAL_STATES
from jackline_client.errors import CallError
from tests.support.server_process import ServerProcess, Servers

RESTING = TERMINAL_STATES | {RunState.RUN_STATE_WAITING}

PLACES = {
    # F8: not announced. F9, F10: announced and not sent. F11: committed and not recorded. F12: recorded.
    "tool.before_intent": (0, 1, False),
    "tool.after_intent_before_call": (0, 0, True),
    "tool.mid": (0, 0, True),
    "tool.after_call_before_commit": (1, 1, True),
    "tool.after_commit": (1, 1, False),
}
"""Rows when it dies, rows at the end, and whether the run asks what became of its write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A config, a workflow `note` whose one step writes, and how often that has happened."""

    config: str
    workflow: str
    count: Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The end of a run over a kill. `rows` are those that were there while nobody was."""

    rows: object
    asked: bool
    state: "RunState.ValueType"


async def killed(
    servers: Servers, write: Write, *, failpoints: str = "", until: Callable[[], object] | None = None
) -> Ended:
    """Put it, run it, let it die: at the failpoint, or once that question to the database is true."""
    server = servers.make(write.config)
    await server.start()
    async with server.client() as client:
        await client.put_workflow(write.workflow)
    await server.kill()
    await server.start(failpoints=failpoints)
    async with server.client() as client:
        with suppress(CallError):  # it may be quicker to die
            await client.start_run("note", request_id="r-1")
    if until is not None:
        async with asyncio.timeout(20):
            while not await asyncio.to_thread(until):
                pass
        await server.kill()
    else:
        await server.killed()
    rows = write.count()
    await server.start()
    return await ended(server, rows)


async def ended(server: ServerProcess, rows: object) -> Ended:
    """The run that goes on, to its end; its question is answered."""
    async with server.client() as client:
        run_id = (await client.start_run("note", request_id="r-1")).run.run_id
        async with asyncio.timeout(30):
            while (await client.get_run(run_id)).state not in RESTING:
                pass
        questions = [one async for one in client.list_interrupts(run_id)]
        for question in questions:
            await client.answer(run_id, question.interrupt_id, "succeeded")
        done = await client.wait_run(run_id)
    return Ended(rows=rows, asked=bool(questions), state=done.run.state)

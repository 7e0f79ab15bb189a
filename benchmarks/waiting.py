"""The workload of runs that wait for a model: the reply comes when nobody waits for it any more.

Owns its files, and bringing so many runs to that point. They are seen to wait by the server's own list: the
newest event of each is the announcement of the model call.
"""

import asyncio
import json

from benchmarks.doors import Doors
from benchmarks.histories import Expected
from benchmarks.served import Setup
from jackline.v1.run_pb2 import RunState

WORKFLOW = "waiting"
INPUT = b'{"subject": "berths"}'
HEAD = 3
"""The events of a run that waits: it started, its step started, its call of the model started."""

ABORTED = Expected(
    state=RunState.RUN_STATE_ABORTED,
    counts={"run_started": 1, "step_started": 1, "model_call_started": 1, "command_applied": 1},
)
"""How a run that waited ends here."""

_STARTS_AT_ONCE = 50
_WITHIN_S = 120.0

_WORKFLOW = """\
name: waiting
model: scripted
input: {schema: {type: object, properties: {subject: {type: string}}, required: [subject]}}
bounds: {run_timeout: 2h, token_budget: 100000000}
flow: [work]
steps:
  work:
    kind: agent
    description: Waits for the model.
    steering: Look each berth up before you answer.
    tools: [{ref: look_up}]
    bounds: {max_iterations: 4, token_budget: 100000000, timeout: 2h, model_timeout: 1h}
    answer: text
  look_up: {kind: function, effect: read, description: Looks a berth up., function: "harbour:look_up"}
"""

_CONFIG = """\
[server]
max_active_runs = 2000

[models.scripted]
script = "./script.yaml"
concurrency = 10000
request_timeout = "1h"

[functions]
roots = ["harbour"]
"""

_MODULE = '''\
"""A tool that is never called."""


async def look_up(berth: str) -> str:
    """Looks a berth up."""
    return berth
'''


def waiting_setup() -> Setup:
    """A server whose workflow `waiting` waits an hour for its model."""
    script = {"turns": [{"text": "Too late.", "delay_ms": 3_600_000}]}
    return Setup(
        files={
            "config.toml": _CONFIG,
            "script.yaml": json.dumps(script),
            "workflows/waiting.yaml": _WORKFLOW,
            "modules/harbour.py": _MODULE,
        }
    )


async def start_waiting(doors: Doors, runs: int) -> list[str]:
    """Start so many runs, and return their ids once the newest event of each is its call of the model.

    Raises TimeoutError.
    """
    room = asyncio.Semaphore(_STARTS_AT_ONCE)

    async def one() -> str:
        async with room:
            return await doors.start(WORKFLOW, INPUT)

    async with asyncio.timeout(_WITHIN_S):
        ids = list(await asyncio.gather(*(one() for _ in range(runs))))
        missing = set(ids)
        while missing:
            missing -= {run.run_id for run in await doors.active() if run.head_sequence == HEAD}
            if missing:
                await asyncio.sleep(0.05)
    return ids

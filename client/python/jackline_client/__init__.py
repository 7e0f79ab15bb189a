"""The Jackline client: start, watch, steer and read runs of a Jackline server.

    async with JacklineClient.from_environment() as client:
        started = await client.start_run("refunds", input={"message": "…"})
        async for frame in client.watch(started.run.run_id):
            for event in frame.events:
                ...

Everything public is named here or in `jackline_client.errors`, `jackline_client.credentials` and
`jackline_client.conditions`; messages are those of `jackline.v1`. Names are loaded on first use, so that the
command line starts without gRPC.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jackline_client._client import TERMINAL_STATES, JacklineClient
    from jackline_client._many_runs import BulkOptions
    from jackline_client._requests import ControlOptions, ForkOptions, InputValue, RunFilter, StartOptions
    from jackline_client._watch import Cut, Frame, WatchPolicy

__all__ = [
    "TERMINAL_STATES",
    "BulkOptions",
    "ControlOptions",
    "Cut",
    "ForkOptions",
    "Frame",
    "InputValue",
    "JacklineClient",
    "RunFilter",
    "StartOptions",
    "WatchPolicy",
]

_HOMES = {
    "TERMINAL_STATES": "jackline_client._client",
    "BulkOptions": "jackline_client._many_runs",
    "ControlOptions": "jackline_client._requests",
    "Cut": "jackline_client._watch",
    "ForkOptions": "jackline_client._requests",
    "Frame": "jackline_client._watch",
    "InputValue": "jackline_client._requests",
    "JacklineClient": "jackline_client._client",
    "RunFilter": "jackline_client._requests",
    "StartOptions": "jackline_client._requests",
    "WatchPolicy": "jackline_client._watch",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)

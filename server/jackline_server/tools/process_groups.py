"""Processes that were started with a group of their own: waiting for their end, and ending all of the group.

Does not own when one is to end, nor how it is asked to: whoever started it does.
"""

import asyncio
import contextlib
import os
import subprocess

POLL_S = 0.01
"""How often it is looked whether a process is still there: its end wakes nobody."""


async def is_gone(process: "subprocess.Popen[bytes]", within_s: float) -> bool:
    """True once the leader of a group has ended, and is reaped; False when that time is over."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while process.poll() is None:
        if loop.time() >= deadline:
            return False
        await asyncio.sleep(POLL_S)
    return True


def signal_group(group: int, number: int) -> None:
    """Send a signal to all of a group, if there is anybody left of it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)

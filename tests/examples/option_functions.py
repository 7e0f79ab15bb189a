"""What the functions, the stop condition and the hook of `examples/options` are."""

import asyncio
import os
from typing import Any

from jackline_server.hooks import Answer, Event, Proceed


def convert(amount: float) -> dict[str, float]:
    """Converts an amount of euros into dollars."""
    return {"dollars": amount * 2}


def leads_a_session() -> dict[str, bool]:
    """True in a process that was started to lead one."""
    return {"alone": "JACKLINE_FUNCTION" in os.environ and os.getsid(0) == os.getpid()}


def enough(iterations: int) -> bool:
    """True from the second turn on."""
    return iterations >= 2


async def slowly(iterations: int) -> bool:
    """True, after a while."""
    await asyncio.sleep(0.5)
    return iterations >= 1


class Audit:
    """Keeps a word with the run."""

    def before_run(self, event: Event) -> Answer:
        return Proceed(metadata={"audited": "yes"})

    def before_model_call(self, event: Event) -> Any:
        return Proceed(metadata={"asked_in": event.step})

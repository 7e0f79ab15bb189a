"""The end of a model call under way by the deadlines of its run and step, which may be adjusted meanwhile.

Owns the one timer that follows them. The request's own time (`model_timeout`), the wait for its chunks and
the run's absolute deadline never change; the adapters keep those.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from jackline_server.core.facts import AttemptLimit, FailureClass
from jackline_server.core.reading import timing
from jackline_server.core.steps import CallModel
from jackline_server.runtime.driving.live_run import LiveRun
from jackline_server.runtime.ports.models import ModelFailure


class ModelTimers:
    """The timers of all model calls under way, by run: a run has one call at a time."""

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Timeout] = {}

    @asynccontextmanager
    async def within(self, step: CallModel, run: LiveRun) -> AsyncGenerator[None, None]:
        """Do what is inside until the first deadline. Raises ModelFailure (TIMEOUT) when that comes."""
        timer = asyncio.timeout(step.total_ms / 1000 if step.total_ms < step.request_ms else None)
        self._running[run.run_id] = timer
        try:
            async with timer:
                yield
        except TimeoutError:
            if not timer.expired():
                raise
            message = "the run's or the step's time was over before the model finished its answer"
            raise ModelFailure(FailureClass.TIMEOUT, message, limit=AttemptLimit.TOTAL) from None
        finally:
            del self._running[run.run_id]

    def follow(self, run: LiveRun) -> None:
        """Set the timer of the run's call to where its deadlines are now; nothing if none is under way."""
        timer = self._running.get(run.run_id)
        if timer is None or timer.expired():
            return
        left_ms = timing.left_ms(run.state, run.active_ms())
        when = None if left_ms is None else asyncio.get_running_loop().time() + left_ms / 1000
        timer.reschedule(when)

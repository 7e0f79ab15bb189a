"""Waiting for a place at a model, before a call is announced.

Owns what a run is while it waits: nothing of it is reserved or under way, its active time stands still,
watchers are shown what it waits for, and a timer of its own ends the wait. The runner ends it for commands.
Does not own who is next (`models.places`).
"""

import asyncio

from jackline_server.core.reading import timing
from jackline_server.core.steps import CallModel
from jackline_server.runtime.driving.live_run import LiveRun
from jackline_server.runtime.ports.machine import Clock
from jackline_server.runtime.ports.models import ModelPlace, ModelPlaces
from jackline_server.runtime.use_cases import LiveDelta


async def place_for(step: CallModel, run: LiveRun, *, places: ModelPlaces, clock: Clock) -> ModelPlace | None:
    """A place for an attempt; None if a timer of the run is due first, or another fact came meanwhile.

    What was decided before that fact is announced no more: an abort forbids it, other bounds may.
    """
    decided, tokens = run.state, step.started.reserved_tokens
    place = places.take(step.model, tokens=tokens)
    if place is not None:
        return place
    await run.flush()  # what led here is shown while the run waits
    _show(step, run)
    wake = timing.wake_unix_ms(run.state)
    run.stand_still(is_queued=True)
    try:
        async with asyncio.timeout(None if wake is None else max(wake - clock.unix_ms(), 0) / 1000):
            place = await places.wait(step.model, tokens=tokens)
    except TimeoutError:
        return None
    finally:
        run.stand_still(is_queued=False)
    if run.state is decided:
        return place
    place.release(None)
    return None


def _show(step: CallModel, run: LiveRun) -> None:
    visit = run.state.visit
    step_id = "" if visit is None else visit.step_id
    run.show(LiveDelta(0, step_id, step.started.iteration, waits_for=step.model.profile))

"""Drives one run for as long as this process owns it: decide, perform, until there is nothing to do.

Owns the loop and its boundaries. A run leaves this process finished, dormant (paused or waiting for a
person: it keeps no memory here, whatever waits in its command table), suspended for a drain or for want of a
place, or lost to another worker.
"""

import asyncio
import logging
from collections.abc import Callable
from enum import Enum
from typing import assert_never

from jackline_server import failpoints
from jackline_server.core import exits
from jackline_server.core.decide import decide
from jackline_server.core.deciding import leaving, partial
from jackline_server.core.facts import AbortMode, Fact, RunFinished, RunSuspended, StopReason
from jackline_server.core.frozen import frozen
from jackline_server.core.instruments import Instruments
from jackline_server.core.reading import timing
from jackline_server.core.state import RunState
from jackline_server.core.steps import CallModel, CallTools, Consult, Finish, Record, Step, Wait
from jackline_server.runtime.driving.committing import RETRY_MS
from jackline_server.runtime.driving.cutting import cut_short
from jackline_server.runtime.driving.effects import Effects
from jackline_server.runtime.driving.inbox import Inbox
from jackline_server.runtime.driving.live_run import LiveRun
from jackline_server.runtime.ports.machine import Chance, Clock
from jackline_server.runtime.ports.store_errors import CommandsWaiting, StoreError, StoreUnavailable

_log = logging.getLogger(__name__)

ABANDON_MS = 1_200
"""How long an aborted effect may take to end before it is left behind."""

GRACEFUL_MS = 9_000
"""How long a graceful abort waits for a boundary."""

LONGEST_SLEEP_MS = 3_600_000


class Ending(Enum):
    """How a run left this process."""

    FINISHED = "finished"
    DORMANT = "dormant"
    SUSPENDED = "suspended"


@frozen
class RunnerTools:
    """What every runner shares."""

    effects: Effects
    instruments: Instruments
    clock: Clock
    chance: Chance


class Runner:
    """The loop of one run.

    `takes_place` says whether there is a place for it now; a run that has none is driven as far as it goes
    without a call, and asks again before each.
    """

    def __init__(
        self, run: LiveRun, inbox: Inbox, *, tools: RunnerTools, takes_place: Callable[[], bool]
    ) -> None:
        self._run = run
        self._takes_place = takes_place
        self._has_place = False
        self._inbox = inbox
        self._tools = tools
        self._suspending = False
        self._waker: asyncio.Future[None] | None = None
        inbox.on_nudge(self._wake)

    @property
    def run(self) -> LiveRun:
        """The run that is driven."""
        return self._run

    @property
    def heard(self) -> int:
        """The ordinal up to which the run's commands have been looked at."""
        return self._inbox.heard

    def nudge(self) -> None:
        """A command may have come."""
        self._inbox.nudge()

    def suspend(self) -> None:
        """Let go of the run at its next boundary."""
        self._suspending = True
        self._inbox.nudge()

    async def drive(self) -> Ending:
        """Drive until the run leaves this process.

        Cancelling it stops what is under way at once and suspends the run, calls in flight left open.

        Raises:
            StoreError: Fenced or HeadMismatch: the run is no longer this process's.
        """
        try:
            return await self._loop()
        except asyncio.CancelledError:
            await self._let_go()
            raise
        except StoreError:
            raise
        except Exception:  # noqa: BLE001 - the run's task ends here, and its watchers must be told
            return await self._end_by_bug()

    async def _loop(self) -> Ending:
        run = self._run
        while True:
            await failpoints.hit_async("loop.step.begin")
            await self._settle_what_came()
            if self._suspending and run.state.finished is None:
                return await self._suspended()
            step = decide(run.state, now=run.moment(), instruments=self._tools.instruments)
            ending = await self._carry_out(step)
            if ending is not None:
                return ending

    async def _carry_out(self, step: Step) -> Ending | None:
        """Do what was decided; the ending, if the run leaves this process by it."""
        match step:
            case Record(facts=facts):
                self._note(facts)
            case Finish():
                return Ending.FINISHED if await self._finished() else None
            case Wait(until_active_ms=until):
                await self._run.flush()
                if until is None and not self._inbox.nudged:
                    return Ending.DORMANT
                if until is not None and not self._placed():
                    return await self._suspended()
                await self._sleep(until)
            case CallModel() | CallTools() | Consult():
                if not self._placed():
                    return await self._suspended()
                await self._perform(step)
            case _:
                assert_never(step)
        return None

    def _placed(self) -> bool:
        """True once the run has a place here; without one it makes no call and waits for no time."""
        self._has_place = self._has_place or self._takes_place()
        return self._has_place

    async def _suspended(self) -> Ending:
        await self._let_go()
        return Ending.SUSPENDED

    async def _settle_what_came(self) -> None:
        if self._inbox.nudged:
            await self._hear()
        # Only now: reading may have taken long, and nothing that was sent later decides what has expired.
        due = timing.due(self._run.state, self._tools.clock.unix_ms())
        if due:
            self._run.note(*due)
        if self._run.state.finished is None:
            self._inbox.settle(self._run)

    async def _hear(self, *, force: bool = False) -> None:
        """Load the commands that have come; waits for a store that can't be reached."""
        while True:
            try:
                return await self._inbox.refresh(force=force)
            except StoreUnavailable:
                force = True
                await self._tools.clock.sleep(RETRY_MS)

    def _note(self, facts: tuple[Fact, ...]) -> None:
        if isinstance(facts[-1], RunFinished):
            self._run.note(*facts[:-1])
            self._inbox.reject_rest(self._run)
            self._run.note(facts[-1])
        else:
            self._run.note(*facts)

    async def _finished(self) -> bool:
        """Make the end durable; False if commands came first and have to be heard."""
        try:
            await self._run.flush()
        except CommandsWaiting:
            self._run.take_back()
            await self._hear(force=True)
            return False
        self._tools.effects.ended(self._run.run_id)
        return True

    async def _let_go(self) -> None:
        """Suspend the run, whatever was noted first; an end that is not durable yet is decided again."""
        self._run.take_back()
        if self._run.state.finished is None:
            self._run.note(RunSuspended(epoch=self._run.epoch))
        await self._run.flush()

    async def _end_by_bug(self) -> Ending:
        """Close the run with an incident id: a bug of ours must not leave it hanging."""
        incident = self._tools.chance.new_id("inc_")
        _log.exception(
            "a run met a bug of the server", extra={"run_id": self._run.run_id, "incident_id": incident}
        )
        self._run.discard()
        self._inbox.start_over()
        end = exits.abnormal(StopReason.INTERNAL, leaf=incident, error=f"internal error; incident {incident}")
        visit = self._run.state.visit
        if visit is not None:
            self._run.note(*cut_short(self._run, abandoned=True))
            visit = self._run.state.visit or visit
            end = partial.with_text(end, self._run.state, visit)
            self._run.note(*leaving.leave(self._run.state, visit, end, routed=False).facts)
        while True:
            self._note(leaving.end_run(end).facts)
            if await self._finished():
                return Ending.FINISHED

    # --- waiting and performing ----------------------------------------------------------------

    async def _sleep(self, until_active_ms: int | None) -> None:
        """Wait for the active time or the next timer to come, or for a nudge."""
        ms = LONGEST_SLEEP_MS
        if until_active_ms is not None:
            ms = min(ms, until_active_ms - self._run.active_ms())
        wake = timing.wake_unix_ms(self._run.state)
        if wake is not None:
            ms = min(ms, wake - self._tools.clock.unix_ms())
        if self._inbox.nudged or ms <= 0:
            return
        timer = asyncio.get_running_loop().call_later(ms / 1000, self._wake)
        try:
            await self._woken()
        finally:
            timer.cancel()

    async def _woken(self) -> None:
        """Wait for a nudge, a timer or the end of an effect."""
        self._waker = asyncio.get_running_loop().create_future()
        try:
            await self._waker
        finally:
            self._waker = None

    def _wake(self) -> None:
        if self._waker is not None and not self._waker.done():
            self._waker.set_result(None)

    async def _perform(self, step: CallModel | CallTools | Consult) -> None:
        """Carry out an effect while listening for an abort."""
        effect = asyncio.get_running_loop().create_task(self._effect(step, self._run.state))
        try:
            await self._until_done(effect)
        except BaseException:
            await _stop(effect)  # whatever ended the wait: a call is never left without an owner
            raise
        if effect.done() and not effect.cancelled():  # else it was left behind
            effect.result()

    async def _effect(self, step: CallModel | CallTools | Consult, decided: RunState) -> None:
        """Carry out what was decided in that state; nothing, if a command has changed it by now."""
        try:
            if self._run.state is decided:
                await self._tools.effects.perform(step, self._run)
        finally:
            self._wake()

    async def _until_done(self, effect: asyncio.Task[None]) -> None:
        """Return when the effect has ended, or an abort has ended it."""
        loop = asyncio.get_running_loop()
        graceful_until: float | None = None
        waiting = self._inbox.waiting
        while not effect.done():
            if not self._inbox.nudged:
                await self._woken()
            if effect.done():
                return
            await self._hear()
            if self._run.is_queued and (self._suspending or self._inbox.waiting > waiting):
                await _stop(effect)  # nothing is under way yet: what came is settled first
                return
            await self._adjust()
            mode = self._inbox.abort_mode()
            if mode is AbortMode.GRACEFUL and graceful_until is None:
                graceful_until = loop.time() + GRACEFUL_MS / 1000
                loop.call_at(graceful_until, self._inbox.nudge)
            overdue = graceful_until is not None and loop.time() >= graceful_until
            if (mode is AbortMode.NOW or (mode and overdue)) and await self._abort(effect):
                return

    async def _adjust(self) -> None:
        """Make new bounds durable while an effect is under way, and let its timer follow them."""
        if self._inbox.settle_bounds(self._run):
            await self._run.flush()
            self._tools.effects.timers.follow(self._run)

    async def _abort(self, effect: asyncio.Task[None]) -> bool:
        """Make the abort durable, stop the effect, and say what became of its calls.

        False if the abort was rejected, or leaves a cleanup path alone that is under way.
        """
        run = self._run
        earlier = run.state.oversight.abort
        self._inbox.settle(run, aborts_only=True)
        await run.flush()
        abort = run.state.oversight.abort
        cleaning = run.state.oversight.cleanup is not None
        if abort is None or abort is earlier or (cleaning and not abort.skip_routes):
            return False
        stopped = await _stop(effect)
        run.note(*cut_short(run, abandoned=not stopped))
        return True


async def _stop(effect: asyncio.Task[None]) -> bool:
    """Cancel a task and wait a little for its end; False if it goes on regardless."""
    effect.cancel()
    done, _ = await asyncio.wait({effect}, timeout=ABANDON_MS / 1000)
    return bool(done)

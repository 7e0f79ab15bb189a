"""Owners of runs: streams that were opened as such, and the end of a run whose owners stay away.

Owns this process's holds in the store, which it renews while a stream is open, and the abort of runs that
nobody holds any more. The holds are the truth: whoever sees first that none is good gives the abort, under an
id that makes it one. Does not own the streams.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import NoReturn

from jackline_server.core.commands import OWNERS_GONE, Abort
from jackline_server.core.facts import AbortMode, StopReason
from jackline_server.runtime.ports.machine import Clock
from jackline_server.runtime.ports.owners import Abandoned, Hold, Owners
from jackline_server.runtime.ports.store_errors import StoreError
from jackline_server.runtime.refusals import Reason, Refused
from jackline_server.runtime.service.controlling import Controlling
from jackline_server.runtime.store_refusals import refusing_store_errors
from jackline_server.runtime.use_cases import Caller, ControlRun, Stage

POLL_MS = 1_000
PRESENT_MS = 15_000
"""How long a hold is good beyond its grace without being renewed: so much longer holds who dies."""

AT_ONCE = 100
"""Abandoned runs of one look."""

WHY = "its owners were away for longer than they had said"

_log = logging.getLogger(__name__)


class Owning:
    """The owners that this process serves. `run` for as long as it serves."""

    def __init__(self, *, owners: Owners, controlling: Controlling, clock: Clock, worker: str) -> None:
        self._owners = owners
        self._controlling = controlling
        self._clock = clock
        self._worker = worker
        self._open: dict[str, list[int]] = {}
        self._left: dict[str, Hold] = {}
        self._writing = asyncio.Lock()
        self._wake = asyncio.Event()
        self._renewed_ms = 0

    @asynccontextmanager
    async def held(self, run_id: str, *, grace_ms: int) -> AsyncGenerator[None]:
        """Be an owner of the run for as long as the block lasts; durable when it begins.

        However it ends, cancelled or not, the grace begins with its end. Raises Refused before it begins.
        """
        self._open.setdefault(run_id, []).append(grace_ms)
        began = True
        try:
            try:
                await self._begin(run_id)
            except Refused:
                began = False
                raise
            yield
        finally:
            self._close(run_id, grace_ms, began=began)

    async def _begin(self, run_id: str) -> None:
        with refusing_store_errors():
            async with self._writing:
                await self._owners.hold(self._worker, [self._present(run_id)])

    def _close(self, run_id: str, grace_ms: int, *, began: bool) -> None:
        """One stream has ended; the last one's grace begins."""
        self._open[run_id].remove(grace_ms)
        if self._open[run_id]:
            return
        del self._open[run_id]
        if began:
            until = self._clock.unix_ms() + grace_ms
            self._left[run_id] = Hold(run_id=run_id, grace_ms=grace_ms, until_unix_ms=until)
            self._wake.set()

    async def run(self) -> NoReturn:
        """Renew holds, let go of those that were left, and end what is abandoned, until it is cancelled."""
        while True:
            try:
                await self._look()
            except StoreError as error:
                _log.warning("the owners of runs could not be looked after; trying again: %s", error)
            try:
                async with asyncio.timeout(POLL_MS / 1000):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()

    async def _look(self) -> None:
        await self._write()
        found = await self._owners.abandoned(now_unix_ms=self._clock.unix_ms(), limit=AT_ONCE)
        for abandoned in found:
            if abandoned.run_id not in self._open and await self._end(abandoned):
                await self._owners.forget(abandoned.run_id)

    async def _write(self) -> None:
        """Write what was left, and what is open where it is time to.

        A run that is open again was not left: a hold of the past must not follow one of now.
        """
        async with self._writing:
            now = self._clock.monotonic_ms()
            due = now - self._renewed_ms >= PRESENT_MS // 3
            left = {run_id: hold for run_id, hold in self._left.items() if run_id not in self._open}
            self._left = {}
            holds = [*left.values(), *(map(self._present, self._open) if due else ())]
            if not holds:
                return
            try:
                await self._owners.hold(self._worker, holds)
            except StoreError:
                self._left = left | self._left
                raise
            self._renewed_ms = now if due else self._renewed_ms

    def _present(self, run_id: str) -> Hold:
        grace_ms = max(self._open[run_id])
        until = self._clock.unix_ms() + PRESENT_MS + grace_ms
        return Hold(run_id=run_id, grace_ms=grace_ms, until_unix_ms=until)

    async def _end(self, abandoned: Abandoned) -> bool:
        """True once the run is told to end, or has ended."""
        command = ControlRun(
            caller=Caller(tenant=abandoned.tenant, principal=""),
            run_id=abandoned.run_id,
            command_id=OWNERS_GONE,
            reason=WHY,
            expect_phase=None,
            expect_sequence=None,
            action=Abort(mode=AbortMode.NOW, skip_routes=False, cause=StopReason.CLIENT_GONE),
            wait=Stage.ACCEPTED,
            wait_ms=0,
        )
        try:
            await self._controlling.control(command)
        except Refused as refused:
            return refused.reason is Reason.RUN_NOT_FOUND
        return True

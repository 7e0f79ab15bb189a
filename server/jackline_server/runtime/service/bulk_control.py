"""One command to many runs, a page of them at a time.

Owns which runs a page has and the id of each one's command. What becomes of a command to one run is that of
`controlling`, as if it had been sent alone: a run that ends meanwhile, or refuses, holds up no other.
"""

import asyncio
import hashlib
from collections.abc import Sequence

from jackline_server.core.commands import Action
from jackline_server.core.frozen import frozen
from jackline_server.runtime.ports.run_rows import RunPage, RunQuery, RunRow, Runs
from jackline_server.runtime.refusals import Reason, Refused
from jackline_server.runtime.service.controlling import Controlling
from jackline_server.runtime.store_refusals import refusing_store_errors
from jackline_server.runtime.use_cases import Caller, ControlRun, Receipt, Stage

AT_ONCE = 32
"""Runs that are given the command at the same time, so that they share commits."""

_FOR_ALL = frozenset({Reason.STORE_UNAVAILABLE, Reason.STORE_FULL})
"""Refusals that say nothing of the run: the call fails, and is to be repeated."""


@frozen
class BulkControl:
    """A command for the runs of a page, all of them living. With `preview` none is given."""

    caller: Caller
    query: RunQuery
    request_id: str
    reason: str
    action: Action
    preview: bool


@frozen
class BulkResult:
    """What became of the command to one run, as it was found. Both are empty in a preview."""

    row: RunRow
    receipt: Receipt | None = None
    refusal: Reason | None = None


@frozen
class BulkDone:
    """The results of a page, newest run first, and how many runs match in all."""

    results: Sequence[BulkResult]
    total: int


class BulkControlling:
    """The use case `bulk`."""

    def __init__(self, *, controlling: Controlling, runs: Runs) -> None:
        self._controlling = controlling
        self._runs = runs

    async def bulk(self, request: BulkControl) -> BulkDone:
        """See `service.ports.RunUseCases.bulk`."""
        page = await self._page(request.query)
        if request.preview:
            return BulkDone(results=[BulkResult(row=row) for row in page.rows], total=page.total)
        places = asyncio.Semaphore(AT_ONCE)

        async def give(row: RunRow) -> BulkResult:
            async with places:
                return await self._give(row, request)

        async with asyncio.TaskGroup() as group:
            giving = [group.create_task(give(row)) for row in page.rows]
        results = [task.result() for task in giving]
        for result in results:
            if result.refusal in _FOR_ALL:
                raise _not_all(result.refusal)
        return BulkDone(results=results, total=page.total)

    async def _page(self, query: RunQuery) -> RunPage:
        with refusing_store_errors():
            return await self._runs.page(query)

    async def _give(self, row: RunRow, request: BulkControl) -> BulkResult:
        given = ControlRun(
            caller=request.caller,
            run_id=row.run_id,
            command_id=command_id(request.request_id, row.run_id),
            reason=request.reason,
            expect_phase=None,
            expect_sequence=None,
            action=request.action,
            wait=Stage.ACCEPTED,
            wait_ms=0,
        )
        try:
            return BulkResult(row=row, receipt=await self._controlling.control(given))
        except Refused as refused:
            return BulkResult(row=row, refusal=refused.reason)


def command_id(request_id: str, run_id: str) -> str:
    """The id of the command that a bulk request gives to a run: the same for each repeat."""
    return "bulk_" + hashlib.sha256(f"{request_id} {run_id}".encode()).hexdigest()[:32]


def _not_all(reason: Reason) -> Refused:
    return Refused(
        reason,
        "The store took the command for some of the runs only. Send the same request again.",
        retry_after_ms=1_000,
    )

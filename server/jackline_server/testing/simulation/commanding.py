"""An operator of a simulated world who commands many runs at once, page by page, and again if no answer came.

Owns the dice of such commands, which are their own, so that worlds without any stay as they are.
"""

import asyncio
import hashlib
from collections.abc import Sequence

from jackline_server.core.commands import Abort, Action, Pause, Resume, Steer, kind_of
from jackline_server.core.facts import AbortMode
from jackline_server.runtime.ports.run_rows import RunQuery
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.service.bulk_control import BulkControl, BulkDone, BulkResult, command_id
from jackline_server.runtime.service.kill_switch import LIVING
from jackline_server.testing.simulation.clients import Client, Notebook, with_receipt
from jackline_server.testing.simulation.dice import dice_for
from jackline_server.testing.simulation.wishes import caller
from jackline_server.testing.simulation.workers import Deployment
from jackline_server.testing.validators.acts import BulkPage
from jackline_server.testing.validators.history import OK, REFUSED, Control

_SHARE = 0.12
"""In so many of the worlds many runs are commanded at once."""

_AGAIN = 0.3
"""How often a page is asked for again although it was answered."""

_MOST_CALLS = 60
_ACTIONS: tuple[Action, ...] = (
    Pause(),
    Pause(),
    Resume(),
    Steer(text="all hands"),
    Abort(mode=AbortMode.NOW, skip_routes=False),
    Abort(mode=AbortMode.GRACEFUL, skip_routes=False),
)


class Commanding:
    """What the operator does, in one world."""

    def __init__(self, deployment: Deployment, notebook: Notebook) -> None:
        self._chance = dice_for("many runs ", deployment.plans)
        self._deployment = deployment
        self._notebook = notebook
        self.happens = self._chance.random() < _SHARE

    async def act(self) -> None:
        """Command the runs of one workflow after another, as often as the dice say."""
        for number in range(self._chance.choice((1, 2))):
            await asyncio.sleep(0.3 + self._chance.random() * 3)
            await self._command(f"bulk-{number}")

    async def _command(self, name: str) -> None:
        """Go through the pages to the last one."""
        chance = self._chance
        operator = Client(name, self._deployment, self._notebook)
        names = ["", *(plan.name for plan in self._deployment.plans.values())]
        workflow = chance.choice((names[0], chance.choice(names)))
        action, limit, before = chance.choice(_ACTIONS), chance.choice((1, 2, 50)), None
        for _ in range(_MOST_CALLS):
            request = BulkControl(
                caller=caller(name),
                query=RunQuery(
                    tenant=DEFAULT_TENANT,
                    phases=LIVING,
                    workflow=workflow,
                    labels={},
                    before=before,
                    limit=limit,
                ),
                request_id=name,
                reason="",
                action=action,
                preview=False,
            )
            done = await self._page(operator, request)
            if done is None or chance.random() < _AGAIN:
                await asyncio.sleep(chance.random() * 0.5)
            elif len(done.results) < limit:
                return
            else:
                oldest = done.results[-1].row
                before = (oldest.created_unix_ms, oldest.run_id)

    async def _page(self, operator: Client, request: BulkControl) -> BulkDone | None:
        """One call; None if it was refused, or no answer came."""
        begin = self._deployment.now_ms()
        ending, done, reason = await operator.call(
            lambda runtime: runtime.runs.bulk(request), timeout_ms=5_000
        )
        results: Sequence[BulkResult] = () if done is None else done.results
        page = BulkPage(
            client=operator.name,
            request_id=request.request_id,
            workflow=request.query.workflow,
            kind=kind_of(request.action).value,
            begin_ms=begin,
            end_ms=self._deployment.now_ms(),
            ending=ending,
            reason=reason,
            runs=tuple(result.row.run_id for result in results),
            last=ending == OK and len(results) < request.query.limit,
        )
        self._notebook.bulk.append(page)
        self._notebook.controls += [_control(page, request, result) for result in results]
        return done


def _control(page: BulkPage, request: BulkControl, result: BulkResult) -> Control:
    """What the operator saw of the command to one run."""
    action, refusal = request.action, result.refusal
    record = Control(
        client=page.client,
        run=result.row.run_id,
        command_id=command_id(request.request_id, result.row.run_id),
        kind=page.kind,
        content=hashlib.sha256(repr(action).encode()).hexdigest()[:12],
        abort_mode=action.mode.value if isinstance(action, Abort) else "",
        begin_ms=page.begin_ms,
        end_ms=page.end_ms,
        ending=OK if refusal is None else REFUSED,
        reason="" if refusal is None else refusal.value,
    )
    return record if result.receipt is None else with_receipt(record, result.receipt)

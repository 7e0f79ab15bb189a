"""The open interrupts of one run, or of all, page by page.

A page ends between two interrupts: its position is the run before, and the last interrupt shown of the run
in hand. Runs come oldest first, the interrupts of a run in the order in which they were raised.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from typing import cast

from jackline.v1 import run_pb2, run_service_pb2
from jackline_server.api.page_tokens import PageTokens
from jackline_server.api.run_requests import read_interrupts_page
from jackline_server.api.views import is_full
from jackline_server.codec.run_view import interrupt_messages
from jackline_server.core.plan import JsonValue
from jackline_server.runtime.ports.run_rows import RunQuery
from jackline_server.runtime.ports.tenants import Tenant
from jackline_server.runtime.refusals import Refused
from jackline_server.runtime.service.ports import RunUseCases
from jackline_server.runtime.use_cases import Snapshot

MOST_OF_A_FAMILY = 1_000
"""So many runs are looked at for the questions below one."""


@dataclass(slots=True)
class _Page:
    """A page being filled, of interrupts of a kind or, where it is 0, of any.

    `before` is the last run shown to its end, `shown` the last of `in_hand`.
    """

    limit: int
    kind: int = 0
    before: tuple[int, str] | None = None
    in_hand: str = ""
    shown: int = 0
    interrupts: list[run_pb2.Interrupt] = field(default_factory=list[run_pb2.Interrupt])

    def take(self, snapshot: Snapshot, *, full: bool) -> bool:
        """Take what this run has left to show; false if the page is full before its end."""
        if snapshot.row.run_id != self.in_hand:
            self.in_hand, self.shown = snapshot.row.run_id, 0
        raised = [one.raised_sequence for one in snapshot.state.oversight.interrupts.values()]
        for sequence, message in zip(raised, interrupt_messages(snapshot.state, full=full), strict=True):
            if sequence <= self.shown or self.kind not in (0, message.kind):
                continue
            if len(self.interrupts) == self.limit:
                return False
            self.interrupts.append(message)
            self.shown = sequence
        self.before = (snapshot.row.created_unix_ms, snapshot.row.run_id)
        return True

    def position(self) -> JsonValue:
        """Where the next page begins."""
        before: JsonValue = None if self.before is None else [self.before[0], self.before[1]]
        return [before, self.in_hand, self.shown]


async def list_interrupts(
    runs: RunUseCases,
    tokens: PageTokens,
    tenant: Tenant,
    request: run_service_pb2.ListInterruptsRequest,
) -> run_service_pb2.ListInterruptsResponse:
    """One page. Raises Refused and DoorRefused (INVALID_REQUEST, BAD_PAGE_TOKEN)."""
    page = _Page(limit=read_interrupts_page(request), kind=request.kind)
    if request.page_token:
        _resume(page, tokens.read(tenant, request, request.page_token))
    if request.run_id and request.include_children:
        done = await _take_family(page, runs, tenant, request)
    elif request.run_id:
        done = page.take(await runs.get(tenant, request.run_id), full=is_full(request.view))
    else:
        done = await _fill(page, runs, tenant, full=is_full(request.view))
    token = "" if done else tokens.make(tenant, request, page.position())
    return run_service_pb2.ListInterruptsResponse(interrupts=page.interrupts, next_page_token=token)


async def _take_family(
    page: _Page, runs: RunUseCases, tenant: Tenant, request: run_service_pb2.ListInterruptsRequest
) -> bool:
    """Fill the page from a run and the living ones below it; true if nothing is left to show."""
    family = sorted(await _family(runs, tenant, request.run_id), key=_place)
    for snapshot in family:
        if page.before is not None and _place(snapshot) <= page.before:
            continue
        if not page.take(snapshot, full=is_full(request.view)):
            return False
    return True


async def _family(runs: RunUseCases, tenant: Tenant, run_id: str) -> list[Snapshot]:
    """The run, and those below it that live. A run that is gone meanwhile has no question any more."""
    found = [await runs.get(tenant, run_id)]
    for above in found:  # grows as it goes
        family = above.state.family
        for child in () if family is None else family.living:
            if len(found) == MOST_OF_A_FAMILY:
                return found
            with suppress(Refused):
                found.append(await runs.get(tenant, child))
    return found


def _place(snapshot: Snapshot) -> tuple[int, str]:
    return snapshot.row.created_unix_ms, snapshot.row.run_id


async def _fill(page: _Page, runs: RunUseCases, tenant: Tenant, *, full: bool) -> bool:
    """Fill the page from all runs; true if nothing is left to show."""
    while True:
        query = RunQuery(
            tenant=tenant,
            labels={},
            with_interrupts=True,
            oldest_first=True,
            before=page.before,
            limit=page.limit,
        )
        found = await runs.page(query)
        for row in found.rows:
            if not page.take(await runs.get(tenant, row.run_id), full=full):
                return False
        if len(found.rows) < page.limit:
            return True


def _resume(page: _Page, position: JsonValue) -> None:
    """Begin where the last page ended; the token was ours, so the shape is known."""
    before, page.in_hand, page.shown = cast(tuple[list[int | str] | None, str, int], position)
    if before is not None:
        page.before = (cast(int, before[0]), cast(str, before[1]))

"""Runs as lists and look-ups have them."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from jackline_server.core.facts import Phase
from jackline_server.core.frozen import frozen
from jackline_server.runtime.ports.tenants import Tenant


@frozen
class RunRow:
    """A run as the store knows it. `waits_for_turn` while another run of its thread is active."""

    tenant: Tenant
    run_id: str
    workflow: str
    plan_digest: str
    labels: Mapping[str, str]
    created_unix_ms: int
    finished_unix_ms: int | None
    epoch: int
    owner: str | None
    head_sequence: int
    phase: Phase
    summary: bytes
    thread_id: str = ""
    waits_for_turn: bool = False
    parent_run_id: str = ""


@frozen
class RunQuery:
    """A page of runs, newest first (by creation time, then id, both descending).

    Empty `phases`, `workflow`, `labels`, `thread_id` and `parent_run_id` do not filter. `before` is the
    position of the last run of the page before (creation time, run id). `with_interrupts` keeps only runs
    with an open interrupt, `without_delayed` those whose time has come. `oldest_first` turns the order and
    the meaning of `before` around.
    """

    tenant: Tenant
    phases: frozenset[Phase] = frozenset()
    workflow: str = ""
    labels: Mapping[str, str]
    created_from_unix_ms: int | None = None
    created_until_unix_ms: int | None = None
    with_interrupts: bool = False
    without_delayed: bool = False
    thread_id: str = ""
    parent_run_id: str = ""
    oldest_first: bool = False
    before: tuple[int, str] | None = None
    limit: int


@frozen
class RunPage:
    """The rows of a page, and how many match the query in all, `before` left aside."""

    rows: Sequence[RunRow]
    total: int


class Runs(Protocol):
    """The rows of runs, for reading."""

    async def get(self, tenant: Tenant, run_id: str) -> RunRow | None:
        """The run, if the tenant has it."""
        ...

    async def find_request(self, tenant: Tenant, request_id: str) -> tuple[str, bytes] | None:
        """The run id and fingerprint stored under a request id."""
        ...

    async def page(self, query: RunQuery) -> RunPage:
        """One page of runs."""
        ...

    async def living_below(self, tenant: Tenant, run_id: str) -> Sequence[str]:
        """The runs that have not ended and that the run has started, or a run below it."""
        ...

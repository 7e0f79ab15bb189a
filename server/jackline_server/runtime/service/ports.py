"""The two faces that the doors see: runs and workflows.

Implemented by `service`. Every method acts within the caller's tenant. All raise `Refused`; a store that
can't be reached is `Refused(STORE_UNAVAILABLE)`, one without room `Refused(STORE_FULL)`.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from jackline_server.core.facts import Phase
from jackline_server.core.messages import Message
from jackline_server.runtime.ports.definitions import Source
from jackline_server.runtime.ports.revisions import RevisionRow
from jackline_server.runtime.ports.run_rows import RunPage, RunQuery
from jackline_server.runtime.ports.store import Durability
from jackline_server.runtime.ports.tenants import Tenant
from jackline_server.runtime.ports.threads import Appended, ThreadRow
from jackline_server.runtime.ports.webhooks import DeliveryQuery, DeliveryRow, Tried
from jackline_server.runtime.service.bulk_control import BulkControl, BulkDone
from jackline_server.runtime.service.kill_switch import Switched, SwitchView
from jackline_server.runtime.service.webhooking import WebhookView
from jackline_server.runtime.use_cases import (
    AppendMessages,
    Caller,
    Checked,
    ControlRun,
    Described,
    ForkRun,
    Frame,
    PutDone,
    Receipt,
    ResultPart,
    Snapshot,
    Started,
    StartRun,
    ThreadPage,
)


class RunUseCases(Protocol):
    """Start, watch, control, read."""

    async def start(self, request: StartRun) -> Started:
        """Make a run durable and return; it is driven elsewhere."""
        ...

    async def fork(self, request: ForkRun) -> Started:
        """Make a run durable that begins with the first events of another, and return.

        Raises:
            Refused: beside what a start is refused for, RUN_NOT_FOUND, SEQUENCE_IN_FUTURE, FORK_POINT,
                PREFIX_MISFIT.
        """
        ...

    async def control(self, request: ControlRun) -> Receipt:
        """Make a command durable, then wait as far as asked."""
        ...

    async def bulk(self, request: BulkControl) -> BulkDone:
        """Give the runs of a page a command, or say which they are; what becomes of each.

        A repeat gives no run the command twice. Raises Refused only for what holds up all of them: the store.
        """
        ...

    async def get(self, tenant: Tenant, run_id: str) -> Snapshot:
        """The run as its durable facts have it."""
        ...

    async def wait(self, tenant: Tenant, run_id: str, *, timeout_ms: int) -> Snapshot:
        """The same, once it is terminal or the time is over."""
        ...

    async def page(self, query: RunQuery) -> RunPage:
        """A page of runs."""
        ...

    async def result(
        self, tenant: Tenant, run_id: str, call_id: str, *, part: int = 0, offset: int, limit: int
    ) -> ResultPart:
        """A piece of the whole result of a tool call, or of its error.

        `part` is one of it that is no text, from 1. Raises Refused(CALL_NOT_FOUND).
        """
        ...

    async def messages(self, tenant: Tenant, run_id: str, *, step_id: str, visit: int) -> Sequence[Message]:
        """The conversation of one visit, as the model saw it. Empty id and 0 mean the last."""
        ...

    def own(
        self, tenant: Tenant, run_id: str, *, after_sequence: int, grace_ms: int
    ) -> AbstractAsyncContextManager[None]:
        """Be an owner of a run for as long as the block lasts: it ends where all owners are away for longer.

        Durable when the block begins. `after_sequence` is where its stream is to begin.

        Raises:
            Refused: RUN_NOT_FOUND, SEQUENCE_IN_FUTURE; then nobody owned anything.
        """
        ...

    def watch(
        self,
        tenant: Tenant,
        run_id: str,
        *,
        after_sequence: int,
        deltas: bool,
        positions: Mapping[str, int] | None = None,
        progress: bool = False,
    ) -> AsyncIterator[Frame]:
        """Replay and follow; ends after the terminal event. Deltas say how far tool calls are, too.

        With `positions`, if only empty, the runs that it starts are followed too, and those that these start;
        it then ends after the last of them. They say where to go on in each.

        A frame at least every 15 s. Closing the iterator, or cancelling its consumer, frees everything.

        Raises:
            Refused: RUN_NOT_FOUND, SEQUENCE_IN_FUTURE, EVENTS_EXPIRED; DRAINING when the server goes.
        """
        ...


class KillSwitchUseCases(Protocol):
    """The kill switch of the caller's tenant."""

    async def engage(self, caller: Caller, *, reason: str) -> Switched:
        """Let no run begin and tell every one to end; durable when it returns."""
        ...

    async def release(self, caller: Caller, *, reason: str) -> Switched:
        """Let runs begin again."""
        ...

    async def engaged(self, tenant: Tenant) -> bool:
        """True while no run of the tenant begins."""
        ...

    async def look(self, tenant: Tenant) -> SwitchView:
        """Where the switch stands."""
        ...


class ThreadUseCases(Protocol):
    """Conversations: list, read, append."""

    async def threads(
        self, tenant: Tenant, *, before: tuple[int, str] | None, limit: int
    ) -> Sequence[ThreadRow]:
        """A page of threads, newest first; `before` is when the last one was made, and its id."""
        ...

    async def thread(
        self, tenant: Tenant, thread_id: str, *, after: int, limit: int, content: bool
    ) -> ThreadPage:
        """The thread with the messages after a position. Raises Refused(THREAD_NOT_FOUND)."""
        ...

    async def append(self, request: AppendMessages) -> Appended:
        """Add messages to a thread, which is made if there is none; while a run is active they pend.

        Raises:
            Refused: APPEND_ID_REUSED, RUN_LIMIT.
        """
        ...


class WebhookUseCases(Protocol):
    """Webhooks of the config, and deliveries of the caller's tenant."""

    async def webhooks(self, tenant: Tenant) -> Sequence[WebhookView]:
        """The endpoints of the config, by name."""
        ...

    async def deliveries(self, query: DeliveryQuery) -> Sequence[DeliveryRow]:
        """A page of deliveries, newest first."""
        ...

    async def resend(self, tenant: Tenant, delivery_id: str) -> DeliveryRow:
        """Have a delivery sent again at once; as it stands then.

        Raises:
            Refused: DELIVERY_NOT_FOUND; WEBHOOK_NOT_FOUND, and it waits until the config has it.
        """
        ...

    async def test(self, name: str) -> Tried:
        """Send an endpoint a message that tells of nothing. Raises Refused(WEBHOOK_NOT_FOUND)."""
        ...


class WorkflowUseCases(Protocol):
    """Check, put, read."""

    async def check(self, tenant: Tenant, source: Source, *, beside: Sequence[Source] = ()) -> Checked:
        """Compile and store nothing. Workflows of `beside` are taken for stored."""
        ...

    async def put(self, caller: Caller, source: Source, *, alias: str, expect_digest: str) -> PutDone:
        """Store a revision and move an alias."""
        ...

    async def get_revision(self, tenant: Tenant, reference: str) -> RevisionRow:
        """The revision that `name`, `name@alias` or `name@digest` names."""
        ...

    async def revisions(self, tenant: Tenant, *, after: str, limit: int) -> Sequence[RevisionRow]:
        """The latest revision of each workflow, by name."""
        ...

    async def describe(self, tenant: Tenant, reference: str) -> Described:
        """The revision with its plan."""
        ...


class Facts(Protocol):
    """What the server says of itself."""

    @property
    def durability(self) -> Durability:
        """What an acknowledgement is worth."""
        ...

    def active(self) -> dict[Phase, int]:
        """How many runs this process drives, by phase."""
        ...

"""The tables of the memory store, as plain dictionaries, and what one run is in them."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from jackline_server.core.facts import Usage
from jackline_server.runtime.ports.command_table import CommandRow, CommandState
from jackline_server.runtime.ports.journal import NewRun, RunHead, StoredEvent
from jackline_server.runtime.ports.owners import Hold
from jackline_server.runtime.ports.run_rows import RunRow
from jackline_server.runtime.ports.switches import Engagement
from jackline_server.runtime.ports.tenants import Tenant
from jackline_server.runtime.ports.thread_turns import NewMessage
from jackline_server.runtime.ports.threads import MessageRow, ThreadRow
from jackline_server.runtime.ports.webhooks import DeliveryRow
from jackline_server.storage.clocks import StoreClock


@dataclass(slots=True, kw_only=True)
class MemoryRun:
    """One run. `seen_ms` is the last sign of an owner that has not let go; None without one."""

    new: NewRun
    epoch: int
    owner: str | None
    head: RunHead
    summary: bytes
    lease_until_ms: int = 0
    seen_ms: int | None = None
    finished_unix_ms: int | None = None
    terminal: bool = False
    thread: str = ""
    waits_for_turn: bool = False
    replaces: bool = False
    heard: int = 0
    log: list[StoredEvent] = field(default_factory=list[StoredEvent])
    commands: dict[str, CommandRow] = field(default_factory=dict[str, CommandRow])

    @property
    def age(self) -> tuple[int, str]:
        """Where the run stands among all, oldest first."""
        return self.new.created_unix_ms, self.new.run_id

    def pending(self) -> list[CommandRow]:
        """The commands that no append has settled, by ordinal."""
        return [row for row in self.commands.values() if row.state is CommandState.PENDING]

    def row(self) -> RunRow:
        """The run as the port shows it."""
        return RunRow(
            tenant=self.new.tenant,
            run_id=self.new.run_id,
            workflow=self.new.workflow,
            plan_digest=self.new.plan_digest,
            labels=dict(self.new.labels),
            created_unix_ms=self.new.created_unix_ms,
            finished_unix_ms=self.finished_unix_ms,
            epoch=self.epoch,
            owner=self.owner,
            head_sequence=len(self.log),
            phase=self.head.phase,
            summary=self.summary,
            thread_id=self.thread,
            waits_for_turn=self.waits_for_turn,
            parent_run_id=self.new.parent_run_id,
        )

    def let_go(self) -> None:
        """Give up the lease in good order."""
        self.owner = None
        self.seen_ms = None


@dataclass(slots=True, kw_only=True)
class MemoryBlob:
    """One blob. `holders` are the kinds and ids of what names it; `touched_ms` is when it was last put."""

    data: bytes
    touched_ms: int
    holders: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])


@dataclass(slots=True, kw_only=True)
class MemoryThread:
    """One thread. `waiting` are runs in the order of their turns."""

    tenant: Tenant
    thread_id: str
    created_unix_ms: int
    changed_unix_ms: int
    messages: list[MessageRow] = field(default_factory=list[MessageRow])
    pending: list[tuple[NewMessage, str]] = field(default_factory=list[tuple[NewMessage, str]])
    active: str = ""
    waiting: list[str] = field(default_factory=list[str])
    requests: dict[str, bytes] = field(default_factory=dict[str, bytes])
    ended: int = 0
    usage: Usage = Usage()
    cost_micros: int = 0

    @property
    def age(self) -> tuple[int, str]:
        """Where the thread stands among all, oldest first."""
        return self.created_unix_ms, self.thread_id

    def row(self) -> ThreadRow:
        """The thread as the port shows it."""
        return ThreadRow(
            tenant=self.tenant,
            thread_id=self.thread_id,
            created_unix_ms=self.created_unix_ms,
            changed_unix_ms=self.changed_unix_ms,
            messages=len(self.messages),
            pending=len(self.pending),
            active_run=self.active,
            waiting=len(self.waiting),
            ended=self.ended,
            usage=self.usage,
            cost_micros=self.cost_micros,
        )

    def add(
        self, messages: Iterable[NewMessage], *, run_id: str = "", principal: str = "", unix_ms: int
    ) -> None:
        """Add messages at the end."""
        for message in messages:
            row = MessageRow(
                position=len(self.messages) + 1,
                digest=message.digest,
                role=message.role,
                size=message.size,
                run_id=run_id,
                principal=principal,
                added_unix_ms=unix_ms,
            )
            self.messages.append(row)
        self.changed_unix_ms = unix_ms


@dataclass(slots=True, kw_only=True)
class MemoryDelivery:
    """One delivery. `since_ms` is when it was made or resent, `before` how many attempts it had by then."""

    row: DeliveryRow
    body: bytes
    since_ms: int
    before: int = 0
    claimed: bool = False


@dataclass(slots=True, kw_only=True)
class MemorySwitch:
    """The newest engagement of a tenant's kill switch, and the command that its runs were given."""

    engagement: Engagement
    command_id: str
    payload: bytes


@dataclass(slots=True, kw_only=True)
class MemoryTables:
    """The tables that the roles share."""

    clock: StoreClock
    lease_ms: int
    fencing: bool
    runs: dict[str, MemoryRun] = field(default_factory=dict[str, MemoryRun])
    plans: dict[str, bytes] = field(default_factory=dict[str, bytes])
    requests: dict[tuple[str, str], tuple[str, bytes]] = field(
        default_factory=dict[tuple[str, str], tuple[str, bytes]]
    )
    threads: dict[tuple[str, str], MemoryThread] = field(default_factory=dict[tuple[str, str], MemoryThread])
    blobs: dict[tuple[str, str], MemoryBlob] = field(default_factory=dict[tuple[str, str], MemoryBlob])
    deliveries: dict[str, MemoryDelivery] = field(default_factory=dict[str, MemoryDelivery])
    switches: dict[str, MemorySwitch] = field(default_factory=dict[str, MemorySwitch])
    holds: dict[str, dict[str, Hold]] = field(default_factory=dict[str, dict[str, Hold]])
    """By run, then by worker."""
    delivered: int = 0
    """How many deliveries there have ever been: the position of the newest."""

    def grant(self, run: MemoryRun, worker: str, *, epoch: int) -> None:
        """Give a worker the lease."""
        now = self.clock.monotonic_ms()
        run.epoch = epoch
        run.owner = worker
        run.seen_ms = now
        run.lease_until_ms = now + self.lease_ms

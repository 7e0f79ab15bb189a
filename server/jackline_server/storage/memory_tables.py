"""The tables of the memory store, as plain dictionaries, and what one run is in them."""

from dataclasses import dataclass, field

from jackline_server.runtime.store_ports import (
    CommandRow,
    CommandState,
    NewRun,
    RunHead,
    RunRow,
    StoredEvent,
)
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
    blobs: dict[tuple[str, str], MemoryBlob] = field(default_factory=dict[tuple[str, str], MemoryBlob])

    def grant(self, run: MemoryRun, worker: str, *, epoch: int) -> None:
        """Give a worker the lease."""
        now = self.clock.monotonic_ms()
        run.epoch = epoch
        run.owner = worker
        run.seen_ms = now
        run.lease_until_ms = now + self.lease_ms

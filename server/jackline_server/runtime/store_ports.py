"""What the runtime needs from a store, in its own words.

A store holds facts as bytes and understands none of them. Every method is one atomic step; a mutation
that returned is durable in the store's class. Every method takes the tenant, or acts on a run id that
the caller obtained under a tenant. Wall-clock times are Unix milliseconds; lease times are counted by
the store's own clock. Cancelling a call does not undo it: it was applied wholly or not at all.

Shared errors: `StoreUnavailable`, `StoreFull`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from jackline_server.core.facts import Phase
from jackline_server.core.frozen import frozen
from jackline_server.runtime import tenants
from jackline_server.runtime.owner_ports import Owners
from jackline_server.runtime.switch_ports import Switches
from jackline_server.runtime.tenants import Tenant
from jackline_server.runtime.thread_ports import Threads
from jackline_server.runtime.thread_turns import Joining, ThreadShare
from jackline_server.runtime.webhook_ports import Deliveries, NewDelivery

# StoreError
# ├── StoreUnavailable   can't be reached just now; nothing is known about the call in hand
# ├── StoreFull          no room; the call had no effect
# ├── StoreDamaged       what was read can't be right
# ├── Fenced             a newer epoch owns the run; the call had no effect
# ├── HeadMismatch       the log is not as long as the writer knows; the call had no effect
# ├── CommandsWaiting    a finishing append missed commands; the call had no effect
# ├── BlobMissing        a commit names a blob that is not in the store; the call had no effect
# └── AliasMoved         compare-and-set of an alias failed; the call had no effect


DEFAULT_TENANT = tenants.DEFAULT_TENANT

READ_BYTES = 256 * 1024
"""What one read of a log holds at most, unless a single event is larger."""

BLOB_BYTES = 16 << 20
"""What one blob holds at most."""

BLOB_GRACE_MS = 24 * 3_600_000
"""How long a blob that nothing names may wait for a commit that does, at least."""


class StoreError(Exception):
    """A store could not do what it was asked."""


class StoreUnavailable(StoreError):
    """The store can't be reached; whether the call took effect is not known."""


class StoreFull(StoreError):
    """The store has no room; the call had no effect."""


class StoreDamaged(StoreError):
    """What the store returned can't be right, or it refuses to be read."""


class Fenced(StoreError):
    """A newer epoch owns the run; the call had no effect."""


class HeadMismatch(StoreError):
    """The log's head is not where the writer left it; the call had no effect."""

    def __init__(self, *, expected: int, found: int) -> None:
        super().__init__(f"expected head {expected}, found {found}")
        self.expected = expected
        self.found = found


class CommandsWaiting(StoreError):
    """A finishing append did not account for all commands; the call had no effect."""


class BlobMissing(StoreError):
    """A commit names a blob that is not in the store; the call had no effect. Put the bytes again."""

    def __init__(self, digest: str) -> None:
        super().__init__(f"the blob {digest} is not in the store")
        self.digest = digest


class AliasMoved(StoreError):
    """The alias does not point where the caller thought. `digest` is where it points, or None."""

    def __init__(self, digest: str | None) -> None:
        super().__init__("the alias has moved")
        self.digest = digest


class Durability(Enum):
    """What an acknowledgement is worth."""

    FSYNC = "fsync"
    PROCESS = "process"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """One event as wire bytes: `meta` alone is the metadata view, `meta + content` the full one."""

    sequence: int
    meta: bytes
    content: bytes


@frozen
class RunHead:
    """What each append says about the run beside its events.

    `wake_unix_ms` is when somebody has to look at a paused or waiting run; None is never. `is_delayed` says
    of a queued run that its time has not come: it needs nobody before `wake_unix_ms`.
    """

    phase: Phase
    wake_unix_ms: int | None
    open_interrupts: int
    is_delayed: bool = False


@frozen
class NewRun:
    """A run to create with its first event, and with those that follow it at once: a fork has some.

    `owner` takes the lease at `epoch` 1; None leaves the run queued at epoch 0. `fingerprint` is
    compared when `request_id` was used before; an empty `request_id` never was. `summary` is the encoded
    metadata view of the run, as lists show it. `blobs` are the digests that the events name: the run holds
    them from this commit on. `parent_run_id` is the run that starts it, empty without.
    """

    tenant: Tenant
    run_id: str
    workflow: str
    plan_digest: str
    plan: bytes
    labels: Mapping[str, str]
    created_unix_ms: int
    request_id: str
    fingerprint: bytes
    owner: str | None
    first: StoredEvent
    rest: Sequence[StoredEvent] = ()
    head: RunHead
    summary: bytes
    blobs: Sequence[str] = ()
    thread: Joining | None = None
    parent_run_id: str = ""


class Creation(Enum):
    """What became of a create."""

    CREATED = "created"
    DUPLICATE = "duplicate"
    CONFLICT = "conflict"
    MOVED = "moved"
    HALTED = "halted"


@frozen
class Created:
    """The run that a create made or found.

    CONFLICT: the request id belongs to another content. MOVED: the thread is not as the run was drafted for.
    HALTED: the kill switch of the tenant is engaged. In the last two the run is not there.
    """

    creation: Creation
    run_id: str


class CommandState(Enum):
    """Where a command stands in the table."""

    PENDING = "pending"
    APPLIED = "applied"
    REJECTED = "rejected"


@frozen
class CommandOutcome:
    """What an append says of one command. `rejection` is empty for an applied one."""

    command_id: str
    state: CommandState
    sequence: int
    rejection: str


@frozen
class CommandRow:
    """One row of the command table. `payload` is the encoded command."""

    command_id: str
    ordinal: int
    payload: bytes
    state: CommandState
    sequence: int
    rejection: str


@frozen
class Below:
    """What a command to a run makes of the runs below it: one to each of them, of an own id."""

    command_id: str
    payload: bytes


@frozen
class Message:
    """A command of one run to another of its tenant: its parent or a child.

    It comes into the command table with the commit that it is part of, over any limit, unless that run has
    ended or has a command of that id already.
    """

    run_id: str
    command_id: str
    payload: bytes


@frozen
class Append:
    """One commit of one run: events right after `after_sequence`, under `epoch`.

    `finishing` marks the last commit of the run; it fails with CommandsWaiting unless every pending
    command of the run is in `settled`. The lease of a finished run is given up by the same commit.
    `thread` goes with the last commit of a run that is in one; that commit ends its turn in any case.
    `summary` replaces what lists show of the run, and is a sign of life of its owner; None leaves both, so
    that a turn need not write them. `blobs` are the digests that the events name: the run holds them from
    this commit on. `births` are runs that the same commit creates, queued; one that is there already is left
    as it is, and one that is born under an engaged kill switch has its command. `messages` go to other runs.
    `deliveries` are owed from this commit on.
    """

    run_id: str
    epoch: int
    after_sequence: int
    events: Sequence[StoredEvent]
    head: RunHead
    summary: bytes | None = None
    settled: Sequence[CommandOutcome] = ()
    finishing: bool = False
    finished_unix_ms: int | None = None
    blobs: Sequence[str] = ()
    thread: ThreadShare | None = None
    births: Sequence[NewRun] = ()
    messages: Sequence[Message] = ()
    deliveries: Sequence[NewDelivery] = ()


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


@frozen
class Claim:
    """A run that this worker owns from now on, under `epoch`.

    `gap_ms` is how long the last owner had been silent, by the store's clock, and at most the lease
    time; None if there was no owner, or it had let go in good order.
    """

    tenant: Tenant
    run_id: str
    epoch: int
    gap_ms: int | None


class Journal(Protocol):
    """The facts of all runs: one log per run, numbered from 1 without holes."""

    async def create(self, new: NewRun) -> Created:
        """Store the run, its plan, its request id and its first events in one commit.

        Raises:
            BlobMissing: the tenant has no blob of a digest in `blobs`.
        """
        ...

    async def append(self, append: Append) -> None:
        """Store one commit of one run.

        Raises:
            Fenced: the epoch is not the run's current one.
            HeadMismatch: the log does not end at `after_sequence`.
            CommandsWaiting: `finishing`, and a pending command is not in `settled`.
            BlobMissing: the run's tenant has no blob of a digest in `blobs`.
        """
        ...

    async def read(self, run_id: str, *, after_sequence: int, limit: int) -> Sequence[StoredEvent]:
        """The events after that one, in order; empty at or beyond the head.

        At most `limit` of them, and no more than come to READ_BYTES, but at least one if there is one.
        """
        ...

    async def plan(self, digest: str) -> bytes:
        """The encoded plan of that digest. Raises StoreDamaged if there is none."""
        ...


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


class Submission(Enum):
    """What became of a submit."""

    ACCEPTED = "accepted"
    REPEATED = "repeated"
    TERMINAL = "terminal"
    FULL = "full"


class Commands(Protocol):
    """The command table: unique by run and command id, durable before it is acknowledged."""

    async def submit(
        self, run_id: str, *, command_id: str, payload: bytes, limit: int, below: Below | None = None
    ) -> tuple[Submission, CommandRow | None]:
        """Store a command unless its id is known, the run is terminal, or `limit` are pending.

        A known id answers REPEATED with the stored row, whatever the run's state. The row is None
        for TERMINAL and FULL. With an accepted command, `below` comes to every run that
        lives and that the run has started, or a run below it, over any limit: in the same commit.
        """
        ...

    async def pending(self, run_id: str) -> Sequence[CommandRow]:
        """The commands that no append has settled, by ordinal."""
        ...

    async def get(self, run_id: str, command_id: str) -> CommandRow | None:
        """One command."""
        ...

    async def unheard(self, *, limit: int) -> Sequence[str]:
        """Runs with a command that is pending and that no release has said was heard, oldest run first."""
        ...


class Leases(Protocol):
    """Who drives which run. A claim raises the epoch, so that the last owner is fenced."""

    async def claim(
        self, worker: str, *, limit: int, now_unix_ms: int, called: Collection[str] | None = None
    ) -> Sequence[Claim]:
        """Take runs that need a worker and have none whose lease lives, oldest first.

        A run needs one if it is queued or running, is not delayed and does not wait for its turn in a thread,
        if a command waits for it, or if its `wake_unix_ms` has come. With `called`, only those of them are
        taken that a command waits for, and those whose `wake_unix_ms` has come.
        """
        ...

    async def renew(self, worker: str, run_ids: Sequence[str]) -> frozenset[str]:
        """Extend the leases of these runs; return those that this worker no longer owns."""
        ...

    async def release(self, worker: str, run_id: str, *, epoch: int, heard: int = 0) -> None:
        """Let go of a run in good order. No effect if the epoch has moved on.

        Commands up to the ordinal `heard` have been looked at and have to wait: a run that is paused or
        waiting needs no worker for their sake, until another comes or it is time to look at it.
        """
        ...


@frozen
class RevisionRow:
    """One immutable revision of a workflow: its source, and what it was compiled to."""

    tenant: Tenant
    name: str
    digest: str
    yaml: str
    files: Mapping[str, bytes]
    created_unix_ms: int
    aliases: tuple[str, ...] = ()
    owned_by_files: bool = False


class Revisions(Protocol):
    """Workflows by name, alias and digest. The alias `latest` follows every put."""

    async def put(self, row: RevisionRow, *, alias: str, expect: str | None) -> bool:
        """Store a revision and move `alias` (and `latest`) to it; True if it is new.

        `expect` is the digest the alias must point at, `none` for an alias that must not exist,
        None to not care. `row.owned_by_files` marks the name as read from the server's folder.

        Raises:
            AliasMoved: `expect` does not hold.
        """
        ...

    async def get(self, tenant: Tenant, name: str, reference: str) -> RevisionRow | None:
        """The revision by alias or full digest; `latest` for an empty reference."""
        ...

    async def page(self, tenant: Tenant, *, after: str, limit: int) -> Sequence[RevisionRow]:
        """The latest revision of each workflow whose name sorts after `after`, by name."""
        ...

    async def digests(self, tenant: Tenant, name: str, *, prefix: str, limit: int) -> Sequence[str]:
        """Digests of the workflow's revisions that begin so (lower-case hexadecimal), in order."""
        ...

    async def aliases(self, tenant: Tenant, name: str) -> Sequence[str]:
        """Its aliases, in order; empty if there is no such workflow."""
        ...

    async def names(self, tenant: Tenant, *, limit: int) -> Sequence[str]:
        """The first names of workflows, in order."""
        ...


class Blobs(Protocol):
    """Bytes by their digest: the lower-case hexadecimal SHA-256. Immutable, and of one tenant.

    Bytes are put first and named by a commit after (`blobs` of `NewRun` and `Append`), which makes whatever
    it belongs to a holder of them. A blob lives as long as it has a holder; one without stays for
    BLOB_GRACE_MS after it was last put, so that a crash between the two leaves no more than what a sweep
    removes.
    """

    async def put(self, tenant: Tenant, data: bytes) -> str:
        """Store bytes and return their digest. Known ones are not stored twice; their grace begins anew.

        Raises:
            ValueError: more than BLOB_BYTES.
        """
        ...

    async def size(self, tenant: Tenant, digest: str) -> int | None:
        """How many bytes the blob has; None if the tenant has none of that digest."""
        ...

    async def read(self, tenant: Tenant, digest: str, *, offset: int, limit: int) -> bytes | None:
        """At most `limit` bytes from `offset` on, empty at or beyond the end.

        None if the tenant has no blob of that digest.
        """
        ...

    async def sweep(self, *, limit: int) -> int:
        """Remove at most `limit` blobs that nothing holds and whose grace is over; how many there were."""
        ...


@frozen
class Store:
    """All of it, as bootstrap hands it around; one object a role."""

    journal: Journal
    runs: Runs
    commands: Commands
    leases: Leases
    revisions: Revisions
    blobs: Blobs
    threads: Threads
    deliveries: Deliveries
    switches: Switches
    owners: Owners
    durability: Durability

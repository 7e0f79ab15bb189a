"""The facts of all runs: one log a run, and what a commit of one carries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from jackline_server.core.facts import Phase
from jackline_server.core.frozen import frozen
from jackline_server.runtime.ports.command_table import CommandOutcome
from jackline_server.runtime.ports.tenants import Tenant
from jackline_server.runtime.ports.thread_turns import Joining, ThreadShare
from jackline_server.runtime.ports.webhooks import NewDelivery

READ_BYTES = 256 * 1024
"""What one read of a log holds at most, unless a single event is larger."""


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

"""Threads as a store keeps them: conversations, whose turn it is, and what they have used.

Owns the port and its values. A message is a blob; a thread holds those that it names. That one run is active
at most, and what a run leaves behind, is done by the Journal port in the commits of runs (`thread_turns`).
"""

from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from jackline_server.core.facts import Usage
from jackline_server.core.frozen import frozen
from jackline_server.runtime.ports.tenants import Tenant
from jackline_server.runtime.ports.thread_turns import NewMessage


@frozen
class ThreadRow:
    """A thread. `messages` and `pending` are counts: the latter follow those of the active run.

    `active_run` is empty if it is nobody's turn. `ended`, `usage` and `cost_micros` are of the runs that have
    ended.
    """

    tenant: Tenant
    thread_id: str
    created_unix_ms: int
    changed_unix_ms: int
    messages: int
    pending: int
    active_run: str
    waiting: int
    ended: int
    usage: Usage
    cost_micros: int


@frozen
class MessageRow:
    """One message of a thread, its content left in its blob. `run_id` or `principal` is empty."""

    position: int
    digest: str
    role: str
    size: int
    run_id: str
    principal: str
    added_unix_ms: int


@frozen
class ThreadView:
    """A thread with some of its messages, read at once."""

    row: ThreadRow
    messages: Sequence[MessageRow]


@frozen
class Appending:
    """Messages to append from outside. Their blobs have been put.

    An empty `request_id` was never used; `fingerprint` is compared when one was.
    """

    tenant: Tenant
    thread_id: str
    messages: Sequence[NewMessage]
    principal: str
    request_id: str
    fingerprint: bytes
    unix_ms: int


class AppendOutcome(Enum):
    """What became of an append."""

    ADDED = "added"
    PENDING = "pending"
    REPEATED = "repeated"
    CONFLICT = "conflict"
    FULL = "full"


@frozen
class Appended:
    """The thread after an append. CONFLICT: the request id belongs to other messages. FULL: too many pend."""

    outcome: AppendOutcome
    row: ThreadRow


@frozen
class Steering:
    """An input that becomes guidance for the active run, under the request id of the start that it was.

    It comes to nothing (MOVED) unless `run_id` is the active run of the thread. `limit` commands may wait.
    """

    tenant: Tenant
    thread_id: str
    run_id: str
    request_id: str
    fingerprint: bytes
    command_id: str
    payload: bytes
    limit: int
    unix_ms: int


class SteerOutcome(Enum):
    """What became of it."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    CONFLICT = "conflict"
    MOVED = "moved"
    FULL = "full"


@frozen
class SteerDone:
    """The run that took the guidance, or that the request id belongs to."""

    outcome: SteerOutcome
    run_id: str


class Threads(Protocol):
    """Conversations, by tenant and name."""

    async def newest(self, tenant: Tenant, thread_id: str, *, limit: int, size: int) -> ThreadView | None:
        """The thread with its newest messages, oldest first: at most `limit`, of at most `size` bytes.

        None if there is no such thread.
        """
        ...

    async def after(
        self, tenant: Tenant, thread_id: str, position: int, *, limit: int, size: int
    ) -> ThreadView | None:
        """The thread with the messages after a position: at most `limit`.

        They come to at most `size` bytes, but there is at least one if there is any.
        """
        ...

    async def page(
        self, tenant: Tenant, *, before: tuple[int, str] | None, limit: int
    ) -> Sequence[ThreadRow]:
        """Threads, newest first by creation, then by id; `before` is the last of the page before."""
        ...

    async def append(self, appending: Appending) -> Appended:
        """Add messages; the thread is made if there is none. While a run is active they pend.

        Raises:
            BlobMissing: the tenant has no blob of a digest.
        """
        ...

    async def steer(self, steering: Steering) -> SteerDone:
        """Put guidance into the command table of the active run, and keep the request id, in one commit."""
        ...

"""What the suite needs of any store: time it can move, and short ways to make what stores hold."""

from collections.abc import Mapping, Sequence

from jackline_server.core.facts import Phase
from jackline_server.runtime.ports.command_table import CommandOutcome, CommandState
from jackline_server.runtime.ports.journal import Append, Message, NewRun, RunHead, StoredEvent
from jackline_server.runtime.ports.revisions import RevisionRow
from jackline_server.runtime.ports.store import Store
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT, Tenant
from jackline_server.storage.clocks import StoreClock

LEASE_MS = 15_000
OTHER_TENANT = Tenant("other")


class ManualTime:
    """Both clocks of a store, moved by hand."""

    def __init__(self) -> None:
        self.monotonic = 1_000_000
        self.unix = 1_700_000_000_000

    def advance(self, ms: int) -> None:
        self.monotonic += ms
        self.unix += ms

    def clock(self) -> StoreClock:
        return StoreClock(unix_ms=lambda: self.unix, monotonic_ms=lambda: self.monotonic)


def event(sequence: int, *, content: bytes = b"content") -> StoredEvent:
    return StoredEvent(sequence, b"meta-%d" % sequence, content)


def head(phase: Phase = Phase.RUNNING, *, wake: int | None = None, interrupts: int = 0) -> RunHead:
    return RunHead(phase=phase, wake_unix_ms=wake, open_interrupts=interrupts)


def new_run(
    run_id: str = "run_a",
    *,
    tenant: Tenant = DEFAULT_TENANT,
    request_id: str = "",
    fingerprint: bytes = b"fingerprint",
    owner: str | None = "worker",
    **more: object,
) -> NewRun:
    fields: dict[str, object] = {
        "workflow": "refunds",
        "plan_digest": "digest",
        "plan": b"plan",
        "labels": {},
        "created_unix_ms": 1_000,
        "first": event(1),
        "summary": b"summary",
        "head": head(Phase.QUEUED if owner is None else Phase.RUNNING),
        **more,
    }
    return NewRun(
        tenant=tenant,
        run_id=run_id,
        request_id=request_id,
        fingerprint=fingerprint,
        owner=owner,
        **fields,  # pyright: ignore[reportArgumentType] - a test names only the fields it is about
    )


def append(
    run_id: str = "run_a",
    *,
    after: int = 1,
    count: int = 1,
    epoch: int = 1,
    at: RunHead | None = None,
    **more: object,
) -> Append:
    return Append(
        run_id=run_id,
        epoch=epoch,
        after_sequence=after,
        events=[event(after + place) for place in range(1, count + 1)],
        head=at or head(),
        **more,  # pyright: ignore[reportArgumentType] - a test names only the fields it is about
    )


def finish(
    run_id: str = "run_a",
    *,
    after: int = 1,
    epoch: int = 1,
    settled: Sequence[CommandOutcome] = (),
    messages: Sequence[Message] = (),
) -> Append:
    return Append(
        run_id=run_id,
        epoch=epoch,
        after_sequence=after,
        events=[event(after + 1)],
        head=head(Phase.SUCCEEDED),
        settled=settled,
        messages=messages,
        finishing=True,
        finished_unix_ms=9_000,
    )


def applied(command_id: str, sequence: int) -> CommandOutcome:
    return CommandOutcome(command_id=command_id, state=CommandState.APPLIED, sequence=sequence, rejection="")


def rejected(command_id: str, sequence: int, why: str) -> CommandOutcome:
    return CommandOutcome(
        command_id=command_id, state=CommandState.REJECTED, sequence=sequence, rejection=why
    )


def revision(
    digest: str,
    *,
    name: str = "refunds",
    tenant: Tenant = DEFAULT_TENANT,
    files: Mapping[str, bytes] | None = None,
    owned_by_files: bool = False,
) -> RevisionRow:
    return RevisionRow(
        tenant=tenant,
        name=name,
        digest=digest,
        yaml=f"name: {name} # {digest}",
        files=files or {},
        created_unix_ms=1_000,
        owned_by_files=owned_by_files,
    )


async def log(store: Store, run_id: str = "run_a") -> list[StoredEvent]:
    return list(await store.journal.read(run_id, after_sequence=0, limit=10_000))

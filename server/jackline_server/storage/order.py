"""What every store demands of a write before it looks at its own data.

Owns the checks of a caller's own mistakes, which are ValueErrors and never reach a store.
"""

from collections.abc import Sequence

from jackline_server.runtime.ports.journal import Append, NewRun, StoredEvent


def check_create(new: NewRun) -> None:
    """Raise ValueError unless the events are numbered from 1."""
    _check(1, (new.first, *new.rest), new.run_id)


def check_append(append: Append) -> None:
    """Raise ValueError unless the events follow `after_sequence`, and births are those of children."""
    _check(append.after_sequence + 1, append.events, append.run_id)
    for new in append.births:
        check_create(new)
        if new.owner is not None or new.thread is not None or new.request_id:
            raise ValueError(f"run {new.run_id}: a child is queued, is in no thread and has no request id")


def _check(first: int, events: Sequence[StoredEvent], run_id: str) -> None:
    expected = first
    for event in events:
        if event.sequence != expected:
            raise ValueError(f"run {run_id}: event {event.sequence} where {expected} belongs")
        expected += 1

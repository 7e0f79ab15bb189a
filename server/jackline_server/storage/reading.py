"""How much of a log one read holds: the port's rule, for every store alike."""

from collections.abc import Iterable

from jackline_server.runtime.ports.journal import READ_BYTES, StoredEvent


def within_read(events: Iterable[StoredEvent]) -> list[StoredEvent]:
    """The first of these events that fit into one read; at least one if there is one.

    Takes no more from the iterable than that and one event.
    """
    taken: list[StoredEvent] = []
    held = 0
    for event in events:
        held += len(event.meta) + len(event.content)
        if taken and held > READ_BYTES:
            break
        taken.append(event)
    return taken

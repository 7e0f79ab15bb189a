"""What a commit owes beside its facts: the port of whoever writes that down.

Does not own what becomes of it (`ports.webhooks`).
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from jackline_server.core.state import RunState
from jackline_server.runtime.ports.codec import Record
from jackline_server.runtime.ports.webhooks import NewDelivery


class Outbox(Protocol):
    """What a commit owes. There is one only where webhooks are configured."""

    def owed(
        self, noted: Sequence[tuple[Record, RunState]], state: RunState, *, labels: Mapping[str, str]
    ) -> Sequence[NewDelivery]:
        """The deliveries of a commit of these facts. Each has the state before it; `state` follows all."""
        ...

    def nudge(self) -> None:
        """Deliveries are durable: have them sent."""
        ...

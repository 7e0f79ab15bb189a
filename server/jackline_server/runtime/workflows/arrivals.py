"""Workflows of the server's folder that are on their way: whoever needs one waits for it, and not for ever.

Owns who is waited for and how long. Does not own reading them (`folder`), nor what one is (`workflows`).
"""

import asyncio
from collections.abc import Collection, Iterable

from jackline_server.runtime.refusals import Refused

PATIENCE_S = 20.0
"""Less than the thirty seconds that our clients give a call."""

_AGAIN_MS = 2_000


class Arrivals:
    """Names of workflows that are being read for the first time since the server began."""

    def __init__(self, *, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._coming: dict[str, tuple[asyncio.Event, tuple[str, ...]]] = {}

    def expect(self, name: str, connections: Collection[str]) -> None:
        """It is there once the servers of these connections have said which tools they have."""
        self._coming.setdefault(name, (asyncio.Event(), tuple(sorted(connections))))

    def end(self, name: str) -> None:
        """It is there, or it will not be: nobody waits for it any more."""
        ended = self._coming.pop(name, None)
        if ended is not None:
            ended[0].set()

    async def wait(self, references: Iterable[str]) -> None:
        """Until none of these is on its way, or patience is over. At once if none is."""
        if not self._coming:
            return
        coming = [one for one in (self._coming.get(_name(ref)) for ref in references) if one is not None]
        if coming:
            waits = [asyncio.create_task(event.wait()) for event, _ in coming]
            try:
                await asyncio.wait(waits, timeout=self._patience_s)
            finally:
                for task in waits:
                    task.cancel()

    def explained(self, refused: Refused, reference: str) -> Refused:
        """What is said of a workflow that is not there: another thing if it is still on its way."""
        name = _name(reference)
        if name not in self._coming:
            return refused
        connections = ", ".join(self._coming[name][1])
        return Refused(
            refused.reason,
            f"The workflow {name} is read from the server's folder once the servers of its tools have "
            f"answered, and they have not yet: {connections}. Try again, and look at `jackline connections`.",
            metadata={**refused.metadata, "connections": connections},
            retry_after_ms=_AGAIN_MS,
        )


def _name(reference: str) -> str:
    return reference.partition("@")[0]

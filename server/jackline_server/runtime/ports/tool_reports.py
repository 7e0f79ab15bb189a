"""How far a tool call under way is, as its tool says: such a report, and what watchers get of it.

Does not own who is shown it, or when (`reporting`). Nothing of it is ever stored.
"""

from collections.abc import Callable
from dataclasses import dataclass

MOST_TEXT = 1_000
"""So many characters are used. Whoever takes a report in may pass on one more, to show that it was longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReport:
    """What a tool says, unchecked: in words, and how much of how much is done."""

    text: str
    done: float | None = None
    total: float | None = None


Report = Callable[[ToolReport], None]
"""Takes a report in, in the event loop of the run. Never raises, and may be called at any rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolProgress:
    """What watchers are shown: text on one line, finite numbers."""

    call_id: str
    tool: str
    attempt: int
    text: str
    done: float | None
    total: float | None

"""One call as the function that serves it sees it, and how that function says that it failed.

ToolFailed            the tool says no
├── TryAgain          not now; another attempt may succeed
└── ToolUncertain     nobody knows whether it did it
"""

import asyncio
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


class ToolFailed(Exception):
    """The tool did not do it, and would not the next time. The message is for the model: no secret in it."""


class TryAgain(ToolFailed):
    """The tool did not do it, and another attempt may succeed, after `retry_after_s` if that is given."""

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ToolUncertain(ToolFailed):
    """Nobody knows whether the tool did it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What goes along with a call, for a function with a parameter of this type.

    `key` is the idempotency key: the same for every attempt at this call, and for no other; what may be done
    only once is to be kept by it. `attempt` counts from 1. `subject` says on whose behalf the run works.
    """

    key: str
    attempt: int
    run_id: str
    step_id: str
    subject: Mapping[str, Any]
    traceparent: str
    deadline: float
    show: Callable[[str, float | None], None] = field(repr=False)
    stopped: threading.Event = field(default_factory=threading.Event, repr=False)

    def progress(self, text: str, fraction: float | None = None) -> None:
        """Tell whoever watches the run how far it has come, 0 to 1. From any thread.

        The newest counts; about four a second are shown. It gives the call no more time.
        """
        self.show(text, fraction)

    @property
    def cancelled(self) -> bool:
        """True once nobody waits any more. A function that runs in a thread has to look by itself."""
        return self.stopped.is_set()

    def remaining_s(self) -> float:
        """What is left of the time, in seconds. Call it in the worker's event loop."""
        return max(self.deadline - asyncio.get_running_loop().time(), 0.0)

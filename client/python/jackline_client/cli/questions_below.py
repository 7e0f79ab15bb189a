"""What runs below the one that is watched ask of people, while that one waits for them.

Owns a second stream, which there is only while such runs live: it brings their questions and what was
answered, and nothing else of them. Does not own the wording (`event_lines`).
"""

import asyncio
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from jackline.v1.run_pb2 import View
from jackline_client.errors import JacklineError

if TYPE_CHECKING:
    from jackline_client import Frame, JacklineClient

_KINDS = ("interrupt_raised", "interrupt_resolved")


class QuestionsBelow:
    """The questions of all runs below one. Close it with the stream that it stands beside."""

    def __init__(
        self, client: "JacklineClient", run_id: str, *, view: View.ValueType, show: "Callable[[Frame], None]"
    ) -> None:
        self._client = client
        self._run_id = run_id
        self._view = view
        self._show = show
        self._living: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    def heed(self, frame: "Frame") -> None:
        """A frame of the run itself: a run was started by it, or has ended."""
        for event in frame.events:
            if event.HasField("child_started"):
                self._living.add(event.child_started.child_run_id)
            elif event.HasField("child_finished"):
                self._living.discard(event.child_finished.child_run_id)
        if not self._living:
            self._stop()
        elif self._task is None and frame.sent_through >= frame.head_sequence:  # what is past is no news
            self._task = asyncio.create_task(self._follow(frame.sent_through))

    async def aclose(self) -> None:
        """Ask for no more."""
        task = self._task
        self._stop()
        if task is not None:
            await asyncio.gather(task, return_exceptions=True)

    def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _follow(self, after_sequence: int) -> None:
        frames = self._client.watch(
            self._run_id, after_sequence=after_sequence, view=self._view, kinds=_KINDS, children=True
        )
        # Whatever is wrong with the server, the run's own stream says it.
        with suppress(JacklineError):
            async with aclosing(frames):
                async for frame in frames:
                    below = tuple(event for event in frame.events if event.run_id != self._run_id)
                    if below:
                        self._show(replace(frame, events=below, deltas=()))

"""Chunks of a reply as the live pieces that watchers are shown.

Owns the translation only. A piece is never stored; a run without watchers makes none.
"""

from typing import assert_never

from jackline_server.core.json_text import clean
from jackline_server.runtime.live_run import LiveRun
from jackline_server.runtime.ports import EndChunk, ModelChunk, ReasoningChunk, TextChunk, ToolCallChunk
from jackline_server.runtime.use_cases import LiveDelta


class DeltaMaker:
    """The pieces of one attempt."""

    def __init__(self, attempt_id: int, run: LiveRun) -> None:
        visit = run.state.visit
        self._run = run
        self._attempt_id = attempt_id
        self._step_id = visit.step_id if visit is not None else ""
        self._iteration = visit.iteration if visit is not None else 0

    def show(self, chunk: ModelChunk) -> None:
        """Show a chunk to whoever watches."""
        if not self._run.channel.watchers:
            return
        match chunk:
            case TextChunk(text=text):
                self._show(text=clean(text))
            case ReasoningChunk(text=text):
                self._show(reasoning=clean(text))
            case ToolCallChunk():
                delta = LiveDelta(
                    self._attempt_id,
                    self._step_id,
                    self._iteration,
                    fragment=clean(chunk.arguments),
                    tool=clean(chunk.name),
                    index=chunk.index,
                )
                self._run.show(delta)
            case EndChunk():
                return
            case _:
                assert_never(chunk)

    def _show(self, *, text: str = "", reasoning: str = "") -> None:
        if text or reasoning:
            self._run.show(
                LiveDelta(self._attempt_id, self._step_id, self._iteration, text=text, reasoning=reasoning)
            )

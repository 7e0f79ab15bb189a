"""Chunks of a reply as the live pieces that watchers are shown.

Owns the translation only. A piece is never stored; a run without watchers makes none.
"""

from typing import assert_never

from jackline_server.core.json_text import clean
from jackline_server.runtime.driving.live_run import LiveRun
from jackline_server.runtime.ports.models import (
    EndChunk,
    ModelChunk,
    ReasoningChunk,
    TextChunk,
    ToolCallChunk,
)
from jackline_server.runtime.use_cases import LiveDelta

PIECE_CHARS = 16 * 1024


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
                self._show(*((piece, "") for piece in _pieces(text)))
            case ReasoningChunk(text=text):
                self._show(*(("", piece) for piece in _pieces(text)))
            case ToolCallChunk():
                self._show_call(chunk)
            case EndChunk():
                return
            case _:
                assert_never(chunk)

    def _show(self, *pieces: tuple[str, str]) -> None:
        for text, reasoning in pieces:
            self._run.show(
                LiveDelta(self._attempt_id, self._step_id, self._iteration, text=text, reasoning=reasoning)
            )

    def _show_call(self, chunk: ToolCallChunk) -> None:
        for fragment in _pieces(chunk.arguments) or [""]:
            self._run.show(
                LiveDelta(
                    self._attempt_id,
                    self._step_id,
                    self._iteration,
                    fragment=fragment,
                    tool=clean(chunk.name)[:PIECE_CHARS],
                    index=chunk.index,
                )
            )


def _pieces(text: str) -> list[str]:
    """The text in pieces that fit into a frame."""
    whole = clean(text)
    return [whole[start : start + PIECE_CHARS] for start in range(0, len(whole), PIECE_CHARS)]

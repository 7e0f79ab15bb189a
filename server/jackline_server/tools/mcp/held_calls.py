"""Calls that older servers hold open while a person is asked.

Owns how many there are, and when one is given up though nobody came back: its time is over, or its run.
"""

import asyncio
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jackline_server.tools.mcp.dialogue import Dialogue

MOST_HELD = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    run_id: str
    dialogue: "Dialogue"
    timer: asyncio.TimerHandle


@dataclass(slots=True)
class HeldDialogues:
    """Those of one connection. Use it in one event loop."""

    _held: dict[str, _Held] = field(default_factory=dict[str, _Held])
    _ending: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    @property
    def is_full(self) -> bool:
        """True if no more can be held."""
        return len(self._held) >= MOST_HELD

    def hold(self, dialogue: "Dialogue", *, run_id: str, most_s: float) -> str:
        """Keep it for at most so long; the token that brings it back."""
        token = secrets.token_hex(8)
        timer = asyncio.get_running_loop().call_later(most_s, self._give_up, token)
        self._held[token] = _Held(run_id=run_id, dialogue=dialogue, timer=timer)
        return token

    def take(self, token: str) -> "Dialogue | None":
        """The one of that token, which is held no more; None if there is none."""
        held = self._held.pop(token, None)
        if held is None:
            return None
        held.timer.cancel()
        return held.dialogue

    def let_go(self, run_id: str) -> None:
        """Give up those of a run."""
        for token in [token for token, held in self._held.items() if held.run_id == run_id]:
            self._give_up(token)

    def close(self) -> None:
        """Give up all."""
        for token in list(self._held):
            self._give_up(token)

    def _give_up(self, token: str) -> None:
        dialogue = self.take(token)
        if dialogue is not None:
            task = asyncio.create_task(dialogue.end())
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)

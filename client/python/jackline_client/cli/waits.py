"""What a tool call waits for, in words, and the waits of a run on the live line.

Owns these words. What they are about is the server's word.
"""

from collections.abc import Iterator

from jackline.v1.event_pb2 import Delta, StepEvent
from jackline.v1.run_pb2 import Run, ToolWait, ToolWaitKind
from jackline_client.cli.wording import Line, count, short

_SHOWN = 3
"""So many waits stand on the live line; of the others there is the number."""


def wait_words(wait: ToolWait) -> str:
    """Returns what is waited for, such as `a worker of pool depot (0 connected)`."""
    name = short(wait.connection)
    match wait.kind:
        case ToolWaitKind.TOOL_WAIT_KIND_PLACE:
            return f"a place of connection {name} ({wait.count:,} of {wait.count:,} busy)"
        case ToolWaitKind.TOOL_WAIT_KIND_RATE:
            return f"the rate of connection {name} ({wait.count:,} a minute)"
        case ToolWaitKind.TOOL_WAIT_KIND_WORKER:
            none = ", none serves the tool" if wait.count else ""
            return f"a worker of pool {name} ({wait.count:,} connected{none})"
        case ToolWaitKind.TOOL_WAIT_KIND_WORKER_PLACE:
            return f"a place of a worker of pool {name} ({count(wait.count, 'worker')}, all busy)"
        case _:
            return f"connection {name}"


def waited(milliseconds: int) -> str:
    """Returns how much of a call's time went by before anything was called; empty for nothing."""
    return f", {milliseconds:,} ms of it waiting" if milliseconds else ""


def waiting_words(run: Run) -> Iterator[str]:
    """Yields what each call of a run that waits is waiting for."""
    for call in run.waiting_calls:
        yield f"{short(call.tool)} ({short(call.call_id)}) waits for {wait_words(call.wait)}"


def waiting_lines(run: Run) -> Iterator[Line]:
    """Yields a line for each of them."""
    for words in waiting_words(run):
        yield Line(text=f"  {words}")


class LiveWaits:
    """The calls that wait just now, as far as the stream has told."""

    def __init__(self) -> None:
        self._words: dict[str, str] = {}

    def forget(self) -> None:
        """The stream begins anew, and will tell what waits."""
        self._words.clear()

    def delta(self, delta: Delta) -> None:
        """Takes in a live piece; any but those of waits is nothing to it."""
        if delta.WhichOneof("part") != "tool_waiting":
            return
        waiting = delta.tool_waiting
        if waiting.HasField("wait"):
            self._words[waiting.call_id] = f"{short(waiting.tool)} waits for {wait_words(waiting.wait)}"
        else:
            self._words.pop(waiting.call_id, None)

    def event(self, event: StepEvent) -> None:
        """Takes in an event: a call that has ended does not wait."""
        if event.HasField("tool_call_finished"):
            self._words.pop(event.tool_call_finished.call_id, None)

    @property
    def text(self) -> str:
        """What belongs on the live line; empty if nothing waits."""
        if not self._words:
            return ""
        words = list(self._words.values())
        more = f"; {len(words) - _SHOWN:,} more" if len(words) > _SHOWN else ""
        return f"({'; '.join(words[:_SHOWN])}{more})"

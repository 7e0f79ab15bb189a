"""Which of the calls that may start do so now, and when the next one may.

Owns what runs at the same time: by effect, one by one, or all; serial groups; calls that wait for their next
attempt. Does not own which calls may start at all (`call_checks`).
"""

from collections.abc import Sequence

from jackline_server.core.frozen import frozen
from jackline_server.core.plan import Effect, ToolExecution, ToolPolicy
from jackline_server.core.state import ToolCall


@frozen
class Candidate:
    """An open call that nothing forbids."""

    call: ToolCall
    effect: Effect | None
    policy: ToolPolicy


@frozen
class Wave:
    """The calls that start together; if there are none, the active time at which one may."""

    calls: tuple[ToolCall, ...]
    until_active_ms: int | None = None


def choose(
    candidates: Sequence[Candidate], execution: ToolExecution, *, most: int, now_active_ms: int
) -> Wave:
    """The next wave of these calls, in their order. At least one call, or a time.

    A call that waits holds back only what may not run beside it.
    """
    together = _together(candidates, execution, most)
    chosen: list[ToolCall] = []
    groups = set[str]()
    waits: list[int] = []
    for candidate in together:
        group, retry_at = candidate.policy.serial_group, candidate.call.retry_at_active_ms
        held = bool(group) and group in groups
        groups.add(group)
        if held:
            continue
        if retry_at is not None and retry_at > now_active_ms:
            waits.append(retry_at)
            continue
        chosen.append(candidate.call)
    return Wave(calls=tuple(chosen), until_active_ms=None if chosen else min(waits))


def _together(candidates: Sequence[Candidate], execution: ToolExecution, most: int) -> Sequence[Candidate]:
    match execution:
        case ToolExecution.SEQUENTIAL:
            return candidates[:1]
        case ToolExecution.CONCURRENT:
            return candidates[:most]
        case ToolExecution.BY_EFFECT:
            reads = 0
            while reads < min(len(candidates), most) and candidates[reads].effect is Effect.READ:
                reads += 1
            return candidates[: max(reads, 1)]

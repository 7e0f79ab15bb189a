"""Whether a failed attempt at a tool is made again, and when.

Only for reads and idempotent calls, only at failures that may pass, and only while the caps leave room. The
chance of the jitter is handed in.
"""

from jackline_server.core.deciding.batches import may_repeat, open_batch
from jackline_server.core.deciding.retries import backoff_ms
from jackline_server.core.folding.evolve_calls import failure_policy
from jackline_server.core.frozen import frozen
from jackline_server.core.reading import timing
from jackline_server.core.state import RunState


@frozen
class FailedAttempt:
    """What is known of the failure; `retry_after_ms` is what the tool asks for, if anything."""

    may_pass: bool
    retry_after_ms: int | None = None


def retry_in_ms(
    state: RunState, call_id: str, *, failed: FailedAttempt, now_active_ms: int, fraction: float
) -> int | None:
    """How long to wait before the next attempt at a call that is under way; None if there is none.

    The next attempt has to begin before the earliest deadline. `fraction` is that of `backoff_ms`.
    """
    call, visit = state.calls[call_id], state.visit
    policy = failure_policy(state, call)
    if visit is None or not failed.may_pass or call.attempts > policy.retries:
        return None
    if call.effect is None or not call.effect.repeatable or state.oversight.abort is not None:
        return None
    if not may_repeat(open_batch(state, visit), call):
        return None
    wait = backoff_ms(
        call.attempts,
        base_ms=policy.retry_base_ms,
        cap_ms=policy.retry_cap_ms,
        asked_ms=failed.retry_after_ms,
        fraction=fraction,
    )
    left = timing.left_ms(state, now_active_ms)
    return None if left is not None and wait >= left else wait

"""Whether a failed attempt at a model is made again, and when.

Owns the classification's consequence. The chance of the jitter is handed in.
"""

from jackline_server.core.facts import FailureClass
from jackline_server.core.frozen import frozen
from jackline_server.core.plan import ModelPlan, ModelStep
from jackline_server.core.state import Visit

_LONGEST_ASKED_MS = 60_000


@frozen
class Failed:
    """What is known of the failure; `retry_after_ms` is what the provider asks for, if anything."""

    failure: FailureClass
    retry_after_ms: int | None


def backoff_ms(attempt: int, *, base_ms: int, cap_ms: int, asked_ms: int | None, fraction: float) -> int:
    """How long to wait after the failed attempt of that number, from 1.

    Full jitter under a doubling cap; what the other side asks for is honoured up to a minute. `fraction` is
    from 0 up to 1.
    """
    wait = int(min(cap_ms, base_ms * 2 ** (attempt - 1)) * fraction)
    return wait if asked_ms is None else max(wait, min(asked_ms, _LONGEST_ASKED_MS))


def retry_in_ms(
    visit: Visit,
    step: ModelStep,
    model: ModelPlan,
    *,
    failed: Failed,
    now_active_ms: int,
    fraction: float,
) -> int | None:
    """How long to wait before the next attempt; None if there is none.

    The logical request has to fit into the model timeout with its waits. `fraction` is that of `backoff_ms`.
    """
    call = visit.model_call
    if call is None or not failed.failure.may_pass or call.started.attempt > model.retries:
        return None
    wait = backoff_ms(
        call.started.attempt,
        base_ms=model.retry_base_ms,
        cap_ms=model.retry_cap_ms,
        asked_ms=failed.retry_after_ms,
        fraction=fraction,
    )
    since = now_active_ms if visit.request_since_ms is None else visit.request_since_ms
    if now_active_ms + wait - since >= step.bounds.model_timeout_ms:
        return None
    return wait

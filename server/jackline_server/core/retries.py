"""Whether a failed attempt at a model is made again, and when.

Owns the classification's consequence. The chance of the jitter is handed in.
"""

from jackline_server.core.facts import FailureClass
from jackline_server.core.frozen import frozen
from jackline_server.core.plan import ModelPlan, ModelStep
from jackline_server.core.state import Visit

LONGEST_RETRY_AFTER_MS = 60_000


@frozen
class Failed:
    """What is known of the failure; `retry_after_ms` is what the provider asks for, if anything."""

    failure: FailureClass
    retry_after_ms: int | None


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

    Full jitter under a doubling cap; what the provider asks for is honoured up to a minute. The logical
    request has to fit into the model timeout with its waits. `fraction` is from 0 up to 1.
    """
    call = visit.model_call
    if call is None or not failed.failure.may_pass or call.started.attempt > model.retries:
        return None
    ceiling = min(model.retry_cap_ms, model.retry_base_ms * 2 ** (call.started.attempt - 1))
    wait = int(ceiling * fraction)
    if failed.retry_after_ms is not None:
        wait = max(wait, min(failed.retry_after_ms, LONGEST_RETRY_AFTER_MS))
    since = now_active_ms if visit.request_since_ms is None else visit.request_since_ms
    if now_active_ms + wait - since >= step.bounds.model_timeout_ms:
        return None
    return wait

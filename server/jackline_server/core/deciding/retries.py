"""Whether a failed attempt at a model is made again, and when.

Owns the classification's consequence, and how long a step waits for models that can't be reached. The chance
of the jitter is handed in. Does not own which model comes next (`fallbacks`).
"""

from jackline_server.core.facts import FailureClass, Purpose
from jackline_server.core.frozen import frozen
from jackline_server.core.plan import ModelPlan, ModelStep, OnModelUnavailable
from jackline_server.core.reading import fallbacks
from jackline_server.core.state import Visit

LONGEST_WAIT_MS = 60_000
"""The longest wait for models that can't be reached."""

_LONGEST_ASKED_MS = 60_000
_MOST_DOUBLINGS = 20
_OWN = frozenset({Purpose.TURN, Purpose.REPAIR, Purpose.FINAL_ANSWER})
"""What a step asks its own models for; a judge that fails has rules of its own."""


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


@frozen
class Next:
    """What follows a failed attempt. `retry_in_ms` is None if no further one at this model does.

    `waits` says that none of the step's models could be reached, and it begins again after that time.
    """

    retry_in_ms: int | None
    waits: bool = False


def after_failure(
    visit: Visit,
    step: ModelStep,
    model: ModelPlan,
    *,
    failed: Failed,
    now_active_ms: int,
    fraction: float,
) -> Next:
    """What follows the failure of the call under way. `fraction` is that of `backoff_ms`.

    The request has to fit into the model timeout with the waits between its attempts. Once a step has waited
    for its models, each of them gets one attempt before it waits again.
    """
    call = visit.model_call
    if call is None or not failed.failure.may_pass:
        return Next(retry_in_ms=None)
    own, earlier = call.started.purpose in _OWN, visit.attempts
    before, waits = (earlier.before, earlier.waits) if own and earlier is not None else (0, 0)
    number = call.started.attempt - before
    if not waits and number <= model.retries:
        wait = backoff_ms(
            number,
            base_ms=model.retry_base_ms,
            cap_ms=model.retry_cap_ms,
            asked_ms=failed.retry_after_ms,
            fraction=fraction,
        )
        since = now_active_ms if visit.request_since_ms is None else visit.request_since_ms
        if now_active_ms + wait - since < _time_ms(call.started.purpose, step):
            return Next(retry_in_ms=wait)
    if own and step.on_model_unavailable is OnModelUnavailable.WAIT and fallbacks.is_last(visit, step):
        return Next(retry_in_ms=_wait_ms(model, waits, failed, fraction=fraction), waits=True)
    return Next(retry_in_ms=None)


def _time_ms(purpose: Purpose, step: ModelStep) -> int:
    """How long the request may take with all its attempts; a supervisor's judge has a time of its own."""
    judge = None if step.supervisor is None or purpose is not Purpose.SUPERVISE else step.supervisor.judge
    most = step.bounds.model_timeout_ms
    return most if judge is None else min(most, judge.timeout_ms)


def _wait_ms(model: ModelPlan, waits: int, failed: Failed, *, fraction: float) -> int:
    """How long to wait for models that can't be reached: ever longer to a minute, half of it by chance."""
    doubled = model.retry_base_ms * 2 ** min(model.retries + waits, _MOST_DOUBLINGS)
    longest = max(min(doubled, LONGEST_WAIT_MS), 1)
    wait = longest // 2 + int((longest - longest // 2) * fraction)
    return wait if failed.retry_after_ms is None else max(wait, min(failed.retry_after_ms, _LONGEST_ASKED_MS))

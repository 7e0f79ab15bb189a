"""Child runs: started, finished."""

from jackline_server.core.facts.runs import Phase, StopReason
from jackline_server.core.frozen import frozen


@frozen
class ChildStarted:
    """A child run was created, by the same commit as this fact.

    `tokens`, `cost_micros` and `run_timeout_ms` are what it was given of what this run had left: held here
    until it ends. None is no cap of that kind, and nothing held.
    """

    call_id: str
    child_run_id: str
    workflow: str
    plan_digest: str
    tokens: int | None
    cost_micros: int | None
    run_timeout_ms: int | None


@frozen
class ChildFinished:
    """A child run ended, having used so much; what that comes to for its call is the fact that follows.

    `result_json` and `error` are on their way from the child only: its call holds them.
    """

    call_id: str
    child_run_id: str
    phase: Phase
    signal: str
    stop_reason: StopReason
    stop_leaf: str
    tokens: int
    cost_micros: int
    active_ms: int
    result_json: str | None = None  # content
    error: str = ""  # content

"""The closed set of exits: what each means for the run, and where a signal leads.

Owns the table of exits and routing. An outcome value and `default` are exits too, but their names are the
workflow's; everything else is in the table.
"""

from collections.abc import Mapping

from jackline_server.core.facts import Phase, StopReason
from jackline_server.core.frozen import frozen
from jackline_server.core.plan import END, JsonValue, StepPlan

DEFAULT = "default"
RUNNING = "running"
ANY = "*"
ERROR = "error"
ABORTED = "aborted"
STOPPED = "stopped"
NEEDS_REVIEW = "needs_review"
INVALID_OUTPUT = "invalid_output"
GUARDRAIL_VIOLATION = "guardrail_violation"

_PHASES: Mapping[str, Phase] = {
    STOPPED: Phase.SUCCEEDED,
    "max_iterations": Phase.EXHAUSTED,
    "budget_exceeded": Phase.EXHAUSTED,
    "time_exceeded": Phase.EXHAUSTED,
    "tool_loop": Phase.EXHAUSTED,
    "invalid_output": Phase.FAILED,
    "grounding_failed": Phase.FAILED,
    GUARDRAIL_VIOLATION: Phase.FAILED,
    "error": Phase.FAILED,
    "needs_review": Phase.NEEDS_REVIEW,
    "aborted": Phase.ABORTED,
}

_SIGNALS: Mapping[StopReason, str] = {
    StopReason.STOP_CONDITION: STOPPED,
    StopReason.MAX_ITERATIONS: "max_iterations",
    StopReason.TOKEN_BUDGET: "budget_exceeded",
    StopReason.COST_BUDGET: "budget_exceeded",
    StopReason.REQUEST_BUDGET: "budget_exceeded",
    StopReason.TOOL_CALL_BUDGET: "budget_exceeded",
    StopReason.STEP_BUDGET: "budget_exceeded",
    StopReason.TIME_BUDGET: "time_exceeded",
    StopReason.DEADLINE: "time_exceeded",
    StopReason.TOOL_LOOP: "tool_loop",
    StopReason.INVALID_OUTPUT: "invalid_output",
    StopReason.NO_TOOL_SUCCEEDED: "invalid_output",
    StopReason.GROUNDING_FAILED: "grounding_failed",
    StopReason.GUARDRAIL: GUARDRAIL_VIOLATION,
    StopReason.POLICY_DENIED: GUARDRAIL_VIOLATION,
    StopReason.REVIEW: "needs_review",
    StopReason.UNKNOWN_OUTCOME: "needs_review",
    StopReason.MODEL_ERROR: "error",
    StopReason.TOOL_ERROR: "error",
    StopReason.HOOK_VETO: "error",
    StopReason.CRASH_LOOP: "error",
    StopReason.DATA_LOSS: "error",
    StopReason.INTERNAL: "error",
    StopReason.OPERATOR: "aborted",
    StopReason.KILL_SWITCH: "aborted",
    StopReason.SUPERVISOR: "aborted",
    StopReason.JUDGE: "aborted",
    StopReason.REPLACED: "aborted",
    StopReason.PAUSE_EXPIRED: "aborted",
    StopReason.PARENT: "aborted",
    StopReason.CLIENT_GONE: "aborted",
}

_FAILURES = frozenset(_PHASES) - {STOPPED, NEEDS_REVIEW, ABORTED}
"""Exits that fall back to the route `error`."""


@frozen
class Exit:
    """How a step ends: its signal, why, and what it leaves behind."""

    signal: str
    reason: StopReason
    leaf: str = ""
    result: JsonValue = None
    has_result: bool = False
    partial: bool = False
    error: str = ""


def abnormal(reason: StopReason, *, leaf: str, error: str) -> Exit:
    """The exit that a limit, a failure or an abort leads to."""
    return Exit(signal=_SIGNALS[reason], reason=reason, leaf=leaf, error=error)


def is_reserved(signal: str) -> bool:
    """True for the engine's own exits; false for `default` and outcome values."""
    return signal in _PHASES


def is_abnormal(signal: str) -> bool:
    """True for an exit that something went wrong with: a reserved one, but not that of a stop condition."""
    return signal in _PHASES and signal != STOPPED


def phase_of(signal: str) -> Phase:
    """The state of a run that ends with this signal."""
    return _PHASES.get(signal, Phase.SUCCEEDED)


def next_step(step: StepPlan, signal: str) -> str:
    """The step that a signal leads to; empty if it ends the run.

    An abort follows only a route of its own name. `default` goes along the spine before `"*"`.
    """
    target = _target(step, signal)
    return "" if target == END else target


def _target(step: StepPlan, signal: str) -> str:
    routes = step.routes
    if signal in routes:
        return routes[signal]
    if signal == ABORTED:
        return END
    if signal in _FAILURES and ERROR in routes:
        return routes[ERROR]
    if signal == DEFAULT and step.next_step:
        return step.next_step
    return routes.get(ANY, END)

"""What follows from a tool's failures: the entry's word, the tool step's, the agent's, then the default.

Owns resolving `retry`, `on_error`, `on_timeout`, `reuse` and `serial_group`, and what they can't mean.
"""

from jackline_server.core.plan import Effect, OnFailure, ToolPolicy
from jackline_server.definitions import defaults
from jackline_server.definitions.presets import Preset
from jackline_server.definitions.report import Report
from jackline_server.definitions.shapes import AgentShape, ObserveShape, PolicyShape, RetryShape
from jackline_server.definitions.yaml_nodes import Path


def resolve(
    effect: Effect,
    step: PolicyShape,
    entry: PolicyShape | None = None,
    agent: AgentShape | None = None,
    *,
    preset: Preset,
) -> ToolPolicy:
    """The policy of a tool where the flow visits it, or where an agent's `entry` names it."""
    said = (step,) if entry is None else (entry, step)
    on_error = _first(*(shape.on_error for shape in said), None if agent is None else agent.on_error)
    on_timeout = _first(*(shape.on_timeout for shape in said))
    reuse = _first(*(shape.reuse for shape in said))
    retry = next((shape.retry for shape in said if shape.retry is not None), None)
    times, base_ms, cap_ms = _retries(retry, preset) if effect.repeatable else (0, 0, 0)
    return ToolPolicy(
        retries=times,
        retry_base_ms=base_ms,
        retry_cap_ms=cap_ms,
        on_error=OnFailure(on_error or preset.on_error.value),
        on_timeout=OnFailure(on_timeout or defaults.ON_TIMEOUT.value),
        reuse=reuse == "run",
        serial_group=_first(*(shape.serial_group for shape in said)) or "",
    )


def check(shape: PolicyShape, effect: Effect, path: Path, report: Report) -> None:
    """Report what a tool of that effect can't have."""
    retry = shape.retry
    if retry is not None and retry.times and not effect.repeatable:
        message = f"a tool with `effect: {effect.value}` is never called again by itself; leave `retry` out"
        report.error("retry_of_write", message, (*path, "retry"))
    if shape.on_timeout is not None and not effect.repeatable:
        message = "after a write whose time is over nobody knows whether it happened; that is `on_unknown`"
        report.error("timeout_of_write", message, (*path, "on_timeout"))
    if retry is not None and retry.base is not None and retry.cap is not None and retry.cap < retry.base:
        report.error("retry_cap", "`cap` is shorter than `base`", (*path, "retry", "cap"))


def invalid_args(shape: AgentShape, preset: Preset) -> int:
    """How many calls in a row that can't start are told to the model."""
    match shape.invalid_args:
        case ObserveShape() as given:
            return given.observe
        case "fail":
            return 0
        case _:
            return preset.invalid_args


def _retries(shape: RetryShape | None, preset: Preset) -> tuple[int, int, int]:
    if shape is None:
        return preset.tool_retries, defaults.TOOL_RETRY_BASE_MS, defaults.TOOL_RETRY_CAP_MS
    if shape.times == 0:
        return 0, 0, 0
    base_ms = defaults.TOOL_RETRY_BASE_MS if shape.base is None else shape.base
    cap_ms = max(defaults.TOOL_RETRY_CAP_MS, base_ms) if shape.cap is None else shape.cap
    return shape.times, base_ms, cap_ms


def _first(*texts: str | None) -> str | None:
    return next((text for text in texts if text is not None), None)

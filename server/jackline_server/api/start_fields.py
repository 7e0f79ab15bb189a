"""Bounds, deadlines and delays, as requests to begin a run and commands for a live one have them."""

from typing import Literal, TypeAlias

from google.protobuf.timestamp_pb2 import Timestamp

from jackline.v1 import run_pb2
from jackline.v1.control_pb2 import AdjustBoundsCommand
from jackline.v1.run_service_pb2 import StartRunRequest
from jackline_server.api.checks import Checks
from jackline_server.runtime.use_cases import TighterBounds

_VisitCount: TypeAlias = Literal[
    "max_iterations", "model_requests", "tool_calls", "token_budget", "cost_budget_micros"
]
_OF_A_VISIT: tuple[tuple[_VisitCount, int], ...] = (
    ("max_iterations", 1),
    ("model_requests", 0),
    ("tool_calls", 0),
    ("token_budget", 1),
    ("cost_budget_micros", 0),
)
_Count: TypeAlias = Literal["token_budget", "cost_budget_micros", "steps", "events", "child_depth"]


def tighter_bounds(checks: Checks, field: str, given: run_pb2.RunBounds) -> TighterBounds:
    """The bounds that were given; notes those that no run can have. `field` is where they stand."""
    timeout = (
        checks.duration(f"{field}.run_timeout", given.run_timeout, least_ms=1)
        if given.HasField("run_timeout")
        else None
    )

    def cap(name: _Count, *, least: int) -> int | None:
        if not given.HasField(name):
            return None
        return checks.count(f"{field}.{name}", getattr(given, name), least=least)

    return TighterBounds(
        run_timeout_ms=timeout,
        token_budget=cap("token_budget", least=1),
        cost_budget_micros=cap("cost_budget_micros", least=0),
        steps=cap("steps", least=1),
        events=cap("events", least=1),
        child_depth=cap("child_depth", least=0),
    )


def check_new_bounds(checks: Checks, field: str, given: AdjustBoundsCommand) -> None:
    """Note new bounds of a live run that no run can have, and that none are given."""
    tighter_bounds(checks, f"{field}.run", given.run)
    if given.run.HasField("child_depth"):
        checks.fail(f"{field}.run.child_depth", "is fixed when a run starts", "FIXED")
    visit, path = given.visit, f"{field}.visit"
    if visit.HasField("timeout"):
        checks.duration(f"{path}.timeout", visit.timeout, least_ms=1)
    for name, least in _OF_A_VISIT:
        if visit.HasField(name):
            checks.count(f"{path}.{name}", getattr(visit, name), least=least)
    if not given.run.ListFields() and not given.visit.ListFields():
        checks.fail(field, "required: set a bound of run or visit", "REQUIRED")


def deadline(checks: Checks, field: str, given: Timestamp, *, now_unix_ms: int) -> int | None:
    """The deadline in Unix milliseconds; notes one that has passed, or is no time."""
    found = checks.time(field, given)
    if found is not None and found <= now_unix_ms:
        checks.fail(field, "must be in the future", "OUT_OF_RANGE")
    return found


def start_delay(
    checks: Checks, request: StartRunRequest, *, end_unix_ms: int | None, now_unix_ms: int
) -> int | None:
    """How long the start is delayed, in milliseconds; None for no delay, and for one of nothing.

    Notes one that goes with a thread, which it would hold for nobody, and one that the deadline comes before.
    """
    if not request.HasField("start_delay"):
        return None
    delay_ms = checks.duration("start_delay", request.start_delay)
    if delay_ms and request.thread_id:
        checks.fail("start_delay", "not with a thread: start the run when its time has come", "WITH_THREAD")
    if end_unix_ms is not None and now_unix_ms + delay_ms >= end_unix_ms:
        checks.fail("start_delay", "must end before the deadline", "OUT_OF_RANGE")
    return delay_ms or None

"""The fields that every request to begin a run has: its bounds and its deadline."""

from typing import Literal, TypeAlias

from google.protobuf.timestamp_pb2 import Timestamp

from jackline.v1 import run_pb2
from jackline_server.api.checks import Checks
from jackline_server.runtime.use_cases import TighterBounds

_Count: TypeAlias = Literal["token_budget", "cost_budget_micros", "steps", "events"]


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
    )


def deadline(checks: Checks, field: str, given: Timestamp, *, now_unix_ms: int) -> int | None:
    """The deadline in Unix milliseconds; notes one that has passed, or is no time."""
    found = checks.time(field, given)
    if found is not None and found <= now_unix_ms:
        checks.fail(field, "must be in the future", "OUT_OF_RANGE")
    return found

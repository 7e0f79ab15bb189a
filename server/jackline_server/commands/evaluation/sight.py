"""What is seen of a run from outside, as plain values: all that an expectation may look at.

Owns the type. Does not own reading it from a server (`door`).
"""

from collections.abc import Mapping

from jackline_server.core.frozen import frozen
from jackline_server.core.plan import JsonValue


@frozen
class Call:
    """A tool call that was begun, or that got the result of an equal one."""

    tool: str
    status: str
    arguments: JsonValue


@frozen
class Used:
    """What a run has used: money in millionths of a US dollar, active time in milliseconds."""

    tokens: int = 0
    cost_micros: int = 0
    iterations: int = 0
    tool_calls: int = 0
    active_ms: int = 0

    def variables(self) -> dict[str, JsonValue]:
        """It as an expression reads it: money in US dollars, time in seconds."""
        return {
            "tokens": self.tokens,
            "cost_usd": self.cost_micros / 1_000_000,
            "iterations": self.iterations,
            "tool_calls": self.tool_calls,
            "seconds": self.active_ms / 1_000,
        }


@frozen
class Sight:
    """A run that has ended. `steps` has the signal of each step's last visit; `result` may be None."""

    run_id: str
    workflow: str
    state: str
    exit: str
    stop_reason: str
    error: str
    steps: Mapping[str, str]
    input: JsonValue
    result: JsonValue
    calls: tuple[Call, ...]
    used: Used

    def variables(self) -> dict[str, JsonValue]:
        """What an expression of `that` may read."""
        return {
            "state": self.state,
            "exit": self.exit,
            "stop_reason": self.stop_reason,
            "steps": dict(self.steps),
            "input": self.input,
            "result": self.result,
            "calls": [
                {"tool": one.tool, "status": one.status, "arguments": one.arguments} for one in self.calls
            ],
            "used": self.used.variables(),
        }


VARIABLES = frozenset(
    {"state", "exit", "stop_reason", "steps", "input", "result", "calls", "used"},
)
"""The names of an expression's variables."""

USED = frozenset(Used().variables())
"""The names of what there is of `used`."""

"""Functions that stop conditions ask."""

from typing import Any

from jackline_server.tools.tool_call import ToolCall


def enough(iterations: int, calls: list[dict[str, Any]], factor: float = 1.0) -> bool:
    """Says when: after two turns and a call."""
    return iterations * factor >= 2 and len(calls) > 0


async def knows_the_run(call: ToolCall, context: dict[str, Any]) -> bool:
    """Says whether it was told what it may know."""
    context["input"] = "changed"
    return call.run_id == "run_1" and call.subject == {"user": "ann"}


def counts() -> int:
    """Answers what is no yes or no."""
    return 1


def says_nothing() -> None:
    """Answers nothing."""

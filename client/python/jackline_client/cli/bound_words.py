"""What a bound of a request is called by whoever typed it: the flag, and the units of that flag.

Owns these words for `run --bound`, `fork --bound` and `adjust`. Does not own what a bound may be.
"""

import re

from jackline_client.errors import BoundTooHigh, BoundTooLow

_KIND = re.compile(r"\bkinds\[\d+\]")
_ADJUST = "adjust_bounds."
FLAGS = {
    "run.token_budget": "--tokens",
    "run.cost_budget_micros": "--cost",
    "run.run_timeout": "--timeout",
    "run.steps": "--steps",
    "run.events": "--events",
    "visit.max_iterations": "--visit-iterations",
    "visit.model_requests": "--visit-requests",
    "visit.tool_calls": "--visit-tool-calls",
    "visit.token_budget": "--visit-tokens",
    "visit.cost_budget_micros": "--visit-cost",
    "visit.timeout": "--visit-timeout",
}
"""The flags of `jackline adjust`, by the field that each sets."""


def too_high(error: BoundTooHigh) -> str:
    """What is allowed at most, in the units of the flag."""
    field = error.metadata.get("field", "")
    flag, most = FLAGS.get(field.removeprefix(_ADJUST)), _amount(field, error.metadata.get("limit", ""))
    if field.startswith(_ADJUST) and flag is not None:
        return f"{flag} is above what this run may be raised to; give at most {flag} {most}"
    name = (
        field.removeprefix("changes.")
        .removeprefix("bounds.")
        .replace("cost_budget_micros", "cost_budget_usd")
    )
    return f"--bound {name} is looser than the workflow's; give at most {name}={most}"


def too_low(error: BoundTooLow) -> str:
    """What is spent already, in the units of the flag."""
    field = error.metadata.get("field", "")
    flag, least = as_typed(field), _amount(field, error.metadata.get("spent", ""))
    return f"{flag} is below what is spent or held already; give at least {flag} {least}"


def _amount(field: str, number: str) -> str:
    if number.isdecimal() and field.endswith("cost_budget_micros"):
        return f"{int(number) / 1_000_000:.6f}"
    return f"{number}ms" if number.isdecimal() and field.endswith("timeout") else number


def as_typed(text: str) -> str:
    """The same with each field of the request under the name by which a person gave it."""
    text = _KIND.sub("--kind", text)
    for field, flag in FLAGS.items():
        text = text.replace(f"{_ADJUST}{field}", flag)
    return text.replace("changes.bounds.", "bounds.").replace(
        "bounds.cost_budget_micros", "--bound cost_budget_usd"
    )

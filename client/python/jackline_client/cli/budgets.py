"""The budget of a run in lines: what is used, what is held, and of how much.

Owns which bounds are shown: those of the whole run that something was used of or held for, then those of the
visit under way. What is held is for calls under way and for runs below that live.
"""

from collections.abc import Iterator

from jackline.v1.run_pb2 import Run
from jackline_client.cli.wording import Line


def budget_lines(run: Run) -> Iterator[Line]:
    """One line a bound. Without a bound nothing is said but what is held."""
    ledger, bounds = run.ledger, run.bounds
    most = bounds.token_budget if bounds.HasField("token_budget") else None
    yield from _line("tokens", ledger.tokens, ledger.reserved_tokens, most)
    most = bounds.cost_budget_micros if bounds.HasField("cost_budget_micros") else None
    yield from _line("dollars", ledger.cost_micros, ledger.reserved_cost_micros, most)
    most = bounds.run_timeout.ToMilliseconds() if bounds.HasField("run_timeout") else None
    yield from _line("time", run.active_time.ToMilliseconds(), 0, most)
    yield from _line("steps", ledger.steps, 0, bounds.steps if bounds.HasField("steps") else None)
    yield from _visit(run)


def _visit(run: Run) -> Iterator[Line]:
    if not run.HasField("visit_ledger") or not run.HasField("visit_bounds"):
        return
    ledger, bounds, of = run.visit_ledger, run.visit_bounds, " of the visit"
    turns = bounds.max_iterations if bounds.HasField("max_iterations") else None
    yield from _line("turns" + of, ledger.iterations, 0, turns)
    requests = bounds.model_requests if bounds.HasField("model_requests") else None
    yield from _line("model calls" + of, ledger.model_requests, 0, requests)
    calls = bounds.tool_calls if bounds.HasField("tool_calls") else None
    yield from _line("tool calls" + of, ledger.tool_calls, 0, calls)
    if bounds.HasField("token_budget"):
        yield from _line("tokens" + of, ledger.tokens, ledger.reserved_tokens, bounds.token_budget)
    if bounds.HasField("cost_budget_micros"):
        held, most = ledger.reserved_cost_micros, bounds.cost_budget_micros
        yield from _line("dollars" + of, ledger.cost_micros, held, most)


def _line(what: str, used: int, held: int, most: int | None) -> Iterator[Line]:
    if most is None and not held:
        return
    holds = f", {_amount(what, held)} held" if held else ""
    of = "" if most is None else f" of {_amount(what, most)}"
    yield Line(text=f"  budget {what}: {_amount(what, used)} used{holds}{of}", style="dim")


def _amount(what: str, number: int) -> str:
    if what.startswith("dollars"):
        return f"${number / 1_000_000:.4f}"
    return f"{number / 1000:,.1f} s" if what.startswith("time") else f"{number:,}"

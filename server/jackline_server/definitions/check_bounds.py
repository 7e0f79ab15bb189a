"""Checks of caps: what can never be met, what has no price, and the most that a run can spend.

Owns the worst case and the estimate of a fixed prompt. Does not own the ledger that enforces caps (`core`).
"""

import math
from collections.abc import Iterator

from jackline_server.core.plan import ChildAction, ModelStep, Plan, StepPlan, ToolStep
from jackline_server.definitions.check_flow import Graph
from jackline_server.definitions.child_steps import starts_children
from jackline_server.definitions.model_choice import askable
from jackline_server.definitions.report import Report
from jackline_server.definitions.yaml_nodes import Path
from jackline_server.runtime.ports.definitions import WorstCase

_BYTES_A_TOKEN = 4


def check(plan: Plan, found: Graph, report: Report) -> None:
    """Report caps that stop a step before it starts, and cost budgets without prices."""
    for step_id in sorted(found.visited | found.tools):
        step = plan.steps[step_id]
        if isinstance(step, ModelStep):
            _check_step(step, plan, report)
            _check_price(step, plan, report)
    if report.has_errors:
        return
    most = worst_case(plan, found)
    report.info("worst_case", _sentence(most, with_children=starts_children(plan)))


def worst_case(plan: Plan, found: Graph) -> WorstCase:
    """The most that one run can spend: by the caps of its steps, visited as often as they can be."""
    visits = plan.bounds.steps if found.cyclic else 1
    steps = [plan.steps[step_id] for step_id in found.visited]
    models = [step for step in steps if isinstance(step, ModelStep)]
    requests = [step.bounds.model_requests for step in models]
    calls = [_calls(step) for step in steps]
    tokens = [_tokens(step, plan) for step in models]
    costs = [_cost(step, plan) for step in models]
    known = [cost for cost in costs if cost is not None]
    cost = _combined(known, visits, plan) if len(known) == len(costs) else None
    if starts_children(plan):
        return _with_children(plan)
    return WorstCase(
        model_requests=_combined(requests, visits, plan),
        tool_calls=_combined(calls, visits, plan),
        tokens=_capped(_combined(tokens, visits, plan), plan.bounds.token_budget),
        cost_micros=_capped(cost, plan.bounds.cost_budget_micros),
        active_ms=plan.bounds.run_timeout_ms,
    )


def _with_children(plan: Plan) -> WorstCase:
    """What children do is counted in their own runs: here it is bounded by what this one may spend in all.

    Their requests and calls are bounded by that alone.
    """
    return WorstCase(
        model_requests=None,
        tool_calls=None,
        tokens=plan.bounds.token_budget,
        cost_micros=_capped(_cost_of_tokens(plan), plan.bounds.cost_budget_micros),
        active_ms=plan.bounds.run_timeout_ms,
    )


def _check_step(step: ModelStep, plan: Plan, report: Report) -> None:
    path: Path = ("steps", step.step_id, "bounds")
    if step.bounds.model_requests == 0:
        report.warning("bound_unreachable", f"`{step.step_id}` may ask no model, so it never answers", path)
    if step.tools and step.bounds.tool_calls == 0:
        report.warning("bound_unreachable", f"`{step.step_id}` has tools and may call none", path)
    needed = _fixed_prompt_tokens(step)
    for name, budget, place in (
        ("the step", step.bounds.token_budget, (*path, "token_budget")),
        ("the run", plan.bounds.token_budget, ("bounds", "token_budget")),
    ):
        if budget is not None and budget <= needed:
            message = (
                f"the fixed prompt of `{step.step_id}` alone is about {needed} tokens, {name} has {budget}"
            )
            report.warning("bound_unreachable", message, place)
    if step.model in plan.models and needed >= plan.models[step.model].context_window:
        message = f"the fixed prompt of `{step.step_id}` does not fit into the context window of its model"
        report.warning("bound_unreachable", message, ("steps", step.step_id))


def _check_price(step: ModelStep, plan: Plan, report: Report) -> None:
    for model in askable(step, plan):
        if model.price is not None:
            continue
        message = (
            f"the price of the model `{model.profile}` is unknown; set `price` in its profile, "
            'or `unknown_price = "ceiling"` with what it is counted at'
        )
        if step.bounds.cost_budget_micros is not None:
            report.error("price_unknown", message, ("steps", step.step_id, "bounds", "cost_budget_usd"))
        if plan.bounds.cost_budget_micros is not None:
            report.error("price_unknown", message, ("bounds", "cost_budget_usd"))


def _fixed_prompt_tokens(step: ModelStep) -> int:
    texts = [step.prompt, *(section.text for section in step.system)]
    texts += [text for tool in step.tools for text in (tool.description, tool.parameters_json)]
    return sum(len(text.encode("utf-8", "replace")) for text in texts) // _BYTES_A_TOKEN + 1


def _calls(step: StepPlan) -> int:
    match step:
        case ModelStep():
            return step.bounds.tool_calls if step.tools else 0
        case ToolStep():
            return 1 + step.policy.retries
        case _:
            return 0


def _tokens(step: ModelStep, plan: Plan) -> int:
    window = max(model.context_window for model in askable(step, plan))
    most = step.bounds.model_requests * window
    return most if step.bounds.token_budget is None else min(most, step.bounds.token_budget)


def _cost(step: ModelStep, plan: Plan) -> int | None:
    prices = [model.price for model in askable(step, plan)]
    known = [price for price in prices if price is not None]
    if len(known) < len(prices):
        return None
    dearest = max(max(price.most_input, price.most_output) for price in known)
    most = math.ceil(_tokens(step, plan) * dearest / 1_000_000)
    return most if step.bounds.cost_budget_micros is None else min(most, step.bounds.cost_budget_micros)


def _combined(each: list[int], visits: int, plan: Plan) -> int:
    """Without a cycle every step is visited once; with one, the dearest takes every visit."""
    if visits == 1 and len(each) <= plan.bounds.steps:
        return sum(each)
    return max(each, default=0) * plan.bounds.steps


def _capped(amount: int | None, cap: int | None) -> int | None:
    if amount is None or cap is None:
        return cap if amount is None else amount
    return min(amount, cap)


def _sentence(most: WorstCase, *, with_children: bool) -> str:
    if not with_children:
        return f"one run spends at most {', '.join(_words(most))}"
    if most.tokens is None and most.cost_micros is None:
        return "nothing but time bounds a run with all those that it starts: set `token_budget` in `bounds`"
    known = list(_words(most, unknown=False))
    return f"one run spends at most {', '.join(known)}, with all the runs that it starts"


def _cost_of_tokens(plan: Plan) -> int | None:
    """What the run's tokens cost at most, if all are spent here: by its own models, in runs of its agents."""
    runs_others = any(
        isinstance(step, ToolStep) and isinstance(step.action, ChildAction) for step in plan.steps.values()
    )
    prices = [model.price for model in plan.models.values()]
    known = [price for price in prices if price is not None]
    if runs_others or plan.bounds.token_budget is None or len(known) < len(prices):
        return None
    dearest = max((max(price.most_input, price.most_output) for price in known), default=0)
    return math.ceil(plan.bounds.token_budget * dearest / 1_000_000)


def _words(most: WorstCase, *, unknown: bool = True) -> Iterator[str]:
    for amount, what in (
        (most.model_requests, "model requests"),
        (most.tool_calls, "tool calls"),
        (most.tokens, "tokens"),
    ):
        if amount is not None or unknown:
            yield f"any number of {what}" if amount is None else f"{amount} {what}"
    if most.cost_micros is not None or unknown:
        yield "an unknown price" if most.cost_micros is None else f"{most.cost_micros / 1_000_000:.6f} USD"
    yield f"{(most.active_ms or 0) // 1_000} s of active time"

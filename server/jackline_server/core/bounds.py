"""Bounds: two scopes, one kind of ledger, reserve then settle.

Owns what may be spent and what is. A call is reserved in the run's ledger and in the visit's before it
starts, at its estimate, and settled by its result; a crash settles it at the full estimate. So no scope
gets past a cap by more than the one reserved call.

Tokens are estimated as a quarter of the UTF-8 bytes plus a constant a message. Money is millionths of a
US dollar, rounded up.
"""

from collections.abc import Iterable

from jackline_server.core.facts import StopReason, Usage
from jackline_server.core.frozen import change, frozen
from jackline_server.core.plan import ModelPlan, Price, RunBounds, StepBounds

LEAST_OUTPUT_TOKENS = 16
"""A call whose output cap would have to shrink below this is refused instead."""

MESSAGE_TOKENS = 4
"""What a message costs beside its text."""


@frozen
class Ledger:
    """What one scope has spent, and what it holds for calls in flight."""

    iterations: int = 0
    model_requests: int = 0
    tool_calls: int = 0
    tokens: int = 0
    cost_micros: int = 0
    reserved_tokens: int = 0
    reserved_cost_micros: int = 0
    steps: int = 0

    def reserve(self, *, tokens: int, cost_micros: int) -> "Ledger":
        """Hold a model call; the attempt counts from here."""
        return change(
            self,
            model_requests=self.model_requests + 1,
            reserved_tokens=self.reserved_tokens + tokens,
            reserved_cost_micros=self.reserved_cost_micros + cost_micros,
        )

    def settle(self, hold: "Hold", *, tokens: int, cost_micros: int, turns: int = 0) -> "Ledger":
        """Replace a held call by what it came to."""
        return change(
            self,
            iterations=self.iterations + turns,
            tokens=self.tokens + tokens,
            cost_micros=self.cost_micros + cost_micros,
            reserved_tokens=self.reserved_tokens - hold.tokens,
            reserved_cost_micros=self.reserved_cost_micros - hold.cost_micros,
        )

    def call_tool(self) -> "Ledger":
        """Count one attempt at a tool."""
        return change(self, tool_calls=self.tool_calls + 1)

    def enter_step(self) -> "Ledger":
        """Count one visit of a step."""
        return change(self, steps=self.steps + 1)

    @property
    def tokens_held(self) -> int:
        """Settled and reserved together: what a cap is held against."""
        return self.tokens + self.reserved_tokens

    @property
    def cost_held(self) -> int:
        """Settled and reserved together: what a cap is held against."""
        return self.cost_micros + self.reserved_cost_micros


@frozen
class Hold:
    """What a call in flight has reserved in each scope."""

    tokens: int
    cost_micros: int


@frozen
class Limit:
    """A bound that does not allow what comes next. `leaf` is its scope and name.

    `words` says what is needed and what is left, where that can be counted; `needs` is what the bound would
    have to be at least, 0 where that is not known.
    """

    reason: StopReason
    leaf: str
    words: str = ""
    needs: int = 0


@frozen
class Scope:
    """The two budgets of one scope, with what it has spent; None is no cap."""

    name: str
    ledger: Ledger
    token_budget: int | None
    cost_budget_micros: int | None


def run_scope(bounds: RunBounds, ledger: Ledger) -> Scope:
    """The run, children included."""
    return Scope(
        name="run",
        ledger=ledger,
        token_budget=bounds.token_budget,
        cost_budget_micros=bounds.cost_budget_micros,
    )


def visit_scope(bounds: StepBounds, ledger: Ledger) -> Scope:
    """One visit of a step."""
    return Scope(
        name="step",
        ledger=ledger,
        token_budget=bounds.token_budget,
        cost_budget_micros=bounds.cost_budget_micros,
    )


def estimate(texts: Iterable[str]) -> int:
    """Tokens that messages with these texts will cost as a prompt."""
    return sum(message_tokens(text) for text in texts)


def message_tokens(text: str) -> int:
    """Tokens that one message with this text will cost as a prompt."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return MESSAGE_TOKENS + (size + 3) // 4


def most_tokens(estimated: int) -> int:
    """The most tokens that a prompt can come to that was estimated at so many: one for each of its bytes."""
    return 4 * estimated


def price_of(price: Price | None, *, prompt_tokens: int, completion_tokens: int) -> int:
    """What so many tokens cost at most; 0 without a price (a cost budget then does not compile)."""
    if price is None:
        return 0
    return _rounded_up(prompt_tokens * price.most_input + completion_tokens * price.most_output)


def charge(model: ModelPlan, usage: Usage) -> int:
    """What a settled call costs, at the prices of the parts of its prompt and of its reply."""
    price = model.price
    if price is None:
        return 0
    cached, reasoning = usage.cached_tokens, usage.reasoning_tokens
    exact = (usage.prompt_tokens - cached) * price.input_per_million
    exact += cached * price.of_cached
    exact += (usage.completion_tokens - reasoning) * price.output_per_million
    exact += reasoning * price.of_reasoning
    return _rounded_up(exact)


def _rounded_up(exact: int) -> int:
    return -(-exact // 1_000_000)


def output_cap(
    model: ModelPlan, *, prompt_tokens: int, scopes: Iterable[Scope], held_back: Hold
) -> int | Limit:
    """The most output tokens that the model, its window and every budget allow, or what forbids the call.

    `held_back` is kept free in each budget, for a closing answer.
    """
    window = model.context_window - prompt_tokens
    cap = max(min(model.max_output_tokens, window), min(LEAST_OUTPUT_TOKENS, model.max_output_tokens))
    least = min(LEAST_OUTPUT_TOKENS, cap)
    for scope in scopes:
        by_tokens = _cap_by_tokens(scope, prompt_tokens, held_back.tokens)
        if by_tokens is not None:
            if by_tokens < least:
                needed = prompt_tokens + least + held_back.tokens
                return _no_tokens(scope, scope.token_budget or 0, needed=needed)
            cap = min(cap, by_tokens)
        by_cost = _cap_by_cost(scope, model.price, prompt_tokens, held_back.cost_micros)
        if by_cost is not None:
            if by_cost < least:
                price = price_of(model.price, prompt_tokens=prompt_tokens, completion_tokens=least)
                return _no_money(scope, scope.cost_budget_micros or 0, needed=price + held_back.cost_micros)
            cap = min(cap, by_cost)
    return cap


def _no_tokens(scope: Scope, budget: int, *, needed: int) -> Limit:
    left = max(budget - scope.ledger.tokens_held, 0)
    return Limit(
        reason=StopReason.TOKEN_BUDGET,
        leaf=f"{scope.name}.token_budget",
        words=f"the next model call needs about {needed} tokens, and {left} of {budget} are left",
        needs=scope.ledger.tokens_held + needed,
    )


def _no_money(scope: Scope, budget: int, *, needed: int) -> Limit:
    left = max(budget - scope.ledger.cost_held, 0)
    return Limit(
        reason=StopReason.COST_BUDGET,
        leaf=f"{scope.name}.cost_budget_usd",
        words=f"the next model call needs about {_usd(needed)}, and {_usd(left)} of {_usd(budget)} are left",
        needs=scope.ledger.cost_held + needed,
    )


def _usd(micros: int) -> str:
    return f"${micros // 1_000_000}.{micros % 1_000_000:06d}"


def _cap_by_tokens(scope: Scope, prompt_tokens: int, held_back: int) -> int | None:
    if scope.token_budget is None:
        return None
    return scope.token_budget - held_back - scope.ledger.tokens_held - prompt_tokens


def _cap_by_cost(scope: Scope, price: Price | None, prompt_tokens: int, held_back: int) -> int | None:
    if scope.cost_budget_micros is None or price is None:
        return None
    room = scope.cost_budget_micros - held_back - scope.ledger.cost_held
    left = room * 1_000_000 - prompt_tokens * price.most_input
    if left < 0:
        return -1
    return None if price.most_output == 0 else left // price.most_output

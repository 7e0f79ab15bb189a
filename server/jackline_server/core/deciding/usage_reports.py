"""What a model call used: how far a provider's report is believed, and what is charged where it is not.

Owns the limits of what can be, and the notices that tell of it, once for each model of a run. A report is
believed or refused as a whole but for its details, which are parts of its totals: one that can't be is
dropped. Does not own how a report is read from the wire (`models`) nor its price (`bounds`).

A report that is missing, or that says nothing that could be, is replaced by an estimate: the prompt as it was
reserved, the reply by its bytes. One that says too much is replaced by all that was reserved. So whatever a
provider reports, a budget is passed by no more than the one call that was reserved.
"""

from collections.abc import Iterable, Iterator

from jackline_server.core import bounds
from jackline_server.core.bounds import Scope
from jackline_server.core.deciding import turns
from jackline_server.core.facts import ModelCallStarted, NoticeCode, Noticed, Usage
from jackline_server.core.frozen import change, frozen
from jackline_server.core.plan import ModelStep
from jackline_server.core.state import RunState
from jackline_server.core.steps import CallModel

UNSEEN_PROMPT_TOKENS = 8_192
"""What a provider may put before a prompt of its own accord: a template, words about tools."""

UNSEEN_OUTPUT_TOKENS = 64
"""What a provider may count beside a reply: its end, the frame of a call."""


@frozen
class Reported:
    """What came with a reply. `usage` is None if nothing did, or nothing that could be read as usage.

    `unreadable` says which of the two. `said` are the texts of the reply; they are read where they have to be
    counted, and nowhere else.
    """

    usage: Usage | None
    unreadable: bool
    said: Iterable[str]


@frozen
class Charged:
    """What a call is charged, and what has to be told of it."""

    usage: Usage
    notices: tuple[Noticed, ...] = ()


def charged(state: RunState, call: CallModel, reported: Reported) -> Charged:
    """What a call that was replied to used."""
    found, problem = _believed(state, call, reported)
    if not problem and not found.estimated and not call.model.price_is_ceiling:
        return Charged(usage=found)
    return Charged(usage=found, notices=tuple(_notices(state, call, found, problem)))


def charged_for_failure(state: RunState, call: CallModel, told: Usage | None) -> Usage:
    """What a failed attempt used, as its failure tells; all that was reserved where nobody knows."""
    if told is None or _impossible(told) or _too_much(state, call, told):
        return full(call.started)
    return _plain(told)


def full(started: ModelCallStarted) -> Usage:
    """All that was reserved: what a call is charged when nobody knows what it used."""
    return Usage(
        prompt_tokens=started.prompt_tokens,
        completion_tokens=started.max_output_tokens,
        estimated=True,
    )


def _believed(state: RunState, call: CallModel, reported: Reported) -> tuple[Usage, str]:
    """What is charged, and in words what could not be believed; empty if nothing."""
    usage, started = reported.usage, call.started
    if usage is None:
        problem = "is no number of tokens that could be" if reported.unreadable else ""
        return _estimate(started, reported.said), problem
    problem = _impossible(usage)
    if problem:
        return _estimate(started, reported.said), problem
    problem = _too_much(state, call, usage)
    if problem:
        return full(started), problem
    plain = _plain(usage)
    if plain == usage:
        return usage, ""
    return plain, "has more cached tokens than prompt, or more reasoning than output"


def _estimate(started: ModelCallStarted, said: Iterable[str]) -> Usage:
    return Usage(
        prompt_tokens=started.prompt_tokens,
        completion_tokens=min(bounds.estimate(said), started.max_output_tokens),
        estimated=True,
    )


def _impossible(usage: Usage) -> str:
    return "is below zero" if usage.prompt_tokens < 0 or usage.completion_tokens < 0 else ""


def _too_much(state: RunState, call: CallModel, usage: Usage) -> str:
    """In words why a report is more than the call can have used; empty if it is not."""
    started, model = call.started, call.model
    sent = bounds.most_tokens(started.prompt_tokens) + len(call.reply_schema or "")
    if usage.prompt_tokens > sent + UNSEEN_PROMPT_TOKENS:
        return "has more prompt tokens than bytes were sent"
    if usage.completion_tokens > 2 * started.max_output_tokens + UNSEEN_OUTPUT_TOKENS:
        return "has far more output than was asked for"
    if usage.total > model.context_window + model.max_output_tokens:
        return "is more than the model can take in"
    if any(_passes(scope, call, usage) for scope in _scopes(state)):
        return "would pass a budget by more than the call that was reserved"
    return ""


def _passes(scope: Scope, call: CallModel, usage: Usage) -> bool:
    """True if a budget would be passed by more than what was reserved for the call."""
    tokens, cost = scope.token_budget, scope.cost_budget_micros
    if tokens is not None and scope.ledger.tokens + usage.total > tokens + call.started.reserved_tokens:
        return True
    if cost is None:
        return False
    reserved = call.started.reserved_cost_micros
    return scope.ledger.cost_micros + bounds.charge(call.model, _plain(usage)) > cost + reserved


def _scopes(state: RunState) -> tuple[Scope, ...]:
    visit = state.visit
    step = None if visit is None else state.plan.step(visit.step_id)
    return turns.scopes(state, visit, step) if visit is not None and isinstance(step, ModelStep) else ()


def _plain(usage: Usage) -> Usage:
    """The usage without details that are no part of their totals."""
    cached, reasoning = usage.cached_tokens, usage.reasoning_tokens
    if 0 <= cached <= usage.prompt_tokens and 0 <= reasoning <= usage.completion_tokens:
        return usage
    return change(
        usage,
        cached_tokens=cached if 0 <= cached <= usage.prompt_tokens else 0,
        reasoning_tokens=reasoning if 0 <= reasoning <= usage.completion_tokens else 0,
    )


# --- notices -----------------------------------------------------------------------------------


def _notices(state: RunState, call: CallModel, usage: Usage, problem: str) -> Iterator[Noticed]:
    """What has not been told of the model in this run."""
    profile, told = call.started.model, state.oversight.told
    if problem and (NoticeCode.USAGE_ODD, profile) not in told:
        instead = "it counts without them"
        if usage.estimated:
            instead = "an estimate" if usage != full(call.started) else "all that was reserved"
            instead += " is charged in its place"
        text = f"what `{profile}` reports of a call {problem}; {instead}"
        yield Noticed(code=NoticeCode.USAGE_ODD, subject=profile, text=text)
    unknown = " and ".join(_unknown(call, usage, problem))
    if unknown and (NoticeCode.COST_UNKNOWN, profile) not in told:
        text = f"what a call of `{profile}` costs is not known: {unknown}"
        yield Noticed(code=NoticeCode.COST_UNKNOWN, subject=profile, text=text)


def _unknown(call: CallModel, usage: Usage, problem: str) -> Iterator[str]:
    if usage.estimated and not problem:
        yield "it reports no usage, and an estimate is charged"
    if call.model.price_is_ceiling:
        yield "it has no price, and the ceiling of its profile is charged"

"""Turns of a model step: the next call of the model under every bound, and what a limit leads to.

Owns questions 9, 10 and 11 of the loop; what 9 asks belongs to `repetition` and `reflection`, and judging an
answer to `judging`. A turn is one model call with its tool calls; mending an answer and the closing answer
use a request, not a turn.
"""

from jackline_server.core import bounds, exits
from jackline_server.core.bounds import Hold, Limit, Scope
from jackline_server.core.deciding import call_checks, leaving
from jackline_server.core.deciding.batches import Batch
from jackline_server.core.deciding.partial import with_best
from jackline_server.core.exits import Exit
from jackline_server.core.facts import (
    CallStatus,
    ModelCallStarted,
    Purpose,
    StopReason,
)
from jackline_server.core.plan import (
    AnswerForm,
    ChoiceMode,
    ModelPlan,
    ModelStep,
    OnLimit,
    ToolChoice,
)
from jackline_server.core.reading import (
    budget_notices,
    fallbacks,
    finish_tool,
    limit_questions,
    reflection,
    repetition,
    result_tool,
    timing,
)
from jackline_server.core.reading import transcript as conversation
from jackline_server.core.state import RunState, Visit, bounds_of, calls_of
from jackline_server.core.steps import CallModel, Moment, Record, Step, Wait

CLOSING_OUTPUT_TOKENS = 512
"""What a closing answer is given at least, and what is held back for it from the start."""

EMPTY_REPLY = Limit(reason=StopReason.MODEL_ERROR, leaf="MODEL_EMPTY_REPLY")

_NO_HOLD = Hold(tokens=0, cost_micros=0)


def look_back(state: RunState, visit: Visit, step: ModelStep, *, now: Moment) -> Step | None:
    """What the turns so far lead to before the next one: a loop's end, a word to the model, or nothing."""
    repeated = repetition.found(visit, step)
    if isinstance(repeated, Limit):
        return at_limit(state, visit, step, repeated, now=now)
    due = repeated or reflection.due(visit, step)
    return None if due is None else Record(facts=(due,))


def next_turn(state: RunState, visit: Visit, step: ModelStep, *, now: Moment) -> Step:
    """The next call of the model, or what stands in its way."""
    now_active_ms = now.active_ms
    attempts = visit.attempts
    if attempts is None and visit.closing is not None:
        return close_without_answer(state, visit)  # the closing reply asked for tools; it is not asked again
    if attempts is not None:
        if attempts.retry_at_active_ms is None:
            return fallbacks.following(visit, step) or _give_up(state, visit)
        if now_active_ms < attempts.retry_at_active_ms:
            return wait_for_retry(state, attempts.retry_at_active_ms, now_active_ms)
    nearly = budget_notices.due(state, visit, step)
    if nearly is not None:
        return Record(facts=(nearly,))
    call = model_call(state, visit, step, now_active_ms=now_active_ms)
    return call if isinstance(call, CallModel) else at_limit(state, visit, step, call, now=now)


def wait_for_retry(state: RunState, retry_at_active_ms: int, now_active_ms: int) -> Wait:
    """Wait for the next attempt at a model, and no longer than the earliest deadline."""
    left = timing.left_ms(state, now_active_ms)
    until = retry_at_active_ms if left is None else min(retry_at_active_ms, now_active_ms + left)
    return Wait(until_active_ms=until)


def _give_up(state: RunState, visit: Visit) -> Record:
    attempts = visit.attempts
    if visit.closing is not None or attempts is None:
        return close_without_answer(state, visit)
    leaf = f"MODEL_{attempts.last.name}"
    end = exits.abnormal(StopReason.MODEL_ERROR, leaf=leaf, error=attempts.error)
    return leaving.leave(state, visit, with_best(end, state, visit))


def at_limit(
    state: RunState, visit: Visit, step: ModelStep, limit: Limit, *, now: Moment
) -> Record | CallModel:
    """What a reached limit leads to: the exit, or first a closing answer if there is room, or a question."""
    if visit.closing is not None:
        return close_without_answer(state, visit)
    call = _closing_call(state, visit, step, limit, now)
    if step.on_limit is OnLimit.ASK and not visit.limit_answer and limit_questions.can_be_asked(limit):
        if limit_questions.nobody_is_there(state):
            return leaving.leave(state, visit, with_best(_to_review(limit), state, visit))
        asking = limit_questions.Asking(now=now, closes=call is not None, next_limit=next_limit(step))
        return Record(facts=(limit_questions.question(state, visit, step, limit, asking),))
    wanted = step.on_limit is OnLimit.FINAL_ANSWER or visit.limit_answer == limit_questions.FINAL_ANSWER
    if call is not None and wanted:
        return call
    return leaving.leave(state, visit, cut(limit, state, visit))


def next_limit(step: ModelStep) -> limit_questions.Following:
    """What forbids the next turn of the step in a state, as `limit_questions` asks it: never a time."""

    def found(state: RunState, visit: Visit) -> Limit | None:
        call = model_call(state, visit, step, now_active_ms=state.active_ms)
        return call if isinstance(call, Limit) else None

    return found


def _closing_call(
    state: RunState, visit: Visit, step: ModelStep, limit: Limit, now: Moment
) -> CallModel | None:
    """The call for a closing answer; None where there is no room for one, or none can be wanted."""
    if step.on_limit is OnLimit.EXIT:
        return None
    call = model_call(state, visit, step, closing=limit, now_active_ms=now.active_ms)
    return call if isinstance(call, CallModel) else None


def _to_review(limit: Limit) -> Exit:
    error = f"{limit_words(limit)}, and nobody is there to ask"
    return exits.abnormal(StopReason.REVIEW, leaf=limit.leaf, error=error)


def cut(limit: Limit, state: RunState, visit: Visit) -> Exit:
    """The exit without an answer: a bound leaves the best there is, a stop condition nothing."""
    end = limit_exit(limit)
    return end if limit.reason is StopReason.STOP_CONDITION else with_best(end, state, visit)


def limit_exit(limit: Limit) -> Exit:
    """The exit that a reached limit leads to, without a result."""
    return exits.abnormal(limit.reason, leaf=limit.leaf, error=limit_words(limit))


def limit_words(limit: Limit) -> str:
    """What a limit says in the error of an exit."""
    match limit.reason:
        case StopReason.STOP_CONDITION:
            return ""
        case StopReason.MODEL_ERROR:
            return "the model gave no answer"
        case StopReason.TOOL_LOOP:
            return "the same tool calls were repeated, and nothing new came of it"
        case _:
            return f"{limit.leaf}: {limit.words}" if limit.words else f"{limit.leaf} is reached"


def close_without_answer(state: RunState, visit: Visit) -> Record:
    """End the visit, whose closing answer did not come."""
    return leaving.leave(state, visit, cut(visit.closing or EMPTY_REPLY, state, visit))


# --- the next call -----------------------------------------------------------------------------


def model_call(
    state: RunState, visit: Visit, step: ModelStep, *, now_active_ms: int, closing: Limit | None = None
) -> CallModel | Limit:
    """The next attempt at the model with its reservation, or the bound that forbids it.

    `closing` asks for the closing answer; one that was begun goes on being one.
    """
    closing = closing or visit.closing
    counted = None if closing is not None else counted_out(visit, step)
    if counted is not None:
        return counted
    if visit.ledger.model_requests >= bounds_of(visit, step).model_requests:
        return Limit(reason=StopReason.REQUEST_BUDGET, leaf="step.model_requests")
    sent = conversation.prompt(state, visit, step, closing=closing is not None)
    prompt = sent.tokens + (sent.tool_tokens if closing is None else finish_tool.contract_tokens(step))
    tools = finish_tool.offered(step, closing=closing is not None)
    if visit.readable and step.reads_results and closing is None:
        tools = (*tools, result_tool.ENTRY)
        prompt += result_tool.tokens()
    model = fallbacks.model_of(state, visit, step)
    cap = bounds.output_cap(
        model,
        prompt_tokens=prompt,
        scopes=scopes(state, visit, step),
        held_back=_NO_HOLD if closing is not None else held_back(state, visit, step, prompt),
    )
    if isinstance(cap, Limit):
        return cap
    started = ModelCallStarted(
        iteration=_iteration(visit, closing),
        purpose=_purpose(visit, closing),
        attempt=1 if visit.attempts is None else visit.attempts.failed + 1,
        model=fallbacks.model_name(visit, step),
        prompt_tokens=prompt,
        max_output_tokens=cap,
        reserved_cost_micros=bounds.price_of(model.price, prompt_tokens=prompt, completion_tokens=cap),
        limit=None if closing is None else closing.reason,
        limit_leaf="" if closing is None else closing.leaf,
    )
    return CallModel(
        started=started,
        model=model,
        messages=sent.messages,
        tools=tools,
        tool_choice=_choice(state, visit, step, closing=closing is not None),
        reply_schema=_reply_schema(state, visit, step, closing=closing is not None),
        total_ms=total_ms(state, visit, step, model, now_active_ms),
        request_ms=request_ms(visit, step, model, now_active_ms),
        idle_ms=idle_ms(step, model),
    )


def counted_out(visit: Visit, step: ModelStep) -> Limit | None:
    """The caps on turns and requests, if one is reached; a closing answer is not held to them."""
    if not visit.repairing and visit.ledger.iterations >= bounds_of(visit, step).max_iterations:
        needs = visit.ledger.iterations + 1
        return Limit(reason=StopReason.MAX_ITERATIONS, leaf="step.max_iterations", needs=needs)
    return requests_used_up(visit, step)


def none_for_calls(batch: Batch, step: ModelStep) -> Limit | None:
    """The cap on the calls of a reply that used no turn, where none is left to see their results in."""
    visit = batch.visit
    if not visit.took_no_turn or visit.ledger.iterations < bounds_of(visit, step).max_iterations:
        return None
    return None if call_checks.has_begun(batch) else _TURNS_USED_UP


_TURNS_USED_UP = Limit(reason=StopReason.MAX_ITERATIONS, leaf="step.max_iterations")


def requests_used_up(visit: Visit, step: ModelStep) -> Limit | None:
    """The cap on requests, if it leaves none but what is held back for a closing answer."""
    held_back = int(step.on_limit is not OnLimit.EXIT)
    if visit.ledger.model_requests + held_back >= bounds_of(visit, step).model_requests:
        needs = visit.ledger.model_requests + held_back + 1
        return Limit(reason=StopReason.REQUEST_BUDGET, leaf="step.model_requests", needs=needs)
    return None


def scopes(state: RunState, visit: Visit, step: ModelStep) -> tuple[Scope, Scope]:
    """The two scopes that a call of the visit is held against."""
    return (
        bounds.visit_scope(bounds_of(visit, step), visit.ledger),
        bounds.run_scope(state.bounds, state.ledger),
    )


def held_back(state: RunState, visit: Visit, step: ModelStep, prompt: int) -> Hold:
    """What is kept free for a closing answer to a prompt of so many tokens."""
    if step.on_limit is OnLimit.EXIT:
        return _NO_HOLD
    price = fallbacks.model_of(state, visit, step).price
    cost = bounds.price_of(price, prompt_tokens=prompt, completion_tokens=CLOSING_OUTPUT_TOKENS)
    return Hold(tokens=prompt + CLOSING_OUTPUT_TOKENS, cost_micros=cost)


def _iteration(visit: Visit, closing: Limit | None) -> int:
    if closing is not None or visit.repairing:
        return max(visit.iteration, 1)
    return visit.ledger.iterations + 1


def _purpose(visit: Visit, closing: Limit | None) -> Purpose:
    if closing is not None:
        return Purpose.FINAL_ANSWER
    return Purpose.REPAIR if visit.repairing else Purpose.TURN


def _choice(state: RunState, visit: Visit, step: ModelStep, *, closing: bool) -> ToolChoice:
    """What is asked of the provider: once the required call has succeeded, the model may answer."""
    if closing or choice_met(state, visit, step):
        return finish_tool.choice(step, closing=closing)
    return step.tool_choice


def _reply_schema(state: RunState, visit: Visit, step: ModelStep, *, closing: bool) -> str | None:
    """The schema that the provider is asked for, once the model may answer."""
    if step.outcome.form is not AnswerForm.NATIVE_SCHEMA:
        return None
    return step.outcome.contract_json if closing or choice_met(state, visit, step) else None


def total_ms(state: RunState, visit: Visit, step: ModelStep, model: ModelPlan, now_active_ms: int) -> int:
    """How long an attempt at a model may take: what is left of its request, and of every deadline."""
    total = request_ms(visit, step, model, now_active_ms)
    left = timing.left_ms(state, now_active_ms)
    return total if left is None else min(total, left)


def request_ms(visit: Visit, step: ModelStep, model: ModelPlan, now_active_ms: int) -> int:
    """What an attempt may take of the time that is left of its request, and of its profile's. At least 1."""
    since = now_active_ms if visit.request_since_ms is None else visit.request_since_ms
    left = max(step.bounds.model_timeout_ms - (now_active_ms - since), 1)
    return left if model.limits.request_timeout_ms is None else min(left, model.limits.request_timeout_ms)


def idle_ms(step: ModelStep, model: ModelPlan) -> int:
    """How long an attempt waits for the next chunk: as the step says, or the model's profile."""
    own = model.limits.idle_timeout_ms
    return step.bounds.idle_timeout_ms if own is None else min(own, step.bounds.idle_timeout_ms)


def choice_met(state: RunState, visit: Visit, step: ModelStep) -> bool:
    """True if the call that `tool_choice` wants has succeeded in this visit, or none is wanted."""
    choice = step.tool_choice
    if choice.mode is ChoiceMode.AUTO:
        return True
    return any(
        call.status is CallStatus.COMPLETED
        for call in calls_of(state, visit)
        if choice.mode is ChoiceMode.REQUIRED or call.tool == choice.name
    )

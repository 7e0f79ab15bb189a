"""Turns of a model step: judging an answer, and the next call of the model under every bound.

Owns questions 7, 9, 10 and 11 of the loop; what 9 asks belongs to `repetition` and `reflection`. A turn is
one model call with its tool calls; mending an answer and the closing answer use a request, not a turn.
"""

from jackline_server.core import bounds, exits, leaving, outcome, reflection, repetition, timing
from jackline_server.core import transcript as conversation
from jackline_server.core.bounds import Hold, Limit, Scope
from jackline_server.core.exits import Exit
from jackline_server.core.facts import (
    AnswerProblem,
    AnswerRejected,
    CallStatus,
    ModelCallStarted,
    NoticeCode,
    Noticed,
    Purpose,
    StopReason,
)
from jackline_server.core.instruments import SchemaValidator
from jackline_server.core.outcome import Accepted, Wrong
from jackline_server.core.plan import ChoiceMode, ModelStep, OnLimit, ToolChoice
from jackline_server.core.state import Reply, RunState, Visit
from jackline_server.core.steps import CallModel, Record, Step, Wait

CLOSING_OUTPUT_TOKENS = 512
"""What a closing answer is given at least, and what is held back for it from the start."""

EMPTY_REPLY = Limit(reason=StopReason.MODEL_ERROR, leaf="MODEL_EMPTY_REPLY")

_NO_HOLD = Hold(tokens=0, cost_micros=0)
_NOTICE_AT = (4, 5)


def look_back(state: RunState, visit: Visit, step: ModelStep, *, now_active_ms: int) -> Step | None:
    """What the turns so far lead to before the next one: a loop's end, a word to the model, or nothing."""
    repeated = repetition.found(visit, step)
    if isinstance(repeated, Limit):
        return at_limit(state, visit, step, repeated, now_active_ms=now_active_ms)
    due = repeated or reflection.due(visit, step)
    return None if due is None else Record(facts=(due,))


def next_turn(state: RunState, visit: Visit, step: ModelStep, *, now_active_ms: int) -> Step:
    """The next call of the model, or what stands in its way."""
    attempts = visit.attempts
    if attempts is None and visit.closing is not None:
        return _close_without_answer(state, visit)  # the closing reply asked for tools; it is not asked again
    if attempts is not None:
        if attempts.retry_at_active_ms is None:
            return _give_up(state, visit)
        if now_active_ms < attempts.retry_at_active_ms:
            return Wait(until_active_ms=attempts.retry_at_active_ms)
    if not state.oversight.budget_told:
        nearly = _nearly_used(state, visit, step)
        if nearly is not None:
            return Record(facts=(nearly,))
    call = model_call(state, visit, step, now_active_ms=now_active_ms)
    return (
        call
        if isinstance(call, CallModel)
        else at_limit(state, visit, step, call, now_active_ms=now_active_ms)
    )


def _give_up(state: RunState, visit: Visit) -> Record:
    attempts = visit.attempts
    if visit.closing is not None or attempts is None:
        return _close_without_answer(state, visit)
    leaf = f"MODEL_{attempts.last.name}"
    end = exits.abnormal(StopReason.MODEL_ERROR, leaf=leaf, error=attempts.error)
    return leaving.leave(state, visit, with_best(end, visit))


def at_limit(
    state: RunState, visit: Visit, step: ModelStep, limit: Limit, *, now_active_ms: int
) -> Record | CallModel:
    """What a reached limit leads to: the exit, or first a closing answer if there is room for one."""
    if visit.closing is None and step.on_limit is OnLimit.FINAL_ANSWER:
        call = model_call(state, visit, step, closing=limit, now_active_ms=now_active_ms)
        if isinstance(call, CallModel):
            return call
    if visit.closing is not None:
        return _close_without_answer(state, visit)
    return leaving.leave(state, visit, with_best(_limit_exit(limit), visit))


def _limit_exit(limit: Limit) -> Exit:
    return exits.abnormal(limit.reason, leaf=limit.leaf, error=limit_words(limit))


def limit_words(limit: Limit) -> str:
    """What a limit says in the error of an exit."""
    if limit.reason is StopReason.MODEL_ERROR:
        return "the model gave no answer"
    if limit.reason is StopReason.TOOL_LOOP:
        return "the same tool calls were repeated, and nothing new came of it"
    return f"{limit.leaf}: {limit.words}" if limit.words else f"{limit.leaf} is reached"


def _close_without_answer(state: RunState, visit: Visit) -> Record:
    limit = visit.closing or EMPTY_REPLY
    return leaving.leave(state, visit, with_best(_limit_exit(limit), visit))


def with_best(end: Exit, visit: Visit) -> Exit:
    """The exit with the newest text of the model as its partial result, if there is any."""
    text = conversation.last_text(visit)
    if not text:
        return end
    return Exit(
        signal=end.signal,
        reason=end.reason,
        leaf=end.leaf,
        error=end.error,
        result=text,
        has_result=True,
        partial=True,
    )


# --- the next call -----------------------------------------------------------------------------


def model_call(
    state: RunState, visit: Visit, step: ModelStep, *, now_active_ms: int, closing: Limit | None = None
) -> CallModel | Limit:
    """The next attempt at the model with its reservation, or the bound that forbids it.

    `closing` asks for the closing answer; one that was begun goes on being one.
    """
    closing = closing or visit.closing
    counted = None if closing is not None else _counts(visit, step)
    if counted is not None:
        return counted
    if visit.ledger.model_requests >= step.bounds.model_requests:
        return Limit(reason=StopReason.REQUEST_BUDGET, leaf="step.model_requests")
    sent = conversation.prompt(state, visit, step, closing=closing is not None)
    prompt = sent.tokens + (sent.tool_tokens if closing is None else 0)
    model = state.plan.models[step.model]
    cap = bounds.output_cap(
        model,
        prompt_tokens=prompt,
        scopes=scopes(state, visit, step),
        held_back=_NO_HOLD if closing is not None else held_back(state, step, prompt),
    )
    if isinstance(cap, Limit):
        return cap
    started = ModelCallStarted(
        iteration=_iteration(visit, closing),
        purpose=_purpose(visit, closing),
        attempt=1 if visit.attempts is None else visit.attempts.failed + 1,
        model=step.model,
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
        tools=() if closing is not None else step.tools,
        tool_choice=ToolChoice() if closing is not None else _choice(state, visit, step),
        total_ms=total_ms(state, visit, step, now_active_ms),
        idle_ms=step.bounds.idle_timeout_ms,
    )


def _counts(visit: Visit, step: ModelStep) -> Limit | None:
    """The caps that a closing answer is not held to."""
    if not visit.repairing and visit.ledger.iterations >= step.bounds.max_iterations:
        return Limit(reason=StopReason.MAX_ITERATIONS, leaf="step.max_iterations")
    return requests_used_up(visit, step)


def requests_used_up(visit: Visit, step: ModelStep) -> Limit | None:
    """The cap on requests, if it leaves none but what is held back for a closing answer."""
    held_back = int(step.on_limit is OnLimit.FINAL_ANSWER)
    if visit.ledger.model_requests + held_back >= step.bounds.model_requests:
        return Limit(reason=StopReason.REQUEST_BUDGET, leaf="step.model_requests")
    return None


def scopes(state: RunState, visit: Visit, step: ModelStep) -> tuple[Scope, Scope]:
    """The two scopes that a call of the visit is held against."""
    return (
        bounds.visit_scope(step.bounds, visit.ledger),
        bounds.run_scope(state.started.bounds, state.ledger),
    )


def held_back(state: RunState, step: ModelStep, prompt: int) -> Hold:
    """What is kept free for a closing answer to a prompt of so many tokens."""
    if step.on_limit is not OnLimit.FINAL_ANSWER:
        return _NO_HOLD
    price = state.plan.models[step.model].price
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


def _choice(state: RunState, visit: Visit, step: ModelStep) -> ToolChoice:
    """What is asked of the provider: once the required call has succeeded, the model may answer."""
    return ToolChoice() if choice_met(state, visit, step) else step.tool_choice


def total_ms(state: RunState, visit: Visit, step: ModelStep, now_active_ms: int) -> int:
    """How long an attempt at a model may take: what is left of its request, and of every deadline."""
    since = now_active_ms if visit.request_since_ms is None else visit.request_since_ms
    total = step.bounds.model_timeout_ms - (now_active_ms - since)
    left = timing.left_ms(state, now_active_ms)
    return max(total if left is None else min(total, left), 1)


def _nearly_used(state: RunState, visit: Visit, step: ModelStep) -> Noticed | None:
    parts, whole = _NOTICE_AT
    for scope in scopes(state, visit, step):
        pairs = (
            ("token", scope.token_budget, scope.ledger.tokens_held),
            ("cost", scope.cost_budget_micros, scope.ledger.cost_held),
        )
        for name, budget, held in pairs:
            if budget and held * whole >= budget * parts:
                text = f"More than four fifths of the {name} budget is used. Come to an end soon."
                return Noticed(code=NoticeCode.BUDGET_NEARLY_USED, text=text)
    return None


# --- judging an answer -------------------------------------------------------------------------


def judge(
    state: RunState,
    visit: Visit,
    step: ModelStep,
    reply: Reply,
    schemas: SchemaValidator,
    *,
    now_active_ms: int,
) -> Step:
    """What a reply without tool calls leads to."""
    verdict = outcome.read(reply, step.outcome, schemas)
    if visit.closing is not None:
        return _close(state, visit, verdict)
    if isinstance(verdict, Accepted):
        if choice_met(state, visit, step):
            return leaving.leave(state, visit, _accepted(verdict, step))
        verdict = Wrong(
            problem=AnswerProblem.TOOL_REQUIRED,
            explanation="A tool call has to succeed before you answer. Call the tool.",
        )
    if verdict.problem is AnswerProblem.EMPTY:
        return _empty(state, visit, step, verdict, now_active_ms=now_active_ms)
    if visit.repairs < step.outcome.repairs:
        return Record(facts=(_rejected(verdict, visit.repairs + 1),))
    reason = StopReason.INVALID_OUTPUT
    if verdict.problem is AnswerProblem.TOOL_REQUIRED:
        reason = StopReason.NO_TOOL_SUCCEEDED
    end = exits.abnormal(reason, leaf=verdict.problem.value, error=verdict.explanation)
    left = leaving.leave(state, visit, with_best(end, visit))
    return Record(facts=(_rejected(verdict, 0), *left.facts))


def _rejected(verdict: Wrong, repair: int) -> AnswerRejected:
    return AnswerRejected(problem=verdict.problem, repair=repair, explanation=verdict.explanation)


def _accepted(verdict: Accepted, step: ModelStep) -> Exit:
    reason = StopReason.OUTCOME if step.outcome.enum else StopReason.DEFAULT
    return Exit(signal=verdict.signal, reason=reason, result=verdict.result, has_result=True)


def _empty(state: RunState, visit: Visit, step: ModelStep, verdict: Wrong, *, now_active_ms: int) -> Step:
    """An empty reply is asked for again once, then a closing answer is tried, then the step fails."""
    if visit.empty_replies == 0:
        return Record(facts=(_rejected(verdict, 1),))
    call = model_call(state, visit, step, closing=EMPTY_REPLY, now_active_ms=now_active_ms)
    return call if isinstance(call, CallModel) else _close_without_answer(state, visit)


def _close(state: RunState, visit: Visit, verdict: Accepted | Wrong) -> Record:
    """A closing answer: the signal stays the limit's, and the answer is the partial result."""
    end = _limit_exit(visit.closing or EMPTY_REPLY)
    if isinstance(verdict, Wrong):
        return leaving.leave(state, visit, with_best(end, visit))
    closed = Exit(
        signal=end.signal,
        reason=end.reason,
        leaf=end.leaf,
        error=end.error,
        result=verdict.result,
        has_result=True,
        partial=True,
    )
    return leaving.leave(state, visit, closed)


def choice_met(state: RunState, visit: Visit, step: ModelStep) -> bool:
    """True if the calls that the step has to make have succeeded."""
    choice = step.tool_choice
    if choice.mode is ChoiceMode.AUTO:
        return True
    return any(
        call.status is CallStatus.COMPLETED
        for call in state.calls.values()
        if call.step_id == visit.step_id
        and call.visit == visit.number
        and (choice.mode is ChoiceMode.REQUIRED or call.tool == choice.name)
    )

"""How facts change a turn: calls of the model, their replies, and answers that were rejected.

Owns reservation and settlement: a call is held in the run's ledger and in the visit's from its announcement
on, and replaced by what it came to.
"""

from jackline_server.core.bounds import Hold, Limit
from jackline_server.core.errors import CorruptLog
from jackline_server.core.facts import (
    AnswerProblem,
    AnswerRejected,
    ConsultAnswer,
    Consulted,
    ConsultKind,
    FailureClass,
    ModelCallFailed,
    ModelCallStarted,
    ModelReplied,
    Purpose,
    Usage,
)
from jackline_server.core.folding import evolve_gates, evolve_history, evolve_supervision
from jackline_server.core.folding.evolve_progress import judged
from jackline_server.core.frozen import change
from jackline_server.core.reading import text_calls
from jackline_server.core.state import (
    Attempts,
    Grounding,
    ModelCall,
    Note,
    Reply,
    RunState,
    Stopping,
    Visit,
    current,
)


def settle_lost(state: RunState, call: ModelCall) -> RunState:
    """Charge a call that nobody will answer at its full estimate, and let it be tried again at once."""
    tokens, cost = call.hold.tokens, call.hold.cost_micros
    usage = Usage(
        prompt_tokens=call.started.prompt_tokens,
        completion_tokens=call.started.max_output_tokens,
        estimated=True,
    )
    visit = current(state)
    before, waits = _earlier(visit)
    attempts = Attempts(
        failed=call.started.attempt,
        last=FailureClass.CANCELLED,
        error="the worker went away during the call",
        retry_at_active_ms=state.active_ms,
        before=before,
        waits=waits,
    )
    settled = change(
        visit,
        ledger=visit.ledger.settle(call.hold, tokens=tokens, cost_micros=cost),
        model_call=None,
        request_since_ms=None,
    )
    return change(
        _attempted(state, settled, call, attempts),
        usage=_add(state.usage, usage),
        ledger=state.ledger.settle(call.hold, tokens=tokens, cost_micros=cost),
    )


def _attempted(state: RunState, visit: Visit, call: ModelCall, attempts: Attempts) -> RunState:
    """The state with a failed attempt: at the call that is due, or at a judge."""
    if call.started.purpose is Purpose.SUPERVISE:
        return change(state, visit=evolve_supervision.failed(visit, attempts))
    if state.gates is not None and call.started.purpose is Purpose.JUDGE:
        return change(state, visit=visit, gates=evolve_gates.failed(state.gates, attempts))
    return change(state, visit=change(visit, attempts=attempts))


def reserve(state: RunState, fact: ModelCallStarted) -> RunState:
    """A call is announced: both ledgers hold it from here."""
    visit = current(state)
    if fact.purpose is Purpose.SUMMARY:
        visit = evolve_history.asked(visit, fact)
    seen = visit.supervision
    if seen is not None and fact.purpose is Purpose.SUPERVISE:
        seen = evolve_supervision.reserved(seen, fact)
    hold = Hold(tokens=fact.reserved_tokens, cost_micros=fact.reserved_cost_micros)
    since, closing, stopping = visit.request_since_ms, visit.closing, visit.stopping
    if fact.limit is not None:
        closing = Limit(reason=fact.limit, leaf=fact.limit_leaf)
    if stopping.answers and not fact.purpose.is_aside:
        stopping = Stopping(failed=stopping.failed)  # the next turn asks anew
    return change(
        state,
        ledger=state.ledger.reserve(tokens=hold.tokens, cost_micros=hold.cost_micros),
        visit=change(
            visit,
            ledger=visit.ledger.reserve(tokens=hold.tokens, cost_micros=hold.cost_micros),
            iteration=fact.iteration,
            model_call=ModelCall(sequence=state.sequence, started=fact, hold=hold),
            request_since_ms=state.active_ms if since is None else since,
            answer=visit.answer if fact.purpose.is_aside else None,
            closing=closing,
            stopping=stopping,
            grounding=_grounding(visit.grounding, fact.purpose),
            supervision=seen,
        ),
        gates=None if state.gates is None else evolve_gates.reserved(state.gates, fact),
    )


def _grounding(grounding: Grounding, purpose: Purpose) -> Grounding:
    """Any call of the conversation means that there is no answer to judge any more."""
    if purpose is Purpose.GROUND:
        return change(grounding, asked=True)
    if purpose in (Purpose.JUDGE, Purpose.SUPERVISE):
        return grounding
    if not grounding.passed and not grounding.asked:
        return grounding
    return Grounding(replans=grounding.replans, refused=grounding.refused)


def _in_flight(visit: Visit) -> ModelCall:
    if visit.model_call is None:
        raise CorruptLog("a reply without a call")
    return visit.model_call


def reply(state: RunState, fact: ModelReplied) -> RunState:
    """The call is settled at what it used, and its reply enters the conversation."""
    visit = current(state)
    call = _in_flight(visit)
    turns = int(call.started.purpose is Purpose.TURN)
    text = fact.text
    if fact.calls_in_text:
        text = text_calls.words(text, state.plan.step(visit.step_id))
    said = Reply(text=text, finish=fact.finish)
    if fact.blocks is not None:
        reasoning = fact.reasoning if fact.blocks.field else ""
        said = change(said, reasoning=reasoning, blocks=fact.blocks)
    settled = change(
        visit,
        ledger=visit.ledger.settle(
            call.hold, tokens=fact.usage.total, cost_micros=fact.cost_micros, turns=turns
        ),
        model_call=None,
        attempts=None,
        request_since_ms=None,
    )
    return change(
        state,
        usage=_add(state.usage, fact.usage),
        ledger=state.ledger.settle(
            call.hold, tokens=fact.usage.total, cost_micros=fact.cost_micros, turns=turns
        ),
        visit=_heard(settled, said, call.started.purpose),
        gates=None if state.gates is None else evolve_gates.replied(state.gates, call.started, fact.text),
    )


def _heard(visit: Visit, said: Reply, purpose: Purpose) -> Visit:
    match purpose:
        case Purpose.GROUND:
            return judged(visit, said)
        case Purpose.SUMMARY:
            return evolve_history.summarised(visit, said)
        case Purpose.JUDGE:
            return visit  # `evolve_gates` keeps its word
        case Purpose.SUPERVISE:
            return evolve_supervision.replied(visit, said.text)
        case Purpose.TURN | Purpose.REPAIR | Purpose.FINAL_ANSWER:
            heard = change(
                visit,
                entries=(*visit.entries, said),
                repairing=False,
                answer=said,
                took_no_turn=purpose is Purpose.REPAIR,
                supervision=evolve_supervision.sent_back(visit.supervision, sent=False),
            )
            return evolve_history.answered(heard)


def fail(state: RunState, fact: ModelCallFailed) -> RunState:
    """The attempt is settled at what it is charged; another may follow."""
    visit = current(state)
    call = _in_flight(visit)
    retry_at = None if fact.retry_in_ms is None else state.active_ms + fact.retry_in_ms
    failed = call.started.attempt
    before, waits = _earlier(visit)
    attempts = Attempts(
        failed=failed,
        last=fact.failure,
        error=fact.error,
        retry_at_active_ms=retry_at,
        before=failed if fact.waits else before,
        waits=waits + fact.waits,
    )
    ledger = visit.ledger.settle(call.hold, tokens=fact.usage.total, cost_micros=fact.cost_micros)
    settled = change(visit, ledger=ledger, model_call=None)
    if fact.text:
        settled = evolve_history.interrupted(settled, call.started.purpose, fact.text)
    if fact.waits:
        settled = change(settled, fallback=0, request_since_ms=None)
    return change(
        _attempted(state, settled, call, attempts),
        usage=_add(state.usage, fact.usage),
        ledger=state.ledger.settle(call.hold, tokens=fact.usage.total, cost_micros=fact.cost_micros),
    )


def _earlier(visit: Visit) -> tuple[int, int]:
    """What is kept of the attempts before the one that has failed: `before` and `waits` of Attempts."""
    attempts = visit.attempts
    return (0, 0) if attempts is None else (attempts.before, attempts.waits)


def _add(total: Usage, usage: Usage) -> Usage:
    return Usage(
        prompt_tokens=total.prompt_tokens + usage.prompt_tokens,
        completion_tokens=total.completion_tokens + usage.completion_tokens,
        cached_tokens=total.cached_tokens + usage.cached_tokens,
        reasoning_tokens=total.reasoning_tokens + usage.reasoning_tokens,
        estimated=total.estimated or usage.estimated,
    )


def reject(state: RunState, fact: AnswerRejected) -> RunState:
    """An answer did not meet its contract; the model is told why, here or by the call's result."""
    visit = current(state)
    empty = fact.problem is AnswerProblem.EMPTY
    note = Note(text=fact.explanation, provenance="notice")
    rejected = change(
        visit,
        answer=None,
        entries=visit.entries if fact.call_id else (*visit.entries, note),
        repairing=fact.repair > 0,
        repairs=visit.repairs + (not empty and not fact.problem.costs_a_turn),
        empty_replies=visit.empty_replies + empty,
    )
    if fact.problem is AnswerProblem.SUPERVISOR:
        rejected = change(rejected, supervision=evolve_supervision.sent_back(visit.supervision, sent=True))
    return change(state, visit=rejected)


def consult(state: RunState, fact: Consulted) -> RunState:
    """An answer to a stop condition holds for the turn that it was asked in; one that failed counts as no."""
    if fact.kind is not ConsultKind.STOP_CONDITION:
        return evolve_gates.consult(state, fact)
    visit = current(state)
    stopping = visit.stopping
    failed = fact.answer is ConsultAnswer.FAILED
    told = Stopping(
        answers=(*stopping.answers, (fact.who, fact.answer is ConsultAnswer.YES)),
        failed=stopping.failed | {fact.who} if failed else stopping.failed,
    )
    return change(state, visit=change(visit, stopping=told))

"""How the answers of hooks, policies and judges change a run, and what its calls change about them.

Owns what follows from each answer, failures included: a hook that fails follows its declared mode, a judge
that fails has not passed anything, and a policy that gives no answer denies unless it may fail open.
"""

from jackline_server.core import json_text
from jackline_server.core.errors import CorruptLog
from jackline_server.core.facts import (
    CallProblem,
    CallStatus,
    ConsultAnswer,
    Consulted,
    ConsultKind,
    FailureClass,
    ModelCallStarted,
    Purpose,
)
from jackline_server.core.folding import evolve_calls
from jackline_server.core.frozen import change
from jackline_server.core.gate_plans import Metadata, OnHookError, Point
from jackline_server.core.gates import NOTHING_HEARD, Denial, Gates, Refusal, Trial, Veto
from jackline_server.core.plan import Plan
from jackline_server.core.reading import gate_lookup
from jackline_server.core.state import Attempts, Reply, RunState, current

_NO_POLICY_ANSWER = "the policy service gave no answer"
_ASKED_AGAIN = "a hook asked for another attempt"


def begun(plan: Plan) -> Gates | None:
    """What a run begins with."""
    return None if plan.gates is None else Gates(metadata={})


def left(gates: Gates) -> Gates:
    """What of it a step leaves behind."""
    return Gates(metadata=gates.metadata)


def consult(state: RunState, fact: Consulted) -> RunState:
    """An answer at a gate."""
    gates = state.gates
    if gates is None or fact.point is None:
        raise CorruptLog("an answer of somebody whom the plan does not ask")
    if fact.kind is ConsultKind.GUARDRAIL:
        return state  # what follows from it stands in the same commit
    told = change(
        gates,
        heard=gates.heard | {(fact.point, fact.subject, fact.who)},
        metadata=_metadata(gates.metadata, fact),
    )
    state = change(state, gates=told)
    if fact.kind is ConsultKind.HOOK:
        return _hook(state, told, fact, fact.point)
    if fact.kind is ConsultKind.POLICY:
        return _policy(state, told, fact)
    return _judge(state, told, fact, fact.point)


def _metadata(before: Metadata, fact: Consulted) -> Metadata:
    if not fact.metadata_json:
        return before
    said = json_text.parse_object(fact.metadata_json)
    return {**before, **{name: str(value) for name, value in said.items()}}


# --- hooks -------------------------------------------------------------------------------------


def _hook(state: RunState, gates: Gates, fact: Consulted, point: Point) -> RunState:
    if point is Point.AFTER_RUN:
        return state  # the end stands
    if fact.answer is ConsultAnswer.RETRY:
        return _redo(state, gates) if point is Point.AFTER_MODEL_CALL else _call_again(state, fact.subject)
    if point is Point.AFTER_TOOL_CALL:
        state = _looked_at(state, fact)
    failed = fact.answer is ConsultAnswer.FAILED
    plan = gate_lookup.hook(gate_lookup.here(state), fact.who) if failed else None
    if fact.answer is ConsultAnswer.VETO or (plan is not None and plan.on_error is OnHookError.VETO):
        veto = Veto(who=fact.who, reason=fact.reason or fact.error)
        return change(state, gates=change(gates, veto=veto))
    return state


def _looked_at(state: RunState, fact: Consulted) -> RunState:
    call = state.calls.get(fact.subject)
    if call is None:
        raise CorruptLog("an answer about a call that was never requested")
    rest = tuple(who for who in call.awaits if who != fact.who)
    return evolve_calls.store(state, change(call, awaits=rest), context=state.context)


def _call_again(state: RunState, call_id: str) -> RunState:
    """The call is asked for once more; whoever looked at its end looks at the next one too."""
    call, gates = state.calls.get(call_id), state.gates
    if call is None or gates is None:
        raise CorruptLog("an answer about a call that was never requested")
    again = change(call, status=CallStatus.REQUESTED, awaits=())
    heard = frozenset(one for one in gates.heard if one[0] is not Point.AFTER_TOOL_CALL or one[1] != call_id)
    return change(state, calls={**state.calls, call_id: again}, gates=change(gates, heard=heard))


def _redo(state: RunState, gates: Gates) -> RunState:
    """The newest reply leaves the conversation as if it had not come; its turn is not counted.

    The calls that it asked for are closed by the facts that follow in the same commit.
    """
    visit, newest = current(state), gates.newest
    at = next((i for i in reversed(range(len(visit.entries))) if isinstance(visit.entries[i], Reply)), None)
    if at is None or newest is None:
        raise CorruptLog("a reply is asked for again that never came")
    turn = int(newest.purpose is Purpose.TURN)
    again = change(
        visit,
        ledger=change(visit.ledger, iterations=visit.ledger.iterations - turn),
        entries=(*visit.entries[:at], *visit.entries[at + 1 :]),
        open_calls=(),
        answer=None,
        repairing=newest.purpose is Purpose.REPAIR,
        attempts=Attempts(
            failed=newest.attempt,
            last=FailureClass.MALFORMED,
            error=_ASKED_AGAIN,
            retry_at_active_ms=state.active_ms,
        ),
    )
    return change(
        state,
        ledger=change(state.ledger, iterations=state.ledger.iterations - turn),
        visit=again,
        gates=change(gates, heard=NOTHING_HEARD, newest=None, redone=gates.redone + 1),
    )


# --- policy and judge --------------------------------------------------------------------------


def _policy(state: RunState, gates: Gates, fact: Consulted) -> RunState:
    plan = gate_lookup.here(state)
    policy = None if plan is None else plan.policy
    if policy is None or fact.answer is ConsultAnswer.PROCEED:
        return state
    if fact.answer is ConsultAnswer.FAILED and policy.fails_open:
        return state
    denial = Denial(
        call_id=fact.subject,
        who=fact.who,
        problem=CallProblem.POLICY_DENIED,
        reason=fact.reason if fact.answer is ConsultAnswer.DENY else _NO_POLICY_ANSWER,
        ends=policy.ends,
    )
    return change(state, gates=change(gates, denials=(*gates.denials, denial)))


def _judge(state: RunState, gates: Gates, fact: Consulted, point: Point) -> RunState:
    state = change(state, visit=change(current(state), request_since_ms=None))
    gates = change(gates, trial=None)
    if fact.answer is ConsultAnswer.PROCEED:
        return change(state, gates=gates)
    reason = fact.reason or fact.error
    if point is not Point.TOOLS:
        return change(state, gates=change(gates, refusal=Refusal(point=point, who=fact.who, reason=reason)))
    rail = gate_lookup.guardrail(gate_lookup.here(state), fact.who)
    denial = Denial(
        call_id=fact.subject,
        who=fact.who,
        problem=CallProblem.GUARDRAIL,
        reason=reason,
        ends=rail is not None and rail.ends,
    )
    return change(state, gates=change(gates, denials=(*gates.denials, denial)))


# --- calls of models ---------------------------------------------------------------------------


def reserved(gates: Gates, started: ModelCallStarted) -> Gates:
    """A call is announced: with one of the conversation all that was said about the reply before is over."""
    if started.purpose is Purpose.JUDGE:
        return change(gates, trial=Trial(failed=started.attempt - 1))
    if started.purpose.is_aside:
        return gates
    redone = gates.redone if started.attempt > 1 else 0
    return Gates(metadata=gates.metadata, began=True, redone=redone)


def replied(gates: Gates, started: ModelCallStarted, text: str) -> Gates:
    """A reply came."""
    if started.purpose is Purpose.JUDGE:
        return change(gates, trial=Trial(said=text))
    return gates if started.purpose.is_aside else change(gates, newest=started)


def failed(gates: Gates, attempts: Attempts) -> Gates:
    """An attempt at a judge failed."""
    trial = Trial(
        failed=attempts.failed,
        last=attempts.last,
        error=attempts.error,
        retry_at_active_ms=attempts.retry_at_active_ms,
    )
    return change(gates, trial=trial)


def withdrawn(state: RunState) -> RunState:
    """The run without a judge at work: what it had said, or failed at, counts for nothing."""
    gates, visit = state.gates, state.visit
    if gates is None or gates.trial is None or visit is None:
        return state
    return change(state, gates=change(gates, trial=None), visit=change(visit, request_since_ms=None))

"""How facts change the registry of tool calls.

Owns the moves requested → started → completed | failed | denied | cancelled | unknown, and what settles a
call. A call whose outcome is unknown stays open until its policy or a person settles it.
"""

from jackline_server.core import json_text, media
from jackline_server.core.context import Context, select, step_input
from jackline_server.core.errors import CorruptLog
from jackline_server.core.exits import DEFAULT
from jackline_server.core.facts import (
    CallStatus,
    InterruptResolved,
    ToolCallFinished,
    ToolCallRequested,
    ToolCallStarted,
    ToolReply,
)
from jackline_server.core.folding import evolve_supervision
from jackline_server.core.frozen import change
from jackline_server.core.plan import (
    HumanAction,
    JsonObject,
    ModelStep,
    OnUnknown,
    Plan,
    ToolEntry,
    ToolPolicy,
    ToolStep,
)
from jackline_server.core.reading import gate_lookup, reflection, result_tool, reuse, transcript
from jackline_server.core.state import Interrupt, Note, Reply, RunState, ToolCall, Visit

RETRY = "retry"
SUCCEEDED = "succeeded"
FAILED = "failed"
UNKNOWN_OPTIONS = (SUCCEEDED, FAILED, RETRY)
"""The answers to an unknown outcome."""

ACCEPT = "accept"
DECLINE = "decline"
CANCEL = "cancel"
"""What a tool that asks may hear; the last if nobody answers in time."""

MOST_ATTEMPTS = 3
"""Attempts at one call that `on_unknown: retry` makes by itself."""


def request(state: RunState, fact: ToolCallRequested) -> RunState:
    """A call enters the registry and its turn."""
    visit = _visit(state)
    call = ToolCall(
        call_id=fact.call_id,
        ordinal=fact.ordinal,
        tool=fact.tool,
        name=fact.name,
        arguments=fact.arguments,
        step_id=visit.step_id,
        visit=visit.number,
        iteration=visit.iteration,
        requested_sequence=state.sequence,
    )
    return change(
        state,
        calls={**state.calls, call.call_id: call},
        visit=change(
            visit,
            open_calls=(*visit.open_calls, call.call_id),
            entries=_with_call(visit, call.call_id),
            answer=None,
            empty_replies=0,
        ),
    )


def _with_call(visit: Visit, call_id: str) -> tuple[Reply | Note, ...]:
    entries = visit.entries
    last = entries[-1] if entries else None
    if not isinstance(last, Reply):
        return entries
    return (*entries[:-1], change(last, calls=(*last.calls, call_id)))


def start(state: RunState, fact: ToolCallStarted) -> RunState:
    """An attempt is reserved: it counts from here. A question that is put into words anew was counted.

    What the first one is given beside the arguments is what all of them are given.
    """
    before = _call(state, fact.call_id)
    call = change(
        before,
        bound=bound_for(state, before),
        own=own_for(state, before) or None,
        status=CallStatus.STARTED,
        effect=fact.effect,
        call_key=fact.call_key,
        attempts=fact.attempt,
        interrupted=False,
        retry_at_active_ms=None,
        timed_out=False,
        reuse_key=reuse_key(state, before),
    )
    visit, calls = _visit(state), {**state.calls, call.call_id: call}
    if is_counted(state.plan, before):
        return change(state, calls=calls)
    return change(
        state,
        calls=calls,
        ledger=state.ledger.call_tool(),
        visit=change(visit, ledger=visit.ledger.call_tool()),
    )


def is_counted(plan: Plan, call: ToolCall) -> bool:
    """True for a question whose call was begun: it is one call, whatever is started anew."""
    step = plan.steps.get(call.tool)
    return call.attempts > 0 and isinstance(step, ToolStep) and isinstance(step.action, HumanAction)


def reuse_key(state: RunState, call: ToolCall) -> str:
    """What calls have in common that may share a result; empty for a tool that is always asked."""
    if call.attempts:
        return call.reuse_key
    tool = result_tool.behind(state.plan, call.tool)
    if not isinstance(tool, ToolStep) or not failure_policy(state, call).reuse:
        return ""
    return reuse.key_of(call.tool, call.arguments, bound_for(state, call), own_for(state, call))


def failure_policy(state: RunState, call: ToolCall) -> ToolPolicy:
    """What follows from the call's failures, as the step that asked says of the tool, or the tool itself."""
    step, tool = state.plan.steps.get(call.step_id), result_tool.behind(state.plan, call.tool)
    if isinstance(step, ModelStep):
        entry = entry_of(step, call)
        return _NO_POLICY if entry is None else entry.policy
    return tool.policy if isinstance(tool, ToolStep) else _NO_POLICY


_NO_POLICY = ToolPolicy()


def bound_for(state: RunState, call: ToolCall) -> JsonObject | None:
    """What the call is given beside its arguments: what its step binds. None if that is nothing.

    That is read of the context until its first attempt begins, and stays: whoever looks at a call looks at
    that one, and its key stands for what it was given first.
    """
    if call.attempts:
        return call.bound
    step = state.plan.steps.get(call.step_id)
    if not isinstance(step, ModelStep):
        return None
    entry = entry_of(step, call)
    return select(state.context, entry.bind) if entry is not None and entry.bind else None


def own_for(state: RunState, call: ToolCall) -> JsonObject | None:
    """What the tool's `input` takes of the context; None where no model calls it, or it is no tool.

    As with what is bound, it stays what it was at the first attempt: None if that was nothing.
    """
    if call.attempts:
        return call.own
    step, tool = state.plan.steps.get(call.step_id), result_tool.behind(state.plan, call.tool)
    if not isinstance(step, ModelStep) or not isinstance(tool, ToolStep):
        return None
    return step_input(state.context, tool.input or {})


def as_given(state: RunState, call: ToolCall) -> ToolCall:
    """The call with what it was given beside its arguments, or would be now if it has not begun."""
    if call.attempts:
        return call
    return change(call, bound=bound_for(state, call), own=own_for(state, call) or None)


def entry_of(step: ModelStep, call: ToolCall) -> ToolEntry | None:
    """How the step declares the tool that was called; None for a name that the model made up."""
    for tool in step.tools:
        if tool.ref == call.tool == call.name:
            return tool
    return result_tool.ENTRY if result_tool.is_call(step, call.tool) else None


def finish(state: RunState, fact: ToolCallFinished) -> RunState:
    """A call ended, or was never started."""
    call = change(
        _call(state, fact.call_id),
        status=fact.status,
        problem=fact.problem,
        duration_ms=fact.duration_ms,
        waited_ms=fact.waited_ms,
        cut_from_bytes=fact.cut_from_bytes,
        output_json=fact.output_json,
        error=fact.error,
        interrupted=False,
        retry_at_active_ms=None if fact.retry_in_ms is None else state.active_ms + fact.retry_in_ms,
        timed_out=fact.timed_out,
        reused_from=fact.reused_from,
    )
    if fact.ask is not None or call.ask is not None:
        call = change(call, ask=fact.ask, reply=None)
    if fact.media:
        call = change(call, media=fact.media)
        state = change(state, stored_bytes=state.stored_bytes + media.stored_bytes(fact.media))
    if fact.cut_from_bytes:
        call = change(call, tail=fact.tail, blob=fact.blob)
    if state.gates is not None and call.attempts:
        call = change(call, awaits=gate_lookup.awaiting(state, call.step_id, fact))
    if fact.reused_from:
        earlier = _call(state, fact.reused_from)
        call = change(
            call,
            bound=earlier.bound,
            own=earlier.own,
            tail=earlier.tail,
            blob=earlier.blob,
            media=earlier.media,
        )
    elif fact.blob:
        state = change(state, stored_bytes=state.stored_bytes + fact.cut_from_bytes)
    visit = state.visit
    if visit is not None and not visit.readable and call.output_json and result_tool.is_cut(state.plan, call):
        state = change(state, visit=change(visit, readable=True))
    return store(state, call, context=_written(state, call))


def _written(state: RunState, call: ToolCall) -> Context:
    """The context with the call's output under its tool's key, where the model's step lets it write."""
    if call.status is not CallStatus.COMPLETED:
        return state.context
    step, tool = state.plan.step(call.step_id), result_tool.behind(state.plan, call.tool)
    if not isinstance(step, ModelStep) or not isinstance(tool, ToolStep):
        return state.context
    if not any(entry.ref == call.tool and entry.writes_context for entry in step.tools):
        return state.context
    return {**state.context, tool.output_key: json_text.parse(call.output_json or "null")}


def resolve(state: RunState, interrupt: Interrupt, fact: InterruptResolved) -> RunState:
    """An unknown outcome was answered, or nobody did in time.

    `succeeded` and `failed` are followed by a ToolCallFinished of their own; `retry` asks for the call
    again.
    """
    call = _call(state, interrupt.call_id)
    if fact.option == RETRY:
        return store(state, change(call, status=CallStatus.REQUESTED), context=state.context)
    if not fact.option:
        return store(state, change(call, unknown_expired=True), context=state.context)
    return state


def replied(state: RunState, interrupt: Interrupt, fact: InterruptResolved) -> RunState:
    """A person answered what a tool asks, or nobody did in time: then it hears that it was put away."""
    call = _call(state, interrupt.call_id)
    if call.ask is None:
        raise CorruptLog("an answer is to a call that asks nothing")
    reply = ToolReply(option=fact.option or CANCEL, text=fact.text, state_json=call.ask.state_json)
    return store(state, change(call, reply=reply, asked=call.asked + 1), context=state.context)


def cut(call: ToolCall) -> ToolCall:
    """The call after its worker went away: one in flight is interrupted."""
    return change(call, interrupted=True) if call.status is CallStatus.STARTED else call


def is_settled(call: ToolCall, plan: Plan) -> bool:
    """True if nothing more will become of the call."""
    if call.awaits:
        return False
    match call.status:
        case CallStatus.REQUESTED | CallStatus.STARTED | CallStatus.ASKING:
            return False
        case CallStatus.UNKNOWN:
            policy = policy_of(call, plan)
            spent = policy is OnUnknown.RETRY and call.attempts >= MOST_ATTEMPTS
            return call.problem is not None or policy is OnUnknown.FAIL or spent
        case CallStatus.FAILED:
            return call.retry_at_active_ms is None
        case CallStatus.COMPLETED | CallStatus.DENIED | CallStatus.CANCELLED:
            return True


def policy_of(call: ToolCall, plan: Plan) -> OnUnknown:
    """What the tool's step says of an unknown outcome."""
    step = result_tool.behind(plan, call.tool)
    return step.on_unknown if isinstance(step, ToolStep) else OnUnknown.FAIL


def signal_of(status: CallStatus) -> str:
    """The signal that a finished call reports."""
    return DEFAULT if status is CallStatus.COMPLETED else "error"


def store(state: RunState, call: ToolCall, *, context: Context) -> RunState:
    """Put the call back; the turn's calls are closed together, once all are settled."""
    stored = change(state, calls={**state.calls, call.call_id: call}, context=context)
    visit = stored.visit
    if visit is None or not visit.open_calls:
        return stored
    if not all(is_settled(stored.calls[name], stored.plan) for name in reversed(visit.open_calls)):
        return stored
    return change(stored, visit=_turn_over(stored, visit))


def _turn_over(state: RunState, visit: Visit) -> Visit:
    """The visit once a turn's results are all there: nothing of them changes any more."""
    step = state.plan.step(visit.step_id)
    if not isinstance(step, ModelStep):
        return change(visit, open_calls=())
    turn = tuple([state.calls[call_id] for call_id in visit.open_calls])
    seen = visit.supervision
    if seen is not None and step.supervisor is not None:
        given = [as_given(state, call) for call in turn]
        seen = evolve_supervision.turn_over(seen, given, step.supervisor)
    return change(
        visit,
        open_calls=(),
        prompt=transcript.prompt(state, visit, step),
        progress=reflection.after_turn(visit, turn, step, state.plan),
        supervision=seen,
    )


def _call(state: RunState, call_id: str) -> ToolCall:
    call = state.calls.get(call_id)
    if call is None:
        raise CorruptLog("a fact names a call that was never requested")
    return call


def _visit(state: RunState) -> Visit:
    if state.visit is None:
        raise CorruptLog("a call stands outside a step")
    return state.visit

"""Decisions about calls that wait for one: which are taken, and what an edit puts in place.

Owns the facts that a decision leads to. It is bound to what was shown: by the id of the question, which is
asked once, and by the digest of the arguments. Whether edited arguments fit the tool's schema is asked before
a decision is taken (`misfit`) and, as of any arguments, before the call starts.
"""

from jackline_server.core import json_text
from jackline_server.core.commands import Approve, Decision, EditAndApprove, Reject
from jackline_server.core.facts import InterruptResolved, Rejection
from jackline_server.core.folding.evolve_calls import bound_for, entry_of, own_for
from jackline_server.core.instruments import SchemaValidator
from jackline_server.core.plan import JsonObject, JsonValue, ModelStep
from jackline_server.core.reading import approvals
from jackline_server.core.state import Interrupt, RunState, ToolCall


class NotTaken(Exception):
    """Edited arguments can't be taken; the text says why, in one line."""


def decided(
    state: RunState, interrupt: Interrupt, decision: Decision, principal: str
) -> InterruptResolved | Rejection:
    """The fact of a decision about an open approval, or why it is not taken."""
    if not isinstance(decision, Reject) and decision.digest != interrupt.digest:
        return Rejection.ARGUMENTS_CHANGED
    match decision:
        case Approve():
            return _resolved(interrupt, principal, approvals.APPROVE)
        case Reject(text=text):
            return _resolved(interrupt, principal, approvals.REJECT, text=text)
        case EditAndApprove(arguments_json=arguments_json):
            call = state.calls[interrupt.call_id]
            try:
                own = kept(state, interrupt, arguments_json)
            except NotTaken:
                return Rejection.INVALID_ANSWER
            return InterruptResolved(
                interrupt_id=interrupt.interrupt_id,
                option=approvals.EDIT,
                principal=principal,
                text="",
                output_json=json_text.write(own),
                digest=approvals.digest_of(approvals.shown(own, _bound(state, call), _own(state, call))),
            )


def _resolved(interrupt: Interrupt, principal: str, option: str, *, text: str = "") -> InterruptResolved:
    return InterruptResolved(
        interrupt_id=interrupt.interrupt_id, option=option, principal=principal, text=text, output_json=None
    )


def misfit(
    state: RunState, interrupt: Interrupt, arguments_json: str, schemas: SchemaValidator
) -> str | None:
    """Why these arguments can't be put in place of those shown, in one line; None if they can."""
    try:
        own = kept(state, interrupt, arguments_json)
    except NotTaken as problem:
        return str(problem)
    step, call = state.plan.step(interrupt.step_id), state.calls[interrupt.call_id]
    entry = entry_of(step, call) if isinstance(step, ModelStep) else None
    problem = None if entry is None else schemas.problem(entry.parameters_json, own)
    return None if problem is None else f"the arguments do not fit: {problem}"


def kept(state: RunState, interrupt: Interrupt, arguments_json: str) -> JsonObject:
    """The call's own arguments of an edit: what the workflow gives it may stand there as it was shown.

    Raises NotTaken.
    """
    call = state.calls[interrupt.call_id]
    try:
        given = json_text.parse_object(arguments_json)
    except json_text.JsonError as error:
        raise NotTaken(f"the arguments are not a JSON object: {error}") from None
    bound, own = _bound(state, call), _own(state, call)
    written = json_text.parse_object(call.arguments.strip() or "{}")
    beside = {**{name: value for name, value in own.items() if name not in written}, **bound}
    left: JsonObject = {
        name: value for name, value in given.items() if name not in beside or not _same(value, beside[name])
    }
    closed = sorted(name for name in left if name in bound or (name.startswith("_") and name not in written))
    if closed:
        raise NotTaken(f"these arguments can't be set: {', '.join(closed)}")
    hidden = sorted(name for name in written if name in own and name not in given)
    if hidden:
        raise NotTaken(f"without these the call has values that were not shown: {', '.join(hidden)}")
    return left


def _same(one: JsonValue, other: JsonValue) -> bool:
    return json_text.canonical(one) == json_text.canonical(other)


def _bound(state: RunState, call: ToolCall) -> JsonObject:
    return bound_for(state, call) or {}


def _own(state: RunState, call: ToolCall) -> JsonObject:
    """What the tool reads of the context where a model calls it."""
    return own_for(state, call) or {}

"""What a command does to a run: the facts that apply or reject it.

Owns the meaning of each command at a boundary. A steer waits until the conversation can take it, so that no
tool call stands between it and the next turn; every other command is settled at once. Whoever ends a run
rejects what is left.
"""

from dataclasses import replace
from typing import assert_never

from jackline_server.core import json_text
from jackline_server.core.commands import (
    Abort,
    AdjustBounds,
    Answer,
    Approve,
    Command,
    Decision,
    EditAndApprove,
    EndChild,
    Pause,
    Reject,
    Resume,
    Steer,
    SubmitToolResult,
    kind_of,
)
from jackline_server.core.deciding import adjusting, approving, call_endings, child_endings, turns
from jackline_server.core.evolve import evolve
from jackline_server.core.facts import (
    CallStatus,
    CommandApplied,
    CommandRejected,
    Fact,
    InterruptKind,
    InterruptResolved,
    Rejection,
    Resumed,
    Steered,
    StopReason,
    ToolCallFinished,
)
from jackline_server.core.folding.evolve_calls import FAILED, SUCCEEDED
from jackline_server.core.frozen import change
from jackline_server.core.new_bounds import NewRunBounds, NewVisitBounds
from jackline_server.core.plan import ModelStep
from jackline_server.core.reading import fallbacks, limit_questions, pauses, timing
from jackline_server.core.state import Interrupt, RunState, current
from jackline_server.core.steps import CallModel, Moment

Settled = tuple[Fact, ...]

_ABOUT_GOING_ON = (InterruptKind.LIMIT_REACHED, InterruptKind.SUPERVISION)


def settle(  # noqa: C901, PLR0911, PLR0912 - one case a command
    state: RunState, command: Command, now: Moment
) -> Settled | None:
    """The facts that a command leads to now; None if it has to wait for a later boundary."""
    if not _as_expected(state, command):
        return (reject(command, Rejection.EXPECTATION_FAILED),)
    action = command.action
    match action:
        case Pause():
            idle = state.oversight.paused or state.oversight.abort is not None
            return _applied(command, *(() if idle else (pauses.paused(state, command.principal, now),)))
        case Resume():
            paused = state.oversight.paused
            return _applied(command, *((Resumed(principal=command.principal),) if paused else ()))
        case Steer():
            return _steer(state, command, action, now)
        case Abort():
            return (_abort(command, action),)
        case Answer():
            return _answer(state, command, action)
        case Approve() | EditAndApprove() | Reject():
            return _decide_call(state, command, action)
        case SubmitToolResult():
            return _submit(state, command, action)
        case AdjustBounds():
            return _adjust(state, command, action, now)
        case EndChild(finished=finished, long=long):
            return child_endings.ended(state, finished, long) or (reject(command, Rejection.CALL_NOT_OPEN),)
        case _:
            assert_never(action)


def reject(command: Command, rejection: Rejection) -> CommandRejected:
    """The fact that a command can take no effect."""
    return CommandRejected(
        command_id=command.command_id,
        kind=kind_of(command.action),
        principal=command.principal,
        rejection=rejection,
    )


def leftover(state: RunState, command: Command) -> CommandRejected:
    """What the end of a run says to a command that still waits."""
    if isinstance(command.action, Steer):
        return _too_late(state, command, command.action)
    return reject(command, Rejection.RUN_TERMINAL)


def _too_late(state: RunState, command: Command, action: Steer) -> CommandRejected:
    """The conversation takes no more of it; that of a thread goes on, and keeps what was said."""
    rejected = reject(command, Rejection.TOO_LATE)
    return change(rejected, unheard=action.text) if state.in_thread else rejected


def _as_expected(state: RunState, command: Command) -> bool:
    if command.expect_phase is not None and command.expect_phase is not state.phase:
        return False
    return command.expect_sequence is None or state.is_still_at(command.expect_sequence)


def _applied(command: Command, *consequences: Fact) -> Settled:
    applied = CommandApplied(
        command_id=command.command_id,
        kind=kind_of(command.action),
        principal=command.principal,
        reason=command.reason,
    )
    return (applied, *consequences)


def _abort(command: Command, action: Abort) -> CommandApplied:
    return CommandApplied(
        command_id=command.command_id,
        kind=kind_of(action),
        principal=command.principal,
        abort_mode=action.mode,
        skip_routes=action.skip_routes,
        abort_cause=None if action.cause is StopReason.OPERATOR else action.cause,
        reason=command.reason,
    )


def _steer(state: RunState, command: Command, action: Steer, now: Moment) -> Settled | None:
    if state.oversight.abort is not None:
        return (_too_late(state, command, action),)
    visit = state.visit
    step = None if visit is None else state.plan.step(visit.step_id)
    if visit is None or not isinstance(step, ModelStep) or visit.open_calls or visit.model_call is not None:
        return None
    if any(one.kind in _ABOUT_GOING_ON for one in state.oversight.interrupts.values()):
        return None  # whether a turn follows is what the question is about
    steered = Steered(principal=command.principal, text=action.text)
    if not _next_turn_follows(state, steered, step, now):
        return (_too_late(state, command, action),)
    return _applied(command, steered)


def _next_turn_follows(state: RunState, steered: Steered, step: ModelStep, now: Moment) -> bool:
    """True if the model will be called with the guidance in its prompt, under every bound."""
    visit = current(evolve(state, steered, active_ms=now.active_ms))
    failed = visit.attempts is not None and visit.attempts.retry_at_active_ms is None
    given_up = failed and not fallbacks.has_next(visit, step)
    if visit.closing is not None or given_up or timing.passed(state, now.active_ms) is not None:
        return False
    if call_endings.fatal(state, visit, step) is not None:
        return False
    call = turns.model_call(replace(state, visit=visit), visit, step, now_active_ms=now.active_ms)
    return isinstance(call, CallModel)


def _adjust(state: RunState, command: Command, action: AdjustBounds, now: Moment) -> Settled:
    found = adjusting.misfit(state, action.run, action.visit, now_active_ms=now.active_ms)
    if found is not None:
        return (reject(command, found.rejection),)
    adjusted = adjusting.adjusted(command.principal, action.run, action.visit)
    answered = limit_questions.answered_by(state, action.run, action.visit)
    raised = [_resolved(command, one, option=limit_questions.RAISE) for one in answered]
    return _applied(command, adjusted, *raised)


def _answer(state: RunState, command: Command, action: Answer) -> Settled:
    interrupt = state.oversight.interrupts.get(action.interrupt_id)
    if interrupt is None:
        return (reject(command, _why_not_open(state, action.interrupt_id)),)
    if interrupt.kind is InterruptKind.APPROVAL:
        return (reject(command, Rejection.WRONG_INTERRUPT_KIND),)
    if action.option not in interrupt.options:
        return (reject(command, Rejection.UNKNOWN_OPTION),)
    if interrupt.kind in (InterruptKind.QUESTION, InterruptKind.SUPERVISION):
        return _applied(command, _resolved(command, interrupt, option=action.option, text=action.text))
    if interrupt.kind is InterruptKind.LIMIT_REACHED:
        return _answer_limit(state, command, interrupt, action)
    return _decide(state, command, interrupt, option=action.option, text=action.text, output_json=None)


def _decide_call(state: RunState, command: Command, action: Decision) -> Settled:
    """What is said of a call that waits for somebody to let it start."""
    interrupt = state.oversight.interrupts.get(action.interrupt_id)
    if interrupt is None:
        return (reject(command, _why_not_open(state, action.interrupt_id)),)
    if interrupt.kind is not InterruptKind.APPROVAL:
        return (reject(command, Rejection.WRONG_INTERRUPT_KIND),)
    found = approving.decided(state, interrupt, action, command.principal)
    return (reject(command, found),) if isinstance(found, Rejection) else _applied(command, found)


def _answer_limit(state: RunState, command: Command, interrupt: Interrupt, action: Answer) -> Settled:
    resolved = _resolved(command, interrupt, option=action.option, text=action.text)
    if action.option != limit_questions.RAISE:
        return _applied(command, resolved)
    return _applied(command, resolved, adjusting.adjusted(command.principal, *granted(state, interrupt)))


def granted(state: RunState, interrupt: Interrupt) -> tuple[NewRunBounds, NewVisitBounds]:
    """The bounds that the answer `raise` to an open question sets."""
    step = state.plan.step(interrupt.step_id)
    if not isinstance(step, ModelStep):
        raise TypeError("only a step that asks a model has bounds to be asked about")
    return limit_questions.granted(state, interrupt, turns.next_limit(step))


def _resolved(
    command: Command, interrupt: Interrupt, *, option: str, text: str = "", output_json: str | None = None
) -> InterruptResolved:
    return InterruptResolved(
        interrupt_id=interrupt.interrupt_id,
        option=option,
        principal=command.principal,
        text=text,
        output_json=output_json,
    )


def _why_not_open(state: RunState, interrupt_id: str) -> Rejection:
    if interrupt_id in state.oversight.decided:
        return Rejection.ALREADY_DECIDED
    if interrupt_id in state.oversight.expired:
        return Rejection.INTERRUPT_EXPIRED
    return Rejection.INTERRUPT_NOT_FOUND


def _submit(state: RunState, command: Command, action: SubmitToolResult) -> Settled:
    if action.call_id not in state.calls:
        return (reject(command, Rejection.CALL_NOT_FOUND),)
    open_ones = state.oversight.interrupts.values()
    interrupt = next((one for one in open_ones if one.call_id == action.call_id), None)
    if interrupt is None or interrupt.kind is not InterruptKind.UNKNOWN_OUTCOME:
        return (reject(command, Rejection.CALL_NOT_OPEN),)
    option = FAILED if action.output_json is None else SUCCEEDED
    return _decide(
        state, command, interrupt, option=option, text=action.error, output_json=action.output_json
    )


def _decide(
    state: RunState,
    command: Command,
    interrupt: Interrupt,
    *,
    option: str,
    text: str,
    output_json: str | None,
) -> Settled:
    resolved = _resolved(command, interrupt, option=option, text=text, output_json=output_json)
    call = state.calls[interrupt.call_id]
    if option == SUCCEEDED:
        finished = ToolCallFinished(
            call_id=call.call_id,
            tool=call.tool,
            status=CallStatus.COMPLETED,
            output_json=output_json if output_json is not None else _said(text),
        )
        return _applied(command, resolved, finished)
    if option == FAILED:
        error = text or "an operator found that it did not take effect"
        failed = ToolCallFinished(call_id=call.call_id, tool=call.tool, status=CallStatus.FAILED, error=error)
        return _applied(command, resolved, failed)
    return _applied(command, resolved)


def _said(text: str) -> str:
    return json_text.write({"confirmed": True, "note": text} if text else {"confirmed": True})

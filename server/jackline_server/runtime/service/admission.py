"""What of a command can be refused at once: what is certain to be rejected, with the same reason.

Owns the checks of a command against the run as it is now, and their words. Does not own what the run's owner
makes of one that is taken.
"""

from jackline_server.core.blank_text import is_blank
from jackline_server.core.commands import (
    Action,
    AdjustBounds,
    Answer,
    Approve,
    Command,
    EditAndApprove,
    Reject,
    SubmitToolResult,
)
from jackline_server.core.deciding import adjusting, approving, control
from jackline_server.core.deciding.adjusting import Misfit
from jackline_server.core.facts import CommandRejected, Phase
from jackline_server.core.folding.evolve_calls import ACCEPT
from jackline_server.core.instruments import SchemaValidator
from jackline_server.core.reading import limit_questions, question_forms
from jackline_server.core.state import RunState
from jackline_server.core.steps import Moment
from jackline_server.runtime.ports.machine import Clock
from jackline_server.runtime.refusals import Reason, Refused, Violation
from jackline_server.runtime.run_limits import RunLimits


class Admission:
    """Holds a command against its run."""

    def __init__(self, *, clock: Clock, limits: RunLimits, schemas: SchemaValidator) -> None:
        self._clock = clock
        self._limits = limits
        self._schemas = schemas

    def check(self, state: RunState, command: Command, *, sent: Action) -> None:
        """Refuse what can't come to anything as the run is now. Raises Refused.

        `sent` is the command's action as it was before anything was masked in it.
        """
        if isinstance(command.action, Approve | EditAndApprove):
            self._admit_approval(state, command, command.action, sent)
        if isinstance(command.action, Answer):
            self._admit_words(state, command.action, sent)
        bounds = _new_bounds(state, command)
        if bounds is not None:
            self._admit_bounds(state, command, bounds)
        moment = Moment(active_ms=state.active_ms, unix_ms=self._clock.unix_ms())
        facts = control.settle(state, command, moment)
        if facts is not None and isinstance(facts[0], CommandRejected):
            raise _refusal(facts[0], state.phase, state.sequence, command)

    def _admit_words(self, state: RunState, answer: Answer, sent: Action) -> None:
        """Refuse words that are not what an open question asks for: it stays open."""
        asked = state.oversight.interrupts.get(answer.interrupt_id)
        if asked is None or answer.option not in asked.options:
            return
        problem = None
        if answer.text and question_forms.loses_words(state, asked, answer.option):
            problem = (
                "the tool is told no words with this answer; leave them out, or give a reason for the record"
            )
        elif asked.schema_json and answer.option == ACCEPT:
            problem = question_forms.misfit(asked.schema_json, answer.text, self._schemas)
            if problem is None and is_blank(answer.text) and question_forms.wants_words(asked.schema_json):
                problem = "the answer says nothing: white space is no text"
        if problem is None:
            return
        problem += _once_masked(answer, sent)
        violation = Violation(field="answer.text", description=problem, reason="misfit")
        raise Refused(
            Reason.INVALID_ANSWER,
            "The answer is not what is asked for: see the field. The question stays open.",
            metadata={"interrupt_id": answer.interrupt_id},
            violations=(violation,),
        )

    def _admit_approval(
        self, state: RunState, command: Command, action: Approve | EditAndApprove, sent: Action
    ) -> None:
        """Refuse whoever started the run, and arguments that the call can't have: it stays open."""
        if not self._limits.may_approve(command.principal, starter=state.started.principal):
            raise Refused(
                Reason.OWN_RUN,
                "Nobody may approve a call of a run of their own here. Ask somebody else.",
                metadata={"run_id": state.run_id},
            )
        asked = state.oversight.interrupts.get(action.interrupt_id)
        if not isinstance(action, EditAndApprove) or asked is None or asked.digest != action.digest:
            return
        problem = approving.misfit(state, asked, action.arguments_json, self._schemas)
        if problem is not None:
            violation = Violation(
                field="edit_and_approve.arguments_json",
                description=problem + _once_masked(action, sent),
                reason="misfit",
            )
            raise Refused(
                Reason.INVALID_ANSWER,
                "The call can't have these arguments: see the field. It still waits to be approved.",
                metadata={"interrupt_id": action.interrupt_id},
                violations=(violation,),
            )

    def _admit_bounds(self, state: RunState, command: Command, action: AdjustBounds) -> None:
        """Refuse new bounds that the operator does not allow, or that the run can't have now."""
        if not self._limits.starter_adjusts and command.principal == state.started.principal:
            raise Refused(
                Reason.OWN_RUN,
                "Nobody may adjust the bounds of a run of their own here. Ask somebody else.",
                metadata={"run_id": state.run_id},
            )
        found = adjusting.over(self._limits.most, action.run, action.visit) or adjusting.misfit(
            state, action.run, action.visit, now_active_ms=state.active_ms
        )
        if found is not None:
            raise _misfit(found)


def _once_masked(kept: Action, sent: Action) -> str:
    """What is to be said of words that do not fit, if that may be because of what is masked in them."""
    return " (the workflow has personal data masked in it)" if kept != sent else ""


def _refusal(fact: CommandRejected, phase: Phase, sequence: int, command: Command) -> Refused:
    metadata = {"state": phase.value, "sequence": str(sequence)}
    match command.action:
        case Answer(interrupt_id=interrupt_id, option=option):
            metadata |= {"interrupt_id": interrupt_id, "option": option}
        case Approve() | EditAndApprove() | Reject() as decision:
            metadata |= {"interrupt_id": decision.interrupt_id}
        case SubmitToolResult(call_id=call_id):
            metadata |= {"call_id": call_id}
        case _:
            pass
    reason = Reason(fact.rejection.value)
    return Refused(reason, _WORDS[reason], metadata=metadata)


def _new_bounds(state: RunState, command: Command) -> AdjustBounds | None:
    """The bounds that a command sets, by itself or as the answer to a question about a limit."""
    match command.action:
        case AdjustBounds() as action:
            return action
        case Answer(interrupt_id=interrupt_id, option=limit_questions.RAISE):
            interrupt = state.oversight.interrupts.get(interrupt_id)
            if interrupt is None or not interrupt.raise_to:
                return None
            run, visit = control.granted(state, interrupt)
            return AdjustBounds(run=run, visit=visit)
        case _:
            return None


def _misfit(found: Misfit) -> Refused:
    reason, field = Reason(found.rejection.value), f"adjust_bounds.{found.field}"
    metadata = {"field": field}
    match reason:
        case Reason.BOUND_TOO_HIGH:
            words = f"looser than the workflow or the operator allows; at most {found.limit}"
            metadata["limit"] = str(found.limit)
        case Reason.BOUND_TOO_LOW:
            words = f"{found.limit} are spent or held already; give at least as much"
            metadata["spent"] = str(found.limit)
        case Reason.NO_BOUNDED_VISIT:
            words = "the run is in no step that asks a model; adjust the bounds of the run"
        case _:
            words = "a model of the workflow has no price; set one in its profile"
    violation = Violation(field=field, description=words, reason=reason.value.lower())
    return Refused(reason, f"{field}: {words}.", metadata=metadata, violations=(violation,))


_WORDS = {
    Reason.EXPECTATION_FAILED: "The run is not as expected. Read it again and decide anew.",
    Reason.INTERRUPT_NOT_FOUND: "The run has no such interrupt. List its interrupts.",
    Reason.ALREADY_DECIDED: "The interrupt was answered before. Nothing is left to do.",
    Reason.INTERRUPT_EXPIRED: "The interrupt has expired. The run went on without an answer.",
    Reason.UNKNOWN_OPTION: "The interrupt has no such option. List its interrupts to see them.",
    Reason.ARGUMENTS_CHANGED: "That is not what the interrupt asks about. List it again and decide anew.",
    Reason.WRONG_INTERRUPT_KIND: (
        "The interrupt waits for another command: an approval for approve, edit_and_approve or reject, any "
        "other for answer."
    ),
    Reason.INVALID_ANSWER: "The call can't have these arguments. It still waits to be approved.",
    Reason.CALL_NOT_FOUND: "The run has no such tool call. List its tool calls.",
    Reason.CALL_NOT_OPEN: "The outcome of that tool call is not open. Nothing is left to do.",
}

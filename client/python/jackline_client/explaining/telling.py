"""One event or call as a cause: in words, with a kind for programs.

Owns the wording. Does not own what led to what.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from jackline.v1.control_pb2 import CommandKind
from jackline.v1.error_reason_pb2 import ErrorReason
from jackline.v1.event_pb2 import (
    AnswerProblem,
    CallProblem,
    CompactionKind,
    ConsultAnswer,
    ModelFailureClass,
    NoticeCode,
    RecoveryCause,
    ReflectionPattern,
    StepEvent,
    TimerKind,
)
from jackline.v1.run_pb2 import GatePoint, RuleAction, StopReason, ToolCallStatus
from jackline_client.explaining.history import Call, word


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One event in words, with what led to it. `sequence` is 0 for what is no single event."""

    sequence: int
    kind: str
    text: str
    causes: tuple["Cause", ...] = ()


def ending(signal: str, reason: StopReason.ValueType, leaf: str) -> str:
    """An exit with the reason and the bound, rule or condition that it names."""
    name = word(StopReason.Name, reason, "STOP_REASON_") if reason else ""
    details = [one for one in (name, leaf) if one and one not in {signal, "outcome", "default"}]
    return f"{signal or name} ({', '.join(details)})" if details else signal or name


def said(text: str) -> str:
    """The words of an event behind what it is, where they were seen."""
    return f": {text}" if text else ""


def counted(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def tell(event: StepEvent) -> Cause | None:
    """The event as a cause; None for one that is never one by itself."""
    fact = event.WhichOneof("fact")
    teller = None if fact is None else _TELLERS.get(fact)
    text = None if teller is None else teller(event)
    return None if text is None else Cause(sequence=event.sequence, kind=str(fact), text=text)


def tell_call(call: Call) -> Cause:
    """A tool call as a cause, at its end, or where it was asked for."""
    status = word(ToolCallStatus.Name, call.status, "TOOL_CALL_STATUS_")
    problem = f" ({word(CallProblem.Name, call.problem, 'CALL_PROBLEM_')})" if call.problem else ""
    after = f" after {counted(call.attempts, 'attempt')}" if call.attempts > 1 else ""
    text = f"the call of {call.tool} is {status}{problem}{after}{said(call.error)}"
    if call.under_way and call.attempts > 1:
        attempt = f"attempt {call.attempts} at the call of {call.tool}"
        text = f"{attempt} is under way; the last one failed{said(call.error)}"
    elif call.again and not call.under_way:
        tried = counted(call.attempts, "attempt")
        text = f"the call of {call.tool} has failed after {tried} and is to be made again{said(call.error)}"
    return Cause(sequence=call.ended or call.sequence, kind="tool_call", text=text)


def _model_failed(event: StepEvent) -> str:
    found = event.model_call_failed
    failure = word(ModelFailureClass.Name, found.failure, "MODEL_FAILURE_CLASS_")
    retried = f", tried again after {found.retry_in_ms:,} ms" if found.HasField("retry_in_ms") else ""
    if found.waits:
        retried = f", and no other could be reached; waited {found.retry_in_ms:,} ms"
    return f"a call of the model failed ({failure}){retried}{said(event.content.text)}"


TOLD_BY_WHAT_FOLLOWS = frozenset(
    {
        CommandKind.COMMAND_KIND_PAUSE,
        CommandKind.COMMAND_KIND_RESUME,
        CommandKind.COMMAND_KIND_STEER,
        CommandKind.COMMAND_KIND_ANSWER,
        CommandKind.COMMAND_KIND_APPROVE,
        CommandKind.COMMAND_KIND_EDIT_AND_APPROVE,
        CommandKind.COMMAND_KIND_REJECT,
        CommandKind.COMMAND_KIND_SUBMIT_TOOL_RESULT,
        CommandKind.COMMAND_KIND_ADJUST_BOUNDS,
    }
)
"""Commands whose effect has an event of its own right after; without one they changed nothing."""

SAID_BY_WHAT_CAME_BEFORE = frozenset({AnswerProblem.ANSWER_PROBLEM_SUPERVISOR})
"""Rejections whose words are for the model alone: the event of the judge before them has the reason."""

_GOES_ON = frozenset(
    {
        AnswerProblem.ANSWER_PROBLEM_NOT_FINISHED,
        AnswerProblem.ANSWER_PROBLEM_CALL_FAILED,
        AnswerProblem.ANSWER_PROBLEM_SUPERVISOR,
    }
)
"""What is told to the model at the cost of a turn, not of a repair."""


def _rejected(event: StepEvent) -> str:
    found = event.answer_rejected
    problem = word(AnswerProblem.Name, found.problem, "ANSWER_PROBLEM_")
    went_on = found.repair or found.problem in _GOES_ON
    sent_back = ", sent back" if went_on else ", not sent back again"
    words = "" if found.problem in SAID_BY_WHAT_CAME_BEFORE else event.content.text
    return f"an answer was rejected ({problem}){sent_back}{said(words)}"


def _grounded(event: StepEvent) -> str:
    found, content = event.grounded, event.content.grounded
    if not found.HasField("score_permille"):
        stands = "and the answer stood unjudged" if found.passed else "and the answer did not stand"
        return f"the judge gave no usable word, {stands}{said(content.problem)}"
    score = f"{found.score_permille / 1000:g}"
    claims = counted(found.unsupported, "claim")
    if found.passed:
        return f"the judge found the answer borne out to {score}"
    back = ", and it was sent back" if found.replan else ""
    words = said("; ".join(content.unsupported))
    return f"the judge found {claims} without support (score {score}){back}{words}"


def _reflected(event: StepEvent) -> str | None:
    found = event.reflected
    pattern = word(ReflectionPattern.Name, found.pattern, "REFLECTION_PATTERN_")
    if pattern == "advancing":
        return None
    return (
        f"looking back: {pattern}, {found.succeeded} of {counted(found.succeeded + found.failed, 'call')} "
        f"succeeded, confidence {found.confidence_permille / 1000:g}"
    )


def _compacted(event: StepEvent) -> str:
    found = event.compacted
    why = "the provider found it too long" if found.overflow else "to save room"
    gone = [counted(found.turns, "turn")] if found.turns else []
    gone += [counted(found.results, "result")] if found.results else []
    summed_up = ", summed up" if found.kind == CompactionKind.COMPACTION_KIND_SUMMARY else ""
    return (
        f"{why}, {' and '.join(gone) or 'nothing'} left out of what the model is sent{summed_up} "
        f"({found.tokens_before:,} → {found.tokens_after:,} tokens)"
    )


def _noticed(event: StepEvent) -> str:
    match event.noticed.code:
        case NoticeCode.NOTICE_CODE_REPETITION:
            return "the model was told that it repeats the same tool calls"
        case NoticeCode.NOTICE_CODE_MODEL_FALLBACK:
            return "the next model of the step was asked in its place"
        case NoticeCode.NOTICE_CODE_BUDGET_NEARLY_USED:
            which = event.noticed.subject or "a budget"
            return f"the model was told that {which} is nearly used"
        case other:
            return f"notice {word(NoticeCode.Name, other, 'NOTICE_CODE_')}{said(event.content.text)}"


def _recovered(event: StepEvent) -> str | None:
    cause = event.run_recovered.cause
    if cause in (RecoveryCause.RECOVERY_CAUSE_WAKE, RecoveryCause.RECOVERY_CAUSE_QUEUE):
        return None
    if cause == RecoveryCause.RECOVERY_CAUSE_CRASH:
        return "the worker went away, and another one took over"
    return f"another worker took over ({word(RecoveryCause.Name, cause, 'RECOVERY_CAUSE_')})"


def _command(event: StepEvent) -> str:
    found = event.command_applied
    kind = word(CommandKind.Name, found.kind, "COMMAND_KIND_")
    who = f" by {found.principal}" if found.principal else ""
    return f"{kind}{who}{said(event.content.text)}"


def _command_rejected(event: StepEvent) -> str:
    found = event.command_rejected
    kind = word(CommandKind.Name, found.kind, "COMMAND_KIND_")
    return (
        f"{kind} by {found.principal} was rejected ({word(ErrorReason.Name, found.reason, 'ERROR_REASON_')})"
    )


def _timer(event: StepEvent) -> str | None:
    match event.timer_fired.kind:
        case TimerKind.TIMER_KIND_PAUSE:
            return "it was paused for as long as it may be"
        case TimerKind.TIMER_KIND_INTERRUPT:
            return None  # the end of the question follows, and says so
        case TimerKind.TIMER_KIND_START:
            return "the time to begin had come"
        case _:
            return "the deadline passed"


def _asked(event: StepEvent) -> str:
    return f"a question was asked{said(event.content.text or event.content.question.text)}"


def _answered(event: StepEvent) -> str:
    found = event.interrupt_resolved
    if not found.option:
        return "the question expired without an answer"
    return f"{found.principal} answered {found.option}{said(event.content.answer.text)}"


def _closing(event: StepEvent) -> str | None:
    found = event.model_call_started
    if not found.limit:
        return None
    limit = found.limit_leaf or word(StopReason.Name, found.limit, "STOP_REASON_")
    return f"a closing answer was asked for, because of {limit}"


def _steered(event: StepEvent) -> str:
    return f"guidance by {event.steered.principal}{said(event.content.text)}"


def _adjusted(event: StepEvent) -> str:
    found = event.bounds_adjusted
    names = [f.name for f, _ in found.run.ListFields()] + [
        f"visit.{f.name}" for f, _ in found.visit.ListFields()
    ]
    return f"{found.principal} changed {', '.join(names) or 'no bound'}"


def _consulted(event: StepEvent) -> str | None:
    """What somebody at a gate said, unless that was no objection; conditions are told by what follows."""
    found, content = event.consulted, event.content.consult
    if not found.point or found.answer == ConsultAnswer.CONSULT_ANSWER_PROCEED:
        return None
    about = f" of {found.call_id}" if found.call_id else ""
    point = word(GatePoint.Name, found.point, "GATE_POINT_").replace("_", " ")
    words = said(content.reason or content.error)
    match found.answer:
        case ConsultAnswer.CONSULT_ANSWER_VETO:
            return f"{found.who} vetoed, {point}{about}{words}"
        case ConsultAnswer.CONSULT_ANSWER_RETRY:
            return f"{found.who} had it made once more, {point}{about}{words}"
        case ConsultAnswer.CONSULT_ANSWER_FAILED:
            return f"{found.who} gave no answer, {point}{about}{words}"
        case _:
            return f"{found.who} did not let it pass, {point}{about}{words}"


_ACTIONS: Mapping[RuleAction.ValueType, str] = {
    RuleAction.RULE_ACTION_STEER: "and the model was told so",
    RuleAction.RULE_ACTION_PAUSE: "and the run was paused",
    RuleAction.RULE_ACTION_ABORT: "and the run was aborted",
    RuleAction.RULE_ACTION_DENY_CALL: "and the call was denied",
    RuleAction.RULE_ACTION_ASK: "and a person was asked",
}


def _rule_fired(event: StepEvent) -> str:
    found = event.rule_fired
    before = f" before the call {found.call_id} of {found.tool}" if found.call_id else ""
    followed = _ACTIONS.get(found.action, "")
    return f"the rule {found.rule} came to hold{before}, {followed}{said(event.content.text)}"


def _judge_returned(event: StepEvent) -> str:
    found, content = event.judge_returned, event.content.judge
    followed = f", {_ACTIONS[found.action]}" if found.action in _ACTIONS else ""
    if not found.HasField("passed"):
        return f"the judge {found.judge} gave no usable word{followed}{said(content.problem)}"
    verdict = "passed" if found.passed else "did not pass"
    return f"the judge {found.judge} {verdict} what the step did{followed}{said(content.reason)}"


_TELLERS: Mapping[str, Callable[[StepEvent], str | None]] = {
    "model_call_started": _closing,
    "model_call_failed": _model_failed,
    "answer_rejected": _rejected,
    "grounded": _grounded,
    "consulted": _consulted,
    "reflected": _reflected,
    "compacted": _compacted,
    "noticed": _noticed,
    "run_recovered": _recovered,
    "run_suspended": lambda _: "the worker let go of the run in good order",
    "command_applied": _command,
    "command_rejected": _command_rejected,
    "paused": lambda event: f"held by {event.paused.principal}",
    "steered": _steered,
    "bounds_adjusted": _adjusted,
    "timer_fired": _timer,
    "interrupt_raised": _asked,
    "interrupt_resolved": _answered,
    "rule_fired": _rule_fired,
    "judge_returned": _judge_returned,
}

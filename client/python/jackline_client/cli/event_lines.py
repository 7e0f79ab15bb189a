"""Events as lines for a person.

Owns the wording of live progress: one compact line an event. Does not own safety (`printable`, `Screen`) nor
the stream. A fact that this version does not know has no line.
"""

import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from jackline.v1.control_pb2 import CommandKind
from jackline.v1.error_reason_pb2 import ErrorReason
from jackline.v1.event_pb2 import (
    AnswerProblem,
    CallProblem,
    ConsultAnswer,
    Delta,
    ModelCallPurpose,
    ModelFailureClass,
    NoticeCode,
    RecoveryCause,
    StepEvent,
    TimerKind,
)
from jackline.v1.run_pb2 import GatePoint, InterruptKind, RunState, StopReason, ToolCallStatus, Usage
from jackline_client.cli.approval_lines import after_expiry, decided_lines
from jackline_client.cli.forms import message_document
from jackline_client.cli.printable import printable
from jackline_client.cli.questions import question_lines
from jackline_client.cli.waits import waited
from jackline_client.cli.wording import (
    LONG,
    Line,
    answer_commands,
    arguments,
    count,
    ending,
    enum_word,
    json_words,
    new_bounds,
    short,
    stamp,
)
from jackline_client.explaining.causes import BY_COMMAND
from jackline_client.explaining.telling import SAID_BY_WHAT_CAME_BEFORE, TOLD_BY_WHAT_FOLLOWS, tell

_OBJECTIONS = frozenset(
    {
        ConsultAnswer.CONSULT_ANSWER_FAILED,
        ConsultAnswer.CONSULT_ANSWER_DENY,
        ConsultAnswer.CONSULT_ANSWER_VETO,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    tool: str
    arguments: bytes


class EventLines:
    """Turns the events of one run into lines, in order. Remembers what a later event is about."""

    def __init__(self, *, address_flag: str = "") -> None:
        """`address_flag` goes into the commands that are shown for typing."""
        self._address_flag = address_flag
        self._calls: dict[str, _Call] = {}
        self._asked: dict[str, str] = {}
        self._answered: dict[str, str] = {}
        self._model = "the model"  # a watcher may begin in the midst of its call
        self._purpose = ""
        self._held_tokens = 0
        self._error = ""
        self._is_aborted = False
        self._reason = (0, "")
        self._makers: Mapping[str, Callable[[StepEvent], Iterator[Line]]] = {
            "run_started": self._run_started,
            "run_recovered": self._run_recovered,
            "run_suspended": self._run_suspended,
            "run_finished": self._run_finished,
            "messages_appended": self._messages_appended,
            "step_started": self._step_started,
            "step_finished": self._step_finished,
            "model_call_started": self._model_call_started,
            "model_replied": self._model_replied,
            "model_call_failed": self._model_call_failed,
            "tool_call_requested": self._tool_call_requested,
            "tool_call_started": self._tool_call_started,
            "tool_call_finished": self._tool_call_finished,
            "answer_rejected": self._answer_rejected,
            "interrupt_raised": self._interrupt_raised,
            "interrupt_resolved": self._interrupt_resolved,
            "command_applied": self._command_applied,
            "command_rejected": self._command_rejected,
            "paused": self._paused,
            "resumed": self._resumed,
            "steered": self._steered,
            "bounds_adjusted": self._bounds_adjusted,
            "timer_fired": self._timer_fired,
            "noticed": self._noticed,
            "consulted": self._consulted,
            "reflected": self._judged,
            "grounded": self._judged,
            "compacted": self._judged,
            "rule_fired": self._supervised,
            "judge_returned": self._supervised,
            "child_started": self._child_started,
            "child_finished": self._child_finished,
        }

    def of(self, event: StepEvent) -> Iterator[Line]:
        """Yields the lines of one event: mostly one, none for facts that say nothing new to a person."""
        maker = self._makers.get(event.WhichOneof("fact") or "")
        return maker(event) if maker else iter(())

    def plain(self, event: StepEvent) -> Line:
        """One line for any event: its kind, and what it says in the contract's own names."""
        kind = event.WhichOneof("fact")
        said = "" if kind is None else json.dumps(message_document(getattr(event, kind)))
        return Line(text=f"  {kind or 'event'} {printable(said, limit=LONG)}", style="dim")

    def _run_started(self, event: StepEvent) -> Iterator[Line]:
        fact = event.run_started
        origin = fact.forked_from
        thread = f" in thread {short(fact.thread.thread_id)}" if fact.thread.thread_id else ""
        forked = f", a fork of {short(origin.run_id)} at {origin.sequence}" if origin.run_id else ""
        begins = f", to begin at {stamp(fact.start_time)} UTC" if fact.HasField("start_time") else ""
        how = f"started{thread}{forked}{begins}"
        yield Line(text=f"run {event.run_id} of {short(fact.workflow)} {how}", style="head")

    def _messages_appended(self, event: StepEvent) -> Iterator[Line]:
        messages = count(event.messages_appended.message_count, "message")
        yield Line(text=f"its turn in the thread has come, with {messages}", style="dim")

    def _run_recovered(self, event: StepEvent) -> Iterator[Line]:
        # A run that goes on after it was paused or asked something: that was said by what woke it.
        if event.run_recovered.cause != RecoveryCause.RECOVERY_CAUSE_WAKE or self._held_tokens:
            yield Line(text=_recovered(event.run_recovered.cause), style="dim")
        if self._held_tokens:
            tokens = count(self._held_tokens, "token")
            yield Line(text=f"  the model call under way was lost: charged {tokens} (estimated)", style="dim")
        self._held_tokens = 0

    def _run_suspended(self, _event: StepEvent) -> Iterator[Line]:
        yield Line(text="let go of by its worker; goes on elsewhere", style="dim")

    def _run_finished(self, event: StepEvent) -> Iterator[Line]:
        fact, content = event.run_finished, event.content.result
        state = enum_word(RunState.Name, fact.state, "RUN_STATE_")
        good = fact.state == RunState.RUN_STATE_SUCCEEDED
        how = ending(fact.signal, fact.stop_reason, fact.stop_leaf)
        how = how if how.startswith(f"{state} (") else f"{state}: {how}"
        yield Line(
            text=f"run {how}" + (", partial" if fact.partial else ""),
            style="good" if good else "bad",
        )
        yield from self._error_line(content.error, fact.stop_reason)
        if content.result_json:
            yield Line(text=f"  result: {json_words(content.result_json)}")

    def _step_started(self, event: StepEvent) -> Iterator[Line]:
        again = f" (visit {event.visit})" if event.visit > 1 else ""
        yield Line(text=f"step {short(event.step_id)}{again}", style="head")

    def _step_finished(self, event: StepEvent) -> Iterator[Line]:
        fact = event.step_finished
        following = f", next {short(fact.next_step)}" if fact.next_step else ""
        yield Line(
            text=f"step {short(event.step_id)} → {ending(fact.signal, fact.stop_reason, fact.stop_leaf)}"
            + (", partial" if fact.partial else "")
            + following
        )
        yield from self._error_line(event.content.result.error, fact.stop_reason)

    def _error_line(self, error: str, stop_reason: StopReason.ValueType) -> Iterator[Line]:
        """What went wrong, once; an abort was said with its reason when it took effect."""
        is_said = error == self._error or (self._is_aborted and stop_reason in BY_COMMAND)
        self._error = error
        if error and not is_said:
            yield Line(text=f"  error: {printable(error, limit=LONG)}", style="bad")

    def _model_call_started(self, event: StepEvent) -> Iterator[Line]:
        fact = event.model_call_started
        self._model = f"model {short(fact.model)}"
        self._held_tokens = fact.reserved_tokens
        purpose = enum_word(ModelCallPurpose.Name, fact.purpose, "MODEL_CALL_PURPOSE_")
        self._purpose = "" if purpose == "turn" else f" ({purpose})"
        if fact.attempt > 1:
            yield Line(text=f"  {self._turn(event)}attempt {fact.attempt}", style="dim")

    def _model_replied(self, event: StepEvent) -> Iterator[Line]:
        fact = event.model_replied
        self._held_tokens = 0
        about = "~" if fact.usage.estimated else ""
        tokens = fact.usage.prompt_tokens + fact.usage.completion_tokens
        calls = f", {count(fact.tool_calls, 'tool call')}" if fact.tool_calls else ""
        yield Line(
            text=f"  {self._turn(event)}{self._model}{self._purpose}: "
            f"{about}{count(tokens, 'token')}{calls}, {fact.latency_ms:,} ms"
        )
        if event.content.reply.text:
            yield Line(text=f"    {printable(event.content.reply.text, limit=LONG)}", style="dim")

    def _model_call_failed(self, event: StepEvent) -> Iterator[Line]:
        fact = event.model_call_failed
        self._held_tokens = 0
        failure = enum_word(ModelFailureClass.Name, fact.failure, "MODEL_FAILURE_CLASS_")
        again = ""
        if fact.waits:
            again = f"; no model can be reached, waiting {fact.retry_in_ms:,} ms"
        elif fact.HasField("retry_in_ms"):
            again = f", may be repeated in {fact.retry_in_ms:,} ms, within the bounds"
        words = f": {printable(event.content.text, limit=LONG)}" if event.content.text else ""
        yield Line(
            text=f"  {self._turn(event)}{self._model} failed ({failure}){_charged(fact.usage)}{again}{words}",
            style="bad",
        )

    def _tool_call_requested(self, event: StepEvent) -> Iterator[Line]:
        fact, content = event.tool_call_requested, event.content.call
        self._calls[fact.call_id] = _Call(tool=content.tool or fact.tool, arguments=content.arguments)
        return iter(())

    def _tool_call_started(self, event: StepEvent) -> Iterator[Line]:
        fact = event.tool_call_started
        self._answered.pop(fact.call_id, None)
        if fact.attempt > 1:
            yield Line(text=f"  {self._call(fact.call_id, fact.tool)} attempt {fact.attempt}", style="dim")

    def _tool_call_finished(self, event: StepEvent) -> Iterator[Line]:
        fact, content = event.tool_call_finished, event.content.tool_result
        call = self._call(fact.call_id, fact.tool)
        if fact.status != ToolCallStatus.TOOL_CALL_STATUS_UNKNOWN:
            self._calls.pop(fact.call_id, None)
        status = enum_word(ToolCallStatus.Name, fact.status, "TOOL_CALL_STATUS_")
        if fact.problem:
            status += f" ({enum_word(CallProblem.Name, fact.problem, 'CALL_PROBLEM_')})"
        good = fact.status == ToolCallStatus.TOOL_CALL_STATUS_COMPLETED
        took = f" {fact.duration_ms:,} ms{waited(fact.waited_ms)}" if fact.duration_ms or good else ""
        if fact.reused_from:
            took = ", the result of an equal call used again"
        if (who := self._answered.pop(fact.call_id, None)) is not None:
            took = f", as answered by {short(who)}"
        left = ", left behind" if fact.abandoned else ""
        words = f": {printable(content.error, limit=LONG)}" if content.error else ""
        yield Line(
            text=f"  {call} → {'ok' if good else status}{took}{left}{words}", style="" if good else "bad"
        )

    def _answer_rejected(self, event: StepEvent) -> Iterator[Line]:
        fact = event.answer_rejected
        problem = enum_word(AnswerProblem.Name, fact.problem, "ANSWER_PROBLEM_")
        repair = f", repair {fact.repair}" if fact.repair else ""
        said = "" if fact.problem in SAID_BY_WHAT_CAME_BEFORE else event.content.text
        words = f": {printable(said, limit=LONG)}" if said else ""
        yield Line(text=f"  {self._turn(event)}answer rejected ({problem}){repair}{words}", style="bad")

    def _interrupt_raised(self, event: StepEvent) -> Iterator[Line]:
        fact = event.interrupt_raised
        kind = enum_word(InterruptKind.Name, fact.kind, "INTERRUPT_KIND_")
        said = event.content.text or event.content.question.text
        *ahead, last = question_lines(said or kind, fact.options, limit=LONG)
        until = (
            f" (until {fact.expires_at.ToDatetime():%Y-%m-%d %H:%M:%S} UTC{after_expiry(fact)})"
            if fact.HasField("expires_at")
            else ""
        )
        for number, text in enumerate((*ahead, last + until)):
            yield Line(text=f"  {'' if number else '? '}{text}", style="ask")
        self._asked[fact.interrupt_id] = fact.call_id
        call = self._calls.get(fact.call_id)
        if call is not None and not fact.arguments_digest:
            yield Line(text=f"    about {self._call(fact.call_id, call.tool)}")
        for text in decided_lines(fact, event.content.question.arguments_json):
            yield Line(text=f"    | {text}")
        for line in answer_commands(
            event.run_id, fact, self._address_flag, form=event.content.question.schema_json, question=said
        ):
            yield Line(text=f"    {line}", style="ask")

    def _interrupt_resolved(self, event: StepEvent) -> Iterator[Line]:
        fact = event.interrupt_resolved
        call_id = self._asked.pop(fact.interrupt_id, "")
        if call_id and fact.option:
            self._answered[call_id] = fact.principal
        call = self._calls.get(call_id)
        if call is not None and fact.arguments_digest:
            self._calls[call_id] = _Call(tool=call.tool, arguments=event.content.answer.output_json)
        if not fact.option:
            yield Line(text="  ? nobody answered in time")
            return
        edited = f" with sha256 {fact.arguments_digest}" if fact.arguments_digest else ""
        words = f": {printable(event.content.answer.text, limit=LONG)}" if event.content.answer.text else ""
        who = short(fact.principal)
        yield Line(text=f"  ? answered {short(fact.option)} by {who}{edited}{self._why(event)}{words}")

    def _command_applied(self, event: StepEvent) -> Iterator[Line]:
        fact = event.command_applied
        kind = enum_word(CommandKind.Name, fact.kind, "COMMAND_KIND_")
        self._is_aborted = self._is_aborted or fact.kind == CommandKind.COMMAND_KIND_ABORT
        if fact.kind in TOLD_BY_WHAT_FOLLOWS:
            self._reason = event.sequence, printable(event.content.text, limit=LONG)
            return
        words = f": {printable(event.content.text, limit=LONG)}" if event.content.text else ""
        who = f" by {short(fact.principal)}" if fact.principal else ""
        yield Line(text=f"  {kind}{who}{words}", style="dim")

    def _command_rejected(self, event: StepEvent) -> Iterator[Line]:
        fact = event.command_rejected
        kind = enum_word(CommandKind.Name, fact.kind, "COMMAND_KIND_")
        reason = enum_word(ErrorReason.Name, fact.reason, "ERROR_REASON_")
        yield Line(text=f"  {kind} by {short(fact.principal)} rejected ({reason})", style="bad")

    def _child_started(self, event: StepEvent) -> Iterator[Line]:
        fact = event.child_started
        call = self._calls.get(fact.call_id)
        what = self._call(fact.call_id, call.tool) if call is not None else short(fact.workflow)
        share = f", {count(fact.token_share, 'token')} at most" if fact.HasField("token_share") else ""
        yield Line(text=f"  {what} is the run {fact.child_run_id}{share}")

    def _child_finished(self, event: StepEvent) -> Iterator[Line]:
        fact = event.child_finished
        how = ending(fact.signal, fact.stop_reason, fact.stop_leaf)
        good = fact.state == RunState.RUN_STATE_SUCCEEDED
        yield Line(
            text=f"  run {fact.child_run_id} {how}: {count(fact.tokens, 'token')}",
            style="" if good else "bad",
        )

    def _paused(self, event: StepEvent) -> Iterator[Line]:
        yield Line(text=f"paused by {short(event.paused.principal)}{self._why(event)}", style="ask")
        yield Line(text=f"  jackline resume {shlex.quote(event.run_id)}{self._address_flag}", style="ask")

    def _resumed(self, event: StepEvent) -> Iterator[Line]:
        by = f" by {short(event.resumed.principal)}" if event.resumed.principal else ""
        yield Line(text=f"resumed{by}{self._why(event)}")

    def _bounds_adjusted(self, event: StepEvent) -> Iterator[Line]:
        fact = event.bounds_adjusted
        yield Line(text=f"  bounds by {short(fact.principal)}{self._why(event)}: {new_bounds(fact)}")

    def _steered(self, event: StepEvent) -> Iterator[Line]:
        words = printable(event.content.text, limit=LONG) or f"{event.steered.bytes:,} bytes"
        yield Line(text=f"  guidance by {short(event.steered.principal)}{self._why(event)}: {words}")

    def _timer_fired(self, event: StepEvent) -> Iterator[Line]:
        match event.timer_fired.kind:
            case TimerKind.TIMER_KIND_DEADLINE:
                yield Line(text="the deadline passed", style="bad")
            case TimerKind.TIMER_KIND_START:
                yield Line(text="its time has come", style="dim")
            case TimerKind.TIMER_KIND_PAUSE:
                yield Line(text="it was paused for as long as it may be", style="bad")
            case _:
                return

    def _noticed(self, event: StepEvent) -> Iterator[Line]:
        code = enum_word(NoticeCode.Name, event.noticed.code, "NOTICE_CODE_")
        words = f": {printable(event.content.text, limit=LONG)}" if event.content.text else ""
        yield Line(text=f"  note ({code}){words}", style="dim")

    def _consulted(self, event: StepEvent) -> Iterator[Line]:
        fact = event.consulted
        answer = enum_word(ConsultAnswer.Name, fact.answer, "CONSULT_ANSWER_")
        content = event.content.consult
        said = content.reason or content.error
        words = f": {printable(said, limit=LONG)}" if said else ""
        point = enum_word(GatePoint.Name, fact.point, "GATE_POINT_") if fact.point else ""
        where = f" ({point}{f' of {short(fact.call_id)}' if fact.call_id else ''})" if point else ""
        style = "bad" if fact.answer in _OBJECTIONS else "dim"
        yield Line(text=f"  {short(fact.who)}{where} → {answer} {fact.duration_ms:,} ms{words}", style=style)

    def _judged(self, event: StepEvent) -> Iterator[Line]:
        found = tell(event)
        if found is not None:
            passed = event.WhichOneof("fact") != "grounded" or event.grounded.passed
            yield Line(text=f"  {printable(found.text, limit=LONG)}", style="dim" if passed else "bad")

    def _supervised(self, event: StepEvent) -> Iterator[Line]:
        found = tell(event)
        if found is not None:
            harmless = event.HasField("judge_returned") and not event.judge_returned.action
            yield Line(text=f"  {printable(found.text, limit=LONG)}", style="dim" if harmless else "ask")

    def _why(self, event: StepEvent) -> str:
        """The reason that was given with the command that this event follows from."""
        sequence, words = self._reason
        return f" ({words})" if words and event.sequence == sequence + 1 else ""

    def _turn(self, event: StepEvent) -> str:
        return f"turn {event.iteration}: " if event.iteration else ""

    def _call(self, call_id: str, tool: str) -> str:
        call = self._calls.get(call_id)
        if call is None:
            return f"{short(tool)}(…)"
        return f"{short(call.tool)}({arguments(call.arguments)})"


def _charged(usage: Usage) -> str:
    """What a failed attempt costs all the same; nothing if it was free."""
    tokens = usage.prompt_tokens + usage.completion_tokens
    estimated = " (estimated)" if usage.estimated else ""
    return f", charged {count(tokens, 'token')}{estimated}" if tokens else ""


def delta_text(delta: Delta) -> str:
    """Returns what a delta adds to the live line."""
    match delta.WhichOneof("part"):
        case "text":
            return delta.text
        case "reasoning":
            return delta.reasoning
        case "tool_arguments":
            return delta.tool_arguments.tool + delta.tool_arguments.fragment
        case "waiting_for_model":
            return f"(waiting for a place at the model {delta.waiting_for_model})"
        case _:
            return ""


def _recovered(cause: RecoveryCause.ValueType) -> str:
    if cause == RecoveryCause.RECOVERY_CAUSE_QUEUE:  # nobody had it before
        return "begun by a worker: there is a place for it"
    return f"taken over by a worker ({enum_word(RecoveryCause.Name, cause, 'RECOVERY_CAUSE_')})"

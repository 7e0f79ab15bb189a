"""What runs of one family say to each other, as part of their commits.

Owns the messages: a child tells its parent of its end, a parent tells its children to end, to wait and to go
on. They are commands like any other, put into the table by the commit that they follow from, so that no crash
comes between the two. Does not own what they mean (`control`), nor how children begin (`children`).
"""

from collections.abc import Sequence

from jackline_server.core.commands import (
    Abort,
    Action,
    Command,
    EndChild,
    LongResult,
    Pause,
    Resume,
    ended_id,
    passed_on_id,
)
from jackline_server.core.facts import (
    AbortMode,
    ChildFinished,
    CommandApplied,
    Fact,
    Paused,
    Resumed,
    RunFinished,
    StopReason,
    TimerFired,
)
from jackline_server.core.frozen import change
from jackline_server.core.reading import gate_lookup
from jackline_server.core.reading.result_tool import text_of
from jackline_server.core.state import AbortRequest, RunState
from jackline_server.runtime.driving.cut_results import cut, is_long
from jackline_server.runtime.driving.results import Results
from jackline_server.runtime.ports.codec import Codec, Record
from jackline_server.runtime.ports.journal import Append, Message
from jackline_server.runtime.ports.masks import Masks
from jackline_server.runtime.ports.signals import Signals
from jackline_server.runtime.ports.tenants import Tenant

_TELLING = (CommandApplied, TimerFired, Paused, Resumed, RunFinished)
_ENDS = AbortRequest(mode=AbortMode.NOW, skip_routes=True, principal="", reason="")


class Kin:
    """The way between driven runs and their kin."""

    def __init__(self, *, codec: Codec, signals: Signals, masks: Masks, results: Results) -> None:
        self._codec = codec
        self._signals = signals
        self._masks = masks
        self._results = results

    def messages(self, noted: Sequence[tuple[Record, RunState]], state: RunState) -> list[Message]:
        """What a commit of these facts says to others. Each has the state before it; `state` follows all."""
        if state.family is None and state.started.parent is None:
            return []
        afters = [*(before for _, before in noted[1:]), state]
        return [
            message
            for (record, before), after in zip(noted, afters, strict=True)
            if isinstance(record.fact, _TELLING)
            for message in self._of(record, before, after)
        ]

    def nudge(self, append: Append) -> None:
        """Have those looked at that a durable commit has made or spoken to."""
        for new in append.births:
            self._signals.nudge(new.run_id)
        for message in append.messages:
            self._signals.nudge(message.run_id)

    async def arriving(self, command: Command, state: RunState, tenant: Tenant) -> Command:
        """A command as its run may keep it: what a child came to is a result of a tool like any other.

        It is masked where those are, and kept outside of the log where it is too long. Cancelling it leaves
        at most a blob that nothing names.
        """
        if not isinstance(command.action, EndChild):
            return command
        told, gates = command.action.finished, gate_lookup.here(state)
        plan = None if gates is None else gates.mask_results
        if plan is not None:
            result = None if told.result_json is None else self._masks.json(told.result_json, plan)
            told = change(told, result_json=result, error=self._masks.text(told.error, plan))
        if told.result_json is None or not is_long(told.result_json):
            return change(command, action=EndChild(finished=told))
        return change(command, action=await self._long(told, told.result_json, state, tenant))

    async def _long(self, told: ChildFinished, result_json: str, state: RunState, tenant: Tenant) -> EndChild:
        call = state.calls.get(told.call_id)
        result = cut(text_of(result_json))
        kept = await self._results.keep(result, "" if call is None else call.tool, state, tenant)
        long = LongResult(
            cut_from_bytes=result.cut_from_bytes, tail=result.tail, blob=kept.blob, notices=kept.notices
        )
        return EndChild(finished=change(told, result_json=result.output_json), long=long)

    def _of(self, record: Record, before: RunState, after: RunState) -> list[Message]:
        fact, family = record.fact, after.family
        living = () if family is None else family.living
        order = _order(fact, before, after) if living else None
        found = [] if order is None else [self._to_child(run_id, order, record, after) for run_id in living]
        if isinstance(fact, RunFinished) and after.started.parent is not None:
            found.append(self._to_parent(fact, after, after.started.parent.run_id))
        return found

    def _to_child(self, run_id: str, order: Action, record: Record, state: RunState) -> Message:
        """What a child is told. Not why: those words are masked as its parent's plan says, not as its own."""
        fact, abort = record.fact, state.oversight.abort
        cause = fact.command_id if isinstance(fact, CommandApplied) else f"at {record.envelope.sequence}"
        given = passed_on_id(state.run_id, cause)
        command = Command(
            command_id=given,
            ordinal=0,
            principal=state.started.principal if abort is None or not abort.principal else abort.principal,
            reason="",
            expect_phase=None,
            expect_sequence=None,
            action=order,
        )
        return Message(run_id=run_id, command_id=given, payload=self._codec.encode_command(command))

    def _to_parent(self, fact: RunFinished, state: RunState, parent_run_id: str) -> Message:
        parent = state.started.parent
        finished = ChildFinished(
            call_id="" if parent is None else parent.call_id,
            child_run_id=state.run_id,
            phase=fact.phase,
            signal=fact.signal,
            stop_reason=fact.stop_reason,
            stop_leaf=fact.stop_leaf,
            tokens=state.ledger.tokens,
            cost_micros=state.ledger.cost_micros,
            active_ms=state.active_ms,
            result_json=fact.result_json,
            error=fact.error,
        )
        command = Command(
            command_id=ended_id(state.run_id),
            ordinal=0,
            principal="",
            reason="",
            expect_phase=None,
            expect_sequence=None,
            action=EndChild(finished=finished),
        )
        return Message(
            run_id=parent_run_id,
            command_id=command.command_id,
            payload=self._codec.encode_command(command),
        )


def _order(fact: Fact, before: RunState, after: RunState) -> Action | None:
    """What a fact of a run asks of its children; None if nothing."""
    match fact:
        case Paused():
            return Pause()
        case Resumed():
            return Resume()
        case RunFinished():  # by a bug of the server alone: else a run outlives its children
            return _abort(_ENDS)
        case _:
            abort = after.oversight.abort
            return None if abort is None or abort is before.oversight.abort else _abort(abort)


def _abort(request: AbortRequest) -> Abort:
    return Abort(mode=request.mode, skip_routes=request.skip_routes, cause=StopReason.PARENT)

"""Tool calls: which of the open ones may start, which can't, and what an unknown outcome leads to.

Owns question 5 of the loop. The order is: calls that were cut off, outcomes that nobody knows, calls that
can't start, the cap over the whole batch, then the next wave: reads together, everything else alone and
in order. A name that the model made up, wrong arguments and a spent cap are error results, never coerced.
"""

from collections.abc import Container

from jackline_server.core import exits, json_text, leaving, turns
from jackline_server.core.bounds import Limit
from jackline_server.core.context import step_input
from jackline_server.core.evolve_calls import UNKNOWN_OPTIONS, bound_for, entry_of, is_settled, policy_of
from jackline_server.core.exits import Exit
from jackline_server.core.facts import (
    OTHER_TOOL,
    CallProblem,
    CallStatus,
    Fact,
    InterruptKind,
    InterruptRaised,
    StopReason,
    ToolCallFinished,
    ToolCallRequested,
    ToolCallStarted,
)
from jackline_server.core.frozen import frozen
from jackline_server.core.instruments import SchemaValidator
from jackline_server.core.plan import (
    Effect,
    JsonObject,
    ModelStep,
    OnQuestion,
    OnUnknown,
    ToolEntry,
    ToolStep,
)
from jackline_server.core.state import RunState, ToolCall, Visit
from jackline_server.core.steps import CallTools, Moment, Record, Step, ToolAttempt

_MAX_ID = 64
_SHOWN = 200


def requested(state: RunState, asked: tuple[tuple[str, str, str], ...]) -> tuple[ToolCallRequested, ...]:
    """The facts for what a reply asked for: (id, name, arguments) each, in order.

    An id that is missing, odd or used before in the run is replaced by one of ours.
    """
    visit = state.visit
    step = state.plan.step(visit.step_id) if visit is not None else None
    known = {tool.ref for tool in step.tools} if isinstance(step, ModelStep) else frozenset[str]()
    used: set[str] = set()
    facts: list[ToolCallRequested] = []
    for ordinal, (given, name, arguments) in enumerate(asked, start=len(state.calls) + 1):
        fresh = given not in state.calls and given not in used
        call_id = given if _usable(given) and fresh else _fresh(ordinal, state.calls, used)
        used.add(call_id)
        facts.append(
            ToolCallRequested(
                call_id=call_id,
                ordinal=ordinal,
                tool=name if name in known else OTHER_TOOL,
                name=json_text.clean(name),
                arguments=json_text.clean(arguments),
            )
        )
    return tuple(facts)


def _usable(call_id: str) -> bool:
    return 0 < len(call_id) <= _MAX_ID and call_id.isascii() and call_id.isprintable() and " " not in call_id


def _fresh(ordinal: int, *used: Container[str]) -> str:
    call_id = f"call_{ordinal}"
    while any(call_id in ids for ids in used):
        call_id += "_"
    return call_id


def own_call(state: RunState, step: ToolStep) -> Record:
    """The one call of a tool step that the flow visits."""
    ordinal = len(state.calls) + 1
    arguments = json_text.write(step_input(state.context, step.input))
    call_id = _fresh(ordinal, state.calls)
    fact = ToolCallRequested(
        call_id=call_id, ordinal=ordinal, tool=step.step_id, name=step.step_id, arguments=arguments
    )
    return Record(facts=(fact,))


def of_visit(state: RunState, visit: Visit) -> ToolCall | None:
    """The own call of a tool step's visit, if it was made."""
    for call in reversed(tuple(state.calls.values())):
        if call.step_id == visit.step_id and call.visit == visit.number:
            return call
    return None


def output_exit(call: ToolCall) -> Exit:
    """The exit of a tool step whose call completed."""
    output = "null" if call.output_json is None else call.output_json
    return Exit(
        signal=exits.DEFAULT, reason=StopReason.DEFAULT, result=json_text.parse(output), has_result=True
    )


@frozen
class Batch:
    """The open calls of a visit, with what limits them. `step` is None for a tool step's own call."""

    state: RunState
    visit: Visit
    step: ModelStep | None
    calls: tuple[ToolCall, ...]

    @property
    def room(self) -> int:
        """How many more attempts the visit allows."""
        if self.step is None:
            return len(self.calls)
        return self.step.bounds.tool_calls - self.visit.ledger.tool_calls

    def entry(self, call: ToolCall) -> ToolEntry | None:
        """How the visit's step declares the tool; None for a tool step's own call."""
        return None if self.step is None else entry_of(self.step, call)


def open_batch(state: RunState, visit: Visit) -> Batch:
    """The calls of the visit that are not settled."""
    step = state.plan.step(visit.step_id)
    calls = tuple(
        call
        for call in (state.calls[call_id] for call_id in visit.open_calls)
        if not is_settled(call, state.plan)
    )
    return Batch(state=state, visit=visit, step=step if isinstance(step, ModelStep) else None, calls=calls)


def next_wave(
    batch: Batch, now: Moment, schemas: SchemaValidator, *, time_left_ms: int | None
) -> Step | Limit:
    """What the open calls lead to. A Limit means that none of them may start."""
    unknown = _unknown(batch, now)
    if unknown is not None:
        return unknown
    checked = [(call, _problem(batch, call, schemas)) for call in batch.calls]
    refused = [
        _refused(batch, call, problem) for call, problem in _over_tool_limits(batch, checked) if problem
    ]
    if refused:
        return Record(facts=tuple(refused))
    if len(batch.calls) > batch.room:
        if not _has_begun(batch):
            return Limit(reason=StopReason.TOOL_CALL_BUDGET, leaf="step.tool_calls")
        late = batch.calls[max(batch.room, 0) :]
        return Record(facts=tuple(_refused(batch, call, _OVER_LIMIT) for call in late))
    wave = _wave(batch)
    return CallTools(attempts=tuple(_attempt(batch, call, time_left_ms) for call in wave))


# --- what was cut off --------------------------------------------------------------------------


def _unknown(batch: Batch, now: Moment) -> Step | None:
    """A write that was cut off becomes unknown, and an unknown outcome follows its tool's policy."""
    cut = tuple(
        ToolCallFinished(
            call_id=call.call_id,
            tool=call.tool,
            status=CallStatus.UNKNOWN,
            error="the worker went away while the call was under way",
        )
        for call in batch.calls
        if call.status is CallStatus.STARTED and _effect(batch, call) is Effect.WRITE
    )
    if cut:
        return Record(facts=cut)
    unknown = [call for call in batch.calls if call.status is CallStatus.UNKNOWN]
    if any(call.unknown_expired for call in unknown):
        return _to_review(batch, "nobody said in time whether the call took effect")
    asked = {interrupt.call_id for interrupt in batch.state.oversight.interrupts.values()}
    questions = [
        call
        for call in unknown
        if policy_of(call, batch.state.plan) is OnUnknown.ASK and call.call_id not in asked
    ]
    if not questions:
        return None
    unattended = batch.state.started.on_question is OnQuestion.REVIEW
    if unattended or batch.state.oversight.cleanup is not None:
        return _to_review(batch, "it is not known whether a call took effect, and nobody is there to ask")
    return Record(facts=tuple(_question(batch, call, now) for call in questions))


def _to_review(batch: Batch, error: str) -> Record:
    leaf = next(call.tool for call in batch.calls if call.status is CallStatus.UNKNOWN)
    end = exits.abnormal(StopReason.UNKNOWN_OUTCOME, leaf=leaf, error=error)
    return leaving.leave(batch.state, batch.visit, turns.with_best(end, batch.visit))


def _question(batch: Batch, call: ToolCall, now: Moment) -> InterruptRaised:
    step = _tool_step(batch, call)
    return InterruptRaised(
        interrupt_id=f"unknown-{call.ordinal}-{call.attempts}",
        kind=InterruptKind.UNKNOWN_OUTCOME,
        call_id=call.call_id,
        options=UNKNOWN_OPTIONS if _may_repeat(batch, call) else UNKNOWN_OPTIONS[:2],
        expires_unix_ms=now.unix_ms + step.unknown_expiry_ms,
        question=f"Did {call.tool} take effect? It was cut off: {call.error}.{_given(call)}",
    )


def _given(call: ToolCall) -> str:
    """What the workflow gave the call beside its arguments, in words: whoever answers has to know of it."""
    if not call.bound:
        return ""
    values = (f"{name}={json_text.write(value)}" for name, value in call.bound.items())
    shown = ", ".join(value if len(value) <= _SHOWN else f"{value[:_SHOWN]}..." for value in values)
    return f" The workflow gave it {shown}."


def _may_repeat(batch: Batch, call: ToolCall) -> bool:
    """True if the caps leave room for one more attempt at the call."""
    entry = batch.entry(call)
    if entry is None or entry.max_calls is None:
        return batch.room > 0
    return batch.room > 0 and _spent(batch).get(call.tool, 0) < entry.max_calls


# --- what can't start --------------------------------------------------------------------------


def _problem(batch: Batch, call: ToolCall, schemas: SchemaValidator) -> tuple[CallProblem, str] | None:
    if batch.step is None or call.attempts:
        return None
    entry = batch.entry(call)
    if entry is None:
        names = ", ".join(tool.ref for tool in batch.step.tools) or "none"
        return CallProblem.UNKNOWN_TOOL, f"there is no such tool; the tools are: {names}"
    if _effect(batch, call) not in batch.step.allow_effects:
        return CallProblem.NOT_ALLOWED, "this step may not call a tool with that effect"
    try:
        arguments = json_text.parse_object(call.arguments.strip() or "{}")
    except json_text.JsonError as error:
        return CallProblem.MALFORMED_ARGUMENTS, f"the arguments are not a JSON object: {error}"
    closed = [name for name in arguments if name.startswith("_") or name in entry.bind]
    if closed:
        return CallProblem.INVALID_ARGUMENTS, f"these arguments can't be set: {', '.join(sorted(closed))}"
    problem = schemas.problem(entry.parameters_json, arguments)
    return (
        None if problem is None else (CallProblem.INVALID_ARGUMENTS, f"the arguments do not fit: {problem}")
    )


def _over_tool_limits(
    batch: Batch, checked: list[tuple[ToolCall, tuple[CallProblem, str] | None]]
) -> list[tuple[ToolCall, tuple[CallProblem, str] | None]]:
    """The same with the calls over their tool's own cap refused, first come first served."""
    if batch.step is None or all(tool.max_calls is None for tool in batch.step.tools):
        return checked
    spent = _spent(batch)
    judged: list[tuple[ToolCall, tuple[CallProblem, str] | None]] = []
    for call, problem in checked:
        entry = batch.entry(call)
        found = problem
        if found is None and entry is not None and entry.max_calls is not None:
            if spent.get(call.tool, 0) >= entry.max_calls:
                found = (
                    CallProblem.OVER_TOOL_LIMIT,
                    f"{call.tool} may be called {entry.max_calls} times at most",
                )
            else:
                spent[call.tool] = spent.get(call.tool, 0) + 1
        judged.append((call, found))
    return judged


def _spent(batch: Batch) -> dict[str, int]:
    """Attempts of this visit by tool."""
    spent: dict[str, int] = {}
    for call in batch.state.calls.values():
        if call.step_id == batch.visit.step_id and call.visit == batch.visit.number:
            spent[call.tool] = spent.get(call.tool, 0) + call.attempts
    return spent


def _refused(batch: Batch, call: ToolCall, problem: tuple[CallProblem, str]) -> Fact:
    """A call that may not start, or not once more: then nothing is claimed about its first attempt."""
    status = CallStatus.DENIED
    if call.attempts:
        status = CallStatus.CANCELLED if _effect(batch, call) is Effect.READ else CallStatus.UNKNOWN
    return ToolCallFinished(
        call_id=call.call_id, tool=call.tool, status=status, problem=problem[0], error=problem[1]
    )


_OVER_LIMIT = CallProblem.OVER_LIMIT, "the step's tool calls are used up"


def _has_begun(batch: Batch) -> bool:
    """True if any call of this turn was ever started: the batch was admitted then."""
    return any(batch.state.calls[call_id].attempts for call_id in batch.visit.open_calls)


# --- what starts -------------------------------------------------------------------------------


def _wave(batch: Batch) -> tuple[ToolCall, ...]:
    first = batch.calls[0]
    if batch.step is None or _effect(batch, first) is not Effect.READ:
        return (first,)
    together: list[ToolCall] = []
    for call in batch.calls[: batch.step.max_parallel]:
        if _effect(batch, call) is not Effect.READ:
            break
        together.append(call)
    return tuple(together)


def _attempt(batch: Batch, call: ToolCall, time_left_ms: int | None) -> ToolAttempt:
    step, state = _tool_step(batch, call), batch.state
    timeouts = [step.timeout_ms]
    if batch.step is not None:
        timeouts.append(batch.step.bounds.tool_timeout_ms)
    if time_left_ms is not None:
        timeouts.append(time_left_ms)
    own: JsonObject = {} if batch.step is None else step_input(state.context, step.input or {})
    return ToolAttempt(
        started=ToolCallStarted(
            call_id=call.call_id,
            tool=call.tool,
            call_key=call.call_key or f"{state.run_id}.{call.ordinal}",  # a fork repeats under the first key
            effect=step.effect,
            attempt=call.attempts + 1,
        ),
        step=step,
        arguments=json_text.parse_object(call.arguments.strip() or "{}"),
        bound=bound_for(state, call) or {},
        step_input=own,
        timeout_ms=min(timeouts),
    )


def _tool_step(batch: Batch, call: ToolCall) -> ToolStep:
    step = batch.state.plan.step(call.tool)
    if not isinstance(step, ToolStep):
        raise TypeError(f"the tool {call.tool} is not a tool step")
    return step


def _effect(batch: Batch, call: ToolCall) -> Effect | None:
    step = batch.state.plan.steps.get(call.tool)
    return step.effect if isinstance(step, ToolStep) else None

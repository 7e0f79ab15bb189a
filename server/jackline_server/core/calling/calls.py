"""Tool calls: how they enter the registry, and what the open ones lead to.

Owns question 5 of the loop and its order: calls that were cut off (`cut_calls`), results that are there
already (`reuse`), calls that can't start (`call_checks`), the cap over the whole batch, then the next wave
(`waves`).
"""

from collections.abc import Container

from jackline_server.core import exits, json_text
from jackline_server.core.bounds import Limit
from jackline_server.core.calling import children, cut_calls, human_answers, tool_questions, waves
from jackline_server.core.calling.waves import Candidate
from jackline_server.core.context import step_input
from jackline_server.core.deciding import call_checks
from jackline_server.core.deciding.batches import Batch, effect_of, tool_step
from jackline_server.core.deciding.call_checks import OVER_LIMIT, Problem
from jackline_server.core.exits import Exit
from jackline_server.core.facts import (
    OTHER_TOOL,
    CallProblem,
    CallStatus,
    NoticeCode,
    Noticed,
    StopReason,
    ToolCallFinished,
    ToolCallRequested,
    ToolCallStarted,
)
from jackline_server.core.folding.evolve_calls import (
    bound_for,
    failure_policy,
    is_counted,
    own_for,
    reuse_key,
)
from jackline_server.core.frozen import frozen
from jackline_server.core.instruments import SchemaValidator
from jackline_server.core.plan import (
    FINISH,
    READ_RESULT,
    JsonObject,
    ModelStep,
    TextToolCalls,
    ToolExecution,
    ToolStep,
)
from jackline_server.core.reading import finish_tool, reuse, text_calls, thread_window
from jackline_server.core.reading.hygiene import usable_id
from jackline_server.core.state import RunState, ToolCall, Visit, calls_of
from jackline_server.core.steps import CallTools, Moment, Record, Step, ToolAttempt, Wait


def requested(state: RunState, asked: tuple[tuple[str, str, str], ...]) -> tuple[ToolCallRequested, ...]:
    """The facts for what a reply asked for: (id, name, arguments) each, in order.

    An id that is missing, odd or used before in the run or its thread is replaced by one of ours. A judge
    has no tools, and neither has whoever sums up: what they ask for is no call.
    """
    visit = state.visit
    if visit is not None and _is_aside(state, visit):
        return ()
    step = state.plan.step(visit.step_id) if visit is not None else None
    known = {tool.ref for tool in step.tools} if isinstance(step, ModelStep) else set[str]()
    if isinstance(step, ModelStep) and finish_tool.has(step):
        known.add(FINISH)
    if isinstance(step, ModelStep) and step.reads_results:
        known.add(READ_RESULT)
    used = thread_window.call_ids(state)
    facts: list[ToolCallRequested] = []
    for ordinal, (given, name, arguments) in enumerate(asked, start=len(state.calls) + 1):
        fresh = given not in state.calls and given not in used
        call_id = given if usable_id(given) and fresh else _fresh(ordinal, state.calls, used)
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


def _is_aside(state: RunState, visit: Visit) -> bool:
    """True while somebody beside the conversation has been asked, and has not been understood yet."""
    if visit.grounding.asked or visit.history.asked:
        return True
    if visit.supervision is not None and visit.supervision.trial is not None:
        return True
    return state.gates is not None and state.gates.trial is not None


@frozen
class Heard:
    """What a reply asks for: (id, name, arguments) each. `notice` is about calls in its text."""

    asked: tuple[tuple[str, str, str], ...]
    in_text: bool = False
    notice: Noticed | None = None


def heard(state: RunState, text: str, asked: tuple[tuple[str, str, str], ...]) -> Heard:
    """The calls of a reply: those it was sent with, else those in its text, where the step takes such."""
    visit = state.visit
    step = None if visit is None or asked else state.plan.steps.get(visit.step_id)
    if visit is None or not isinstance(step, ModelStep) or not step.tools:
        return Heard(asked=asked)
    if visit.closing is not None or _is_aside(state, visit):
        return Heard(asked=asked)
    found = text_calls.find(text, text_calls.spoken_tools(step))
    if found is None:
        return Heard(asked=asked)
    taken = step.text_tool_calls is TextToolCalls.AUTO
    notice = None if visit.text_calls_told else _in_text(found.calls[0][0], taken=taken)
    if not taken:
        return Heard(asked=asked, notice=notice)
    return Heard(
        asked=tuple(("", name, arguments) for name, arguments in found.calls), in_text=True, notice=notice
    )


def _in_text(tool: str, *, taken: bool) -> Noticed:
    text = f"the model wrote a call of `{tool}` into its text; " + (
        "such calls are carried out (`text_tool_calls: auto`)"
        if taken
        else "it stays text: with `text_tool_calls: auto` such calls are carried out"
    )
    return Noticed(code=NoticeCode.TOOL_CALLS_IN_TEXT, text=text)


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
    calls = calls_of(state, visit)
    return calls[-1] if calls else None


def output_exit(step: ToolStep, call: ToolCall) -> Exit:
    """The exit of a tool step whose call completed."""
    output = "null" if call.output_json is None else call.output_json
    end = Exit(
        signal=exits.DEFAULT, reason=StopReason.DEFAULT, result=json_text.parse(output), has_result=True
    )
    return human_answers.chosen(step, end)


def next_wave(
    batch: Batch, now: Moment, schemas: SchemaValidator, *, time_left_ms: int | None
) -> Step | Limit:
    """What the open calls lead to. A Limit means that none of them may start."""
    cut = cut_calls.settle(batch, now)
    if cut is not None:
        return cut
    asked = tool_questions.settle(batch, now, schemas)
    if asked is not None:
        return asked
    checked = [(call, call_checks.checked(batch, call, schemas)) for call in batch.calls]
    shared = _shared(batch, checked)
    if shared.facts:
        return Record(facts=shared.facts)
    checked = call_checks.over_tool_limits(
        batch, [pair for pair in checked if pair[0].call_id not in shared.twins]
    )
    checked = children.within_depth(batch, checked)
    refused = [call_checks.refused(batch, call, found) for call, found in checked if isinstance(found, tuple)]
    if refused:
        return Record(facts=tuple(refused))
    counting = [call for call, _ in checked if not is_counted(batch.state.plan, call)]
    if len(counting) > batch.room:
        if not call_checks.has_begun(batch):
            needs = batch.visit.ledger.tool_calls + len(counting)
            return Limit(reason=StopReason.TOOL_CALL_BUDGET, leaf="step.tool_calls", needs=needs)
        late = counting[max(batch.room, 0) :]
        return Record(facts=tuple(call_checks.refused(batch, call, OVER_LIMIT) for call in late))
    return _start(batch, checked, now, time_left_ms)


# --- results that are there already ------------------------------------------------------------


@frozen
class _Shared:
    """Ends of calls whose result is there already, and the ids of calls that wait for an equal one's."""

    facts: tuple[ToolCallFinished, ...] = ()
    twins: frozenset[str] = frozenset()


_NOTHING_SHARED = _Shared()


def _shared(batch: Batch, checked: list[tuple[ToolCall, JsonObject | Problem]]) -> _Shared:
    """What of the calls need not be asked for. Neither costs an attempt, so caps come after it."""
    facts: list[ToolCallFinished] = []
    twins = set[str]()
    keys = set[str]()
    for call, found in checked:
        key = "" if isinstance(found, tuple) else reuse_key(batch.state, call)
        if not key:
            continue
        earlier = None if call.attempts else reuse.earlier(batch.state, call, key)
        if earlier is not None:
            facts.append(earlier)
        elif key in keys:
            twins.add(call.call_id)
        elif not call.attempts and _is_lost(batch, key):
            facts.append(call_checks.refused(batch, call, _TWIN))
        keys.add(key)
    return _Shared(facts=tuple(facts), twins=frozenset(twins)) if keys else _NOTHING_SHARED


_TWIN = (
    CallProblem.TWIN_UNKNOWN,
    "an equal call of this turn was cut off, and it is not known whether it took effect",
)


def _is_lost(batch: Batch, key: str) -> bool:
    """True if an equal call of the same turn may have taken effect: then this one is not begun anew."""
    calls = (batch.state.calls[call_id] for call_id in batch.visit.open_calls)
    return any(call.reuse_key == key and call.status is CallStatus.UNKNOWN for call in calls)


# --- what starts -------------------------------------------------------------------------------


def _start(
    batch: Batch,
    checked: list[tuple[ToolCall, JsonObject | Problem]],
    now: Moment,
    time_left_ms: int | None,
) -> CallTools | Wait:
    step = batch.step
    wave = waves.choose(
        [
            Candidate(call=call, effect=effect_of(batch, call), policy=failure_policy(batch.state, call))
            for call, _ in checked
        ],
        ToolExecution.SEQUENTIAL if step is None else step.tool_execution,
        most=1 if step is None else step.max_parallel,
        now_active_ms=now.active_ms,
    )
    if not wave.calls:
        return Wait(until_active_ms=wave.until_active_ms)
    chosen = {call.call_id for call in wave.calls}
    attempts = [
        _attempt(batch, call, found, time_left_ms)
        for call, found in checked
        if call.call_id in chosen and not isinstance(found, tuple)
    ]
    return children.together(batch, attempts, time_left_ms)


def _attempt(batch: Batch, call: ToolCall, arguments: JsonObject, time_left_ms: int | None) -> ToolAttempt:
    step, state = tool_step(batch, call), batch.state
    timeouts = [step.timeout_ms]
    if batch.step is not None:
        timeouts.append(batch.step.bounds.tool_timeout_ms)
    if time_left_ms is not None:
        timeouts.append(time_left_ms)
    entry = batch.entry(call)
    return ToolAttempt(
        started=ToolCallStarted(
            call_id=call.call_id,
            tool=call.tool,
            call_key=call.call_key or f"{state.run_id}.{call.ordinal}",  # a fork repeats under the first key
            effect=step.effect,
            attempt=call.attempts + 1,
        ),
        step=step,
        arguments=arguments,
        bound=bound_for(state, call) or {},
        step_input=own_for(state, call) or {},
        timeout_ms=min(timeouts),
        reply=call.reply,
        approval=step.approval if entry is None else entry.approval,
    )

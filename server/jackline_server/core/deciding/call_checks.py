"""Whether an open call may start: its name, its arguments, its effect, and the caps on calls.

A name that the model made up, wrong arguments and a spent cap are error results, never coerced.
"""

from jackline_server.core import json_text
from jackline_server.core.deciding.batches import Batch, effect_of, spent
from jackline_server.core.facts import CallProblem, CallStatus, FinishReason, ToolCallFinished
from jackline_server.core.folding.evolve_calls import is_counted
from jackline_server.core.instruments import SchemaValidator
from jackline_server.core.plan import Effect, JsonObject
from jackline_server.core.reading import result_tool
from jackline_server.core.state import ToolCall, last_reply

Problem = tuple[CallProblem, str]
"""Why a call can't start, and the same in words for the model."""


def checked(batch: Batch, call: ToolCall, schemas: SchemaValidator) -> JsonObject | Problem:
    """The arguments of a call that may start, or why it may not. One that began once was sound then."""
    if batch.step is None or call.attempts:
        return _arguments(call)
    entry = batch.entry(call)
    built_in = result_tool.is_call(batch.step, call.tool)
    if entry is None or (built_in and not batch.visit.readable):
        offered = (*batch.step.tools, *result_tool.offered(batch.step, batch.visit))
        names = ", ".join(tool.ref for tool in offered) or "none"
        return CallProblem.UNKNOWN_TOOL, f"there is no such tool; the tools are: {names}"
    if effect_of(batch, call) not in batch.step.allow_effects and not built_in:
        return CallProblem.NOT_ALLOWED, "this step may not call a tool with that effect"
    if not call.arguments.strip() and _was_cut(batch, call):
        return CallProblem.MALFORMED_ARGUMENTS, "the reply was cut before the arguments came"
    try:
        arguments = _arguments(call)
    except json_text.JsonError as error:
        return CallProblem.MALFORMED_ARGUMENTS, f"the arguments are not a JSON object: {error}"
    closed = [name for name in arguments if name.startswith("_") or name in entry.bind]
    if closed:
        return CallProblem.INVALID_ARGUMENTS, f"these arguments can't be set: {', '.join(sorted(closed))}"
    problem = schemas.problem(entry.parameters_json, arguments)
    if problem is not None:
        return CallProblem.INVALID_ARGUMENTS, f"the arguments do not fit: {problem}"
    return arguments


def _was_cut(batch: Batch, call: ToolCall) -> bool:
    """True for the last call of a reply that the output cap cut."""
    reply = last_reply(batch.visit)
    return reply is not None and reply.finish is FinishReason.LENGTH and reply.calls[-1:] == (call.call_id,)


def _arguments(call: ToolCall) -> JsonObject:
    """What was asked for; nothing is an empty object. Raises JsonError."""
    return json_text.parse_object(call.arguments.strip() or "{}")


def over_tool_limits(
    batch: Batch, calls: list[tuple[ToolCall, JsonObject | Problem]]
) -> list[tuple[ToolCall, JsonObject | Problem]]:
    """The same with the calls over their tool's own cap refused, first come first served."""
    if batch.step is None or all(tool.max_calls is None for tool in batch.step.tools):
        return calls
    attempts = spent(batch)
    judged: list[tuple[ToolCall, JsonObject | Problem]] = []
    for call, found in calls:
        entry = None if is_counted(batch.state.plan, call) else batch.entry(call)
        if not isinstance(found, tuple) and entry is not None and entry.max_calls is not None:
            if attempts.get(call.tool, 0) >= entry.max_calls:
                words = f"{call.tool} may be called {entry.max_calls} times at most"
                judged.append((call, (CallProblem.OVER_TOOL_LIMIT, words)))
                continue
            attempts[call.tool] = attempts.get(call.tool, 0) + 1
        judged.append((call, found))
    return judged


def refused(batch: Batch, call: ToolCall, problem: Problem) -> ToolCallFinished:
    """A call that may not start, or not once more: then nothing is claimed about its first attempt."""
    status = CallStatus.DENIED
    if call.status is CallStatus.FAILED:  # it waited for its next attempt
        return ToolCallFinished(
            call_id=call.call_id,
            tool=call.tool,
            status=CallStatus.FAILED,
            problem=problem[0],
            error=call.error,
        )
    if call.attempts:
        status = CallStatus.CANCELLED if effect_of(batch, call) is Effect.READ else CallStatus.UNKNOWN
    return ToolCallFinished(
        call_id=call.call_id, tool=call.tool, status=status, problem=problem[0], error=problem[1]
    )


OVER_LIMIT = CallProblem.OVER_LIMIT, "the step's tool calls are used up"


def has_begun(batch: Batch) -> bool:
    """True if any call of this turn was ever started: the batch was admitted then."""
    return any(batch.state.calls[call_id].attempts for call_id in batch.visit.open_calls)

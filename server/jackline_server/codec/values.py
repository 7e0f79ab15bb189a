"""The small values that many messages share: times, JSON in bytes, bounds, usage, ledgers, subjects.

Owns how each stands in protobuf. Times are whole milliseconds here.
"""

from google.protobuf.duration_pb2 import Duration
from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from jackline.v1 import event_pb2, run_pb2
from jackline_server.core import json_text
from jackline_server.core.bounds import Ledger
from jackline_server.core.facts import ForkOrigin, ToolAsk, Usage
from jackline_server.core.new_bounds import NewRunBounds, NewVisitBounds
from jackline_server.core.plan import JsonValue, RunBounds, StepBounds


def set_time(target: Timestamp | Duration, ms: int) -> None:
    """Set a wall-clock time or a span."""
    target.seconds = ms // 1000
    target.nanos = ms % 1000 * 1_000_000


def milliseconds(source: Timestamp | Duration) -> int:
    """The time or span, rounded down."""
    return source.seconds * 1000 + source.nanos // 1_000_000


def optional_json(data: bytes) -> str | None:
    """A JSON text that may be missing; no JSON text is empty."""
    return data.decode() if data else None


def set_bounds(target: run_pb2.RunBounds, bounds: RunBounds) -> None:
    """Write the caps of a run."""
    if bounds.run_timeout_ms is not None:
        set_time(target.run_timeout, bounds.run_timeout_ms)
    if bounds.token_budget is not None:
        target.token_budget = bounds.token_budget
    if bounds.cost_budget_micros is not None:
        target.cost_budget_micros = bounds.cost_budget_micros
    target.steps = bounds.steps
    target.events = bounds.events
    if bounds.child_depth:
        target.child_depth = bounds.child_depth


def read_bounds(source: run_pb2.RunBounds) -> RunBounds:
    """The caps of a run as they were written."""
    return RunBounds(
        run_timeout_ms=milliseconds(source.run_timeout) if source.HasField("run_timeout") else None,
        token_budget=source.token_budget if source.HasField("token_budget") else None,
        cost_budget_micros=source.cost_budget_micros if source.HasField("cost_budget_micros") else None,
        steps=source.steps,
        events=source.events,
        child_depth=source.child_depth,
    )


def set_new_bounds(target: run_pb2.RunBounds, new: NewRunBounds) -> None:
    """Write the caps of a run that are to be set."""
    if new.run_timeout_ms is not None:
        set_time(target.run_timeout, new.run_timeout_ms)
    if new.token_budget is not None:
        target.token_budget = new.token_budget
    if new.cost_budget_micros is not None:
        target.cost_budget_micros = new.cost_budget_micros
    if new.steps is not None:
        target.steps = new.steps
    if new.events is not None:
        target.events = new.events


def read_new_bounds(source: run_pb2.RunBounds) -> NewRunBounds:
    """The caps of a run that were to be set."""
    return NewRunBounds(
        run_timeout_ms=milliseconds(source.run_timeout) if source.HasField("run_timeout") else None,
        token_budget=source.token_budget if source.HasField("token_budget") else None,
        cost_budget_micros=source.cost_budget_micros if source.HasField("cost_budget_micros") else None,
        steps=source.steps if source.HasField("steps") else None,
        events=source.events if source.HasField("events") else None,
    )


def set_visit_bounds(target: run_pb2.VisitBounds, bounds: NewVisitBounds | StepBounds) -> None:
    """Write the caps of a visit: those that are to be set, or all it has."""
    if bounds.max_iterations is not None:
        target.max_iterations = bounds.max_iterations
    if bounds.model_requests is not None:
        target.model_requests = bounds.model_requests
    if bounds.tool_calls is not None:
        target.tool_calls = bounds.tool_calls
    if bounds.token_budget is not None:
        target.token_budget = bounds.token_budget
    if bounds.cost_budget_micros is not None:
        target.cost_budget_micros = bounds.cost_budget_micros
    if bounds.timeout_ms is not None:
        set_time(target.timeout, bounds.timeout_ms)


def read_visit_bounds(source: run_pb2.VisitBounds) -> NewVisitBounds:
    """The caps of a visit that were to be set."""
    return NewVisitBounds(
        max_iterations=source.max_iterations if source.HasField("max_iterations") else None,
        model_requests=source.model_requests if source.HasField("model_requests") else None,
        tool_calls=source.tool_calls if source.HasField("tool_calls") else None,
        token_budget=source.token_budget if source.HasField("token_budget") else None,
        cost_budget_micros=source.cost_budget_micros if source.HasField("cost_budget_micros") else None,
        timeout_ms=milliseconds(source.timeout) if source.HasField("timeout") else None,
    )


def set_origin(target: run_pb2.ForkOrigin, origin: ForkOrigin) -> None:
    """Write where a fork was made."""
    target.run_id = origin.run_id
    target.sequence = origin.sequence


def read_origin(source: run_pb2.ForkOrigin) -> ForkOrigin:
    """Where a fork was made, as it was written."""
    return ForkOrigin(run_id=source.run_id, sequence=source.sequence)


def set_usage(target: run_pb2.Usage, usage: Usage) -> None:
    """Write the tokens of one or more model calls."""
    target.prompt_tokens = usage.prompt_tokens
    target.completion_tokens = usage.completion_tokens
    target.cached_tokens = usage.cached_tokens
    target.reasoning_tokens = usage.reasoning_tokens
    target.estimated = usage.estimated


def read_usage(source: run_pb2.Usage) -> Usage:
    """The tokens as they were written."""
    return Usage(
        prompt_tokens=source.prompt_tokens,
        completion_tokens=source.completion_tokens,
        cached_tokens=source.cached_tokens,
        reasoning_tokens=source.reasoning_tokens,
        estimated=source.estimated,
    )


def set_ledger(target: run_pb2.Ledger, ledger: Ledger) -> None:
    """Write what one scope has spent."""
    target.iterations = ledger.iterations
    target.model_requests = ledger.model_requests
    target.tool_calls = ledger.tool_calls
    target.tokens = ledger.tokens
    target.cost_micros = ledger.cost_micros
    target.reserved_tokens = ledger.reserved_tokens
    target.reserved_cost_micros = ledger.reserved_cost_micros
    target.steps = ledger.steps


def set_ask(target: event_pb2.QuestionContent, ask: ToolAsk) -> None:
    """Write what a tool asks."""
    target.text = ask.text
    target.schema_json = ask.schema_json.encode()
    target.state_json = ask.state_json.encode()
    target.options.extend(ask.options)


def read_ask(source: event_pb2.QuestionContent) -> ToolAsk:
    """Read what a tool asks."""
    return ToolAsk(
        text=source.text,
        schema_json=source.schema_json.decode(),
        state_json=source.state_json.decode(),
        options=tuple(source.options),
    )


def set_subject(target: Struct, subject_json: str) -> None:
    """Write a subject; its text is one that `subject_text` gave."""
    target.update(json_text.parse_object(subject_json))


def subject_text(source: Struct) -> str:
    """A subject as JSON text in its one form: keys sorted, whole numbers without a fraction.

    The struct is one that was checked when it came in: finite, and whole numbers within 2^53.
    """
    return json_text.write(whole_numbers(MessageToDict(source)))


def whole_numbers(value: JsonValue) -> JsonValue:
    """The value with objects in the order of their keys and whole floats as the integers they stand for."""
    match value:
        case float():
            return int(value) if value.is_integer() else value
        case list():
            return [whole_numbers(item) for item in value]
        case dict():
            return {key: whole_numbers(value[key]) for key in sorted(value)}
        case _:
            return value

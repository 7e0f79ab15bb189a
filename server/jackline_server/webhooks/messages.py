"""What a webhook is told: the message of a fact, as JSON.

Owns the body. Its words are those of the contract: the keys are names of `jackline.v1` fields, the values
its enum values in lower case. Nothing that the contract holds for content is in it unless `full` is asked
for, and a message that would be too long goes without.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

from jackline_server.core import json_text
from jackline_server.core.facts import InterruptRaised, InterruptResolved, RunFinished
from jackline_server.core.frozen import frozen
from jackline_server.core.plan import JsonObject, JsonValue
from jackline_server.core.reading.given_arguments import given_arguments
from jackline_server.core.state import RunState
from jackline_server.runtime.ports.codec import Record
from jackline_server.runtime.ports.webhooks import WebhookEvent

MOST_BYTES = 256 * 1024
"""A message is never longer."""

TEST = "webhook.test"

Told = InterruptRaised | InterruptResolved | RunFinished


@frozen
class Telling:
    """A fact, and what is known around it. `before` and `after` are the states on both sides of it."""

    record: Record
    fact: Told
    before: RunState
    after: RunState
    labels: Mapping[str, str]


def event_of(fact: Told) -> WebhookEvent:
    """What the fact is told as."""
    match fact:
        case InterruptRaised():
            return WebhookEvent.INTERRUPT_RAISED
        case InterruptResolved():
            return WebhookEvent.INTERRUPT_RESOLVED
        case RunFinished():
            return WebhookEvent.RUN_FINISHED


def message(telling: Telling, *, full: bool) -> bytes:
    """The body, with content if that is wanted and not too long."""
    event, unix_ms = event_of(telling.fact).value, telling.record.envelope.unix_ms
    if full:
        body = _encoded(event, unix_ms, _data(telling, full=True))
        if len(body) <= MOST_BYTES:
            return body
        return _encoded(event, unix_ms, {**_data(telling, full=False), "content_omitted": True})
    return _encoded(event, unix_ms, _data(telling, full=False))


def trial_message(endpoint: str, *, unix_ms: int) -> bytes:
    """The body of a message that tells of nothing."""
    return _encoded(TEST, unix_ms, {"webhook": endpoint})


def _encoded(event: str, unix_ms: int, data: JsonObject) -> bytes:
    return json_text.write({"type": event, "timestamp": _time(unix_ms), "data": data}).encode()


def _data(telling: Telling, *, full: bool) -> JsonObject:
    state, started, envelope = telling.after, telling.after.started, telling.record.envelope
    data: JsonObject = {
        "run_id": state.run_id,
        "sequence": envelope.sequence,
        "workflow": started.workflow,
        "plan_digest": started.plan_digest,
        "labels": dict(telling.labels),
        "state": state.phase.value,
    }
    if started.thread is not None:
        data["thread_id"] = started.thread.thread_id
    if started.parent is not None:
        data["parent_run_id"] = started.parent.run_id
        data["root_run_id"] = started.parent.root_run_id
    match telling.fact:
        case InterruptRaised():
            data["step_id"] = envelope.step_id
            data["interrupt"] = _raised(telling, telling.fact, full=full)
        case InterruptResolved():
            data["step_id"] = envelope.step_id
            data["interrupt"] = _resolved(telling, telling.fact, full=full)
        case RunFinished():
            data.update(_end(state, telling.fact, full=full))
    return data


def _raised(telling: Telling, fact: InterruptRaised, *, full: bool) -> JsonObject:
    interrupt: JsonObject = {
        "interrupt_id": fact.interrupt_id,
        "kind": fact.kind.value,
        "options": list(fact.options),
        **_call(telling.after, fact.call_id, full=full),
    }
    if fact.limit is not None:
        interrupt["limit"] = fact.limit.value
        interrupt["limit_leaf"] = fact.limit_leaf
    if fact.raise_to:
        interrupt["raise_to"] = fact.raise_to
    if fact.expires_unix_ms is not None:
        interrupt["expires_at"] = _time(fact.expires_unix_ms)
    if fact.on_expiry is not None:
        interrupt["on_expiry"] = fact.on_expiry.value
        interrupt["arguments_digest"] = fact.digest
        interrupt["started_by"] = telling.after.started.principal
    if full:
        interrupt["question"] = fact.question
        if fact.arguments_json:
            interrupt["arguments"] = _read(fact.arguments_json)
        if fact.schema_json:
            interrupt["schema"] = _read(fact.schema_json)
    return interrupt


def _resolved(telling: Telling, fact: InterruptResolved, *, full: bool) -> JsonObject:
    asked = telling.before.oversight.interrupts.get(fact.interrupt_id)
    interrupt: JsonObject = {
        "interrupt_id": fact.interrupt_id,
        "option": fact.option,
        "principal": fact.principal,
        "expired": not fact.option,
    }
    if asked is not None:
        interrupt["kind"] = asked.kind.value
        interrupt.update(_call(telling.before, asked.call_id, full=full))
    if full:
        interrupt["text"] = fact.text
        if fact.output_json is not None:
            interrupt["output"] = _read(fact.output_json)
    return interrupt


def _call(state: RunState, call_id: str, *, full: bool) -> JsonObject:
    """The tool call that a question is about; nothing if it is about none."""
    if not call_id:
        return {}
    call = state.calls.get(call_id)
    if call is None:
        return {"call_id": call_id}
    about: JsonObject = {"call_id": call_id, "tool": call.tool}
    if full:
        about["arguments"] = _read(given_arguments(call))
    return about


def _end(state: RunState, fact: RunFinished, *, full: bool) -> JsonObject:
    usage = state.usage
    outcome: JsonObject = {"signal": fact.signal, "partial": fact.partial}
    data: JsonObject = {
        "signal": fact.signal,
        "stop_reason": fact.stop_reason.value,
        "stop_leaf": fact.stop_leaf,
        "usage": {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens},
        "cost_micros": state.ledger.cost_micros,
        "active_ms": state.active_ms,
    }
    if full:
        outcome["error"] = fact.error
        if fact.result_json is not None:
            outcome["result"] = _read(fact.result_json)
    data["outcome"] = outcome
    return data


def _read(text: str) -> JsonValue:
    """The JSON that a text is, or the text: what a model wrote may be neither."""
    try:
        return json_text.parse(text)
    except json_text.JsonError:
        return json_text.clean(text)


def _time(unix_ms: int) -> str:
    moment = datetime.fromtimestamp(unix_ms // 1000, UTC).replace(microsecond=unix_ms % 1000 * 1000)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

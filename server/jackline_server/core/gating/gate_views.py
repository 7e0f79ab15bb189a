"""What hooks and policies are shown of a run: plain JSON values, bounded like what an expression sees.

Owns the names. They are documented for those who write hooks; a name once given stays.
"""

from jackline_server.core import json_text
from jackline_server.core.deciding import stopping
from jackline_server.core.exits import Exit
from jackline_server.core.messages import AssistantMessage, Message, SystemMessage, ToolMessage
from jackline_server.core.plan import JsonObject, JsonValue
from jackline_server.core.state import RunState, ToolCall, Visit, last_reply
from jackline_server.core.steps import CallModel, Moment, ToolAttempt


def run_begins(state: RunState) -> JsonObject:
    """Of `before_run`."""
    return {"input": state.context.get("input")}


def run_ends(state: RunState, end: Exit) -> JsonObject:
    """Of `after_run`."""
    return {
        "signal": end.signal,
        "stop_reason": end.reason.value,
        "result": end.result,
        "partial": end.partial,
        "error": end.error,
        "tokens": state.ledger.tokens,
        "cost_micros": state.ledger.cost_micros,
    }


def turn(state: RunState, visit: Visit, now: Moment) -> JsonObject:
    """Of `before_turn` and `after_turn`: what a stop condition is given."""
    return stopping.variables(state, visit, now_active_ms=now.active_ms)


def request(call: CallModel) -> JsonObject:
    """Of `before_model_call`."""
    started = call.started
    return {
        "purpose": started.purpose.value,
        "model": started.model,
        "prompt_tokens": started.prompt_tokens,
        "max_output_tokens": started.max_output_tokens,
        "messages": [_message(message) for message in call.messages],
        "tools": [tool.ref for tool in call.tools],
    }


def _message(message: Message) -> JsonValue:
    match message:
        case SystemMessage():
            return {"role": "system", "text": message.text}
        case AssistantMessage():
            calls: list[JsonValue] = [
                {"call_id": call.call_id, "name": call.name, "arguments": call.arguments}
                for call in message.calls
            ]
            return {"role": "assistant", "text": message.text, "calls": calls}
        case ToolMessage():
            return {"role": "tool", "text": message.text, "call_id": message.call_id, "name": message.name}
        case _:
            return {"role": "user", "text": message.text}


def reply(state: RunState, visit: Visit) -> JsonObject:
    """Of `after_model_call`."""
    newest = last_reply(visit)
    if newest is None:
        return {"text": "", "finish": "", "calls": []}
    calls: list[JsonValue] = [
        {
            "call_id": call_id,
            "name": state.calls[call_id].name,
            "arguments": state.calls[call_id].arguments,
        }
        for call_id in newest.calls
    ]
    return {"text": newest.text, "finish": newest.finish.value, "calls": calls}


def attempt(state: RunState, started: ToolAttempt) -> JsonObject:
    """Of `before_tool_call`, and what a policy is asked about: all that the tool would be given."""
    call = state.calls[started.started.call_id]
    return {
        "call_id": call.call_id,
        "tool": call.tool,
        "effect": started.started.effect.value,
        "call_key": started.started.call_key,
        "arguments": started.given,
    }


def ended(call: ToolCall) -> JsonObject:
    """Of `after_tool_call`."""
    return {
        "call_id": call.call_id,
        "tool": call.tool,
        "effect": "" if call.effect is None else call.effect.value,
        "arguments": _object(call.arguments),
        "status": call.status.value,
        "output": None if call.output_json is None else json_text.parse(call.output_json),
        "error": call.error,
        "duration_ms": call.duration_ms,
        "attempts": call.attempts,
    }


def _object(text: str) -> JsonValue:
    try:
        return json_text.parse_object(text.strip() or "{}")
    except json_text.JsonError:
        return None

"""Results that are used again: an equal call of the same run gets what the earlier one got.

Owns what makes two calls equal: the tool, the arguments, and everything that the workflow gives it beside
them. Numbers that are written differently differ.
"""

from jackline_server.core import json_text
from jackline_server.core.facts import CallStatus, ToolCallFinished
from jackline_server.core.plan import JsonValue
from jackline_server.core.state import RunState, ToolCall


def key_of(tool: str, arguments: str, *given: JsonValue) -> str:
    """The same text for calls that may share a result. Blank `arguments` are an empty object."""
    return json_text.canonical([tool, json_text.parse_object(arguments.strip() or "{}"), *given])


def earlier(state: RunState, call: ToolCall, key: str) -> ToolCallFinished | None:
    """The end of a call whose result is there already; None if it has to be asked for."""
    for other in state.calls.values():
        if other.reuse_key == key and other.status is CallStatus.COMPLETED:
            return ToolCallFinished(
                call_id=call.call_id,
                tool=call.tool,
                status=CallStatus.COMPLETED,
                cut_from_bytes=other.cut_from_bytes,
                reused_from=other.call_id,
                output_json=other.output_json,
            )
    return None

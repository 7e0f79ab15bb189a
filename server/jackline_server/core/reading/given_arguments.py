"""What a tool call was given: the arguments as they were written, with what the workflow bound."""

from jackline_server.core import json_text
from jackline_server.core.state import ToolCall


def given_arguments(call: ToolCall) -> str:
    """As JSON; what a model wrote may not be."""
    if not call.bound:
        return call.arguments
    written = json_text.parse_object(call.arguments.strip() or "{}")  # a call that started has an object
    return json_text.write({**written, **call.bound})

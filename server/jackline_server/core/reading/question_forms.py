"""Questions that a call asks a person: how they are named, and what the words of an answer have to be.

Words are a JSON object, or stand for themselves where the schema is of type `string`.
"""

from jackline_server.core import json_text
from jackline_server.core.instruments import SchemaValidator
from jackline_server.core.plan import JsonValue, McpAction, ToolStep
from jackline_server.core.reading import result_tool
from jackline_server.core.state import Interrupt, RunState, ToolCall

_BEGINS = "question-"
_ACCEPT = "accept"


def next_id(call: ToolCall) -> str:
    """The id of the question that a call asks next."""
    return f"{_BEGINS}{call.ordinal}-{call.asked + 1}"


def is_one(interrupt_id: str) -> bool:
    """True for the id of such a question."""
    return interrupt_id.startswith(_BEGINS)


def has_expired(state: RunState, call: ToolCall) -> bool:
    """True if nobody answered the last question of a call in time."""
    return f"{_BEGINS}{call.ordinal}-{call.asked}" in state.oversight.expired


def loses_words(state: RunState, asked: Interrupt, option: str) -> bool:
    """True if words beside that answer would reach nobody: a tool's server takes data, and a bare refusal."""
    call = state.calls.get(asked.call_id)
    step = None if call is None else result_tool.behind(state.plan, call.tool)
    if not isinstance(step, ToolStep) or not isinstance(step.action, McpAction):
        return False
    return option != _ACCEPT or not asked.schema_json


def holds_json(asked: Interrupt, option: str) -> bool:
    """True if the words of that answer are a JSON object."""
    if not asked.schema_json or option != _ACCEPT:
        return False
    return json_text.parse_object(asked.schema_json).get("type") != "string"


def wants_words(schema_json: str) -> bool:
    """True if the answer is a text that has to have something in it."""
    schema = json_text.parse_object(schema_json)
    least = schema.get("minLength")
    return schema.get("type") == "string" and isinstance(least, int) and least > 0


def read(schema_json: str, text: str) -> JsonValue:
    """The value that the words of an answer stand for. Raises JsonError: they are no JSON object."""
    if json_text.parse_object(schema_json).get("type") == "string":
        return json_text.clean(text)
    return json_text.parse_object(text)


def misfit(schema_json: str, text: str, schemas: SchemaValidator) -> str | None:
    """Why the words do not fit, in one line; None if they do."""
    try:
        value = read(schema_json, text)
    except json_text.JsonError as error:
        return f"the answer is not a JSON object: {error}"
    return schemas.problem(schema_json, value)

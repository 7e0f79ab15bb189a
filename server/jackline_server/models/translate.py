"""Our messages and tools as the OpenAI chat wire has them.

Owns the way out. Pure. `chunks` owns the way back, `failures` what goes wrong.
"""

from collections.abc import Sequence
from typing import assert_never

from jackline_server.core import json_text
from jackline_server.core.messages import (
    AssistantMessage,
    Message,
    MessageToolCall,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from jackline_server.core.plan import ChoiceMode, JsonObject, JsonValue, ToolChoice, ToolEntry
from jackline_server.models.strict_schema import strict
from jackline_server.runtime.replies import well_formed


def wire_messages(messages: Sequence[Message]) -> list[JsonObject]:
    """The conversation, message for message. The transcript has grouped and paired it already."""
    return [_message(message) for message in messages]


def _message(message: Message) -> JsonObject:
    match message:
        case SystemMessage(text=text):
            return {"role": "system", "content": well_formed(text)}
        case UserMessage(text=text):
            return {"role": "user", "content": well_formed(text)}
        case AssistantMessage(text=text, calls=()):
            return {"role": "assistant", "content": well_formed(text)}
        case AssistantMessage(text=text, calls=calls):
            return {
                "role": "assistant",
                "content": well_formed(text) or None,
                "tool_calls": [_call(call) for call in calls],
            }
        case ToolMessage(call_id=call_id, text=text):
            return {"role": "tool", "tool_call_id": call_id, "content": well_formed(text)}
        case _:
            assert_never(message)


def _call(call: MessageToolCall) -> JsonObject:
    return {
        "id": call.call_id,
        "type": "function",
        "function": {"name": call.name, "arguments": well_formed(call.arguments)},
    }


def wire_tools(tools: Sequence[ToolEntry]) -> list[JsonObject]:
    """The tools as function declarations."""
    return [wire_tool(tool.ref, tool.description, tool.parameters_json) for tool in tools]


def wire_tool(ref: str, description: str, parameters_json: str) -> JsonObject:
    """One tool as a function declaration."""
    return {
        "type": "function",
        "function": {
            "name": ref,
            "description": well_formed(description),
            "parameters": json_text.parse_object(parameters_json),
        },
    }


def wire_tool_choice(choice: ToolChoice) -> JsonValue:
    """The choice as the wire spells it."""
    match choice.mode:
        case ChoiceMode.AUTO:
            return "auto"
        case ChoiceMode.REQUIRED:
            return "required"
        case ChoiceMode.NAMED:
            return {"type": "function", "function": {"name": choice.name}}
        case _:
            assert_never(choice.mode)


def wire_reply_format(schema_json: str) -> JsonObject:
    """The `response_format` that asks for an answer of this JSON Schema, which is an object's.

    Strict where the schema can be said in the part of JSON Schema that providers enforce; else the schema as
    it is, which they take as a hint. Either way the answer is checked when it is read.
    """
    schema = json_text.parse_object(schema_json)
    enforced = strict(schema)
    wire: JsonObject = {
        "name": "answer",
        "schema": schema if enforced is None else enforced,
        "strict": enforced is not None,
    }
    return {"type": "json_schema", "json_schema": wire}


def said(messages: Sequence[Message]) -> list[str]:
    """Every text of the conversation, for finding echoes of it."""
    texts: list[str] = []
    for message in messages:
        texts.append(message.text)
        if isinstance(message, AssistantMessage):
            texts.extend(call.arguments for call in message.calls)
    return [text for text in texts if text]

"""Our messages and tools as the OpenAI chat wire has them.

Owns the way out. Pure. `chunks` owns the way back, `failures` what goes wrong.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
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
from jackline_server.core.plan import ChoiceMode, JsonObject, JsonValue, ModelPlan, ToolChoice, ToolEntry
from jackline_server.models.strict_order import ordered
from jackline_server.models.strict_schema import strict
from jackline_server.models.thoughts import SENT_BACK, SENT_BACK_OF_CALLS
from jackline_server.models.tool_schemas import Dialect, declared
from jackline_server.runtime.driving.replies import well_formed


def wire_messages(
    messages: Sequence[Message], model: ModelPlan | None, *, strict_order: bool = False
) -> list[JsonObject]:
    """The conversation, message for message. The transcript has grouped and paired it already.

    Reasoning goes back, unchanged, to the model that it is of; with None none does. `strict_order` keeps to
    the rules of `strict_order` too.
    """
    wire = [_with_reasoning(_message(message), message, model) for message in messages]
    return ordered(wire) if strict_order else wire


def _with_reasoning(wire: JsonObject, message: Message, model: ModelPlan | None) -> JsonObject:
    """The message with the reasoning behind it; another model's is of no use, and is often refused."""
    blocks = message.blocks if isinstance(message, AssistantMessage) else None
    if not isinstance(message, AssistantMessage) or blocks is None or model is None:
        return wire
    if (blocks.profile, blocks.model) != (model.profile, model.model):
        return wire
    fields = json_text.parse_object(blocks.blocks_json) if blocks.blocks_json else {}
    if blocks.field:
        fields[blocks.field] = message.reasoning
    of_calls, calls = fields.get("tool_calls"), wire.get("tool_calls")
    if isinstance(of_calls, list) and isinstance(calls, list):
        added: list[JsonValue] = [
            _with_fields(call, own, SENT_BACK_OF_CALLS) if isinstance(call, dict) else call
            for call, own in zip(calls, of_calls, strict=False)
        ]
        wire = {**wire, "tool_calls": [*added, *calls[len(added) :]]}
    return _with_fields(wire, fields, SENT_BACK)


def _with_fields(wire: JsonObject, fields: JsonValue, names: AbstractSet[str]) -> JsonObject:
    """An object with those fields of another that may be added to it."""
    if not isinstance(fields, dict):
        return wire
    return {**wire, **{name: value for name, value in fields.items() if name in names}}


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


def wire_tools(tools: Sequence[ToolEntry], dialect: Dialect = Dialect.PLAIN) -> list[JsonObject]:
    """The tools as function declarations, in their order."""
    return [wire_tool(tool.ref, tool.description, tool.parameters_json, dialect) for tool in tools]


def wire_tool(
    ref: str, description: str, parameters_json: str, dialect: Dialect = Dialect.PLAIN
) -> JsonObject:
    """One tool as a function declaration."""
    return {
        "type": "function",
        "function": {
            "name": ref,
            "description": well_formed(description),
            "parameters": json_text.parse_object(declared(parameters_json, dialect)),
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
            texts.append(message.reasoning)
    return [text for text in texts if text]

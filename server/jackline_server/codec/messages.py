"""A message of a conversation as a `jackline.v1.RunMessage`, for those who read runs and threads."""

from typing import assert_never

from jackline.v1 import run_pb2
from jackline_server.core.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolMessage,
    UserMessage,
)


def run_message(message: Message) -> run_pb2.RunMessage:
    """The message as the contract has it."""
    match message:
        case SystemMessage():
            return run_pb2.RunMessage(
                role=run_pb2.MESSAGE_ROLE_SYSTEM, provenance="system", text=message.text
            )
        case UserMessage():
            return run_pb2.RunMessage(
                role=run_pb2.MESSAGE_ROLE_USER, provenance=message.provenance, text=message.text
            )
        case AssistantMessage():
            return run_pb2.RunMessage(
                role=run_pb2.MESSAGE_ROLE_ASSISTANT,
                provenance="model",
                text=message.text,
                tool_calls=[
                    run_pb2.RunMessageToolCall(
                        call_id=call.call_id, tool=call.name, arguments_json=call.arguments.encode()
                    )
                    for call in message.calls
                ],
            )
        case ToolMessage():
            return run_pb2.RunMessage(
                role=run_pb2.MESSAGE_ROLE_TOOL,
                provenance=f"tool:{message.name}",
                text=message.text,
                call_id=message.call_id,
                is_error=message.is_error,
            )
        case _:
            assert_never(message)

"""Messages of threads, and the facts about threads, in protobuf.

A message is stored as a `jackline.v1.RunMessage`; the SHA-256 of those bytes is its name. A fact holds names.
"""

from google.protobuf.message import DecodeError

from jackline.v1 import event_pb2, run_pb2
from jackline_server.codec.fact_coder import FactCoder
from jackline_server.codec.messages import run_message
from jackline_server.core.facts import MessagesAppended
from jackline_server.core.messages import (
    AssistantMessage,
    Message,
    MessageToolCall,
    ToolMessage,
    UserMessage,
)
from jackline_server.core.thread_facts import ThreadMessage, ThreadStart
from jackline_server.runtime.ports.codec import UnknownFact
from jackline_server.runtime.ports.store_errors import StoreDamaged

_TOOL = "tool:"


def encode_message(message: Message) -> bytes:
    """The bytes of a message, the same for equal ones."""
    return run_message(message).SerializeToString(deterministic=True)


def decode_message(data: bytes) -> Message:
    """The message back.

    Raises:
        UnknownFact: a newer version wrote it.
        StoreDamaged: the bytes are no message.
    """
    try:
        found = run_pb2.RunMessage.FromString(data)
    except DecodeError:
        raise StoreDamaged("a message of a thread can't be read") from None
    match found.role:
        case run_pb2.MESSAGE_ROLE_USER:
            return UserMessage(text=found.text, provenance=found.provenance)
        case run_pb2.MESSAGE_ROLE_ASSISTANT:
            return AssistantMessage(
                text=found.text,
                calls=tuple(
                    MessageToolCall(
                        call_id=call.call_id, name=call.tool, arguments=call.arguments_json.decode()
                    )
                    for call in found.tool_calls
                ),
            )
        case run_pb2.MESSAGE_ROLE_TOOL:
            return ToolMessage(
                call_id=found.call_id,
                name=found.provenance.removeprefix(_TOOL),
                text=found.text,
                is_error=found.is_error,
            )
        case _:
            raise UnknownFact(f"a message of a thread has the role {found.role}")


def set_thread(into: event_pb2.ThreadStart, thread: ThreadStart) -> None:
    """Write how a run begins in its thread."""
    into.SetInParent()
    into.thread_id = thread.thread_id
    into.position = thread.position
    into.message_count = len(thread.messages)
    into.waits = thread.waits


def read_thread(source: event_pb2.ThreadStart, content: event_pb2.ThreadContent) -> ThreadStart:
    """How a run begins in its thread, as it was written; the messages by their digests."""
    return ThreadStart(
        thread_id=source.thread_id,
        position=source.position,
        messages=read_messages(content),
        waits=source.waits,
    )


def set_messages(into: event_pb2.ThreadContent, messages: tuple[ThreadMessage, ...]) -> None:
    """Write the names of messages."""
    into.digests.extend(bytes.fromhex(one.digest) for one in messages)


def read_messages(source: event_pb2.ThreadContent) -> tuple[ThreadMessage, ...]:
    """The messages, by name alone."""
    return tuple(ThreadMessage(digest=digest.hex()) for digest in source.digests)


def _pack(fact: MessagesAppended, event: event_pb2.StepEvent) -> None:
    into = event.messages_appended
    into.position = fact.position
    into.message_count = len(fact.messages)
    into.SetInParent()


def _fill(fact: MessagesAppended, content: event_pb2.Content) -> None:
    if fact.messages:
        set_messages(content.thread, fact.messages)


def _unpack(event: event_pb2.StepEvent) -> MessagesAppended:
    return MessagesAppended(
        position=event.messages_appended.position, messages=read_messages(event.content.thread)
    )


THREAD_FACTS = (
    FactCoder(fact=MessagesAppended, field="messages_appended", pack=_pack, fill=_fill, unpack=_unpack),
)

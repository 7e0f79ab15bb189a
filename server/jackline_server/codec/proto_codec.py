"""The runtime's `Codec`, with protobuf."""

from jackline_server.codec.commands import decode_command, encode_command
from jackline_server.codec.conversation import decode_message, encode_message
from jackline_server.codec.facts import decode_fact, encode_fact
from jackline_server.codec.plan import decode_plan, encode_plan
from jackline_server.codec.run_view import encode_summary
from jackline_server.core.commands import Command
from jackline_server.core.messages import Message
from jackline_server.core.plan import Plan
from jackline_server.core.state import RunState
from jackline_server.runtime.ports.codec import Record
from jackline_server.runtime.ports.journal import StoredEvent


class ProtoCodec:
    """Facts, plans, commands and summaries as protobuf.

    Reading raises UnknownFact for what a newer version wrote, and StoreDamaged for bytes that are nothing.
    """

    def encode(self, record: Record) -> StoredEvent:
        """The event's bytes, metadata and content apart."""
        return encode_fact(record)

    def decode(self, event: StoredEvent) -> Record:
        """The record back."""
        return decode_fact(event)

    def encode_plan(self, plan: Plan) -> bytes:
        """The plan's bytes, the same for equal plans."""
        return encode_plan(plan)

    def decode_plan(self, data: bytes) -> Plan:
        """The plan back, its digest that of `data`."""
        return decode_plan(data)

    def encode_command(self, command: Command) -> bytes:
        """The command's bytes, without its ordinal."""
        return encode_command(command)

    def decode_command(self, data: bytes, *, ordinal: int) -> Command:
        """The command back."""
        return decode_command(data, ordinal=ordinal)

    def encode_message(self, message: Message) -> bytes:
        """The message's bytes, the same for equal ones."""
        return encode_message(message)

    def decode_message(self, data: bytes) -> Message:
        """The message back."""
        return decode_message(data)

    def summarize(self, state: RunState, *, created_unix_ms: int, finished_unix_ms: int | None) -> bytes:
        """The encoded metadata view of the run, as lists show it."""
        return encode_summary(state, created_unix_ms=created_unix_ms, finished_unix_ms=finished_unix_ms)

"""Facts, plans and commands as bytes, and back."""

from typing import Protocol

from jackline_server.core.commands import Command
from jackline_server.core.facts import Fact
from jackline_server.core.frozen import frozen
from jackline_server.core.messages import Message
from jackline_server.core.plan import Plan
from jackline_server.core.state import RunState
from jackline_server.runtime.ports.journal import StoredEvent


@frozen
class Envelope:
    """Where and when a fact happened. `signal` is `running` until the step or run has one.

    `parent_run_id` is the run that started this one, empty without.
    """

    run_id: str
    sequence: int
    unix_ms: int
    active_ms: int
    step_id: str
    visit: int
    iteration: int
    signal: str
    parent_run_id: str = ""


@frozen
class Record:
    """A fact with its envelope, as read back."""

    envelope: Envelope
    fact: Fact


class UnknownFact(Exception):
    """The log holds a fact that this version does not know: a newer one wrote it."""


class Codec(Protocol):
    """Facts, plans, commands and summaries as bytes. Total both ways."""

    def encode(self, record: Record) -> StoredEvent:
        """The event's bytes, metadata and content apart."""
        ...

    def decode(self, event: StoredEvent) -> Record:
        """The record back. Raises UnknownFact."""
        ...

    def encode_plan(self, plan: Plan) -> bytes:
        """The plan's bytes, the same for equal plans; `plan.digest` is not part of them."""
        ...

    def decode_plan(self, data: bytes) -> Plan:
        """The plan back, with `digest` set to the SHA-256 of `data`."""
        ...

    def encode_command(self, command: Command) -> bytes:
        """The command's bytes; its ordinal is not part of them."""
        ...

    def decode_command(self, data: bytes, *, ordinal: int) -> Command:
        """The command back."""
        ...

    def encode_message(self, message: Message) -> bytes:
        """The bytes of a thread's message, the same for equal ones."""
        ...

    def decode_message(self, data: bytes) -> Message:
        """The message back. Raises UnknownFact, StoreDamaged."""
        ...

    def summarize(self, state: RunState, *, created_unix_ms: int, finished_unix_ms: int | None) -> bytes:
        """The encoded metadata view of the run, as lists show it."""
        ...

"""The messages of threads, between the facts that name them and the blobs that hold them.

Owns both ways: reading what a fact names before a state is made of it, and storing what a run or a caller
adds. Blobs are put first, and named by a commit after.
"""

import asyncio
from collections.abc import Sequence

from jackline_server.core.facts import Fact, MessagesAppended, RunStarted, ToolCallFinished
from jackline_server.core.frozen import change
from jackline_server.core.messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from jackline_server.core.thread_facts import ThreadMessage
from jackline_server.runtime.ports.blobs import BLOB_BYTES, Blobs
from jackline_server.runtime.ports.codec import Codec, Record
from jackline_server.runtime.ports.store_errors import StoreDamaged
from jackline_server.runtime.ports.tenants import Tenant
from jackline_server.runtime.ports.thread_turns import NewMessage
from jackline_server.runtime.ports.threads import MessageRow

MOST_MESSAGES = 500
MOST_BYTES = 1024 * 1024
"""What a run takes of its thread at most: the newest messages."""

NAMING = frozenset((RunStarted, MessagesAppended))
"""The facts that can name messages."""

HOLDING = NAMING | {ToolCallFinished}
"""All facts that name blobs."""

_AT_ONCE = 16

_ROLES: dict[type[Message], str] = {
    SystemMessage: "system",
    UserMessage: "user",
    AssistantMessage: "assistant",
    ToolMessage: "tool",
}


class Histories:
    """Reads and stores messages. The store's own errors pass through."""

    def __init__(self, *, blobs: Blobs, codec: Codec) -> None:
        self._blobs = blobs
        self._codec = codec

    async def put(self, tenant: Tenant, messages: Sequence[Message]) -> list[NewMessage]:
        """Store messages, to be named by a commit that follows."""
        stored: list[NewMessage] = []
        for start in range(0, len(messages), _AT_ONCE):
            part = messages[start : start + _AT_ONCE]
            stored += await asyncio.gather(*(self._put(tenant, message) for message in part))
        return stored

    async def _put(self, tenant: Tenant, message: Message) -> NewMessage:
        data = self._codec.encode_message(message)
        digest = await self._blobs.put(tenant, data)
        return NewMessage(digest=digest, role=_ROLES[type(message)], size=len(data))

    async def read(self, tenant: Tenant, digests: Sequence[str]) -> list[ThreadMessage]:
        """The messages of these digests. Raises StoreDamaged if one is not there, and UnknownFact."""
        found: list[ThreadMessage] = []
        for start in range(0, len(digests), _AT_ONCE):
            part = digests[start : start + _AT_ONCE]
            found += await asyncio.gather(*(self._read(tenant, digest) for digest in part))
        return found

    async def of_rows(self, tenant: Tenant, rows: Sequence[MessageRow]) -> tuple[ThreadMessage, ...]:
        """The messages of these rows of a thread."""
        return tuple(await self.read(tenant, [row.digest for row in rows]))

    async def _read(self, tenant: Tenant, digest: str) -> ThreadMessage:
        data = await self._blobs.read(tenant, digest, offset=0, limit=BLOB_BYTES)
        if data is None:
            raise StoreDamaged(f"the message {digest} of a thread is not in the store")
        return ThreadMessage(digest=digest, message=self._codec.decode_message(data))

    async def resolved(self, tenant: Tenant, record: Record) -> Record:
        """The record with the messages that its fact names; itself if it names none."""
        fact = record.fact
        match fact:
            case RunStarted(thread=thread) if thread is not None and thread.messages:
                messages = await self._all(tenant, thread.messages)
                read: Fact = change(fact, thread=change(thread, messages=messages))
            case MessagesAppended(messages=named) if named:
                read = change(fact, messages=await self._all(tenant, named))
            case _:
                return record
        return change(record, fact=read)

    async def _all(self, tenant: Tenant, named: Sequence[ThreadMessage]) -> tuple[ThreadMessage, ...]:
        return tuple(await self.read(tenant, [one.digest for one in named]))


def named_by(fact: Fact) -> list[str]:
    """The digests that a fact names."""
    match fact:
        case RunStarted(thread=thread) if thread is not None:
            return [one.digest for one in thread.messages]
        case MessagesAppended(messages=messages):
            return [one.digest for one in messages]
        case ToolCallFinished(blob=digest, media=media) if digest or media:
            return [one for one in (digest, *(part.blob for part in media)) if one]
        case _:
            return []

"""What facts hold of a thread: its messages by digest, and how a run begins in it.

Owns those shapes. A log names the messages of a thread and does not hold them; whoever reads a log back gets
them from where they are kept, before a state is made of it. Two that have the same digest are the same.
"""

from jackline_server.core.frozen import frozen
from jackline_server.core.messages import Message


@frozen
class ThreadMessage:
    """One message of a thread. `digest` is the SHA-256 of its stored form, in hexadecimal.

    `message` is None as long as nobody has read it.
    """

    digest: str
    message: Message | None = None

    def __eq__(self, other: object) -> bool:
        """The digest says it all."""
        return self.digest == other.digest if isinstance(other, ThreadMessage) else NotImplemented

    def __hash__(self) -> int:
        """That of the digest."""
        return hash(self.digest)

    def __repr__(self) -> str:
        """Without what was said."""
        return f"ThreadMessage({self.digest[:12]})"


@frozen
class ThreadStart:
    """How a run begins in its thread, which had `position` messages then; `messages` are the newest of them.

    `waits` says that another run was active: MessagesAppended follows when the turn of this one has come. An
    empty `thread_id` is a fork's: it goes on with what was said, and leaves the thread alone.
    """

    thread_id: str
    position: int
    messages: tuple[ThreadMessage, ...] = ()  # content
    waits: bool = False

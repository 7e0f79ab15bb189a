"""What a role of the SQLite store needs of whoever writes for it."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from jackline_server.storage.sqlite.session import Session

A = TypeVar("A")
R = TypeVar("R")


class Writing(Protocol):
    """Carries operations out, each in a commit."""

    async def run(self, operation: Callable[[Session, A], R], argument: A) -> R:
        """The operation's result, once it is durable. Raises StoreError."""
        ...

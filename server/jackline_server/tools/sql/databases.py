"""What the kinds of databases have in common: a question, an answer, and the ways it can fail."""

from collections.abc import Mapping
from typing import Protocol

from jackline_server.core.frozen import frozen
from jackline_server.core.plan import JsonObject, JsonValue
from jackline_server.tools.sql.job import Job


@frozen
class Question:
    """A statement with `{{ name }}` in it, and a value for each name. `returns` says that rows may come.

    One that `writes` is committed, one that does not is rolled back, whatever it did.
    """

    statement: str
    values: Mapping[str, JsonValue]
    writes: bool
    returns: bool
    max_rows: int
    max_bytes: int


class SqlFailure(Exception):
    """The statement failed. The message is for a model, and holds no address and no credential.

    `uncertain`: a commit was sent, and its answer did not come. Else nothing is changed.
    """

    def __init__(
        self, message: str, *, may_pass: bool = False, uncertain: bool = False, timed_out: bool = False
    ) -> None:
        super().__init__(message)
        self.message = message
        self.may_pass = may_pass
        self.uncertain = uncertain
        self.timed_out = timed_out


class SourceDown(SqlFailure):
    """There is no connection. `detail` is for the operator alone."""

    def __init__(self, detail: str) -> None:
        super().__init__("The data source can't be reached; nothing was run.", may_pass=True)
        self.detail = detail


class SqlDatabase(Protocol):
    """One data source. Blocking: to be called in threads, several at once."""

    def answer(self, question: Question, job: Job) -> JsonObject:
        """Run it as one transaction. Raises SqlFailure."""
        ...

    def check(self) -> None:
        """Connect, if there is no connection. Raises SourceDown."""
        ...

    def close(self) -> None:
        """Close the connections that nobody uses."""
        ...


def late() -> SqlFailure:
    """The time was over, or nobody waits any more. Nothing is changed."""
    return SqlFailure("The statement did not finish in time; nothing was changed.", timed_out=True)

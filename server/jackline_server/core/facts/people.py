"""Questions to people, and what they decided."""

from enum import Enum

from jackline_server.core.approval_plans import OnExpiry
from jackline_server.core.facts.runs import StopReason
from jackline_server.core.frozen import frozen


class InterruptKind(Enum):
    """What kind of answer an interrupt waits for."""

    UNKNOWN_OUTCOME = "unknown_outcome"
    LIMIT_REACHED = "limit_reached"
    QUESTION = "question"
    APPROVAL = "approval"
    SUPERVISION = "supervision"


@frozen
class InterruptRaised:
    """A question was opened. It expires at `expires_unix_ms`, or never if that is None.

    `call_id` is the tool call that it is about, `limit` with its leaf the bound; empty if it is about none.
    The leaf of a supervisor's question is the rule or the judge that asks.
    `raise_to` is what the answer `raise` makes of the bound, 0 where that is not offered. `schema_json` is of
    the object that the words of an answer have to be, empty where none is wanted.

    An approval is of `arguments_json`, whose SHA-256 in hexadecimal is `digest`; `on_expiry` says what
    follows if nobody decides.
    """

    interrupt_id: str
    kind: InterruptKind
    call_id: str
    options: tuple[str, ...]
    expires_unix_ms: int | None
    question: str  # content
    limit: StopReason | None = None
    limit_leaf: str = ""
    raise_to: int = 0
    schema_json: str = ""  # content
    arguments_json: str = ""  # content
    digest: str = ""
    on_expiry: OnExpiry | None = None


@frozen
class InterruptResolved:
    """A question was answered, or expired (then `option` and `principal` are empty).

    `output_json` is the output of a call whose outcome was unknown, or the arguments that an approval has put
    in place of those that were shown; then `digest` is of what the call is given with them.
    """

    interrupt_id: str
    option: str
    principal: str
    text: str  # content
    output_json: str | None  # content
    digest: str = ""

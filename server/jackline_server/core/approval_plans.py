"""When a tool call may start only if somebody lets it, as a plan says it.

Does not own what is asked (`calling.approvals`).
"""

from enum import Enum

from jackline_server.core.frozen import frozen


class OnExpiry(Enum):
    """What follows when nobody decides about a call in time."""

    REJECT = "reject"
    APPROVE = "approve"
    NEEDS_REVIEW = "needs_review"


@frozen
class ApprovalPlan:
    """`when` is a CEL expression over the call; empty is always, and one that has no value counts as true."""

    when: str
    expiry_ms: int
    on_expiry: OnExpiry

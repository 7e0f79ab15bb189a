"""What the operator lets runs have, beyond what workflows say."""

from jackline_server.core.frozen import frozen
from jackline_server.core.plan import BoundsCap

START_DELAY_MS = 30 * 24 * 3_600_000
"""How long a start may be delayed unless the operator says otherwise."""


@frozen
class RunLimits:
    """`most` is the most that one run may have, at its start and later.

    `starter_adjusts` lets those who start a run adjust its bounds. `start_delay_ms` is how long a start may
    be delayed at most. `own_approvals` are the principals that may approve calls of runs of their own; None
    is everybody.
    """

    most: BoundsCap = BoundsCap()
    starter_adjusts: bool = True
    start_delay_ms: int = START_DELAY_MS
    own_approvals: frozenset[str] | None = frozenset()

    def may_approve(self, principal: str, *, starter: str) -> bool:
        """True if a principal may let calls start of a run that the starter began."""
        return principal != starter or self.own_approvals is None or principal in self.own_approvals

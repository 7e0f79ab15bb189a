"""What the operator lets runs have, beyond what workflows say."""

from jackline_server.core.frozen import frozen
from jackline_server.core.plan import BoundsCap


@frozen
class RunLimits:
    """`most` is the most that one run may have, at its start and later.

    `starter_adjusts` lets those who start a run adjust its bounds.
    """

    most: BoundsCap = BoundsCap()
    starter_adjusts: bool = True

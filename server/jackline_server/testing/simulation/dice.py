"""Dice that fall for one purpose alone.

Owns how they are had: whatever else is drawn in a world, and whatever is added to it, they fall as they fell.
"""

import random
from collections.abc import Mapping

from jackline_server.core.plan import Plan


def dice_for(purpose: str, plans: Mapping[str, Plan]) -> random.Random:
    """The dice of that purpose in the world that has these plans."""
    return random.Random(purpose + "".join(plan.digest for plan in plans.values()))  # noqa: S311 - of a simulation

"""The children of a run, as its facts tell of them.

Owns the shapes. What starting and ending one changes is `folding.evolve_children`'s, what they are given
`calling.children`'s.
"""

from collections.abc import Mapping

from jackline_server.core.facts import Phase
from jackline_server.core.frozen import frozen


@frozen
class Child:
    """A child run. `phase` and what follows it are None, empty and 0 while it lives.

    `held_tokens` and `held_cost_micros` are what it was given; None is no cap, and nothing held.
    """

    run_id: str
    call_id: str
    step_id: str
    workflow: str
    plan_digest: str
    held_tokens: int | None
    held_cost_micros: int | None
    started_active_ms: int
    phase: Phase | None = None
    signal: str = ""
    tokens: int = 0
    cost_micros: int = 0
    active_ms: int = 0


@frozen
class Family:
    """The children of a run by their ids, in the order they were started, and those that live."""

    children: Mapping[str, Child]
    living: tuple[str, ...]

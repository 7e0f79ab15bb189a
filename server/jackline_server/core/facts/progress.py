"""Looks back, and answers held against what tools returned."""

from enum import Enum

from jackline_server.core.frozen import frozen


class Pattern(Enum):
    """How some turns have gone."""

    ADVANCING = "advancing"
    MIXED = "mixed"
    FAILING = "failing"
    LOOPING = "looping"


@frozen
class Reflected:
    """How the turns since the last look have gone. `guidance` is told to the model unless it is empty."""

    pattern: Pattern
    succeeded: int
    failed: int
    confidence_permille: int
    guidance: str  # content


@frozen
class Grounded:
    """An answer was held against what the tools had returned.

    `score_permille` is None if the judge gave no usable word; `problem` says why then. `replan` is the one
    that follows, 0 if none does. `unsupported` are the claims that the results do not bear out.
    """

    score_permille: int | None
    passed: bool
    replan: int
    unsupported: tuple[str, ...]  # content
    problem: str  # content

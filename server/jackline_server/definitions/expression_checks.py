"""What making a plan needs to know about expressions. Does not own how they are evaluated."""

from typing import Protocol


class ExpressionChecker(Protocol):
    """CEL, as far as making a plan needs it."""

    def check(self, expression: str) -> str | None:
        """Say in one line why an expression is refused, or return None."""
        ...

    def members(self, expression: str) -> frozenset[tuple[str, ...]]:
        """What an expression reads of the context, as far as it is written out: `a.b` as `("a", "b")`."""
        ...

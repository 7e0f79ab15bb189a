"""What making a plan needs to know about expressions. Does not own how they are evaluated."""

from collections.abc import Mapping
from typing import Protocol

from jackline_server.core.plan import JsonValue


class ExpressionChecker(Protocol):
    """CEL, as far as making a plan needs it."""

    def check(self, expression: str) -> str | None:
        """Say in one line why an expression is refused, or return None."""
        ...

    def is_true(self, expression: str, variables: Mapping[str, JsonValue]) -> bool:
        """Evaluate an expression that was checked. Raises ExpressionError."""
        ...

    def members(self, expression: str) -> frozenset[tuple[str, ...]]:
        """What an expression reads of the context, as far as it is written out: `a.b` as `("a", "b")`."""
        ...

    def elements(self, expression: str) -> frozenset[tuple[str, ...]]:
        """What an expression reads of each element of a list: `a.all(x, x.b)` as `("a", "*", "b")`."""
        ...

    def compared(self, expression: str) -> frozenset[tuple[tuple[str, ...], str]]:
        """The members that an expression holds against a plain text, `*` for an element, and the text."""
        ...

"""What the core needs from outside to judge values: expressions, schemas and patterns.

All are pure: the same arguments give the same answer, in bounded time. Their implementations live in
`expressions`; a caller of `decide` hands them over together.
"""

from collections.abc import Mapping
from typing import Protocol

from jackline_server.core.frozen import frozen
from jackline_server.core.plan import JsonValue


class ExpressionError(Exception):
    """An expression can't be evaluated: a missing name, a wrong type, or over its cost."""


class DataTooLarge(ExpressionError):
    """It has no value because what it looks at is too large for it."""


class ExpressionEvaluator(Protocol):
    """CEL conditions."""

    def is_true(self, expression: str, variables: Mapping[str, JsonValue]) -> bool:
        """Evaluate a condition that was checked when the plan was compiled.

        Raises:
            ExpressionError: it has no boolean value for these variables; DataTooLarge: because of their size.
        """
        ...


@frozen
class Misfit:
    """Why a value does not fit: the keys and indices that lead there, and one line that may quote it."""

    path: tuple[str | int, ...]
    problem: str


class SchemaValidator(Protocol):
    """JSON Schema."""

    def problem(self, schema_json: str, value: JsonValue) -> str | None:
        """Say in one line why `value` does not fit, or return None if it does."""
        ...

    def problems(self, schema_json: str, value: JsonValue, *, most: int) -> tuple[Misfit, ...]:
        """Say why `value` does not fit, up to `most` reasons; none if it does."""
        ...


class PatternFinder(Protocol):
    """Regular expressions that run in linear time."""

    def is_found(self, pattern: str, text: str) -> bool:
        """True if the pattern is found in the text, and if it can't be looked for."""
        ...


@frozen
class Instruments:
    """All of them together."""

    expressions: ExpressionEvaluator
    schemas: SchemaValidator
    patterns: PatternFinder

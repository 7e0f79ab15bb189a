"""Conditions in CEL, compiled once and evaluated inside a budget.

Owns the only use of the CEL library. Does not own the bound of cost (`cel_cost`) or what the variables are.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import cast

import cel

from jackline_server.core.instruments import ExpressionError
from jackline_server.core.plan import JsonValue
from jackline_server.expressions import linear_regex
from jackline_server.expressions.cel_cost import Shape, Token, TooCostly, check_cost, shape

MAX_CHARACTERS = 2_000
MAX_MACROS = 8

_NAMED_FUNCTIONS = frozenset(
    {
        "size",
        "contains",
        "startsWith",
        "endsWith",
        "matches",
        "int",
        "uint",
        "double",
        "string",
        "bool",
        "bytes",
        "type",
        "duration",
        "timestamp",
        "min",
        "max",
        "has",
        "getFullYear",
        "getMonth",
        "getDate",
        "getDayOfMonth",
        "getDayOfWeek",
        "getDayOfYear",
        "getHours",
        "getMinutes",
        "getSeconds",
        "getMilliseconds",
    }
)
_FAILURES = (ValueError, TypeError, RuntimeError, LookupError, ArithmeticError)
"""What the library raises for a bad expression or for variables that it can't be evaluated over."""


class _Compiled:
    """A program with what bounds it. `problem` says why it is refused although it compiles."""

    __slots__ = ("names", "problem", "program", "shape")

    def __init__(self, expression: str) -> None:
        if len(expression) > MAX_CHARACTERS:
            raise ExpressionError(f"the expression is longer than {MAX_CHARACTERS} characters")
        self.shape: Shape = shape(expression)
        try:
            self.program: cel.Program = cel.compile(expression)
        except _FAILURES as error:
            raise ExpressionError(_first_line(error)) from None
        self.names = frozenset(self.program.variables())
        self.problem = _problem(self.shape, self.program)


class CelExpressions:
    """Implements the core's ExpressionEvaluator. Safe to share between threads."""

    def __init__(self, *, cache_size: int = 512) -> None:
        self._compiled = lru_cache(maxsize=cache_size)(_Compiled)

    def is_true(self, expression: str, variables: Mapping[str, JsonValue]) -> bool:
        """Evaluate a condition; the work is bounded before it starts.

        Raises:
            ExpressionError: no boolean for these variables, or the bound of its cost is over the budget.
        """
        compiled = self._compiled(expression)
        if compiled.problem:
            raise ExpressionError(compiled.problem)
        known = {name: value for name, value in variables.items() if name in compiled.names}
        try:
            check_cost(compiled.shape, known)
            answer = cast("object", compiled.program.execute(dict(known)))
        except TooCostly as error:
            raise ExpressionError(str(error)) from None
        except _FAILURES as error:
            raise ExpressionError(_first_line(error)) from None
        if not isinstance(answer, bool):
            raise ExpressionError("the expression gives no boolean")
        return answer

    def check(self, expression: str) -> str | None:
        """Say in one line why an expression is refused, or return None. For use when a plan is made."""
        try:
            return self._compiled(expression).problem
        except ExpressionError as error:
            return str(error)

    def variables(self, expression: str) -> frozenset[str]:
        """The names of the context that an expression reads; empty if it does not compile."""
        try:
            compiled = self._compiled(expression)
        except ExpressionError:
            return frozenset()
        return compiled.names - compiled.shape.bound_names


def _problem(found: Shape, program: cel.Program) -> str | None:
    if found.nested:
        return "macros (all, exists, exists_one, map, filter) can't be nested"
    if len(found.macros) > MAX_MACROS:
        return f"the expression has more than {MAX_MACROS} macros"
    if unknown := _unknown_functions(program):
        return f"there is no function `{unknown[0][:64]}`"
    return _regex_problem(found)


def _unknown_functions(program: cel.Program) -> list[str]:
    return [
        name
        for name in program.functions()
        if name[:1] not in ("_", "!", "@", "-") and name not in _NAMED_FUNCTIONS
    ]


def _regex_problem(found: Shape) -> str | None:
    """`matches` takes a literal pattern, so that its size is known when the plan is made."""
    for index, token in enumerate(found.tokens):
        if token.text != "matches":
            continue
        match found.tokens[index + 1 : index + 4]:
            case (Token(text="("), Token(kind="string", text=literal), Token(text=")")):
                pattern = cast("object", cel.evaluate(literal))
                if not isinstance(pattern, str) or not linear_regex.is_accepted(pattern):
                    return "the pattern of `matches` is too large or not supported"
            case _:
                return "`matches` takes one pattern, written as a text"
    return None


def _first_line(error: Exception) -> str:
    line = str(error).split("\n", 1)[0]
    return (line.rsplit("ERROR: ", 1)[-1] or type(error).__name__)[:200]

"""Conditions in CEL, compiled once and evaluated inside a budget.

Owns the only use of the CEL library. Does not own the bound of cost (`cel_cost`) or what the variables are.
"""

from collections.abc import Mapping
from typing import cast

from jackline_server.core.instruments import DataTooLarge, ExpressionError
from jackline_server.core.plan import JsonValue
from jackline_server.expressions import linear_regex
from jackline_server.expressions.cel_cost import Shape, Token, TooCostly, check_cost, shape
from jackline_server.expressions.cel_library import cel
from jackline_server.expressions.cel_names import comparisons, element_paths, member_paths
from jackline_server.expressions.cel_reading import said_plainly, slip
from jackline_server.expressions.sized_cache import SizedCache

MAX_CHARACTERS = 2_000
MAX_MACROS = 8
MAX_PATTERNS = 2 * linear_regex.MAX_SIZE
CACHE_BYTES = 16 * 1024 * 1024

_BYTES_AN_ENTRY, _BYTES_A_CHARACTER = 8 * 1024, 256

_LONGEST_KEY = 64
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
        if problem := _costly_problem(self.shape):
            raise ExpressionError(problem)
        try:
            self.program: cel.Program = cel.compile(expression)
        except _FAILURES as error:
            raise ExpressionError(slip(self.shape.tokens) or _said(error)) from None
        self.names = frozenset(self.program.variables())
        self.problem = _problem(self.shape, self.program)


class CelExpressions:
    """Implements the core's ExpressionEvaluator. Safe to share between threads."""

    def __init__(self, *, cache_size: int = 512, cache_bytes: int = CACHE_BYTES) -> None:
        self._compiled = SizedCache(_weighed, entries=cache_size, most_bytes=cache_bytes)

    def is_true(self, expression: str, variables: Mapping[str, JsonValue]) -> bool:
        """Evaluate a condition; the work is bounded before it starts.

        Raises:
            ExpressionError: no boolean for these variables; DataTooLarge: its cost may be over the budget.
        """
        compiled = self._compiled(expression)
        if compiled.problem:
            raise ExpressionError(compiled.problem)
        known = {name: value for name, value in variables.items() if name in compiled.names}
        try:
            check_cost(compiled.shape, known)
            answer = cast("object", compiled.program.execute(dict(known)))
        except TooCostly as error:
            raise DataTooLarge(str(error)) from None
        except _FAILURES as error:
            raise ExpressionError(_said(error)) from None
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

    def members(self, expression: str) -> frozenset[tuple[str, ...]]:
        """What an expression reads of the context, as far as it is written out: `a.b` as `("a", "b")`."""
        try:
            compiled = self._compiled(expression)
        except ExpressionError:
            return frozenset()
        names = compiled.names - compiled.shape.bound_names
        return frozenset(path for path in member_paths(compiled.shape.tokens) if path[0] in names)

    def elements(self, expression: str) -> frozenset[tuple[str, ...]]:
        """What an expression reads of each element of a list: `a.all(x, x.b)` as `("a", "*", "b")`."""
        try:
            return frozenset(element_paths(self._compiled(expression).shape))
        except ExpressionError:
            return frozenset()

    def compared(self, expression: str) -> frozenset[tuple[tuple[str, ...], str]]:
        """The members that an expression holds against a plain text, `*` for an element, and the text."""
        try:
            return frozenset(comparisons(self._compiled(expression).shape))
        except ExpressionError:
            return frozenset()


def _weighed(expression: str) -> tuple[_Compiled, int]:
    return _Compiled(expression), _BYTES_AN_ENTRY + _BYTES_A_CHARACTER * len(expression)


def _costly_problem(found: Shape) -> str | None:
    """What would make compiling, not only evaluating, take long."""
    if found.nested:
        return "macros (all, exists, exists_one, map, filter) can't be nested"
    if len(found.macros) > MAX_MACROS:
        return f"the expression has more than {MAX_MACROS} macros"
    return None


def _problem(found: Shape, program: cel.Program) -> str | None:
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
    total = 0
    for index, token in enumerate(found.tokens):
        if token.text != "matches":
            continue
        match found.tokens[index + 1 : index + 4]:
            case (Token(text="("), Token(kind="string", text=literal), Token(text=")")):
                pattern = cast("object", cel.evaluate(literal))
                size = linear_regex.size(pattern) if isinstance(pattern, str) else None
                total += size or 0
                if size is None or total > MAX_PATTERNS:
                    return "the pattern of `matches` is too large or not supported"
            case _:
                return "`matches` takes one pattern, written as a text"
    return None


def _said(error: Exception) -> str:
    if isinstance(error, KeyError) and error.args:
        return f"there is no key `{str(error.args[0])[:_LONGEST_KEY]}`"
    return said_plainly(str(error)) or type(error).__name__

"""What a CEL expression can cost at most: read from its tokens, before anything is evaluated.

Owns the refusal of nested macros and the upper bound of an evaluation's work. Does not own evaluation. The
library has no cost limit of its own and can't be interrupted, so the bound has to hold before it starts.

The bound: outside of macros each token may look at all data once. A macro over a list of `longest` elements
looks at the data once per token of its body, and once per element at every other variable that its body
names. `map` and `filter` rebuild their result for every element.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jackline_server.core.frozen import frozen
from jackline_server.core.plan import JsonValue

MAX_NODES = 50_000
MAX_DEPTH = 100
MAX_LIST = 1_000
BUDGET = 1_000_000
"""Units of about 40 ns."""

_REGEX_UNITS = 4_000
_CHARACTERS_A_UNIT = 16
_MACROS = frozenset({"all", "exists", "exists_one", "existsOne", "map", "filter"})
_BUILDERS = frozenset({"map", "filter"})

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n\f]+|//[^\n]*)
    |(?P<string>[rRbB]{0,2}(?:\"{3}.*?\"{3}|'{3}.*?'{3}|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<number>[0-9][0-9A-Za-z_.]*)
    |(?P<sign>&&|\|\||[<>=!]=|.)""",
    re.VERBOSE | re.DOTALL,
)


class TooCostly(Exception):
    """The data is too large for this expression; the message says in which way."""


@dataclass(frozen=True, slots=True)
class Token:
    """A lexeme: its kind is the name of the group that matched."""

    kind: str
    text: str


@frozen
class Macro:
    """A call of a macro. `body` are the tokens between its parentheses, `begin` is where its dot stands."""

    begin: int
    name: str
    variable: str
    body: tuple[Token, ...]


@frozen
class Shape:
    """An expression as far as cost goes."""

    tokens: tuple[Token, ...]
    macros: tuple[Macro, ...]
    nested: bool

    @property
    def bound_names(self) -> frozenset[str]:
        """The loop variables of its macros."""
        return frozenset(macro.variable for macro in self.macros)


@dataclass(slots=True)
class _Size:
    units: int = 0
    longest: int = 0


def shape(expression: str) -> Shape:
    """Split an expression into tokens and macros. Never fails: syntax is the compiler's business."""
    tokens = tuple(
        Token(str(found.lastgroup), found.group())
        for found in _TOKEN.finditer(expression)
        if found.lastgroup != "space"
    )
    macros: list[Macro] = []
    nested = False
    covered = -1
    for start in _macro_calls(tokens):
        if nested:
            break  # refused already; deep nests would make this quadratic
        end = _closing(tokens, start + 2)
        nested = nested or start < covered
        covered = max(covered, end)
        body = tokens[start + 3 : end]
        variable = body[0].text if body else ""
        macros.append(Macro(begin=start, name=tokens[start + 1].text, variable=variable, body=body))
    return Shape(tokens=tokens, macros=tuple(macros), nested=nested)


def check_cost(expression: Shape, variables: Mapping[str, JsonValue]) -> None:
    """Pass if evaluating the expression over these variables stays inside the budget.

    Raises:
        TooCostly: it might not.
    """
    sizes = {name: _measure(value) for name, value in variables.items()}
    longest = max((size.longest for size in sizes.values()), default=0)
    if expression.macros and longest > MAX_LIST:
        raise TooCostly(f"a list or object has {longest} elements, more than {MAX_LIST}")
    longest = max(longest, len(expression.tokens))
    data = sum(size.units for size in sizes.values()) + sum(_literal(token) for token in expression.tokens)
    cost = len(expression.tokens) * (data // 16 + 1) + _regexes(expression.tokens)
    for macro in expression.macros:
        named = {token.text for token in macro.body if token.kind == "name"} - {macro.variable}
        others = sum(size.units for name, size in sizes.items() if name in named)
        looked = len(macro.body) * (data + longest * others) + longest * _regexes(macro.body)
        if macro.name in _BUILDERS:
            looked *= longest
            data += looked
        cost += looked
    if cost > BUDGET:
        raise TooCostly("it could take too long over data of this size")


def _macro_calls(tokens: Sequence[Token]) -> list[int]:
    return [
        index
        for index in range(len(tokens) - 2)
        if tokens[index].text == "." and tokens[index + 1].text in _MACROS and tokens[index + 2].text == "("
    ]


def _closing(tokens: Sequence[Token], opening: int) -> int:
    depth = 0
    for index in range(opening, len(tokens)):
        if tokens[index].text in ("(", "[", "{"):
            depth += 1
        elif tokens[index].text in (")", "]", "}"):
            depth -= 1
            if depth == 0:
                return index
    return len(tokens)


def _regexes(tokens: Sequence[Token]) -> int:
    return _REGEX_UNITS * sum(token.text == "matches" for token in tokens)


def _literal(token: Token) -> int:
    return 1 + len(token.text) // _CHARACTERS_A_UNIT


def _measure(value: JsonValue) -> _Size:
    size = _Size()
    pending: list[tuple[JsonValue, int]] = [(value, 0)]
    while pending:
        item, depth = pending.pop()
        size.units += 1
        if depth > MAX_DEPTH or size.units + len(pending) > MAX_NODES:
            raise TooCostly(f"the data is nested deeper than {MAX_DEPTH} or has more than {MAX_NODES} values")
        match item:
            case str():
                size.units += len(item) // _CHARACTERS_A_UNIT
            case dict():
                size.longest = max(size.longest, len(item))
                size.units += sum(1 + len(key) // _CHARACTERS_A_UNIT for key in item)
                pending.extend((child, depth + 1) for child in item.values())
            case list():
                size.longest = max(size.longest, len(item))
                pending.extend((child, depth + 1) for child in item)
            case _:
                pass
    return size

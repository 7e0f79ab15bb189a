"""Stop conditions: a tree of `any`, `all` and `not` over leaves, and what the tree makes of its leaves.

Owns the shapes, how a tree is judged from what its leaves hold, and the name of the leaf that decided. Does
not own what a leaf looks at (`stopping`), nor how a tree is written in a file (`definitions`).

A leaf may be undecided: it has to be asked for. A tree that its other leaves decide asks nobody.
"""

from collections.abc import Callable, Iterator
from typing import Union, assert_never

from jackline_server.core.frozen import frozen

MAX_DEPTH = 8
MAX_NODES = 64
MAX_EXPRESSIONS = 8
MAX_FUNCTIONS = 4
"""Caps of one tree: an expression may take some 40 ms of the server, a function its whole time."""

ROOT = "stop_when"


@frozen
class AnyOf:
    """True if one of them is."""

    conditions: tuple["StopCondition", ...]


@frozen
class AllOf:
    """True if all of them are."""

    conditions: tuple["StopCondition", ...]


@frozen
class Not:
    """True if it is false."""

    condition: "StopCondition"


@frozen
class Iterations:
    """So many turns of this visit."""

    gte: int


@frozen
class Tokens:
    """So many tokens of this visit, as they were settled."""

    gte: int


@frozen
class Cost:
    """So much money for this visit, in millionths of a US dollar."""

    gte_micros: int


@frozen
class Elapsed:
    """So much active time since the visit began."""

    gte_ms: int


@frozen
class NoToolCalls:
    """The last reply asked for no tool, and the step went on all the same."""


@frozen
class ToolCalled:
    """A call of the tool in this visit ended: well, not well, or (None) either way."""

    name: str
    success: bool | None


@frozen
class TextMention:
    """The last reply has this text. `case`: upper and lower case count."""

    text: str
    case: bool


@frozen
class OutcomeIs:
    """The last reply, read as an answer, is sound and has this outcome."""

    outcome: str


@frozen
class Expression:
    """A CEL expression over the facts of the visit."""

    cel: str


@frozen
class AskFunction:
    """A Python function of the operator's roots, as `package.module:name`, asked for at most so long."""

    function: str
    timeout_ms: int


@frozen
class Confidence:
    """At least so much confidence in the visit's progress, in thousandths."""

    gte_permille: int


Leaf = (
    Iterations
    | Tokens
    | Cost
    | Elapsed
    | Confidence
    | NoToolCalls
    | ToolCalled
    | TextMention
    | OutcomeIs
    | Expression
    | AskFunction
)
StopCondition = Union[AnyOf, AllOf, Not, Leaf]  # noqa: UP007 - a name that its own members refer to


@frozen
class Verdict:
    """What a tree comes to. `value` is None where it hangs on a leaf that has to be asked.

    `leaf` and `path` are those of the leaf that decided, or of the first one to ask.
    """

    value: bool | None
    leaf: Leaf
    path: str


Holds = Callable[[Leaf, str], bool | None]
"""Whether the leaf at this path holds; None if nobody knows yet."""


def judge(condition: StopCondition, holds: Holds, *, path: str = ROOT) -> Verdict:
    """Judge a tree.

    Where one leaf is enough, the first such in the order of the file decides; where all have to agree, the
    last of them is the one that is named.
    """
    match condition:
        case AnyOf():
            return _combined(condition.conditions, holds, f"{path}.any", deciding=True)
        case AllOf():
            return _combined(condition.conditions, holds, f"{path}.all", deciding=False)
        case Not():
            found = judge(condition.condition, holds, path=f"{path}.not")
            value = None if found.value is None else not found.value
            return Verdict(value=value, leaf=found.leaf, path=found.path)
        case _:
            here = f"{path}.{words(condition)}"
            return Verdict(value=holds(condition, here), leaf=condition, path=here)


def _combined(conditions: tuple[StopCondition, ...], holds: Holds, path: str, *, deciding: bool) -> Verdict:
    """The first that decides; else the first that is undecided; else the last."""
    open_one: Verdict | None = None
    found: Verdict | None = None
    for index, condition in enumerate(conditions):
        found = judge(condition, holds, path=f"{path}[{index}]")
        if found.value is deciding:
            return found
        if found.value is None and open_one is None:
            open_one = found
    last = open_one or found
    if last is None:
        raise ValueError(f"{path} is empty")
    return last


def words(leaf: Leaf) -> str:  # noqa: C901, PLR0911, PLR0912 - one case a leaf
    """A leaf as the exit of a step names it: names and numbers of the plan, no text."""
    match leaf:
        case Iterations():
            return f"iterations({leaf.gte})"
        case Tokens():
            return f"tokens({leaf.gte})"
        case Cost():
            return f"cost_usd({_decimal(leaf.gte_micros, 6)})"
        case Elapsed():
            return f"elapsed({_decimal(leaf.gte_ms, 3)}s)"
        case Confidence():
            return f"confidence({_decimal(leaf.gte_permille, 3)})"
        case NoToolCalls():
            return "no_tool_calls"
        case ToolCalled():
            return f"tool_called({leaf.name})"
        case TextMention():
            return "text_mention"
        case OutcomeIs():
            return f"outcome_is({leaf.outcome})"
        case Expression():
            return "expression"
        case AskFunction():
            return f"function({leaf.function})"
        case _:
            assert_never(leaf)


def _decimal(amount: int, places: int) -> str:
    """A whole number of small parts as a decimal without zeros at its end."""
    whole, part = divmod(amount, 10**places)
    digits = f"{part:0{places}d}".rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)


def nodes(condition: StopCondition, *, depth: int = 1) -> Iterator[tuple[StopCondition, int]]:
    """Every node of a tree with its depth, from 1."""
    yield condition, depth
    match condition:
        case AnyOf() | AllOf():
            for inner in condition.conditions:
                yield from nodes(inner, depth=depth + 1)
        case Not():
            yield from nodes(condition.condition, depth=depth + 1)
        case _:
            return


def oversize(condition: StopCondition) -> str:
    """Which cap a tree is over, in words; empty if none."""
    expressions = functions = 0
    for count, (node, depth) in enumerate(nodes(condition), start=1):
        expressions += isinstance(node, Expression)
        functions += isinstance(node, AskFunction)
        if depth > MAX_DEPTH:
            return f"it is nested deeper than {MAX_DEPTH}"
        if count > MAX_NODES:
            return f"it has more than {MAX_NODES} parts"
    if expressions > MAX_EXPRESSIONS:
        return f"it has more than {MAX_EXPRESSIONS} expressions"
    return f"it has more than {MAX_FUNCTIONS} functions" if functions > MAX_FUNCTIONS else ""

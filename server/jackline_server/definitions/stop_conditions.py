"""From `stop_when` of a file to the tree that a plan holds, and from a tree back to the places of the file.

Owns that translation. Does not own what may be wrong with a condition (`check_stop`).
"""

from collections.abc import Iterator

from jackline_server.core.conditions import (
    AllOf,
    AnyOf,
    AskFunction,
    Confidence,
    Cost,
    Elapsed,
    Expression,
    Iterations,
    Leaf,
    Not,
    NoToolCalls,
    OutcomeIs,
    StopCondition,
    TextMention,
    Tokens,
    ToolCalled,
)
from jackline_server.definitions import defaults
from jackline_server.definitions.shapes import StopFunctionShape, StopWhenShape
from jackline_server.definitions.yaml_nodes import Path


def build(shape: StopWhenShape) -> StopCondition:
    """The tree. Its depth is bounded by that of a file."""
    if shape.any_ is not None:
        return AnyOf(conditions=tuple(build(one) for one in shape.any_))
    if shape.all_ is not None:
        return AllOf(conditions=tuple(build(one) for one in shape.all_))
    if shape.not_ is not None:
        return Not(condition=build(shape.not_))
    return _measure(shape) or _leaf(shape)


def _measure(shape: StopWhenShape) -> Leaf | None:
    if shape.iterations is not None:
        return Iterations(gte=shape.iterations.gte)
    if shape.tokens is not None:
        return Tokens(gte=shape.tokens.gte)
    if shape.cost_usd is not None:
        return Cost(gte_micros=shape.cost_usd.gte)
    if shape.confidence is not None:
        return Confidence(gte_permille=shape.confidence.gte)
    return None if shape.elapsed is None else Elapsed(gte_ms=shape.elapsed.gte)


def _leaf(shape: StopWhenShape) -> Leaf:
    if shape.tool_called is not None:
        return ToolCalled(name=shape.tool_called.name, success=shape.tool_called.success)
    if shape.text_mention is not None:
        return TextMention(text=shape.text_mention.text, case=shape.text_mention.case)
    if shape.outcome_is is not None:
        return OutcomeIs(outcome=shape.outcome_is)
    if shape.expression is not None:
        return Expression(cel=shape.expression)
    return NoToolCalls() if shape.function is None else _function(shape.function)


def _function(written: str | StopFunctionShape) -> AskFunction:
    default = defaults.STOP_FUNCTION_TIMEOUT_MS
    if isinstance(written, str):
        return AskFunction(function=written, timeout_ms=default)
    return AskFunction(function=written.name, timeout_ms=written.timeout or default)


def placed(condition: StopCondition, path: Path) -> Iterator[tuple[StopCondition, Path]]:
    """Every node of a tree that stands at this path, with the path of its own key in the file."""
    key = (*path, _key(condition))
    yield condition, key
    match condition:
        case AnyOf() | AllOf():
            for index, inner in enumerate(condition.conditions):
                yield from placed(inner, (*key, index))
        case Not():
            yield from placed(condition.condition, key)
        case _:
            return


_KEYS: dict[type[StopCondition], str] = {
    AnyOf: "any",
    AllOf: "all",
    Not: "not",
    Iterations: "iterations",
    Tokens: "tokens",
    Cost: "cost_usd",
    Elapsed: "elapsed",
    Confidence: "confidence",
    NoToolCalls: "no_tool_calls",
    ToolCalled: "tool_called",
    TextMention: "text_mention",
    OutcomeIs: "outcome_is",
    Expression: "expression",
    AskFunction: "function",
}


def _key(condition: StopCondition) -> str:
    return _KEYS[type(condition)]

"""The tree of a stop condition, in protobuf.

A stored tree that is over the caps of `core.conditions` is no tree of ours: nothing that deep is walked.
"""

from typing import assert_never

from jackline.v1 import plan_pb2
from jackline_server.core.conditions import (
    MAX_DEPTH,
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
    oversize,
)
from jackline_server.runtime.ports.codec import UnknownFact
from jackline_server.runtime.ports.store_errors import StoreDamaged


def set_condition(into: plan_pb2.StopCondition, condition: StopCondition) -> None:
    """Write a tree."""
    match condition:
        case AnyOf():
            _set_all(into.any_of, condition.conditions)
        case AllOf():
            _set_all(into.all_of, condition.conditions)
        case Not():
            set_condition(into.negated, condition.condition)
            into.negated.SetInParent()
        case _:
            _set_leaf(into, condition)


def _set_all(into: plan_pb2.StopConditions, conditions: tuple[StopCondition, ...]) -> None:
    for condition in conditions:
        set_condition(into.conditions.add(), condition)


def _set_leaf(into: plan_pb2.StopCondition, leaf: Leaf) -> None:  # noqa: C901, PLR0912 - one case a leaf
    match leaf:
        case Iterations():
            into.iterations = leaf.gte
        case Tokens():
            into.tokens = leaf.gte
        case Cost():
            into.cost_micros = leaf.gte_micros
        case Elapsed():
            into.elapsed_ms = leaf.gte_ms
        case Confidence():
            into.confidence_permille = leaf.gte_permille
        case NoToolCalls():
            into.no_tool_calls = True
        case ToolCalled():
            called = plan_pb2.ToolCalledCondition(name=leaf.name, success=leaf.success)
            into.tool_called.CopyFrom(called)
        case TextMention():
            mention = plan_pb2.TextMentionCondition(text=leaf.text, case_matters=leaf.case)
            into.text_mention.CopyFrom(mention)
        case OutcomeIs():
            into.outcome_is = leaf.outcome
        case Expression():
            into.expression = leaf.cel
        case AskFunction():
            asked = plan_pb2.FunctionCondition(function=leaf.function, timeout_ms=leaf.timeout_ms)
            into.function.CopyFrom(asked)
        case _:
            assert_never(leaf)


def read_condition(message: plan_pb2.StopCondition) -> StopCondition:
    """A tree back.

    Raises:
        UnknownFact: a newer version wrote it.
        StoreDamaged: it is over the caps.
    """
    found = _read(message, MAX_DEPTH)
    if problem := oversize(found):
        raise StoreDamaged(f"a stop condition can't be read: {problem}")
    return found


def _read(message: plan_pb2.StopCondition, levels: int) -> StopCondition:  # noqa: C901, PLR0911, PLR0912 - one case a node
    if levels == 0:
        raise StoreDamaged("a stop condition is nested too deep")
    match message.WhichOneof("condition"):
        case "any_of":
            return AnyOf(conditions=_read_all(message.any_of, levels))
        case "all_of":
            return AllOf(conditions=_read_all(message.all_of, levels))
        case "negated":
            return Not(condition=_read(message.negated, levels - 1))
        case "iterations":
            return Iterations(gte=message.iterations)
        case "tokens":
            return Tokens(gte=message.tokens)
        case "cost_micros":
            return Cost(gte_micros=message.cost_micros)
        case "elapsed_ms":
            return Elapsed(gte_ms=message.elapsed_ms)
        case "confidence_permille":
            return Confidence(gte_permille=message.confidence_permille)
        case "no_tool_calls":
            return NoToolCalls()
        case "tool_called":
            called = message.tool_called
            return ToolCalled(
                name=called.name, success=called.success if called.HasField("success") else None
            )
        case "text_mention":
            return TextMention(text=message.text_mention.text, case=message.text_mention.case_matters)
        case "outcome_is":
            return OutcomeIs(outcome=message.outcome_is)
        case "expression":
            return Expression(cel=message.expression)
        case "function":
            asked = message.function
            return AskFunction(function=asked.function, timeout_ms=asked.timeout_ms)
        case None:
            raise UnknownFact("a stop condition is of a kind of a newer version")


def _read_all(message: plan_pb2.StopConditions, levels: int) -> tuple[StopCondition, ...]:
    if not message.conditions:
        raise StoreDamaged("a stop condition has an empty list")
    return tuple(_read(inner, levels - 1) for inner in message.conditions)

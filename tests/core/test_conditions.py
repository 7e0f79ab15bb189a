"""The logic of stop conditions: what a tree comes to, which leaf decides, and whom nobody has to ask."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackline_server.core import conditions
from jackline_server.core.conditions import (
    AllOf,
    AnyOf,
    AskFunction,
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
    Verdict,
)

YES, NO, OPEN = Iterations(gte=1), Iterations(gte=0), Iterations(gte=2)
VALUES = {1: True, 0: False, 2: None}


def holds(leaf: Leaf, path: str) -> bool | None:
    del path
    assert isinstance(leaf, Iterations)
    return VALUES[leaf.gte]


def judged(tree: StopCondition) -> Verdict:
    return conditions.judge(tree, holds)


def any_of(*inner: StopCondition) -> AnyOf:
    return AnyOf(conditions=inner)


def all_of(*inner: StopCondition) -> AllOf:
    return AllOf(conditions=inner)


def trees() -> st.SearchStrategy[StopCondition]:
    leaf: st.SearchStrategy[StopCondition] = st.sampled_from([YES, NO, OPEN])
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3).map(lambda found: any_of(*found)),
            st.lists(inner, min_size=1, max_size=3).map(lambda found: all_of(*found)),
            st.builds(Not, condition=inner),
        ),
        max_leaves=8,
    )


def values(tree: StopCondition) -> set[bool]:
    """What a tree can come to, whatever each open leaf turns out to be."""
    match tree:
        case AnyOf():
            parts = [values(one) for one in tree.conditions]
            yes, no = any(True in part for part in parts), all(False in part for part in parts)
            return ({True} if yes else set[bool]()) | ({False} if no else set[bool]())
        case AllOf():
            return {not value for value in values(any_of(*(Not(condition=one) for one in tree.conditions)))}
        case Not():
            return {not value for value in values(tree.condition)}
        case _:
            known = holds(tree, "")
            return {True, False} if known is None else {known}


@given(tree=trees())
def test_a_tree_is_decided_as_soon_as_no_open_leaf_could_change_it(tree: StopCondition) -> None:
    found, possible = judged(tree).value, values(tree)
    assert possible == ({True, False} if found is None else {found})


@given(tree=trees())
def test_the_leaf_that_is_named_is_the_one_that_decides_or_has_to_be_asked(tree: StopCondition) -> None:
    found = judged(tree)
    assert isinstance(found.leaf, Iterations)
    value = VALUES[found.leaf.gte]
    negations = found.path.count(".not")
    assert value == (found.value if found.value is None or negations % 2 == 0 else not found.value)


@pytest.mark.parametrize(
    ("tree", "value", "path"),
    [
        (YES, True, "stop_when.iterations(1)"),
        (any_of(NO, YES, YES), True, "stop_when.any[1].iterations(1)"),
        (all_of(YES, YES), True, "stop_when.all[1].iterations(1)"),
        (any_of(all_of(YES, YES), YES), True, "stop_when.any[0].all[1].iterations(1)"),
        (all_of(YES, NO, NO), False, "stop_when.all[1].iterations(0)"),
        (Not(condition=NO), True, "stop_when.not.iterations(0)"),
        (Not(condition=any_of(NO, NO)), True, "stop_when.not.any[1].iterations(0)"),
        (any_of(OPEN, YES), True, "stop_when.any[1].iterations(1)"),
        (all_of(OPEN, NO), False, "stop_when.all[1].iterations(0)"),
        (any_of(NO, OPEN, OPEN), None, "stop_when.any[1].iterations(2)"),
        (all_of(YES, Not(condition=OPEN)), None, "stop_when.all[1].not.iterations(2)"),
    ],
)
def test_the_name_of_the_leaf_is_its_way_through_the_file(
    tree: StopCondition, value: bool | None, path: str
) -> None:
    found = judged(tree)
    assert (found.value, found.path) == (value, path)


@pytest.mark.parametrize(
    ("leaf", "words"),
    [
        (Iterations(gte=6), "iterations(6)"),
        (Tokens(gte=1_000), "tokens(1000)"),
        (Cost(gte_micros=500_000), "cost_usd(0.5)"),
        (Cost(gte_micros=2_000_000), "cost_usd(2)"),
        (Cost(gte_micros=1), "cost_usd(0.000001)"),
        (Elapsed(gte_ms=90_000), "elapsed(90s)"),
        (Elapsed(gte_ms=1_500), "elapsed(1.5s)"),
        (NoToolCalls(), "no_tool_calls"),
        (ToolCalled(name="issue_refund", success=True), "tool_called(issue_refund)"),
        (TextMention(text="whatever", case=True), "text_mention"),
        (OutcomeIs(outcome="resolved"), "outcome_is(resolved)"),
        (Expression(cel="true"), "expression"),
        (AskFunction(function="shop.checks:enough", timeout_ms=1), "function(shop.checks:enough)"),
    ],
)
def test_each_leaf_has_its_words(leaf: Leaf, words: str) -> None:
    assert conditions.words(leaf) == words


def test_a_tree_is_held_to_each_of_its_caps() -> None:
    deep: StopCondition = YES
    for _ in range(conditions.MAX_DEPTH - 1):
        deep = Not(condition=deep)
    cel, function = Expression(cel="true"), AskFunction(function="a:b", timeout_ms=1)
    fitting = [
        deep,
        any_of(*[YES] * (conditions.MAX_NODES - 1)),
        any_of(*[cel] * conditions.MAX_EXPRESSIONS, *[function] * conditions.MAX_FUNCTIONS),
    ]
    over = [
        Not(condition=deep),
        any_of(*[YES] * conditions.MAX_NODES),
        any_of(*[cel] * (conditions.MAX_EXPRESSIONS + 1)),
        any_of(*[function] * (conditions.MAX_FUNCTIONS + 1)),
    ]
    assert [conditions.oversize(tree) for tree in fitting] == ["", "", ""]
    assert all(conditions.oversize(tree) for tree in over)

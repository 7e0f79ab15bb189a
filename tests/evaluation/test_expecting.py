"""Each expectation passes on what it expects, and says what is otherwise."""

from typing import Any

import pytest

from jackline_server.commands.evaluation.expecting import misses, needs_content, wanted_state
from jackline_server.commands.evaluation.shapes import ExpectShape
from jackline_server.commands.evaluation.sight import Sight
from jackline_server.definitions.yaml_nodes import plain
from jackline_server.definitions.yaml_text import parse
from jackline_server.expressions.cel import CelExpressions
from tests.evaluation.sights import SEEN, change

EXPRESSIONS = CelExpressions()


def expectation(text: str) -> ExpectShape:
    root = parse(text).root
    assert root is not None
    return ExpectShape.model_validate(plain(root))


def missed(text: str, seen: Sight = SEEN) -> list[str]:
    return [one.what for one in misses(expectation(text), seen, expressions=EXPRESSIONS)]


PASSING = [
    "state: succeeded",
    "exit: claim",
    "steps: {handle: claim, confirm: pay}",
    "outcome: {reply: It comes Today., amount: 25.0}",
    "outcome: {items: [1, 2], open: true}",
    "that: result.amount == 25 && used.cost_usd < 0.01 && used.seconds == 1.5",
    "that: calls.exists(one, one.tool == 'pay' && one.arguments.amount == 25)",
    "that: state == 'succeeded' && exit == 'claim' && steps.handle == 'claim' && stop_reason == 'outcome'",
    "that: input.parcel == 'P-1'",
    "text_mentions: [today, COMES]",
    "tools: {called: [{name: lookup}]}",
    "tools: {called: [{name: lookup, times: 2}]}",
    "tools: {called: [{name: lookup, times: 1, with: {parcel: P-2}}]}",
    "tools: {called: [{name: lookup, with: {deep: {b: 2}}}]}",
    "tools: {called: [{name: lookup, at_least: 2, at_most: 2}]}",
    "tools: {called: [{name: refund, at_most: 1}]}",
    "tools: {called: [{name: refund, times: 0}]}",
    "tools: {not_called: [refund]}",
    "tools: {order: [lookup, pay]}",
    "used: {tokens: 1000, cost_usd: 0.002, iterations: 3, tool_calls: 3, seconds: 2}",
]
FAILING: list[tuple[str, str]] = [
    ("state: failed", "state"),
    ("exit: other", "exit"),
    ("steps: {handle: answered}", "steps.handle"),
    ("steps: {nowhere: default}", "steps.nowhere"),
    ("outcome: {reply: It comes}", "outcome.reply"),
    ("outcome: {price: 1}", "outcome.price"),
    ("outcome: {items: [1]}", "outcome.items"),
    ("outcome: {items: [1, 3]}", "outcome.items[1]"),
    ("outcome: {open: 1}", "outcome.open"),
    ("outcome: It comes Today.", "outcome"),
    ("that: result.amount > 25", "that"),
    ("that: result.nothing > 25", "that"),
    ("that: exit", "that"),
    ("text_mentions: [tomorrow]", "text_mentions"),
    ("tools: {called: [{name: refund}]}", "tools.called refund"),
    ("tools: {called: [{name: lookup, times: 1}]}", "tools.called lookup"),
    ("tools: {called: [{name: lookup, at_most: 1}]}", "tools.called lookup"),
    ("tools: {called: [{name: lookup, at_least: 3}]}", "tools.called lookup"),
    ("tools: {called: [{name: lookup, with: {parcel: P-3}}]}", "tools.called lookup"),
    ("tools: {not_called: [pay]}", "tools.not_called pay"),
    ("tools: {order: [pay, lookup]}", "tools.order"),
    ("used: {tokens: 999}", "used.tokens"),
    ("used: {cost_usd: 0.001999}", "used.cost_usd"),
    ("used: {iterations: 2}", "used.iterations"),
    ("used: {tool_calls: 2}", "used.tool_calls"),
    ("used: {seconds: 1}", "used.seconds"),
]


@pytest.mark.parametrize("text", PASSING)
def test_what_is_as_expected_is_no_miss(text: str) -> None:
    assert missed(text) == []


@pytest.mark.parametrize(("text", "what"), FAILING)
def test_what_is_otherwise_is_said(text: str, what: str) -> None:
    both = misses(expectation(text), SEEN, expressions=EXPRESSIONS)
    assert [one.what for one in both] == [what]
    assert all(one.expected and one.actual for one in both)


def test_every_key_of_an_expectation_passes_and_fails_here() -> None:
    def keys(texts: list[str]) -> set[str]:
        return {key for text in texts for key in expectation(text).model_fields_set}

    every = set(ExpectShape.model_fields) - {"judge"}
    assert keys(PASSING) == every
    assert keys([text for text, _ in FAILING]) == every


def test_a_case_that_says_nothing_of_its_end_has_to_succeed() -> None:
    assert missed("text_mentions: [today]", change(SEEN, state="failed")) == ["state"]
    assert missed("exit: claim", change(SEEN, state="failed")) == []
    assert wanted_state(expectation("exit: a")) is None


def test_a_run_without_a_result_has_none_of_what_is_expected() -> None:
    nothing = change(SEEN, result=None)
    assert missed("outcome: {a: 1}", nothing) == ["outcome"]
    assert missed("text_mentions: [a]", nothing) == ["text_mentions"]


def test_long_values_are_cut_in_what_is_said() -> None:
    long: dict[str, Any] = {"reply": "x" * 100_000}
    (one,) = misses(expectation("outcome: {reply: y}"), change(SEEN, result=long), expressions=EXPRESSIONS)
    assert len(one.line) < 500


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("exit: a", False),
        ("tools: {called: [{name: a}]}", False),
        ("tools: {called: [{name: a, with: {b: 1}}]}", True),
        ("outcome: 1", True),
        ("that: exit == 'a'", True),
        ("text_mentions: [a]", True),
        ("judge: {criteria: a}", True),
    ],
)
def test_content_is_asked_for_where_it_is_looked_at(text: str, wanted: bool) -> None:
    assert needs_content(expectation(text)) is wanted

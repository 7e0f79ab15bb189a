"""Stop conditions of a file: what a plan holds of them, and where a finding about one stands."""

import pytest

from jackline_server.core.conditions import (
    AllOf,
    AnyOf,
    AskFunction,
    Confidence,
    Cost,
    Elapsed,
    Expression,
    Iterations,
    Not,
    NoToolCalls,
    OutcomeIs,
    StopCondition,
    TextMention,
    Tokens,
    ToolCalled,
)
from jackline_server.core.plan import ModelStep
from jackline_server.runtime.ports.definitions import Severity
from tests.definitions.workflows import changed, compile_text

ROUTED = "routes: {resolved: reply, escalate: sort, error: sort, stopped: reply}"


def with_condition(condition: str) -> str:
    return changed(
        ("routes: {resolved: reply, escalate: sort, error: sort}", f"{ROUTED}\n    stop_when: {condition}")
    )


@pytest.mark.parametrize(
    ("written", "held"),
    [
        ("{iterations: {gte: 6}}", Iterations(gte=6)),
        ("{tokens: {gte: 5000}}", Tokens(gte=5_000)),
        ("{cost_usd: {gte: 0.25}}", Cost(gte_micros=250_000)),
        ("{elapsed: {gte: 2m}}", Elapsed(gte_ms=120_000)),
        ("{confidence: {gte: 0.9}}", Confidence(gte_permille=900)),
        ("{no_tool_calls: true}", NoToolCalls()),
        ("{tool_called: {name: convert}}", ToolCalled(name="convert", success=None)),
        ("{tool_called: {name: convert, success: false}}", ToolCalled(name="convert", success=False)),
        ("{text_mention: {text: done}}", TextMention(text="done", case=False)),
        ("{text_mention: {text: DONE, case: true}}", TextMention(text="DONE", case=True)),
        ("{outcome_is: escalate}", OutcomeIs(outcome="escalate")),
        ("{expression: 'size(calls) > 3'}", Expression(cel="size(calls) > 3")),
        ("{function: 'shop.checks:enough'}", AskFunction(function="shop.checks:enough", timeout_ms=5_000)),
        (
            "{function: {name: 'shop.checks:enough', timeout: 500ms}}",
            AskFunction(function="shop.checks:enough", timeout_ms=500),
        ),
        (
            "{any: [{all: [{no_tool_calls: true}, {outcome_is: resolved}]}, {not: {tokens: {gte: 9}}}]}",
            AnyOf(
                conditions=(
                    AllOf(conditions=(NoToolCalls(), OutcomeIs(outcome="resolved"))),
                    Not(condition=Tokens(gte=9)),
                )
            ),
        ),
    ],
)
def test_a_plan_holds_the_condition_that_was_written(written: str, held: StopCondition) -> None:
    done = compile_text(with_condition(written))
    assert [one for one in done.findings if one.severity is not Severity.INFO] == []
    assert done.plan is not None
    step = done.plan.steps["handle"]
    assert isinstance(step, ModelStep)
    assert step.stop_when == held


def test_a_plan_without_a_condition_holds_none() -> None:
    done = compile_text(changed())
    assert done.plan is not None
    step = done.plan.steps["handle"]
    assert isinstance(step, ModelStep)
    assert step.stop_when is None


def test_a_finding_stands_at_the_line_and_column_of_its_leaf() -> None:
    text = with_condition("{any: [{iterations: {gte: 6}}, {tool_called: {name: convrt}}]}")
    (finding,) = [one for one in compile_text(text).findings if one.severity is Severity.ERROR]
    line = text.splitlines()[finding.line - 1]
    assert line[finding.column - 1 :].startswith("convrt}")
    assert "`convert`" in finding.message


def test_a_condition_that_is_as_large_as_it_may_be_compiles() -> None:
    leaves = "{iterations: {gte: 2}}, " * 63
    deep = "{not: " * 7 + "{iterations: {gte: 2}}" + "}" * 7
    for condition in (f"{{any: [{leaves}]}}", deep):
        assert compile_text(with_condition(condition)).plan is not None

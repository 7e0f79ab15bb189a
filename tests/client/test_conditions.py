"""Stop conditions composed in Python: what they say in a workflow file, and what the server reads of it."""

import json
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal

import pytest

from jackline_client.conditions import (
    Condition,
    all_of,
    any_of,
    confidence,
    cost_usd,
    elapsed,
    expression,
    function,
    iterations,
    no_tool_calls,
    none_of,
    outcome_is,
    text_mention,
    tokens,
    tool_called,
)
from jackline_server.core import conditions as core
from jackline_server.core.plan import ModelStep
from tests.definitions.workflows import changed, compile_text

LEAVES = [
    (iterations(6), {"iterations": {"gte": 6}}, core.Iterations(gte=6)),
    (tokens(500), {"tokens": {"gte": 500}}, core.Tokens(gte=500)),
    (cost_usd(0.25), {"cost_usd": {"gte": 0.25}}, core.Cost(gte_micros=250_000)),
    (cost_usd(Decimal("0.1")), {"cost_usd": {"gte": 0.1}}, core.Cost(gte_micros=100_000)),
    (confidence(0.9), {"confidence": {"gte": 0.9}}, core.Confidence(gte_permille=900)),
    (elapsed("2m"), {"elapsed": {"gte": "2m"}}, core.Elapsed(gte_ms=120_000)),
    (no_tool_calls(), {"no_tool_calls": True}, core.NoToolCalls()),
    (
        tool_called("convert"),
        {"tool_called": {"name": "convert"}},
        core.ToolCalled(name="convert", success=None),
    ),
    (
        tool_called("convert", success=False),
        {"tool_called": {"name": "convert", "success": False}},
        core.ToolCalled(name="convert", success=False),
    ),
    (text_mention("yes"), {"text_mention": {"text": "yes"}}, core.TextMention(text="yes", case=False)),
    (
        text_mention("Döne: {x}", case=True),
        {"text_mention": {"text": "Döne: {x}", "case": True}},
        core.TextMention(text="Döne: {x}", case=True),
    ),
    (outcome_is("resolved"), {"outcome_is": "resolved"}, core.OutcomeIs(outcome="resolved")),
    (
        expression('reply == "a\\n#b"'),
        {"expression": 'reply == "a\\n#b"'},
        core.Expression(cel='reply == "a\\n#b"'),
    ),
    (
        function("shop.checks:enough"),
        {"function": "shop.checks:enough"},
        core.AskFunction(function="shop.checks:enough", timeout_ms=5_000),
    ),
    (
        function("shop.checks:enough", timeout="1s"),
        {"function": {"name": "shop.checks:enough", "timeout": "1s"}},
        core.AskFunction(function="shop.checks:enough", timeout_ms=1_000),
    ),
]


def read_by_the_server(condition: Condition) -> core.StopCondition | None:
    text = changed(("    kind: agent\n", f"    kind: agent\n    stop_when: {condition.to_yaml()}\n"))
    done = compile_text(text)
    assert done.plan is not None, done.findings
    step = done.plan.steps["handle"]
    assert isinstance(step, ModelStep)
    return step.stop_when


@pytest.mark.parametrize(("condition", "written", "held"), LEAVES)
def test_each_leaf_is_written_as_a_file_has_it_and_read_as_it_was_meant(
    condition: Condition, written: dict[str, object], held: core.StopCondition
) -> None:
    assert condition.to_dict() == written
    assert json.loads(condition.to_yaml()) == written
    assert read_by_the_server(condition) == held


A, B, C = iterations(2), tokens(3), outcome_is("resolved")
CORE_A, CORE_B, CORE_C = core.Iterations(gte=2), core.Tokens(gte=3), core.OutcomeIs(outcome="resolved")


@pytest.mark.parametrize(
    ("condition", "held"),
    [
        (A & B & C, core.AllOf(conditions=(CORE_A, CORE_B, CORE_C))),
        (A & (B & C), core.AllOf(conditions=(CORE_A, CORE_B, CORE_C))),
        (A | B | C, core.AnyOf(conditions=(CORE_A, CORE_B, CORE_C))),
        (A & B | C, core.AnyOf(conditions=(core.AllOf(conditions=(CORE_A, CORE_B)), CORE_C))),
        (A & (B | C), core.AllOf(conditions=(CORE_A, core.AnyOf(conditions=(CORE_B, CORE_C))))),
        (~A & B, core.AllOf(conditions=(core.Not(condition=CORE_A), CORE_B))),
        (~(A | B), core.Not(condition=core.AnyOf(conditions=(CORE_A, CORE_B)))),
        (none_of(A, B), core.Not(condition=core.AnyOf(conditions=(CORE_A, CORE_B)))),
        (~~A, CORE_A),
        (any_of(A), CORE_A),
        (all_of(A, B), core.AllOf(conditions=(CORE_A, CORE_B))),
    ],
)
def test_operators_compose_what_the_server_reads(condition: Condition, held: core.StopCondition) -> None:
    assert read_by_the_server(condition) == held


def test_conditions_that_say_the_same_are_equal_and_a_part_stays_as_it_was() -> None:
    both = A & B
    assert both == iterations(2) & tokens(3)
    assert hash(both) == hash(iterations(2) & tokens(3))
    assert (both & C, both) == (all_of(A, B, C), all_of(A, B))


def test_words_of_python_that_would_drop_a_part_are_refused() -> None:
    with pytest.raises(TypeError):
        _ = A and B
    with pytest.raises(TypeError):
        _ = A or B
    with pytest.raises(TypeError):
        _ = bool(A)


@pytest.mark.parametrize("joined", [any_of, all_of, none_of])
def test_nothing_joined_is_no_condition(joined: Callable[[], Condition]) -> None:
    with pytest.raises(ValueError, match="at least one"):
        joined()


def test_the_module_needs_neither_grpc_nor_the_server() -> None:
    script = (
        "import sys, jackline_client.conditions\n"
        "print({name.split('.')[0] for name in sys.modules} & {'grpc', 'google', 'jackline_server'})"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "set()"

"""What is said of conditions about tool calls, and what is not, since it may be meant."""

from collections.abc import Callable

import pytest

from tests.definitions.workflows import changed, compile_text

HANDLE = "    kind: agent\n"
REFUND = "    method: POST\n"
AGENT = "{ref: convert}"


def rule(expression: str, *more: tuple[str, str], top: bool = False) -> str:
    written = (
        f'supervisor: {{rules: [{{when: expression, stage: before_call, expression: "{expression}"}}]}}\n'
    )
    if top:
        return changed(("model: fast\n", f"model: fast\n{written}"), *more)
    return changed((HANDLE, f"{HANDLE}    {written}"), *more)


def approval(expression: str, *more: tuple[str, str]) -> str:
    """With that condition at the step of a tool that reads nothing of the context."""
    return changed((REFUND, f'{REFUND}    approval: {{when: "{expression}"}}\n'), *more)


def rule_of_call(expression: str, *more: tuple[str, str]) -> str:
    return rule(f"call.{expression}", *more)


def stops(expression: str) -> str:
    return changed((HANDLE, f'{HANDLE}    stop_when: {{expression: "{expression}"}}\n'))


def said(text: str) -> list[str]:
    done = compile_text(text)
    assert done.plan is not None, done.findings
    codes = ("expression_unknown", "expression_text_unknown", "approval_always")
    return [one.message for one in done.findings if one.code in codes]


def schema(parameters: str) -> tuple[str, str]:
    return AGENT, f"{{ref: convert, parameters: {parameters}}}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            rule("call.tool == 'isue_refund'"),
            "`isue_refund` is no tool here: nothing is ever equal to it; did you mean `issue_refund`?",
        ),
        (
            rule("call.arguments.amout > 100.0", top=True),
            "no tool here takes `amout` as an argument, so this counts as false; did you mean `amount`?",
        ),
        (
            approval("arguments.ordr_id == 'A'"),
            "no tool here takes `ordr_id` as an argument, so this always asks; did you mean `order_id`?",
        ),
    ],
)
def test_a_wrong_name_is_told_with_what_follows_and_the_nearest_right_one(text: str, message: str):
    assert said(text) == [message]


@pytest.mark.parametrize(
    "expression",
    [
        "call.tool == 'convert' && call.arguments.amount > 1",
        "call.arguments.shop == 'north'",
        "call.arguments['order_id'] == 'x'",
        "call.tool == 'read_result' || call.tool == 'finish'",
        "call.tool.startsWith('conv')",
        "'conv' + call.tool == 'x'",
        "call.tool + '' == 'x'",
        "call.arguments.to == 'nowhere'",
        "'nothing' in call.arguments",
        "[call.tool] == ['x']",
        "calls.filter(one, one.success).exists(two, two.anything == 'x')",
        "context.refund.exists(one, one.name == 'x')",
    ],
)
def test_what_may_be_meant_is_let_be(expression: str):
    assert said(rule(expression)) == []


@pytest.mark.parametrize(
    "parameters",
    [
        "{type: object}",
        "{type: object, properties: {}}",
        "{type: object, properties: {a: {}}, additionalProperties: true}",
        "{type: object, properties: {a: {}}, additionalProperties: {type: number}}",
        "{type: object, properties: {a: {}}, anyOf: [{properties: {why: {}}}]}",
        "{type: object, properties: {why: {type: object}}}",
    ],
)
def test_an_argument_that_some_tool_may_be_given_is_not_told(parameters: str):
    assert said(rule("call.arguments.why.not == 1", schema(parameters))) == []


def test_a_member_of_an_argument_is_looked_up_as_far_as_its_schema_goes():
    nested = schema("{type: object, properties: {why: {type: object, properties: {text: {}}}}}")

    assert said(rule("call.arguments.why.text == 'x'", nested)) == []
    assert said(rule("call.arguments.why.txt == 'x'", nested)) != []


@pytest.mark.parametrize("condition", [approval, rule_of_call])
def test_what_a_tool_takes_of_the_context_is_among_what_its_call_is_given(condition: Callable[..., str]):
    reads = (REFUND, f"{REFUND}    input: {{buyer: /input/message}}\n")

    assert said(condition("arguments.buyer == 'x'", reads)) == []
    assert said(condition("arguments.buyer == 'x'")) != []


def test_a_stop_condition_sees_of_a_call_what_the_model_wrote():
    assert said(stops("calls.exists(one, one.arguments.order_id == 'x')")) == []
    assert said(stops("calls.exists(one, one.arguments.shop == 'x')")) != []


def test_a_step_that_the_flow_visits_is_given_the_context_where_it_says_nothing_else():
    visited = ("flow: [handle, reply]", "flow: [handle, issue_refund, reply]")
    plain = ('order: "{{ order_id }}", note: ["because {{ reason }}"]', "order: A-1")

    assert said(approval("arguments.refund.amount > 1", visited, plain)) == []
    assert said(approval("arguments.nowhere > 1", visited, plain)) != []


def test_an_approval_of_all_tools_of_an_agent_is_about_each_of_them():
    written = changed((HANDLE, HANDLE + "    approval: {when: \"tool in ['convert', 'lookup_order']\"}\n"))

    assert said(written) == []

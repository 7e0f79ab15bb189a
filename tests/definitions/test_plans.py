"""What a right workflow compiles to: defaults resolved, names replaced, digests stable."""

import hashlib
import json

import pytest

from jackline_server.core.plan import (
    AnswerForm,
    Effect,
    FunctionAction,
    HttpAction,
    ModelStep,
    OnQuestion,
    OnUnknown,
    Plan,
    RouterStep,
    StepBounds,
    ToolStep,
)
from jackline_server.definitions.compiler import revision
from jackline_server.runtime.ports import Source
from tests.definitions.workflows import RIGHT, TONE, changed, compile_text


def plan_of(text: str, files: dict[str, bytes] | None = None) -> Plan:
    done = compile_text(text, files)
    assert done.plan is not None, done.findings
    return done.plan


def agent(text: str = RIGHT) -> ModelStep:
    step = plan_of(text).steps["handle"]
    assert isinstance(step, ModelStep)
    return step


def test_an_agent_gets_the_defaults_of_the_preset():
    step = agent()

    assert step.bounds == StepBounds(
        max_iterations=8,
        model_requests=16,
        tool_calls=32,
        token_budget=None,
        cost_budget_micros=None,
        timeout_ms=None,
        model_timeout_ms=60_000,
        idle_timeout_ms=30_000,
        tool_timeout_ms=300_000,
    )
    assert step.allow_effects == frozenset(Effect)
    assert (step.outcome.repairs, step.outcome.form, step.max_parallel) == (1, AnswerForm.JSON_TEXT, 8)
    assert step.next_step == "reply"


def test_requests_and_calls_follow_the_iterations():
    step = agent(
        changed(("    kind: agent\n", "    kind: agent\n    bounds: {max_iterations: 3, timeout: 1.5s}\n"))
    )

    assert (step.bounds.model_requests, step.bounds.tool_calls, step.bounds.timeout_ms) == (6, 12, 1_500)


def test_a_completion_has_one_turn_and_no_tools():
    step = plan_of(RIGHT).steps["reply"]

    assert isinstance(step, ModelStep)
    assert (step.kind, step.bounds.max_iterations, step.bounds.tool_calls, step.tools) == (
        "completion",
        1,
        0,
        (),
    )
    assert (step.outcome.form, step.outcome.output_key, step.next_step) == (
        AnswerForm.TEXT,
        "reply_result",
        "",
    )


def test_a_tool_step_gets_the_defaults_of_the_preset():
    step = plan_of(RIGHT).steps["lookup_order"]

    assert isinstance(step, ToolStep)
    assert (step.timeout_ms, step.result_chars, step.unknown_expiry_ms) == (300_000, 8_000, 86_400_000)
    assert (step.effect, step.on_unknown, step.output_key) == (
        Effect.READ,
        OnUnknown.ASK,
        "lookup_order_result",
    )


def test_the_run_gets_its_bounds_exactly():
    plan = plan_of(changed(("0.50", "0.000001")))

    assert plan.bounds.cost_budget_micros == 1
    assert (plan.bounds.run_timeout_ms, plan.bounds.steps, plan.bounds.events) == (900_000, 32, 20_000)
    assert plan.on_question is OnQuestion.WAIT


@pytest.mark.parametrize(
    ("money", "micros"), [("0", 0), ("1", 1_000_000), ("0.1", 100_000), ("1e-6", 1), ("0.3", 300_000)]
)
def test_money_is_exact(money: str, micros: int):
    assert plan_of(changed(("0.50", money))).bounds.cost_budget_micros == micros


def test_placeholders_become_parameters_without_the_bound_ones():
    lookup, refund, convert = agent().tools

    assert json.loads(lookup.parameters_json) == {
        "type": "object",
        "properties": {"order_id": {"type": "string"}},
        "required": ["order_id"],
        "additionalProperties": False,
    }
    assert lookup.bind == {"shop": "/input/shop"}
    assert set(json.loads(refund.parameters_json)["properties"]) == {"order_id", "reason"}
    assert (refund.max_calls, refund.writes_context) == (1, True)
    assert json.loads(convert.parameters_json)["required"] == ["amount", "to"]
    assert convert.description == "Converts an amount."


def test_a_bound_name_leaves_the_schema_of_a_function():
    convert = agent(changed(("{ref: convert}", "{ref: convert, bind: {to: /input/shop}}"))).tools[2]

    assert json.loads(convert.parameters_json)["properties"] == {"amount": {"type": "number"}}
    assert json.loads(convert.parameters_json)["required"] == ["amount"]


def test_explicit_parameters_win_and_lose_bound_names_only():
    properties = "{shop: {}, order_id: {type: integer}}"
    written = f"parameters: {{type: object, properties: {properties}, required: [shop, order_id]}}"
    lookup = agent(changed(("effect: read\n", f"effect: read\n    {written}\n"))).tools[0]

    assert json.loads(lookup.parameters_json) == {
        "type": "object",
        "properties": {"order_id": {"type": "integer"}},
        "required": ["order_id"],
    }


def test_explicit_parameters_may_leave_out_what_is_bound():
    written = "parameters: {type: object, properties: {order_id: {type: integer}}, required: [order_id]}"
    lookup = agent(changed(("effect: read\n", f"effect: read\n    {written}\n"))).tools[0]

    assert list(json.loads(lookup.parameters_json)["properties"]) == ["order_id"]
    assert lookup.bind == {"shop": "/input/shop"}


def test_the_steps_own_description_wins():
    lookup = agent(changed(("{ref: lookup_order,", "{ref: lookup_order, description: other,"))).tools[0]

    assert lookup.description == "Reads one order."


def test_actions_and_cases_are_as_written():
    steps = plan_of(RIGHT).steps
    refund, convert, sort = steps["issue_refund"], steps["convert"], steps["sort"]

    assert isinstance(refund, ToolStep)
    assert isinstance(refund.action, HttpAction)
    assert json.loads(refund.action.body_json or "") == {
        "order": "{{ order_id }}",
        "note": ["because {{ reason }}"],
    }
    assert isinstance(convert, ToolStep)
    assert convert.action == FunctionAction(function="shop.money:convert")
    assert isinstance(sort, RouterStep)
    assert [case.signal for case in sort.cases] == ["large"]


def test_steering_comes_before_files_and_skills():
    text = changed(("[tone.md]", "[tone.md]\n    skills: [a.md]"))
    step = plan_of(text, {**TONE, "handle/skills/a.md": b"Partial refunds exist."}).steps["handle"]

    assert isinstance(step, ModelStep)
    assert [section.title for section in step.system] == ["Steering", "Steering: tone.md", "Skill: a.md"]


def test_a_missing_file_leaves_a_warning_in_the_plan():
    plan = plan_of(RIGHT, {})

    assert plan.warnings == ("the file handle/steering/tone.md is missing",)


def test_a_provider_name_makes_a_profile_without_a_price():
    text = changed(("model: fast", "model: openai/gpt-4o-mini"), (", cost_budget_usd: 0.50", ""))
    made = plan_of(text).models["openai/gpt-4o-mini"]

    assert (made.adapter, made.model, made.price, made.context_window) == (
        "openai",
        "openai/gpt-4o-mini",
        None,
        128_000,
    )


def test_texts_that_yaml_1_1_would_change_stay_texts():
    text = changed(
        ("[resolved, escalate]", "[no, on]"), ("{resolved: reply, escalate: sort", "{no: reply, on: sort")
    )

    assert agent(text).outcome.enum == ("no", "on")


def test_a_bom_and_carriage_returns_with_line_feeds_are_fine():
    plan_of("\ufeff" + RIGHT.replace("\n", "\r\n"))


def test_the_digest_is_that_of_the_encoded_plan():
    plan = plan_of(RIGHT)
    unsealed = repr(plan).replace(plan.digest, "", 1).encode()

    assert plan.digest == hashlib.sha256(unsealed).hexdigest()
    assert plan_of(RIGHT).digest == plan.digest


def test_the_revision_knows_where_a_file_ends():
    def of(**files: bytes) -> str:
        return revision(Source(yaml="a", files=files))

    assert len({of(), of(a=b"bc"), of(ab=b"c"), of(a=b"b", c=b""), of(a=b"b")}) == 5
    assert of(a=b"1", b=b"2") == of(b=b"2", a=b"1")


def test_the_worst_case_is_bounded_by_the_run():
    worst = compile_text(RIGHT).worst_case

    assert worst is not None
    assert (worst.model_requests, worst.tool_calls, worst.active_ms) == (21, 32, 900_000)
    assert worst.tokens == 40_000
    assert worst.cost_micros is not None
    assert worst.cost_micros <= 500_000


def test_a_cycle_multiplies_the_worst_case_by_the_bound_of_steps():
    worst = compile_text(changed(("default: reply", "default: handle"))).worst_case

    assert worst is not None
    assert worst.model_requests == 16 * 32


def test_a_broken_workflow_still_has_its_name():
    done = compile_text(changed(("flow: [handle, reply]", "flow: 5")))

    assert (done.name, done.plan, done.worst_case) == ("refunds", None, None)

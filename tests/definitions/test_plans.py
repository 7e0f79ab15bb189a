"""What a right workflow compiles to: defaults resolved, names replaced, digests stable."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from jackline_server.core.frozen import change
from jackline_server.core.plan import (
    AnswerForm,
    CompactionMode,
    CompactionPlan,
    Effect,
    FunctionAction,
    GroundPlan,
    HttpAction,
    ModelStep,
    OnFailure,
    OnJudgeError,
    OnModelUnavailable,
    OnQuestion,
    OnUnknown,
    Plan,
    PrunePlan,
    ReflectPlan,
    RouterStep,
    StepBounds,
    ToolPolicy,
    ToolStep,
)
from jackline_server.core.repetition_plans import RepeatBy, RepeatPlan
from jackline_server.definitions.compiler import revision
from jackline_server.runtime.ports.definitions import Source
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


@pytest.mark.parametrize(
    ("more", "requests"),
    [("model: thinker", 5), ("guardrails: {output: [judge: {criteria: c, model: thinker}]}", 5)],
)
def test_the_worst_case_knows_the_dearest_tokens_of_every_model_that_is_asked(more: str, requests: int):
    text = f"name: a\nmodel: free\nflow: [x]\nsteps:\n  x: {{kind: completion, prompt: p, {more}}}\n"
    worst = compile_text(text).worst_case

    assert worst is not None
    assert (worst.model_requests, worst.cost_micros) == (requests, requests * 8_000)


def test_a_broken_workflow_still_has_its_name():
    done = compile_text(changed(("flow: [handle, reply]", "flow: 5")))

    assert (done.name, done.plan, done.worst_case) == ("refunds", None, None)


HANDLE = "    kind: agent\n"


def policies(*changes: tuple[str, str]) -> list[ToolPolicy]:
    return [tool.policy for tool in agent(changed(*changes)).tools]


RETRIES = ToolPolicy(retries=2, retry_base_ms=500, retry_cap_ms=5_000)


def test_reads_and_idempotent_tools_are_tried_again_by_default_and_writes_never():
    assert policies() == [RETRIES, RETRIES, RETRIES]
    assert policies(("effect: idempotent", "effect: write"))[1] == ToolPolicy()


def test_the_entrys_word_comes_before_the_tool_steps_and_that_before_the_agents():
    found = policies(
        (HANDLE, HANDLE + "    on_error: fail\n"),
        ("effect: idempotent", "effect: idempotent\n    on_error: observe\n    serial_group: desk"),
        ("{ref: convert}", "{ref: convert, on_error: observe, reuse: run, retry: {times: 0}}"),
        ("max_calls: 1", "max_calls: 1, retry: {times: 1, base: 7s}, on_timeout: fail"),
    )
    assert found == [
        change(RETRIES, on_error=OnFailure.FAIL),
        ToolPolicy(
            retries=1,
            retry_base_ms=7_000,
            retry_cap_ms=7_000,
            on_timeout=OnFailure.FAIL,
            serial_group="desk",
        ),
        ToolPolicy(reuse=True),
    ]


@pytest.mark.parametrize(
    ("written", "most"), [("observe", 3), ("fail", 0), ("{observe: 7}", 7), ("{observe: 0}", 0)]
)
def test_how_many_calls_that_can_not_start_are_told(written: str, most: int):
    assert agent(changed((HANDLE, HANDLE + f"    invalid_args: {written}\n"))).invalid_args == most
    assert agent().invalid_args == 3


# --- repetition, reflection, grounding ---------------------------------------------------------


def with_keys(step: str = "", *, top: str = "") -> ModelStep:
    """The agent with further lines in its step and at the top."""
    text = changed(
        ("    kind: agent\n", f"    kind: agent\n{step}"), ("model: fast\n", f"model: fast\n{top}")
    )
    return agent(text)


def test_an_agent_watches_for_repetition_and_nothing_else_unless_it_is_told_to():
    step = agent()

    assert step.repeat == RepeatPlan(by=RepeatBy.ARGS_RESULT, count=3, nudge=True)
    assert (step.reflect, step.ground) == (None, None)


def test_a_step_has_the_repetition_of_the_file_but_for_what_it_says_itself():
    step = with_keys("    repeat: {nudge: true}\n", top="repeat: {by: name, count: 7, nudge: false}\n")

    assert step.repeat == RepeatPlan(by=RepeatBy.NAME, count=7, nudge=True)


@pytest.mark.parametrize(
    ("step", "top", "on"),
    [
        ("    repeat: {by: off}\n", "", False),
        ("", "repeat: {by: off}\n", False),
        ("    repeat: {by: args}\n", "repeat: {by: off}\n", True),
        ("    repeat: {by: off, count: 9}\n", "repeat: {by: args}\n", False),
    ],
)
def test_repetition_is_switched_off_for_a_step_or_for_the_file(step: str, top: str, on: bool):
    assert (with_keys(step, top=top).repeat is not None) is on


WHOLE_WINDOW = CompactionPlan(
    mode=CompactionMode.WINDOW,
    at_permille=800,
    to_permille=500,
    model="fast",
    prune=PrunePlan(keep_tokens=40_000, save_tokens=20_000),
)


SAVING_2 = PrunePlan(keep_tokens=40_000, save_tokens=2)


def test_a_long_conversation_loses_its_oldest_results_and_turns_unless_the_file_says_otherwise():
    assert agent().compaction == WHOLE_WINDOW


@pytest.mark.parametrize(
    ("step", "top", "wanted"),
    [
        ("summarise", "", {"mode": CompactionMode.SUMMARISE}),
        ("none", "", {"mode": CompactionMode.NONE, "prune": None}),
        ("", "none", {"mode": CompactionMode.NONE, "prune": None}),
        ("window", "none", {}),
        (
            "{at: 0.5, to: 0.1}",
            "none",
            {"mode": CompactionMode.NONE, "prune": None, "at_permille": 500, "to_permille": 100},
        ),
        ("{prune: off}", "{at: 0.9}", {"prune": None, "at_permille": 900}),
        ("{prune: {keep: 1}}", "", {"prune": PrunePlan(keep_tokens=1, save_tokens=20_000)}),
        (
            "{mode: none, prune: {save: 2}}",
            "",
            {"mode": CompactionMode.NONE, "prune": PrunePlan(keep_tokens=40_000, save_tokens=2)},
        ),
        ("{mode: summarise, model: dear}", "", {"mode": CompactionMode.SUMMARISE, "model": "dear"}),
        ("", "{mode: summarise, model: dear}", {"mode": CompactionMode.SUMMARISE, "model": "dear"}),
    ],
)
def test_a_step_has_the_compaction_of_the_file_but_for_what_it_says_itself(
    step: str, top: str, wanted: Mapping[str, Any]
):
    found = with_keys(f"    compaction: {step}\n" if step else "", top=f"compaction: {top}\n" if top else "")
    assert found.compaction == replace(WHOLE_WINDOW, **wanted)


def test_a_completion_has_none_of_the_three():
    step = plan_of(RIGHT).steps["reply"]

    assert isinstance(step, ModelStep)
    assert (step.repeat, step.reflect, step.ground) == (None, None, None)
    assert step.compaction is None


def test_reflection_tells_the_model_unless_it_says_otherwise():
    assert with_keys("    reflect: {every: 2}\n").reflect == ReflectPlan(every=2, guidance=True)
    quiet = with_keys("    reflect: {every: 1, guidance: false}\n").reflect
    assert quiet == ReflectPlan(every=1, guidance=False)


def test_grounding_has_defaults_and_the_model_of_its_step():
    assert with_keys("    ground: {}\n").ground == GroundPlan(
        model="fast", threshold_permille=650, max_replans=2, on_error=OnJudgeError.EXIT
    )


@pytest.mark.parametrize(("written", "permille"), [("0", 0), ("1", 1_000), ("0.65", 650), ("0.001", 1)])
def test_a_threshold_is_kept_in_thousandths(written: str, permille: int):
    ground = with_keys(f"    ground: {{threshold: {written}, max_replans: 0, on_error: ignore}}\n").ground

    assert ground == GroundPlan(
        model="fast", threshold_permille=permille, max_replans=0, on_error=OnJudgeError.IGNORE
    )


def test_the_judge_s_model_is_in_the_plan_with_its_price():
    plan = plan_of(changed(("    kind: agent\n", "    kind: agent\n    ground: {model: dear}\n")))

    assert sorted(plan.models) == ["dear", "fast"]


def test_the_worst_case_of_a_step_is_that_of_its_dearest_model():
    free = changed(("token_budget: 40000, cost_budget_usd: 0.50, ", ""))
    judged = free.replace("    kind: agent\n", "    kind: agent\n    ground: {model: dear}\n", 1)

    assert worst_cost(judged) > 10 * worst_cost(free)


def worst_cost(text: str) -> int:
    worst = compile_text(text).worst_case
    assert worst is not None
    assert worst.cost_micros is not None
    return worst.cost_micros


def test_a_tool_says_whether_it_is_polled():
    plan = agent(changed(("max_calls: 1", "poll: true")))

    assert [tool.poll for tool in plan.tools] == [False, True, False]


def model_step(text: str, step_id: str = "handle") -> ModelStep:
    step = plan_of(text).steps[step_id]
    assert isinstance(step, ModelStep)
    return step


def test_a_step_has_no_fallbacks_and_fails_unless_the_file_or_its_model_says_otherwise():
    step = model_step(RIGHT)
    assert (step.fallbacks, step.on_model_unavailable) == ((), OnModelUnavailable.FAIL)


def test_the_fallbacks_of_a_step_come_before_those_of_its_models_profile():
    with_dear = ("model: fast", "model: dear")
    kind = "    kind: agent\n"
    assert model_step(changed(with_dear)).fallbacks == ("fast",), "talker can't call tools, and is left out"
    assert model_step(changed(with_dear), "reply").fallbacks == ("talker", "fast")
    assert model_step(changed(with_dear, (kind, kind + "    fallbacks: []\n"))).fallbacks == ()


def test_every_model_that_a_step_may_ask_is_in_the_plan():
    kind = "    kind: agent\n"
    plan = plan_of(changed((kind, kind + "    fallbacks: [dear]\n")))
    assert set(plan.models) == {"fast", "dear"}


def test_fallbacks_and_waiting_add_requests_where_the_file_names_no_number():
    kind, prompt = "    kind: agent\n", "    prompt: Write a short reply.\n"
    before = model_step(RIGHT).bounds.model_requests, model_step(RIGHT, "reply").bounds.model_requests
    more = "    fallbacks: [dear]\n    on_model_unavailable: wait\n"
    text = changed((kind, kind + more), (prompt, prompt + more))
    after = model_step(text).bounds.model_requests, model_step(text, "reply").bounds.model_requests
    assert after == tuple(number + 4 + 128 for number in before)

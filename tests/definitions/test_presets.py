"""`preset`: the defaults that a file leaves open, and that what it says itself comes first."""

import pytest

from jackline_server.core.plan import (
    AnswerForm,
    CompactionMode,
    Effect,
    ModelStep,
    OnFailure,
    OnLimit,
    OnQuestion,
    OnUnknown,
    Plan,
    TextToolCalls,
    ToolStep,
)
from tests.definitions.workflows import compile_text

AGENT = "kind: agent, steering: S, tools: [{ref: look}]"
LOOK = "  look: {kind: http, effect: read, description: D, connection: orders, path: /look}\n"


def plan_of(preset: str, agent: str = AGENT, *, model: str = "fast") -> Plan:
    text = f"name: x\npreset: {preset}\nmodel: {model}\nflow: [a]\nsteps:\n  a: {{{agent}}}\n{LOOK}"
    plan = compile_text(text).plan
    assert plan is not None
    return plan


def agent_of(plan: Plan) -> ModelStep:
    step = plan.steps["a"]
    assert isinstance(step, ModelStep)
    return step


def test_a_file_without_a_preset_is_one_of_service() -> None:
    text = f"name: x\nmodel: fast\nflow: [a]\nsteps:\n  a: {{{AGENT}}}\n{LOOK}"
    plan = compile_text(text).plan
    assert plan is not None
    assert plan.preset == "service"


def test_coding_works_long_and_closes_with_an_answer() -> None:
    plan = plan_of("coding")
    step = agent_of(plan)
    assert (step.bounds.max_iterations, step.bounds.model_requests, step.bounds.tool_calls) == (50, 100, 400)
    assert (step.on_limit, step.text_tool_calls) == (OnLimit.FINAL_ANSWER, TextToolCalls.AUTO)
    assert step.compaction is not None
    assert step.compaction.mode is CompactionMode.SUMMARISE
    assert step.outcome.repairs == 2


def test_strict_reads_only_and_asks_nobody() -> None:
    plan = plan_of("strict")
    step, tool = agent_of(plan), plan.steps["look"]
    assert isinstance(tool, ToolStep)
    assert (step.bounds.max_iterations, step.bounds.model_requests, step.bounds.tool_calls) == (4, 4, 3)
    assert step.allow_effects == frozenset({Effect.READ})
    assert (plan.on_question, plan.models["fast"].retries) == (OnQuestion.REVIEW, 1)
    assert (tool.on_unknown, tool.policy.retries, tool.policy.on_error) == (
        OnUnknown.FAIL,
        0,
        OnFailure.FAIL,
    )
    assert (step.invalid_args, step.outcome.repairs) == (0, 0)


def test_what_the_file_says_comes_before_the_preset() -> None:
    agent = (
        f"{AGENT}, bounds: {{max_iterations: 9, tool_calls: 5}}, allow_effects: [read, write], "
        "on_limit: exit, outcome: {repairs: 3}"
    )
    step = agent_of(plan_of("strict", agent))
    assert (step.bounds.max_iterations, step.bounds.model_requests, step.bounds.tool_calls) == (9, 9, 5)
    assert step.allow_effects == frozenset({Effect.READ, Effect.WRITE})
    assert step.outcome.repairs == 3


@pytest.mark.parametrize(
    ("preset", "outcome", "form"),
    [
        ("service", "", AnswerForm.JSON_TEXT),
        ("service", ", outcome: {enum: [ok]}, routes: {ok: end}", AnswerForm.JSON_TEXT),
        ("coding", "", AnswerForm.TEXT),
        ("coding", ", outcome: {enum: [ok]}, routes: {ok: end}", AnswerForm.JSON_TEXT),
        ("strict", "", AnswerForm.TEXT),
        ("strict", ", outcome: {enum: [ok]}, routes: {ok: end}", AnswerForm.NATIVE_SCHEMA),
    ],
)
def test_the_form_of_an_answer_is_the_presets_as_far_as_the_step_can(
    preset: str, outcome: str, form: AnswerForm
) -> None:
    assert agent_of(plan_of(preset, AGENT + outcome)).outcome.form is form


def test_a_model_that_takes_no_schema_is_asked_for_json_text_by_strict() -> None:
    agent = f"{AGENT}, outcome: {{enum: [ok]}}, routes: {{ok: end}}"
    assert agent_of(plan_of("strict", agent, model="unpriced")).outcome.form is AnswerForm.JSON_TEXT

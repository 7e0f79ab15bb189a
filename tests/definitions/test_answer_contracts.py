"""The schema of a whole answer: what a provider or the tool `finish` is given of a step's contract."""

import json
from typing import Any

import pytest

from jackline_server.core.plan import AnswerForm, Completion, ModelStep
from jackline_server.definitions.contract import contract_of
from jackline_server.expressions.schemas import JsonSchemas
from tests.definitions.workflows import compile_text

SCHEMAS = JsonSchemas()
POINTS = {"type": "object", "properties": {"points": {"type": "integer"}}, "required": ["points"]}


def step_with(*lines: str) -> ModelStep:
    text = "name: a\nmodel: fast\nflow: [x]\nsteps:\n  x:\n    kind: agent\n    steering: s\n"
    text += "".join(f"    {line}\n" for line in lines) + '    routes: {"*": end}\n'
    done = compile_text(text, {})
    assert done.plan is not None, done.findings
    step = done.plan.steps["x"]
    assert isinstance(step, ModelStep)
    return step


@pytest.mark.parametrize("form", ["native_schema", "finish_tool"])
def test_outcome_and_result_become_one_closed_object(form: str) -> None:
    step = step_with(
        f"answer: {form}",
        "outcome: {enum: [good, bad], schema: {type: object, properties: {points: {type: integer}}, "
        "required: [points]}}",
    )
    assert step.outcome.form is AnswerForm(form)
    assert step.outcome.contract_json is not None
    assert json.loads(step.outcome.contract_json) == {
        "type": "object",
        "properties": {
            "outcome": {"type": "string", "enum": ["good", "bad"], "description": "How it ended."},
            "result": POINTS,
        },
        "required": ["outcome", "result"],
        "additionalProperties": False,
    }
    assert json.loads(step.outcome.schema_json or "") == POINTS


@pytest.mark.parametrize("form", ["json_text", "text"])
def test_the_other_forms_have_no_contract_of_that_kind(form: str) -> None:
    assert step_with(f"answer: {form}").outcome.contract_json is None


def test_an_enum_alone_needs_no_result_and_a_free_answer_needs_one() -> None:
    assert contract_of(["a"], None)["required"] == ["outcome"]
    assert contract_of([], None)["required"] == ["result"]
    assert step_with("answer: finish_tool").outcome.contract_json is not None


def test_completion_is_auto_unless_the_file_says_otherwise() -> None:
    assert step_with("answer: finish_tool").completion is Completion.AUTO
    assert step_with("answer: finish_tool", "completion: explicit").completion is Completion.EXPLICIT


def test_a_model_named_by_its_provider_can_be_asked_for_a_schema() -> None:
    step = step_with("model: openai/gpt-4o-mini", "answer: native_schema", "outcome: {enum: [a]}")
    assert step.outcome.form is AnswerForm.NATIVE_SCHEMA


REFERRING: list[Any] = [
    {"$defs": {"n": {"type": "integer"}}, "type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}},
    {"definitions": {"n": {"$ref": "#/definitions/m"}, "m": {"type": "integer"}},
     "properties": {"a": {"$ref": "#/definitions/n"}}},
    {"properties": {"a": {"type": "integer"}, "b": {"$ref": "#/properties/a"}}},
    {"$defs": {"o": {"properties": {"a": {"$ref": "#/properties/c"}}}}, "allOf": [{"$ref": "#/$defs/o"}],
     "properties": {"c": {"type": "integer"}}},
    {"$schema": "http://json-schema.org/draft-07/schema#", "$id": "https://example.com/x",
     "definitions": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/definitions/n"}}},
    {"properties": {"$ref": {"type": "integer"}, "enum": {"properties": {"a": {"$ref": "#/properties/$ref"}}},
     "a": {"$ref": "#/properties/enum/properties/a"}}},
    {"properties": {"a": {"type": "integer"}, "k": {"const": {"$ref": "#/nowhere"}}}},
]  # fmt: skip


@pytest.mark.parametrize("schema", REFERRING)
@pytest.mark.parametrize(("value", "fits"), [({"a": 1}, True), ({"a": "1"}, False)])
def test_references_lead_where_they_led(schema: Any, value: Any, fits: bool) -> None:
    contract = json.dumps(contract_of(["ok"], schema))
    assert SCHEMAS.check(contract) is None
    alone = SCHEMAS.problem(json.dumps(schema), value) is None
    within = SCHEMAS.problem(contract, {"outcome": "ok", "result": value}) is None
    assert alone is within is fits


def test_what_looks_like_a_reference_inside_data_stays_as_it_is() -> None:
    contract: Any = contract_of([], REFERRING[-1])
    assert contract["properties"]["result"]["properties"]["k"] == {"const": {"$ref": "#/nowhere"}}

"""What a model is asked for where a tool is another workflow, and who leads back to whom."""

import json
from typing import Any

import pytest

from jackline_server.core.plan import ModelStep
from jackline_server.runtime.ports.definitions import Severity, Source
from tests.definitions.workflows import KNOWN, compile_text, compiler


def flow(workflow: str, *, step: str = "", entry: str = "") -> str:
    """An agent with one tool, which is a workflow."""
    return (
        "name: family\nmodel: fast\nflow: [x]\nsteps:\n"
        f"  x: {{kind: agent, steering: s, tools: [{{ref: other{entry}}}]}}\n"
        f"  other: {{kind: workflow, description: d, effect: read, workflow: {workflow}{step}}}\n"
    )


def asked(text: str) -> dict[str, Any]:
    """The parameters that the model sees."""
    done = compile_text(text)
    assert done.plan is not None, done.findings
    step = done.plan.steps["x"]
    assert isinstance(step, ModelStep)
    return json.loads(step.tools[0].parameters_json)


def test_a_model_is_asked_for_what_the_workflow_takes():
    assert asked(flow("letters")) == {
        "type": "object",
        "properties": {"text": {"type": "string"}, "tone": {"type": "string"}},
        "required": ["text"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("step", "entry"), [(", input: {text: /input/a}", ""), ("", ", bind: {text: /input/a}")]
)
def test_what_the_step_or_the_entry_gives_is_not_asked_for(step: str, entry: str):
    shown = asked(flow("letters", step=step, entry=entry))
    assert (list(shown["properties"]), shown["required"]) == (["tone"], [])


@pytest.mark.parametrize("place", ["step", "entry"])
def test_parameters_that_somebody_wrote_win(place: str):
    written = ", parameters: {type: object, properties: {n: {type: integer}}}"
    shown = asked(flow("letters", **{place: written}))
    assert list(shown["properties"]) == ["n"]


@pytest.mark.parametrize("workflow", ["open", "elsewhere", "lettres"])
def test_where_nobody_says_what_it_takes_one_object_is_asked_for(workflow: str):
    assert list(asked(flow(workflow))["properties"]) == ["payload"]


def test_a_bound_name_that_the_workflow_lacks_is_an_error_only_where_that_is_known():
    known = compile_text(flow("letters", entry=", bind: {txt: /input/a}"))
    assert "bind_unknown" in {one.code for one in known.findings}
    assert compile_text(flow("elsewhere", entry=", bind: {txt: /input/a}")).plan is not None


def test_a_workflow_tells_others_its_name_its_input_and_what_it_runs():
    text = flow("letters").replace("\nflow:", "\ninput: {schema: {type: object}}\nflow:")
    found = compiler().signature(Source(yaml=text, files={}))
    assert found is not None
    assert (found.name, found.input_schema_json, found.runs) == ("family", '{"type":"object"}', ("letters",))
    assert compiler().signature(Source(yaml="steps: [", files={})) is None


def test_a_way_back_is_named_and_one_that_leads_elsewhere_is_none():
    (error,) = [one for one in compile_text(flow("back")).findings if one.severity is Severity.ERROR]
    assert (error.code, "forth@live -> family" in error.message) == ("child_recursion", True)
    renamed = flow("back").replace("name: family", "name: another")
    assert compiler().compile(Source(yaml=renamed, files={}, known=KNOWN)).plan is not None, (
        "a circle of others"
    )


def test_the_most_that_a_run_spends_is_said_without_what_nobody_knows():
    bounded = flow("letters").replace("\nflow:", "\nbounds: {token_budget: 1000}\nflow:")
    for text, said in ((bounded, "at most 1000 tokens, 900 s"), (flow("letters"), "set `token_budget`")):
        (most,) = [one.message for one in compile_text(text).findings if one.code == "worst_case"]
        assert said in most
        assert "any number" not in most
        assert "unknown price" not in most


def test_agents_alone_cost_at_most_what_the_tokens_of_the_run_cost():
    text = (
        "name: family\nmodel: fast\nbounds: {token_budget: 1000000}\nflow: [x]\nsteps:\n"
        "  x: {kind: agent, steering: s, tools: [{ref: other}]}\n"
        "  other: {kind: agent, description: d, steering: s, model: dear}\n"
    )
    worst = compile_text(text).worst_case
    assert worst is not None
    assert worst.cost_micros == 60_000_000

"""Reading an answer: parse, validate, and say in words what has to be mended.

Owns what counts as an answer. What follows from a wrong one is decided in `turns`.
"""

import re

from jackline_server.core import json_text
from jackline_server.core.exits import DEFAULT
from jackline_server.core.facts import AnswerProblem, FinishReason
from jackline_server.core.frozen import frozen
from jackline_server.core.instruments import SchemaValidator
from jackline_server.core.plan import AnswerForm, JsonValue, OutcomePlan
from jackline_server.core.state import Reply

_FENCE = re.compile(r"\A\s*```[a-zA-Z]*\s*\n(.*?)\n?\s*```\s*\Z", re.DOTALL)


@frozen
class Accepted:
    """An answer that meets its contract."""

    signal: str
    result: JsonValue


@frozen
class Wrong:
    """An answer that does not, with words for the model."""

    problem: AnswerProblem
    explanation: str


def read(reply: Reply, plan: OutcomePlan, schemas: SchemaValidator) -> Accepted | Wrong:
    """Judge a reply without tool calls."""
    if reply.finish in (FinishReason.LENGTH, FinishReason.CONTENT_FILTER):
        return Wrong(
            problem=AnswerProblem.TRUNCATED,
            explanation="Your answer was cut off before it was complete. Answer again, in fewer words.",
        )
    if not reply.text.strip():
        return Wrong(
            problem=AnswerProblem.EMPTY,
            explanation="Your reply was empty. Call a tool or give your answer.",
        )
    if plan.form is AnswerForm.TEXT:
        return _read_text(reply.text, plan, schemas)
    return _read_json(reply.text, plan, schemas)


def _read_text(text: str, plan: OutcomePlan, schemas: SchemaValidator) -> Accepted | Wrong:
    if not plan.enum:
        return _validated(DEFAULT, text, plan, schemas)
    signal = text.strip()
    if signal not in plan.enum:
        return _wrong_outcome(plan)
    return _validated(signal, text, plan, schemas)


def _read_json(text: str, plan: OutcomePlan, schemas: SchemaValidator) -> Accepted | Wrong:
    fenced = _FENCE.match(text)
    bare = fenced.group(1) if fenced else text
    try:
        value = json_text.parse(bare)
    except json_text.JsonError as error:
        if plan.enum or plan.schema_json is not None:
            return Wrong(
                problem=AnswerProblem.NOT_JSON,
                explanation=f"Your answer is not one JSON object: {error}. Answer with that object alone.",
            )
        return Accepted(signal=DEFAULT, result=text)
    signal = DEFAULT
    if plan.enum:
        outcome = value.get("outcome") if isinstance(value, dict) else None
        if not isinstance(outcome, str) or outcome not in plan.enum:
            return _wrong_outcome(plan)
        signal = outcome
    return _validated(signal, _result(value), plan, schemas)


def _result(value: JsonValue) -> JsonValue:
    return value["result"] if isinstance(value, dict) and "result" in value else value


def _validated(
    signal: str, result: JsonValue, plan: OutcomePlan, schemas: SchemaValidator
) -> Accepted | Wrong:
    if plan.schema_json is not None:
        problem = schemas.problem(plan.schema_json, result)
        if problem is not None:
            return Wrong(
                problem=AnswerProblem.SCHEMA,
                explanation=f"The result does not fit its schema: {problem}. Answer again.",
            )
    return Accepted(signal=signal, result=result)


def _wrong_outcome(plan: OutcomePlan) -> Wrong:
    return Wrong(
        problem=AnswerProblem.OUTCOME,
        explanation=f'"outcome" must be exactly one of {json_text.write(list(plan.enum))}. Answer again.',
    )

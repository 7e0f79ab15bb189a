"""Reading an answer: parse, validate, and say in words what has to be mended.

Owns what counts as an answer, in text and as arguments of `finish`, and what of a wrong one is worth keeping.
What follows from a wrong one is decided in `turns` and `finishing`. Nothing is coerced: a value that does not
fit is not made to.
"""

from jackline_server.core import json_text
from jackline_server.core.deciding import answer_text
from jackline_server.core.exits import DEFAULT
from jackline_server.core.facts import AnswerProblem, FinishReason
from jackline_server.core.frozen import frozen
from jackline_server.core.instruments import SchemaValidator
from jackline_server.core.plan import FINISH, AnswerForm, JsonObject, JsonValue, OutcomePlan
from jackline_server.core.state import Reply


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
    if _is_cut(reply.finish):
        return _TRUNCATED
    if not reply.text.strip():
        return Wrong(
            problem=AnswerProblem.EMPTY,
            explanation="Your reply was empty. Call a tool or give your answer.",
        )
    if plan.form is AnswerForm.TEXT:
        return _read_text(reply.text, plan, schemas)
    return _read_json(reply.text, plan, schemas)


def read_call(
    arguments: str, finish: FinishReason, plan: OutcomePlan, schemas: SchemaValidator
) -> Accepted | Wrong:
    """Judge the arguments of a call of `finish`; `finish` is why the reply that holds it ended."""
    if _is_cut(finish):
        return _TRUNCATED
    try:
        value = json_text.parse_object(arguments)
    except json_text.JsonError as error:
        return Wrong(
            problem=AnswerProblem.NOT_JSON,
            explanation=f"the arguments are not a JSON object: {error}. Call `{FINISH}` again.",
        )
    if not value and not plan.enum:
        return Wrong(
            problem=AnswerProblem.SCHEMA, explanation=f'"result" is missing. Call `{FINISH}` again with it.'
        )
    return _of_value(value, plan, schemas)


def salvage(text: str, plan: OutcomePlan) -> JsonValue:
    """What an answer that was not accepted still says: its result if it is JSON, else its text."""
    if plan.form is AnswerForm.TEXT:
        return text
    try:
        return result_of(answer_text.parse(text, words_around=_has_contract(plan)))
    except json_text.JsonError:
        return text


def result_of(value: JsonValue) -> JsonValue:
    """The `result` of an answer, or the whole of it."""
    return value["result"] if isinstance(value, dict) and "result" in value else value


_TRUNCATED = Wrong(
    problem=AnswerProblem.TRUNCATED,
    explanation="Your answer was cut off before it was complete. Answer again, in fewer words.",
)


def _is_cut(finish: FinishReason) -> bool:
    return finish in (FinishReason.LENGTH, FinishReason.CONTENT_FILTER)


def _has_contract(plan: OutcomePlan) -> bool:
    return bool(plan.enum) or plan.schema_json is not None


def _read_text(text: str, plan: OutcomePlan, schemas: SchemaValidator) -> Accepted | Wrong:
    if not plan.enum:
        return _validated(DEFAULT, text, plan, schemas)
    signal = text.strip()
    if signal not in plan.enum:
        return _wrong_outcome(plan)
    return _validated(signal, text, plan, schemas)


def _read_json(text: str, plan: OutcomePlan, schemas: SchemaValidator) -> Accepted | Wrong:
    try:
        value = answer_text.parse(text, words_around=_has_contract(plan))
    except json_text.JsonError as error:
        if not _has_contract(plan):
            return Accepted(signal=DEFAULT, result=text)
        wanted = "Answer with that object alone."
        if plan.form is AnswerForm.FINISH_TOOL:
            wanted = f"Call `{FINISH}` with your answer."
        return Wrong(
            problem=AnswerProblem.NOT_JSON,
            explanation=f"Your answer is not one JSON object: {error}. {wanted}",
        )
    return _of_value(value, plan, schemas)


def _of_value(value: JsonValue, plan: OutcomePlan, schemas: SchemaValidator) -> Accepted | Wrong:
    signal = DEFAULT
    if plan.enum:
        outcome = _outcome_of(value)
        if not isinstance(outcome, str) or outcome not in plan.enum:
            return _wrong_outcome(plan)
        signal = outcome
    return _validated(signal, result_of(value), plan, schemas)


def _outcome_of(value: JsonValue) -> JsonValue:
    answer: JsonObject = value if isinstance(value, dict) else {}
    return answer.get("outcome")


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

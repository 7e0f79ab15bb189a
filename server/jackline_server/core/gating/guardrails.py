"""Guardrails that need nobody: whether a value passes a check, and in words why not.

Owns the checks. Pure, and in time linear in the value; a check that can't be made does not pass. The words
name the rule and never the text that broke it.
"""

from collections.abc import Iterator
from typing import assert_never

from jackline_server.core import json_text
from jackline_server.core.facts import ConsultAnswer, Consulted, ConsultKind
from jackline_server.core.gate_plans import (
    DenyPattern,
    FitsSchema,
    GuardrailPlan,
    Judged,
    MaxChars,
    Point,
)
from jackline_server.core.instruments import Instruments
from jackline_server.core.plan import JsonValue


def text_of(value: JsonValue) -> str:
    """A value as the text that is checked: a text is itself, anything else its JSON."""
    return value if isinstance(value, str) else json_text.write(value)


def violated(
    rails: tuple[GuardrailPlan, ...], value: JsonValue, instruments: Instruments, *, tool: str = ""
) -> tuple[GuardrailPlan, str] | None:
    """The first guardrail that the value does not pass, with the reason; None if it passes all."""
    for rail in about(rails, tool):
        problem = _problem(rail, value, instruments)
        if problem is not None:
            return rail, problem
    return None


def about(rails: tuple[GuardrailPlan, ...], tool: str) -> Iterator[GuardrailPlan]:
    """The guardrails that concern a tool; all of them where it is about none."""
    return (rail for rail in rails if not tool or not rail.tools or tool in rail.tools)


def _problem(rail: GuardrailPlan, value: JsonValue, instruments: Instruments) -> str | None:
    check = rail.check
    match check:
        case MaxChars():
            length = len(text_of(value))
            return None if length <= check.most else f"it has {length} characters; {check.most} are the most"
        case DenyPattern():
            found = any(instruments.patterns.is_found(check.pattern, text) for text in _texts(value))
            return "it holds what a pattern forbids" if found else None
        case FitsSchema():
            misfit = instruments.schemas.problem(check.schema_json, value)
            return None if misfit is None else f"it does not fit: {misfit}"
        case Judged():
            return None  # a model is asked
        case _:
            assert_never(check)


def _texts(value: JsonValue) -> Iterator[str]:
    """What a pattern is looked for in: the whole as JSON, and each text by itself, without its escapes."""
    yield text_of(value)
    if not isinstance(value, str):
        yield from _within(value)


def _within(value: JsonValue) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from _within(item)
        case dict():
            for key, item in value.items():
                yield key
                yield from _within(item)
        case _:
            return


def violation(rail: GuardrailPlan, point: Point, problem: str, *, subject: str = "") -> Consulted:
    """The fact of a violation. What passes leaves none."""
    return Consulted(
        kind=ConsultKind.GUARDRAIL,
        who=rail.place,
        answer=ConsultAnswer.DENY,
        duration_ms=0,
        error="",
        point=point,
        subject=subject,
        reason=problem,
    )

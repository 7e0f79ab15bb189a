"""Steps of kind `human`, and the tool `ask_person`: the question is put into words, and nothing else.

Owns the text and the form of the question. Does not own what follows: the core opens it, and makes the answer
the call's output.
"""

from jackline_server.core import json_text, templates
from jackline_server.core.facts import ToolAsk
from jackline_server.core.plan import HumanAction, JsonValue
from jackline_server.runtime.ports.tools import Invocation, ToolEnding, ToolResult
from jackline_server.tools.results import clean_text, failed

QUESTION_CHARS = 16_000
"""The longest question."""

_WORDS: JsonValue = {"type": "string", "minLength": 1, "maxLength": 16_000}


def asked(action: HumanAction, invocation: Invocation) -> ToolResult:
    """What a person is asked; a failure if the question can't be put into words."""
    try:
        text = templates.render(action.question, invocation.values, _shown)
    except templates.TemplateError as error:
        return failed(f"The question can't be asked: {error}.")
    explained = [f"{one.value}: {one.description}" for one in action.options if one.description]
    ask = ToolAsk(
        text="\n".join([_within(clean_text(text)), *explained]),
        schema_json=_form(action, invocation),
        options=tuple(one.value for one in action.options),
    )
    return ToolResult(ending=ToolEnding.ASKING, ask=ask)


def _form(action: HumanAction, invocation: Invocation) -> str:
    if action.options:
        return ""
    if action.schema_json is not None:
        return action.schema_json
    choices = invocation.values.get(action.choices) if action.choices else None
    if isinstance(choices, list) and choices:
        return json_text.write({"type": "string", "enum": choices})
    return json_text.write(_WORDS)


def _shown(value: JsonValue) -> str:
    return value if isinstance(value, str) else json_text.write(value)


def _within(text: str) -> str:
    if len(text) <= QUESTION_CHARS:
        return text
    return f"{text[:QUESTION_CHARS]}... ({len(text)} characters)"

"""What a call of a function gives it, and what is said of whatever it raises. The same in every process."""

import traceback
from collections.abc import Mapping

from pydantic import BaseModel, ValidationError

from jackline_server.core import json_text
from jackline_server.core.frozen import frozen
from jackline_server.core.plan import JsonValue
from jackline_server.tools.function_catalog import CONTEXT_PARAMETER, FoundFunction
from jackline_server.tools.results import shortened
from jackline_server.tools.tool_call import ToolCall

_SHOWN_PROBLEMS = 5
_SHOWN_FRAMES = 16


@frozen
class Given:
    """What there is for a function: see `Invocation`. `call` is for a function that asks for it."""

    arguments: Mapping[str, JsonValue]
    bound: Mapping[str, JsonValue]
    step_input: Mapping[str, JsonValue]
    call: ToolCall


def keywords(function: FoundFunction, given: Given) -> dict[str, object]:
    """The function's keyword arguments. The step's input fills in by name; what is no parameter is not given.

    Raises:
        ValidationError: a missing argument, a wrong one, or an unknown one that the caller chose.
        ValueError: they can't be written as JSON.
    """
    parameters = function.parameters
    named: dict[str, JsonValue] = {
        name: value for name, value in given.step_input.items() if name in parameters
    }
    named |= given.arguments
    named |= {name: value for name, value in given.bound.items() if name in parameters}
    # By way of JSON: strict there takes a date or an enum from its text, and still no number from one.
    checked: BaseModel = function.arguments.model_validate_json(json_text.write(named))
    made: dict[str, object] = {
        parameter: getattr(checked, name)
        for parameter, name in parameters.items()
        if name in checked.model_fields_set
    }
    if function.takes_call:
        made[CONTEXT_PARAMETER] = given.call
    return made


def misfit(error: ValidationError) -> str:
    """What is wrong with the arguments, for whoever chose them."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    shown = "; ".join(
        f"{'.'.join(str(part) for part in problem['loc']) or 'arguments'}: {problem['msg']}"
        for problem in problems[:_SHOWN_PROBLEMS]
    )
    return f"The arguments do not fit: {shown}."


def may_pass(error: BaseException) -> bool:
    """True for what another attempt may not meet."""
    return isinstance(error, ConnectionError | TimeoutError)


def raised(error: BaseException) -> str:
    """What is said of a function that raised: the exception's name and text."""
    name = type(error).__name__
    if not isinstance(error, Exception) or isinstance(error, RecursionError | MemoryError):
        return f"The function ended with {name}."
    try:
        return shortened(f"{name}: {error}")
    except Exception:  # noqa: BLE001 - an exception may raise anything when it is asked for its text
        return f"The function ended with {name}."


def frames_of(error: BaseException) -> str:
    """Where it was raised, the innermost place last: files, lines and names, and no values."""
    frames = traceback.extract_tb(error.__traceback__, limit=-_SHOWN_FRAMES)
    return "\n".join(f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in frames)

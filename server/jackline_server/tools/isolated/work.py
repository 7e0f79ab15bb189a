"""One call of a function inside its own process, as the frames that tell the server of it.

Owns the order: what can be known before the function is called is said before it is.
"""

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any, cast

from pydantic import ValidationError

from jackline_server.core import json_text
from jackline_server.core.plan import JsonObject
from jackline_server.tools.function_call import Given, frames_of, keywords, may_pass, misfit, raised
from jackline_server.tools.function_catalog import FoundFunction, FunctionCatalog, FunctionProblem
from jackline_server.tools.isolated.frames import BEGAN, FAILURE, MOST_BYTES, VALUE, frame
from jackline_server.tools.isolated.limits import met_by_error
from jackline_server.tools.results import NotJson, to_json
from jackline_server.tools.tool_call import ToolCall


def work(call: dict[str, Any]) -> Iterator[bytes]:
    """The frames, each before what follows it is done."""
    try:
        function = FunctionCatalog(roots=call["roots"]).find(call["function"])
        given = Given(
            arguments=call["arguments"],
            bound=call["bound"],
            step_input=call["step_input"],
            call=ToolCall(**call["call"]),
        )
        named = keywords(function, given)
    except FunctionProblem as problem:
        yield _failure(f"The function can't be called: {problem}.")
    except ValidationError as error:
        yield _failure(misfit(error))
    except ValueError:
        yield _failure("The arguments can't be written as JSON.")
    else:
        yield frame(BEGAN)
        yield _called(function, named, call["limits"])


def _called(function: FoundFunction, named: dict[str, object], limits: JsonObject) -> bytes:
    try:
        value = function.call(**named)
        if function.is_async:
            value = asyncio.run(cast("Coroutine[Any, Any, object]", value))
    except BaseException as error:  # noqa: BLE001 - the process ends here, and nothing may pass unseen
        met = met_by_error(error, limits)
        return _failure(
            f"{raised(error)} It met its {met}." if met else raised(error),
            may_pass=may_pass(error),
            error_type=type(error).__name__,
            frames=frames_of(error),
        )
    try:
        body = json_text.write(to_json(value)).encode()
    except NotJson as error:
        return _failure(f"The function returned what can't be kept: {error}.")
    except Exception as error:  # noqa: BLE001 - a returned object may raise anything when it is looked at
        return _failure(f"The function returned what can't be read: {type(error).__name__}.")
    if len(body) > MOST_BYTES:
        return _failure("The function returned more than can be kept.")
    return frame(VALUE, body)


def _failure(message: str, **more: str | bool) -> bytes:
    failure: JsonObject = {"message": message, **more}
    return frame(FAILURE, json_text.write(failure).encode())

"""The runtime's `Consultants`: Python functions of the operator's roots that answer yes or no.

Owns what a question is to such a function, and what its result is to the one who asks. Does not own how a
function is found or run (`function`). These functions have threads of their own: one that never returns takes
no place of a tool.
"""

from jackline_server.core import json_text
from jackline_server.core.plan import Effect, FunctionAction, OnUnknown, ToolStep
from jackline_server.runtime.ports.consultants import Consultation, ConsultReply
from jackline_server.runtime.ports.tools import Invocation, ToolEnding, ToolResult
from jackline_server.tools.attempt import Attempts
from jackline_server.tools.function import FunctionTool

_NET_MS = 100
"""A function that waits for a thread keeps its own time; this much later it is cut anyway."""


class FunctionConsultants:
    """Implements `Consultants`. Each question is one call, for as long as it may take."""

    def __init__(self, *, functions: FunctionTool) -> None:
        self._functions = functions
        self._attempts = Attempts()

    async def ask(self, question: Consultation) -> ConsultReply:
        """See `Consultants.ask`."""
        action = FunctionAction(function=question.target)
        result = await self._attempts.run(
            lambda: self._functions.call(action, _invocation(action, question)),
            timeout_ms=question.timeout_ms,
            net_ms=_NET_MS,
            repeatable=True,
        )
        return _reply(result)


def _invocation(action: FunctionAction, question: Consultation) -> Invocation:
    """The question as a call of a tool that reads: the function takes of the variables what it names."""
    step = ToolStep(
        step_id=question.who,
        kind="function",
        description="",
        input=None,
        routes={},
        next_step="",
        effect=Effect.READ,
        action=action,
        output_key="",
        timeout_ms=question.timeout_ms,
        result_chars=0,
        on_unknown=OnUnknown.FAIL,
        unknown_expiry_ms=0,
    )
    return Invocation(
        step=step,
        run_id=question.run_id,
        call_key=f"{question.run_id}.{question.who}",
        attempt=1,
        arguments={},
        bound={},
        step_input=question.variables,
        subject=question.subject,
        timeout_ms=question.timeout_ms,
    )


def _reply(result: ToolResult) -> ConsultReply:
    if result.ending is not ToolEnding.COMPLETED or result.output_json is None:
        return ConsultReply(answer=None, error=result.error)
    answer = json_text.parse(result.output_json) if result.output_json in ("true", "false") else None
    if not isinstance(answer, bool):
        return ConsultReply(answer=None, error="The function returned neither True nor False.")
    return ConsultReply(answer=answer)

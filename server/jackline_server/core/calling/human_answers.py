"""Calls of steps that only ask a person, once they are answered: the answer is the call's output.

Owns what an answer becomes: of options `{"option": …}` with what was said to it under `text`, of a form the
object, of an open question the words. In the flow the option is the step's signal. If nobody answers in time
that is the step's default, and without one the step ends for review.
"""

from collections.abc import Sequence

from jackline_server.core import exits, json_text
from jackline_server.core.deciding import leaving
from jackline_server.core.deciding.batches import Batch, tool_step
from jackline_server.core.deciding.partial import with_best
from jackline_server.core.exits import Exit
from jackline_server.core.facts import CallStatus, StopReason, ToolAsk, ToolCallFinished, ToolReply
from jackline_server.core.folding.evolve_calls import ACCEPT
from jackline_server.core.frozen import change
from jackline_server.core.plan import HumanAction, JsonObject, StepPlan, ToolStep
from jackline_server.core.reading import question_forms
from jackline_server.core.state import ToolCall
from jackline_server.core.steps import Record


def settle(batch: Batch, answered: Sequence[tuple[ToolCall, ToolAsk]]) -> Record | None:
    """The ends of those of the answered calls whose step only asks; None if there are none."""
    ended: list[ToolCallFinished] = []
    for call, ask in answered:
        action, reply = tool_step(batch, call).action, call.reply
        if not isinstance(action, HumanAction) or reply is None:
            continue
        if question_forms.has_expired(batch.state, call):
            if action.default_json is None:
                return _to_review(batch, call)
            ended.append(_completed(call, action.default_json))
        elif reply.option == ACCEPT or ask.options:
            ended.append(_completed(call, _output(ask, reply)))
        else:
            ended.append(_declined(call, reply))
    return Record(facts=tuple(ended)) if ended else None


def _output(ask: ToolAsk, reply: ToolReply) -> str:
    if not ask.options:
        return json_text.write(question_forms.read(ask.schema_json, reply.text))
    chosen: JsonObject = {"option": reply.option}
    return json_text.write(chosen | {"text": json_text.clean(reply.text)} if reply.text else chosen)


def _completed(call: ToolCall, output_json: str) -> ToolCallFinished:
    return ToolCallFinished(
        call_id=call.call_id, tool=call.tool, status=CallStatus.COMPLETED, output_json=output_json
    )


def _declined(call: ToolCall, reply: ToolReply) -> ToolCallFinished:
    said = f": {json_text.clean(reply.text)}" if reply.text else ""
    return ToolCallFinished(
        call_id=call.call_id,
        tool=call.tool,
        status=CallStatus.FAILED,
        error=f"the person who was asked declined to answer{said}",
    )


def _to_review(batch: Batch, call: ToolCall) -> Record:
    end = exits.abnormal(StopReason.REVIEW, leaf=call.tool, error=f"nobody answered {call.tool} in time")
    return leaving.leave(batch.state, batch.visit, with_best(end, batch.state, batch.visit))


def chosen(step: StepPlan, end: Exit) -> Exit:
    """The exit of a step whose call completed: of one that offers options, the option that was taken."""
    if not isinstance(step, ToolStep) or not isinstance(step.action, HumanAction):
        return end
    option = end.result.get("option") if isinstance(end.result, dict) else None
    if not any(option == one.value for one in step.action.options):
        return end
    return change(end, signal=str(option), reason=StopReason.OUTCOME)

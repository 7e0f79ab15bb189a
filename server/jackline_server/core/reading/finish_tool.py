"""The tool `finish`, by whose call a model answers: what is declared of it, and where its calls stand.

Owns how `finish` differs from a tool: no step is behind it, it is never sent to a toolbox, and it counts for
no bound of tool calls. Does not own what its call leads to (`finishing`).
"""

from jackline_server.core import bounds
from jackline_server.core.plan import FINISH, AnswerForm, ChoiceMode, ModelStep, ToolChoice, ToolEntry
from jackline_server.core.state import ToolCall

_DESCRIPTION = (
    "Ends this step with your answer. Call it once, when you are done, with no other call beside it: "
    "look at the results of other calls first."
)

_FREE = ToolChoice()
_FORCED = ToolChoice(mode=ChoiceMode.NAMED, name=FINISH)


def has(step: ModelStep) -> bool:
    """True if the step's model answers by calling `finish`."""
    return step.outcome.form is AnswerForm.FINISH_TOOL


def is_call(step: ModelStep, call: ToolCall) -> bool:
    """True for a call of `finish` where it is no tool of the workflow's."""
    return call.tool == FINISH and has(step)


def declared(step: ModelStep) -> tuple[ToolEntry, ...]:
    """`finish` as the model is offered it, or nothing."""
    if step.outcome.contract_json is None or not has(step):
        return ()
    entry = ToolEntry(
        ref=FINISH,
        description=_DESCRIPTION,
        parameters_json=step.outcome.contract_json,
        bind={},
        max_calls=None,
        writes_context=False,
    )
    return (entry,)


def offered(step: ModelStep, *, closing: bool) -> tuple[ToolEntry, ...]:
    """The tools of a call: those of the step and `finish`. A closing answer has none but `finish`."""
    if not has(step):
        return () if closing else step.tools
    return declared(step) if closing else (*step.tools, *declared(step))


def choice(step: ModelStep, *, closing: bool) -> ToolChoice:
    """What is asked of the provider once the model may answer: `finish`, where nothing else is offered."""
    return _FORCED if has(step) and (closing or not step.tools) else _FREE


def contract_tokens(step: ModelStep) -> int:
    """What sending the contract of the answer is estimated to cost; 0 if it is not sent apart."""
    contract = step.outcome.contract_json
    if contract is None:
        return 0
    return bounds.estimate([f"{FINISH}{_DESCRIPTION}{contract}" if has(step) else contract])

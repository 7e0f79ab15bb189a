"""The tool `read_result`, by which a model reads on in a result that was too long to be shown whole.

Owns what is declared of it, when it is offered, and which results it can be asked for: those of the same
visit. Its calls are tool calls like any other: reserved, counted, recorded. No step of a plan is behind it;
what it does is the runtime's.
"""

from functools import cache

from jackline_server.core import bounds, json_text
from jackline_server.core.facts import CallStatus
from jackline_server.core.plan import (
    READ_RESULT,
    Effect,
    ModelStep,
    OnUnknown,
    Plan,
    ResultAction,
    StepPlan,
    ToolEntry,
    ToolStep,
)
from jackline_server.core.reading import child_tool
from jackline_server.core.state import RunState, ToolCall, Visit, calls_of

DEFAULT_PAGE_CHARS = 8_000
"""The longest page of a result whose tool does not say how much of it is shown."""

MOST_SEARCH_CHARS = 200

_TIMEOUT_MS = 30_000

_PARAMETERS = (
    '{"type":"object","properties":{'
    '"result":{"type":"string","description":"The result to read, as its mark names it, such as result-3."},'
    '"offset":{"type":"integer","minimum":0,"description":"Read from this byte on, as a mark or an earlier '
    'page gives it."},'
    '"line":{"type":"integer","minimum":1,"description":"Read from this line on, not from an offset."},'
    '"limit":{"type":"integer","minimum":1,"description":"Read so many characters at most."},'
    f'"search":{{"type":"string","minLength":1,"maxLength":{MOST_SEARCH_CHARS},"description":"Instead of '
    "reading, find the lines that hold this text; upper and lower case are the same. Begins at `offset` or "
    '`line`."}},"required":["result"],"additionalProperties":false}'
)

ENTRY = ToolEntry(
    ref=READ_RESULT,
    description="Reads on in a tool's result that was cut, or searches it. The mark in the result names it.",
    parameters_json=_PARAMETERS,
    bind={},
    max_calls=None,
    writes_context=False,
)

STEP = ToolStep(
    step_id=READ_RESULT,
    kind="built_in",
    description=ENTRY.description,
    input={},
    routes={},
    next_step="",
    effect=Effect.READ,
    action=ResultAction(),
    output_key="",
    timeout_ms=_TIMEOUT_MS,
    result_chars=2**31,
    on_unknown=OnUnknown.FAIL,
    unknown_expiry_ms=0,
)
"""What is behind a call of it. Its pages are bounded by themselves, so that none is cut."""


@cache
def tokens() -> int:
    """What declaring it is estimated to cost."""
    return bounds.estimate([f"{READ_RESULT}{ENTRY.description}{_PARAMETERS}"])


def is_call(step: ModelStep, name: str) -> bool:
    """True for a call of that name where it is no tool of the workflow's."""
    return name == READ_RESULT and step.reads_results


def offered(step: ModelStep, visit: Visit) -> tuple[ToolEntry, ...]:
    """`read_result` as the model is offered it: from the first result on that it was not shown whole."""
    return (ENTRY,) if visit.readable and step.reads_results else ()


def behind(plan: Plan, tool: str) -> StepPlan | None:
    """The step behind a tool's name, this one's too; None for a name that the model made up."""
    step = plan.steps.get(tool)
    if isinstance(step, ModelStep):
        return child_tool.of_agent(step)
    return STEP if step is None and tool == READ_RESULT else step


def handle_of(call: ToolCall) -> str:
    """What a model calls the result of a call by."""
    return f"result-{call.ordinal}"


def text_of(output_json: str) -> str:
    """What offsets into a result count in: the text itself, or the JSON of what is no text."""
    if not output_json.startswith('"'):
        return output_json
    value = json_text.parse(output_json)
    return value if isinstance(value, str) else output_json


def named(state: RunState, visit: Visit, handle: str) -> ToolCall | None:
    """The call of the visit whose result the handle names; None if it has none that can be read."""
    return next((call for call in readable(state, visit) if handle_of(call) == handle), None)


def readable(state: RunState, visit: Visit) -> list[ToolCall]:
    """The calls of the visit that a model can read the results of, in the order they were asked for."""
    return [
        call
        for call in calls_of(state, visit)
        if call.status is CallStatus.COMPLETED and call.tool != READ_RESULT
    ]


def page_chars(plan: Plan, call: ToolCall) -> int:
    """How long a page of the call's result may be: as much as is shown of it at once."""
    step = behind(plan, call.tool)
    return step.result_chars if isinstance(step, ToolStep) else DEFAULT_PAGE_CHARS


def is_cut(plan: Plan, call: ToolCall) -> bool:
    """True if a model is not shown the whole result of the completed call."""
    return bool(call.cut_from_bytes) or len(call.output_json or "") > page_chars(plan, call)

"""The open calls of a visit, with what limits them.

Owns how much room the caps leave, and what a call's tool is. Does not own what becomes of the calls.
"""

from jackline_server.core.folding.evolve_calls import entry_of, is_counted, is_settled
from jackline_server.core.frozen import frozen
from jackline_server.core.plan import Effect, ModelStep, ToolEntry, ToolStep
from jackline_server.core.reading import finish_tool, result_tool
from jackline_server.core.state import RunState, ToolCall, Visit, bounds_of, calls_of


@frozen
class Batch:
    """The open calls of a visit, with what limits them. `step` is None for a tool step's own call."""

    state: RunState
    visit: Visit
    step: ModelStep | None
    calls: tuple[ToolCall, ...]

    @property
    def room(self) -> int:
        """How many more attempts the visit allows."""
        if self.step is None:
            return len(self.calls)
        return bounds_of(self.visit, self.step).tool_calls - self.visit.ledger.tool_calls

    def entry(self, call: ToolCall) -> ToolEntry | None:
        """How the visit's step declares the tool; None for a tool step's own call."""
        return None if self.step is None else entry_of(self.step, call)


def open_batch(state: RunState, visit: Visit) -> Batch:
    """The calls of the visit that are not settled and that a tool is behind."""
    step = state.plan.step(visit.step_id)
    model_step = step if isinstance(step, ModelStep) else None
    calls = [call for name in visit.open_calls if not is_settled(call := state.calls[name], state.plan)]
    if model_step is not None and finish_tool.has(model_step):
        calls = [call for call in calls if not finish_tool.is_call(model_step, call)]
    return Batch(state=state, visit=visit, step=model_step, calls=tuple(calls))


def spent(batch: Batch) -> dict[str, int]:
    """Attempts of this visit by tool, as they count."""
    attempts: dict[str, int] = {}
    for call in calls_of(batch.state, batch.visit):
        made = 1 if is_counted(batch.state.plan, call) else call.attempts
        attempts[call.tool] = attempts.get(call.tool, 0) + made
    return attempts


def may_repeat(batch: Batch, call: ToolCall) -> bool:
    """True if the caps leave room for one more attempt at the call."""
    entry = batch.entry(call)
    if entry is None or entry.max_calls is None:
        return batch.room > 0
    return batch.room > 0 and spent(batch).get(call.tool, 0) < entry.max_calls


def tool_step(batch: Batch, call: ToolCall) -> ToolStep:
    """The step behind a call that may start."""
    step = result_tool.behind(batch.state.plan, call.tool)
    if not isinstance(step, ToolStep):
        raise TypeError(f"the tool {call.tool} is not a tool step")
    return step


def effect_of(batch: Batch, call: ToolCall) -> Effect | None:
    """What the call may change; None for a name that the model made up."""
    step = result_tool.behind(batch.state.plan, call.tool)
    return step.effect if isinstance(step, ToolStep) else None

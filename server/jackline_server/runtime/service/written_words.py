"""What people write in commands, as it may be stored where a plan masks personal data.

Owns which mask holds for which words. What is said to a run is masked like its input; what of it becomes the
output or the error of a call, like results of tools as well; a result that is submitted, like those alone;
what a tool is given, like arguments. Does not own what is recognised (a `Masks`), nor which commands are
taken (`controlling`): what is masked is what is looked at there, and nothing else is ever stored.
"""

import hashlib
from typing import Protocol

from jackline_server.core import json_text
from jackline_server.core.commands import (
    Abort,
    Action,
    Answer,
    Command,
    EditAndApprove,
    Reject,
    Steer,
    SubmitToolResult,
)
from jackline_server.core.deciding import approving
from jackline_server.core.facts import InterruptKind
from jackline_server.core.frozen import change
from jackline_server.core.gate_plans import MaskPlan, hiding_both
from jackline_server.core.plan import HumanAction, Plan, ToolStep
from jackline_server.core.reading import gate_lookup, question_forms, result_tool
from jackline_server.core.state import Interrupt, RunState
from jackline_server.runtime.driving.masking import masked_words
from jackline_server.runtime.ports.codec import Codec
from jackline_server.runtime.ports.masks import Masks
from jackline_server.runtime.ports.run_rows import RunRow
from jackline_server.runtime.refusals import Refused


class Plans(Protocol):
    """Where the plans of runs are read."""

    async def plan(self, row: RunRow) -> Plan:
        """The plan of the run of that row. Raises Refused(DATA_VERSION_NEWER)."""
        ...


class WrittenWords:
    """Commands as they may be stored."""

    def __init__(self, *, masks: Masks, plans: Plans, codec: Codec) -> None:
        self._masks = masks
        self._plans = plans
        self._codec = codec

    async def kept(self, row: RunRow, command: Command, state: RunState | None) -> Command:
        """The command with its words masked, and then with the fingerprint of what was sent.

        `state` is that of the run, which is needed for what answers a question or is about a call. An abort
        of a run whose plan can't be read here is taken without its reason. Raises
        Refused(DATA_VERSION_NEWER).
        """
        if state is None and not command.reason and not isinstance(command.action, Steer):
            return command
        try:
            plan = await self._plans.plan(row) if state is None else state.plan
            masked = await self._masked(command, plan, state)
        except Refused:
            if not isinstance(command.action, Abort):
                raise
            masked = change(command, reason="")
        if masked == command:
            return command
        return change(masked, fingerprint=fingerprint(self._codec.encode_command(command)))

    async def _masked(self, command: Command, plan: Plan, state: RunState | None) -> Command:
        said = None if plan.gates is None else plan.gates.mask_input
        reason = await masked_words(command.reason, said, self._masks)
        return change(command, reason=reason, action=await self._action(command.action, said, state))

    async def _action(self, action: Action, said: MaskPlan | None, state: RunState | None) -> Action:
        match action:
            case Steer(text=text):
                return change(action, text=await masked_words(text, said, self._masks))
            case Answer() if state is not None:
                return await self._answer(action, said, state)
            case Reject() if state is not None:
                plan = hiding_both(said, _of_results(state, action.interrupt_id))
                return change(action, text=await masked_words(action.text, plan, self._masks))
            case EditAndApprove() if state is not None:
                return await self._edit(action, state)
            case SubmitToolResult() if state is not None:
                return await self._result(action, state)
            case _:
                return action

    async def _answer(self, answer: Answer, said: MaskPlan | None, state: RunState) -> Answer:
        asked = state.oversight.interrupts.get(answer.interrupt_id)
        is_json = asked is not None and question_forms.holds_json(asked, answer.option)
        plan = hiding_both(said, None if asked is None else _of_answer(state, asked))
        return change(answer, text=await masked_words(answer.text, plan, self._masks, is_json=is_json))

    async def _edit(self, edit: EditAndApprove, state: RunState) -> EditAndApprove:
        """Masked is what a person wrote; what the workflow gives the call stands there as it was shown."""
        asked = state.oversight.interrupts.get(edit.interrupt_id)
        if asked is None or asked.kind is not InterruptKind.APPROVAL:
            return edit
        gates = gate_lookup.of_step(state, asked.step_id)
        try:
            written = json_text.write(approving.kept(state, asked, edit.arguments_json))
        except approving.NotTaken:
            return edit  # it is refused
        plan = None if gates is None else gates.mask_arguments
        masked = await masked_words(written, plan, self._masks, is_json=True)
        return edit if masked == written else change(edit, arguments_json=masked)

    async def _result(self, said: SubmitToolResult, state: RunState) -> SubmitToolResult:
        call = state.calls.get(said.call_id)
        gates = None if call is None else gate_lookup.of_step(state, call.step_id)
        plan = None if gates is None else gates.mask_results
        error = await masked_words(said.error, plan, self._masks)
        if said.output_json is None:
            return change(said, error=error)
        output = await masked_words(said.output_json, plan, self._masks, is_json=True)
        return change(said, output_json=output, error=error)


def fingerprint(sent: bytes) -> str:
    """Tells a command from another by what was sent, where it is stored as something else: SHA-256 in hex."""
    return hashlib.sha256(sent).hexdigest()


def _of_results(state: RunState, interrupt_id: str) -> MaskPlan | None:
    asked = state.oversight.interrupts.get(interrupt_id)
    gates = None if asked is None else gate_lookup.of_step(state, asked.step_id)
    return None if gates is None else gates.mask_results


def _of_answer(state: RunState, asked: Interrupt) -> MaskPlan | None:
    """The mask of what an answer becomes, beside that of whatever is said to the run."""
    gates, call = gate_lookup.of_step(state, asked.step_id), state.calls.get(asked.call_id)
    if gates is None or call is None:
        return None
    tool = result_tool.behind(state.plan, call.tool)
    only_asks = isinstance(tool, ToolStep) and isinstance(tool.action, HumanAction)
    is_told_to_tool = asked.kind is InterruptKind.QUESTION and not only_asks
    return gates.mask_arguments if is_told_to_tool else gates.mask_results

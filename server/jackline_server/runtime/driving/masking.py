"""What of a reply, a result or a person's words is stored where the plan masks personal data.

Owns what is masked in each. Does not own what is recognised (a `Masks`). A large text is masked in a thread,
so that other runs go on meanwhile.
"""

import asyncio
from collections.abc import Callable

from jackline_server.core import json_text
from jackline_server.core.calling.calls import Heard
from jackline_server.core.frozen import change
from jackline_server.core.gate_plans import GatesPlan, MaskPlan, Pii
from jackline_server.core.messages import Message, UserMessage
from jackline_server.core.reading import gate_lookup
from jackline_server.core.state import RunState
from jackline_server.runtime.driving.replies import Reply
from jackline_server.runtime.ports.masks import Masks
from jackline_server.runtime.ports.tools import ToolResult

_IN_THREAD_CHARS = 4_096
EVERY_KIND = MaskPlan(kinds=frozenset(Pii))
"""For what is told where no plan is read that says what is masked."""


def hides_replies(state: RunState) -> bool:
    """True if nothing of a reply may be shown or kept before it is masked as a whole."""
    gates = gate_lookup.here(state) if state.gates is not None else None
    return gates is not None and not (gates.mask_replies is None and gates.mask_arguments is None)


async def masked_reply(reply: Reply, gates: GatesPlan, masks: Masks) -> Reply:
    """The reply as it may be stored: text and reasoning, but nothing of it that is signed."""
    plan = gates.mask_replies
    if plan is None:
        return reply
    text = await _masked(masks.text, reply.text, plan)
    reasoning = await _masked(masks.text, reply.reasoning, plan)
    return change(reply, text=text, reasoning=reasoning, blocks_json="")


async def masked_calls(reply: Reply, heard: Heard, gates: GatesPlan, masks: Masks) -> tuple[Reply, Heard]:
    """A reply and the calls heard in it, with the arguments of the calls as they may be stored and made."""
    plan = gates.mask_arguments
    if plan is None or not heard.asked:
        return reply, heard
    asked = [(call_id, name, await _masked(masks.json, text, plan)) for call_id, name, text in heard.asked]
    if heard.in_text:
        reply = change(reply, text=await _masked(masks.text, reply.text, plan))
    return reply, change(heard, asked=tuple(asked))


async def masked_messages(messages: tuple[Message, ...], masks: Masks) -> tuple[Message, ...]:
    """The requests as whoever may see no personal data is sent them; instructions are the workflow's own."""
    return tuple(
        [
            change(one, text=await _masked(masks.text, one.text, EVERY_KIND))
            if isinstance(one, UserMessage)
            else one
            for one in messages
        ]
    )


async def masked_result(result: ToolResult, plan: MaskPlan, masks: Masks) -> ToolResult:
    """The result as it may be stored. A long one is masked as a whole before it is divided.

    What is no text can't be masked: of that it is kept what it is, and none of it.
    """
    if result.media:
        hidden = [change(part, data=None, size=part.bytes, name="") for part in result.media]
        result = change(result, media=tuple(hidden))
    if result.ask is not None:
        result = change(result, ask=change(result.ask, text=await _masked(masks.text, result.ask.text, plan)))
    error = await _masked(masks.text, result.error, plan)
    output = result.output_json
    if output is None:
        return change(result, error=error)
    if result.whole is None:
        return change(result, error=error, output_json=await _masked(masks.json, output, plan))
    whole = await _masked(masks.json, result.whole, plan)
    head = len(str(json_text.parse(output)))
    return change(
        result,
        error=error,
        whole=whole,
        output_json=json_text.write(whole[:head]),
        tail=whole[-len(result.tail) :] if result.tail else "",
        cut_from_bytes=len(whole.encode()),
    )


async def _masked(mask: Callable[[str, MaskPlan], str], text: str, plan: MaskPlan) -> str:
    if len(text) > _IN_THREAD_CHARS:
        return await asyncio.to_thread(mask, text, plan)
    return mask(text, plan)


async def masked_words(text: str, plan: MaskPlan | None, masks: Masks, *, is_json: bool = False) -> str:
    """What a person wrote, as it may be stored."""
    if plan is None or not text:
        return text
    return await _masked(masks.json if is_json else masks.text, text, plan)


async def masked_input(input_json: str, gates: GatesPlan | None, masks: Masks) -> str:
    """A run's input as it may be stored."""
    if gates is None or gates.mask_input is None:
        return input_json
    return await asyncio.to_thread(masks.json, input_json, gates.mask_input)

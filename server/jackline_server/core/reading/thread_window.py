"""The part of a thread that a step is shown.

Owns how far back it goes: to a message of the user, and no further than the step can pay for. What it leaves
out stays in the thread. Does not own the wording (`transcript`).
"""

from collections.abc import Sequence

from jackline_server.core import bounds
from jackline_server.core.errors import CorruptLog
from jackline_server.core.messages import AssistantMessage, Message, UserMessage
from jackline_server.core.plan import ModelStep
from jackline_server.core.state import RunState

_OF_WINDOW = 2
"""The conversation takes at most one part in so many of the model's context."""
_OF_BUDGET = 4
"""The same of a token budget: each turn pays for the conversation again."""


def shown(state: RunState, step: ModelStep) -> Sequence[Message]:
    """The newest messages of the run's thread that the step is shown, the first one the user's.

    Raises:
        CorruptLog: the messages were not read.
    """
    talk = state.talk
    if talk is None or not step.thread:
        return ()
    left, start = _most_tokens(state, step), None
    messages = [_read(one.message) for one in talk.history]
    for index in range(len(messages) - 1, -1, -1):
        left -= bounds.message_tokens(text_of(messages[index]))
        if left < 0:
            break
        if isinstance(messages[index], UserMessage):
            start = index
    return () if start is None else messages[start:]


def call_ids(state: RunState) -> set[str]:
    """The ids of the calls in what had been said before the run: no call of its own may have one of them."""
    if state.talk is None:
        return set()
    said = (one.message for one in state.talk.history)
    return {call.call_id for one in said if isinstance(one, AssistantMessage) for call in one.calls}


def text_of(message: Message) -> str:
    """All that a message says, for an estimate of what it costs."""
    if isinstance(message, AssistantMessage):
        said = message.text + "".join([f"{call.name}{call.arguments}" for call in message.calls])
        return said if message.blocks is None else said + message.reasoning + message.blocks.blocks_json
    return message.text


def _most_tokens(state: RunState, step: ModelStep) -> int:
    most = state.plan.models[step.model].context_window // _OF_WINDOW
    for budget in (step.bounds.token_budget, state.bounds.token_budget):
        if budget is not None:
            most = min(most, budget // _OF_BUDGET)
    return most


def _read(message: Message | None) -> Message:
    if message is None:
        raise CorruptLog("a message of the thread was not read")
    return message

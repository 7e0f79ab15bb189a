"""What a run says in its thread: the messages that it adds at its end.

Owns what is kept of a visit, and in which words: the input as JSON, guidance as it was sent, replies with
their calls and results as the model saw them. What the engine says to the model is of this run alone and is
left out, and so is an answer that did not count. A reply that broke off is kept as far as it came, marked.
"""

from jackline_server.core import json_text, transcript
from jackline_server.core.context import step_input
from jackline_server.core.facts import CommandRejected, MessagesAppended
from jackline_server.core.frozen import change
from jackline_server.core.messages import AssistantMessage, Message, UserMessage
from jackline_server.core.plan import ModelStep, StepPlan
from jackline_server.core.state import Note, Reply, RunState, Talk, Visit

INTERRUPTED = "[This reply was interrupted.]"


def turn_came(state: RunState, fact: MessagesAppended) -> RunState:
    """The run's turn in its thread has come: it has what the thread has by now."""
    if state.talk is None:
        return state
    return change(state, talk=change(state.talk, history=fact.messages, waits=False))


def entered(state: RunState, step: StepPlan) -> Talk | None:
    """The run's part, once it is in that step."""
    talk = state.talk
    if talk is None or not isinstance(step, ModelStep) or not step.thread:
        return talk
    return change(talk, opening=_input_of(state, step))


def left(state: RunState, visit: Visit) -> Talk | None:
    """What the run has said with this visit, which ends."""
    talk = state.talk
    step = state.plan.step(visit.step_id)
    if talk is None or not state.in_thread or not isinstance(step, ModelStep) or not step.thread:
        return talk
    return change(talk, said=(*talk.said, *_of_visit(talk, state, visit)))


def came_too_late(state: RunState, fact: CommandRejected) -> RunState:
    """Guidance that nobody was left to hear stays in the thread: the next run sees it."""
    if state.talk is None or not fact.unheard:
        return state
    message = UserMessage(text=fact.unheard, provenance=f"steer:{fact.principal}")
    return change(state, talk=change(state.talk, unheard=(*state.talk.unheard, message)))


def added(state: RunState) -> tuple[Message, ...]:
    """What a run adds to its thread, once it has ended; nothing if its turn never came."""
    talk = state.talk
    if talk is None or talk.waits or not state.in_thread:
        return ()
    return (*(talk.said or _input_alone(state)), *talk.unheard)


def _input_alone(state: RunState) -> tuple[Message, ...]:
    """What the user had said to a run that came to no step of the conversation."""
    steps = [state.plan.steps[name] for name in state.plan.flow]
    step = next((step for step in steps if isinstance(step, ModelStep) and step.thread), None)
    return () if step is None else (UserMessage(text=_input_of(state, step), provenance="input"),)


def _input_of(state: RunState, step: ModelStep) -> str:
    given = step_input(state.context, step.input)
    return json_text.write(given) if given else ""


def _of_visit(talk: Talk, state: RunState, visit: Visit) -> list[Message]:
    messages: list[Message] = [UserMessage(text=talk.opening, provenance="input")]
    for index, entry in enumerate(visit.entries):
        match entry:
            case Note() if entry.is_guidance:
                messages.append(UserMessage(text=entry.text, provenance=entry.provenance))
            case Note():
                pass
            case Reply():
                if entry.calls or not _was_refused(visit, index):
                    messages.extend(transcript.told_of(entry, state))
    broken = visit.history.interrupted.strip()
    return [*messages, AssistantMessage(text=f"{broken}\n{INTERRUPTED}")] if broken else messages


def _was_refused(visit: Visit, index: int) -> bool:
    """True for a text that the engine has answered: it did not count."""
    following = visit.entries[index + 1] if index + 1 < len(visit.entries) else None
    return isinstance(following, Note) and not following.is_guidance

"""What a run says in its thread: the messages that it adds at its end.

Owns what is kept of a visit, and in which words: the input as JSON, guidance as it was sent, replies with
their calls and results as the model saw them. What the engine says to the model is of this run alone and is
left out, and so is an answer that did not count or that did not pass the guardrails of its step, and every
turn that the judge of a supervisor did not pass, with its calls and their results, unless somebody has let it
stand as the answer. A reply that broke off is kept as far as it came, marked.
"""

from collections.abc import Iterator

from jackline_server.core import json_text
from jackline_server.core.context import step_input
from jackline_server.core.facts import CommandRejected, MessagesAppended, StepFinished
from jackline_server.core.frozen import change
from jackline_server.core.messages import AssistantMessage, Message, UserMessage
from jackline_server.core.plan import ModelStep, StepPlan
from jackline_server.core.reading import finish_tool, transcript
from jackline_server.core.state import Note, Reply, RunState, Talk, Visit, refused_by_judge

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


def left(state: RunState, visit: Visit, finished: StepFinished) -> Talk | None:
    """What the run has said with this visit, which ends so."""
    talk = state.talk
    step = state.plan.step(visit.step_id)
    if talk is None or not state.in_thread or not isinstance(step, ModelStep):
        return talk
    if not step.thread:
        heard = tuple(_guidance(visit))
        return change(talk, unheard=(*talk.unheard, *heard)) if heard else talk
    is_guarded = step.gates is not None and bool(step.gates.output)
    has_answer = finished.result_json is not None
    refused = _refused(visit, stands=has_answer and not finished.partial)
    if is_guarded:
        said = _passed(talk, state, step, visit, refused, has_answer=has_answer)
    else:
        said = _of_visit(talk, state, visit, refused)
    return change(talk, said=(*talk.said, *said))


def _refused(visit: Visit, *, stands: bool) -> frozenset[int]:
    """The places of what its judge did not pass, but for an answer that somebody let stand all the same."""
    refused = refused_by_judge(visit)
    if not refused or not stands:
        return refused
    return refused - {max(place for place, entry in enumerate(visit.entries) if isinstance(entry, Reply))}


def _guidance(visit: Visit) -> Iterator[UserMessage]:
    """What people have said to a step; where it is none of the conversation, nobody there has heard it."""
    for entry in visit.entries:
        if isinstance(entry, Note) and entry.is_guidance:
            yield UserMessage(text=entry.text, provenance=entry.provenance)


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


def _of_visit(talk: Talk, state: RunState, visit: Visit, refused: frozenset[int]) -> list[Message]:
    messages: list[Message] = [UserMessage(text=talk.opening, provenance="input")]
    for index, entry in enumerate(visit.entries):
        if index in refused:
            continue
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


def _passed(
    talk: Talk, state: RunState, step: ModelStep, visit: Visit, refused: frozenset[int], *, has_answer: bool
) -> list[Message]:
    """The same of a visit whose answers have to pass guardrails: of them only the one that it ends with."""
    messages: list[Message] = [UserMessage(text=talk.opening, provenance="input")]
    replies = [entry for entry in visit.entries if isinstance(entry, Reply)]
    answer = replies[-1] if replies and has_answer else None
    for index, entry in enumerate(visit.entries):
        if index in refused:
            continue
        if isinstance(entry, Note):
            if entry.is_guidance:
                messages.append(UserMessage(text=entry.text, provenance=entry.provenance))
            continue
        calls = tuple(
            call_id
            for call_id in entry.calls
            if entry is answer or not finish_tool.is_call(step, state.calls[call_id])
        )
        if calls or entry is answer:
            messages.extend(transcript.told_of(change(entry, calls=calls), state))
    return messages


def _was_refused(visit: Visit, index: int) -> bool:
    """True for a text that the engine has answered: it did not count."""
    following = visit.entries[index + 1] if index + 1 < len(visit.entries) else None
    return isinstance(following, Note) and not following.is_guidance

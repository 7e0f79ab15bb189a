"""How facts about a visit's progress change it: a loop that was pointed out, a look back, a judge's word.

Owns what of them enters the conversation. What a judge wrote is quoted as data: it was made from results of
tools.
"""

from jackline_server.core import json_text
from jackline_server.core.facts import Grounded, Noticed, Reflected
from jackline_server.core.frozen import change
from jackline_server.core.reading import reflection, transcript
from jackline_server.core.state import Grounding, Note, Reply, RunState, Visit, current

_UNSUPPORTED = (
    "Your answer is not borne out by the tool results. Find out what is missing, or leave it out, and answer "
    "again. What was found to have no support:"
)


def nudge(state: RunState, fact: Noticed) -> RunState:
    """A loop was pointed out."""
    visit = current(state)
    progress = change(visit.progress, nudged=True)
    return change(state, visit=change(_told(visit, fact.text), progress=progress))


def reflect(state: RunState, fact: Reflected) -> RunState:
    """A look back: the counts begin anew, and guidance enters the conversation."""
    visit = current(state)
    told = _told(visit, fact.guidance) if fact.guidance else visit
    return change(state, visit=change(told, progress=reflection.looked_back(visit.progress)))


def judged(visit: Visit, verdict: Reply) -> Visit:
    """The judge has replied; its words wait to be read and are no part of the conversation."""
    return change(visit, grounding=change(visit.grounding, verdict=verdict))


def ground(state: RunState, fact: Grounded) -> RunState:
    """The answer stands, or the model is sent back with what has no support, or the step ends next."""
    visit = withdrawn(current(state))
    if fact.passed:
        return change(state, visit=change(visit, grounding=change(visit.grounding, passed=True)))
    if not fact.replan:
        return change(state, visit=visit)
    claims = transcript.fenced(json_text.write(list(fact.unsupported)))
    told = _told(visit, f"{_UNSUPPORTED}\n{claims}")
    grounding = Grounding(replans=fact.replan, refused=visit.answer)
    return change(state, visit=change(told, answer=None, grounding=grounding))


def withdrawn(visit: Visit) -> Visit:
    """The visit without a judge at work: what it had said, or failed at, counts for nothing."""
    if not visit.grounding.asked:
        return visit
    return change(
        visit,
        attempts=None,
        request_since_ms=None,
        grounding=Grounding(replans=visit.grounding.replans, refused=visit.grounding.refused),
    )


def _told(visit: Visit, text: str) -> Visit:
    return change(visit, entries=(*visit.entries, Note(text=text, provenance="notice")))

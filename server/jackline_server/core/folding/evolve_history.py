"""How facts about what a model is sent of a visit change it: repairs, and what is left out.

Owns what of the conversation is kept when a fact says how much of it is left out. Does not own when that is
decided (`compaction`), how a conversation is made (`transcript`) or mended (`hygiene`).
"""

from jackline_server.core.errors import CorruptLog
from jackline_server.core.facts import Compacted, HistoryRepaired, ModelCallStarted, Purpose
from jackline_server.core.frozen import change
from jackline_server.core.plan import ModelStep
from jackline_server.core.reading import transcript
from jackline_server.core.state import Reply, RunState, Visit, current


def repair(state: RunState, fact: HistoryRepaired) -> RunState:
    """Repairs were told of; they are not told again."""
    visit = current(state)
    told = change(visit.history, repaired=visit.history.repaired.plus(fact.repairs))
    return change(state, visit=change(visit, history=told))


def asked(visit: Visit, fact: ModelCallStarted) -> Visit:
    """A summary is asked for; what had been tried of the call that it is put before is held back."""
    history = visit.history
    if history.asked:
        return visit
    asking = change(history, asked=True, upto=fact.summarised, held=visit.attempts)
    return change(visit, history=asking, attempts=None, request_since_ms=None)


def summarised(visit: Visit, said: Reply) -> Visit:
    """The summary came; it waits to be read and is no part of the conversation."""
    return change(visit, history=change(visit.history, reply=said))


def answered(visit: Visit) -> Visit:
    """The model has answered: what had been too long fits, and what had broken off is made good."""
    history = visit.history
    if not history.overflowed and not history.interrupted:
        return visit
    return change(visit, history=change(history, overflowed=False, interrupted=""))


def interrupted(visit: Visit, purpose: Purpose, text: str) -> Visit:
    """A reply broke off behind this text. A judge's or a summary's is nothing that the model said."""
    if purpose.is_aside:
        return visit
    return change(visit, history=change(visit.history, interrupted=text))


def compact(state: RunState, fact: Compacted) -> RunState:
    """Less of the conversation is sent from here on; a call that was refused as too long is made again."""
    visit = current(state)
    step = state.plan.step(visit.step_id)
    if not isinstance(step, ModelStep):
        raise CorruptLog("a step without a conversation is made shorter")
    before = visit.history
    history = change(
        before,
        kept_from=fact.kept_from,
        pruned_to=fact.pruned_to,
        summary=fact.summary or before.summary,
        asked=False,
        upto=0,
        reply=None,
        held=None,
        overflowed=before.overflowed or fact.overflow,
    )
    attempts = before.held if before.asked else visit.attempts
    if fact.overflow and attempts is not None:
        attempts = change(attempts, retry_at_active_ms=state.active_ms)
    shorter = change(visit, history=history, attempts=attempts, request_since_ms=None)
    return change(state, visit=change(shorter, prompt=transcript.rebuilt(state, shorter, step)))

"""What of a conversation is left out, and when: old results, then the oldest turns.

Owns the questions of whether a conversation has to be told of as repaired, pruned, or made shorter, before a
turn or after a provider refused it as too long, and what exactly goes. The task and the newest turn always
stay, and so does guidance by a person. A turn goes whole, so that calls keep their results. Each answer is a
fact that names what goes by its place in the visit: the log alone says what a model was sent.

A model that is asked for a summary is a call of its own (`summaries`). If there is no room for it, or it
fails or says nothing, the turns are left out without one, and a notice says so.
"""

from jackline_server.core.bounds import Limit
from jackline_server.core.deciding import summaries, turns
from jackline_server.core.facts import (
    Compacted,
    CompactionKind,
    Fact,
    FailureClass,
    HistoryRepaired,
    NoticeCode,
    Noticed,
)
from jackline_server.core.frozen import change, frozen
from jackline_server.core.messages import Prompt
from jackline_server.core.plan import CompactionMode, CompactionPlan, ModelStep, PrunePlan
from jackline_server.core.reading import fallbacks, transcript
from jackline_server.core.state import History, Reply, RunState, Visit
from jackline_server.core.steps import CallModel, Record, Step

SUMMARY_TOKENS = 1_000
"""What a summary is taken to need, when it is decided how many turns it stands for."""


@frozen
class _Cut:
    """What is to go: entries before `kept_from`, results before `pruned_to`."""

    kept_from: int
    pruned_to: int


def due(state: RunState, visit: Visit, step: ModelStep, *, now_active_ms: int) -> Step | None:
    """What has to happen to the conversation before the model is asked; None if it can be sent as it is."""
    plan, history = step.compaction, visit.history
    if plan is None:
        return None
    if history.asked:
        return _summary(state, visit, step, plan, now_active_ms=now_active_ms)
    if visit.attempts is not None:
        cut = _forced(state, visit, step, plan) if _is_refused(visit) else None
    elif visit.closing is not None:
        return None
    else:
        sent = transcript.prompt(state, visit, step)
        if sent.repairs is not history.repaired and sent.repairs != history.repaired:
            return _repaired(sent, history)
        cut = _needed(state, visit, step, plan, sent)
    return None if cut is None else _carried_out(state, visit, step, plan, cut, now_active_ms=now_active_ms)


def _is_refused(visit: Visit) -> bool:
    """True if the call under way was refused as too long, for the first time."""
    attempts = visit.attempts
    if attempts is None or attempts.retry_at_active_ms is not None or visit.history.overflowed:
        return False
    return attempts.last is FailureClass.CONTEXT_OVERFLOW


def _carried_out(
    state: RunState, visit: Visit, step: ModelStep, plan: CompactionPlan, cut: _Cut, *, now_active_ms: int
) -> Step:
    """The fact that something goes, or first the call that sums it up."""
    history = visit.history
    if plan.mode is not CompactionMode.SUMMARISE or cut.kept_from == history.kept_from:
        return Record(facts=(_compacted(state, visit, step, cut),))
    call = summaries.call(state, visit, step, plan, upto=cut.kept_from, now_active_ms=now_active_ms)
    if isinstance(call, CallModel):
        return call
    return _without_summary(state, visit, step, cut, f"no room for it: {turns.limit_words(call)}")


def _repaired(sent: Prompt, history: History) -> Record:
    found = HistoryRepaired(repairs=sent.repairs.minus(history.repaired))
    if history.repaired:
        return Record(facts=(found,))
    counts = ", ".join(f"{kind} {count}" for kind, count in found.repairs.__dict__.items() if count)
    text = f"What the model is sent of the conversation had to be repaired: {counts}."
    return Record(facts=(found, Noticed(code=NoticeCode.HISTORY, text=text)))


# --- what goes ---------------------------------------------------------------------------------


def _needed(
    state: RunState, visit: Visit, step: ModelStep, plan: CompactionPlan, sent: Prompt
) -> _Cut | None:
    """What goes before a turn that would be too long; None if it is not, or no turn can follow."""
    tokens = sent.tokens + sent.tool_tokens
    window = fallbacks.model_of(state, visit, step).context_window
    is_long = plan.mode is not CompactionMode.NONE and tokens * 1000 > window * plan.at_permille
    old = plan.prune is not None and sent.result_tokens >= plan.prune.keep_tokens + plan.prune.save_tokens
    if not is_long and not old:
        return None
    if not isinstance(turns.model_call(state, visit, step, now_active_ms=state.active_ms), CallModel):
        return None
    history = visit.history
    pruned_to = _prunable(state, visit, plan.prune) if old and plan.prune is not None else None
    if pruned_to is not None:
        cut = _Cut(kept_from=history.kept_from, pruned_to=pruned_to)
        tokens = _tokens(state, visit, step, cut)
        is_long = is_long and tokens * 1000 > window * plan.at_permille
        if not is_long:
            return cut
    kept_from = history.kept_from
    if is_long:
        kept_from = _oldest(state, visit, excess=tokens - _target(window, plan), pruned_to=pruned_to)
    if kept_from == history.kept_from and pruned_to is None:
        return None
    return _Cut(kept_from=kept_from, pruned_to=max(pruned_to or history.pruned_to, kept_from))


def _forced(state: RunState, visit: Visit, step: ModelStep, plan: CompactionPlan) -> _Cut | None:
    """What goes of a conversation that was refused as too long: half of it at least, as far as that goes.

    First all results but the newest turn's, then the oldest turns, then the newest turn's results as well.
    None if nothing can go.
    """
    if plan.mode is CompactionMode.NONE:
        return None
    history, last = visit.history, _last_turn(visit)
    sent = transcript.prompt(state, visit, step)
    before = sent.tokens + sent.tool_tokens
    target = min(_target(fallbacks.model_of(state, visit, step).context_window, plan), before // 2)
    cut = _Cut(kept_from=history.kept_from, pruned_to=max(history.pruned_to, last))
    tokens = _tokens(state, visit, step, cut)
    if tokens > target:
        kept_from = _oldest(state, visit, excess=tokens - target, pruned_to=cut.pruned_to)
        cut = change(cut, kept_from=kept_from, pruned_to=max(cut.pruned_to, kept_from))
        tokens = _tokens(state, visit, step, cut)
    if tokens > target:
        shorter = change(cut, pruned_to=len(visit.entries))
        if _tokens(state, visit, step, shorter) < tokens:
            cut, tokens = shorter, _tokens(state, visit, step, shorter)
    return cut if tokens < before else None


def _target(window: int, plan: CompactionPlan) -> int:
    tokens = window * plan.to_permille // 1000
    return max(tokens - SUMMARY_TOKENS, tokens // 2) if plan.mode is CompactionMode.SUMMARISE else tokens


def _last_turn(visit: Visit) -> int:
    """The place of the newest reply; 0 without one."""
    for index in range(len(visit.entries) - 1, -1, -1):
        if isinstance(visit.entries[index], Reply):
            return index
    return 0


def _oldest(state: RunState, visit: Visit, *, excess: int, pruned_to: int | None) -> int:
    """The first entry that stays, so that the turns before it come to `excess` tokens.

    The newest turn stays in any case.
    """
    history, last = visit.history, _last_turn(visit)
    if not any(isinstance(entry, Reply) for entry in visit.entries[history.kept_from : last]):
        return history.kept_from
    pruned, gone = max(history.pruned_to, pruned_to or 0), 0
    for index in range(history.kept_from, last):
        entry = visit.entries[index]
        if isinstance(entry, Reply):
            if gone >= excess and index > history.kept_from:
                return index
        elif entry.is_guidance:
            continue
        gone += transcript.size(entry, state, pruned=index < pruned)[0]
    return last


def _prunable(state: RunState, visit: Visit, plan: PrunePlan) -> int | None:
    """The first entry whose results stay, if leaving out those before it saves enough.

    The newest turn's results stay in any case: no model has read them yet.
    """
    history, last = visit.history, _last_turn(visit)
    least = max(history.kept_from, history.pruned_to)
    kept, saved, found = 0, 0, None
    for index in range(len(visit.entries) - 1, least - 1, -1):
        entry = visit.entries[index]
        if not isinstance(entry, Reply) or not entry.calls:
            continue
        results = transcript.size(entry, state)[1]
        if found is None and (index >= last or kept + results <= plan.keep_tokens):
            kept += results
            continue
        found = found or index + 1
        saved += results - transcript.size(entry, state, pruned=True)[1]
    return found if saved >= plan.save_tokens else None


def _tokens(state: RunState, visit: Visit, step: ModelStep, cut: _Cut) -> int:
    """What the next prompt is estimated at without what goes; a summary is not counted."""
    made = _shorter(state, visit, step, cut, summary="")
    return made.tokens + made.tool_tokens


def _shorter(state: RunState, visit: Visit, step: ModelStep, cut: _Cut, *, summary: str) -> Prompt:
    history = change(
        visit.history,
        kept_from=cut.kept_from,
        pruned_to=cut.pruned_to,
        summary=summary or visit.history.summary,
    )
    return transcript.rebuilt(state, change(visit, history=history), step)


# --- how it is recorded ------------------------------------------------------------------------


def _compacted(state: RunState, visit: Visit, step: ModelStep, cut: _Cut, *, summary: str = "") -> Compacted:
    history = visit.history
    attempts = history.held if history.asked else visit.attempts
    sent = transcript.prompt(state, visit, step)
    made = _shorter(state, visit, step, cut, summary=summary)
    gone = visit.entries[history.kept_from : cut.kept_from]
    pruned = visit.entries[max(history.pruned_to, cut.kept_from) : cut.pruned_to]
    kind = CompactionKind.SUMMARY if summary else CompactionKind.WINDOW
    return Compacted(
        kind=kind if gone else CompactionKind.PRUNED,
        overflow=attempts is not None,
        kept_from=cut.kept_from,
        pruned_to=cut.pruned_to,
        turns=sum(isinstance(entry, Reply) for entry in gone),
        results=sum(len(entry.calls) for entry in pruned if isinstance(entry, Reply)),
        tokens_before=sent.tokens + sent.tool_tokens,
        tokens_after=made.tokens + made.tool_tokens,
        summary=summary,
    )


def _summary(
    state: RunState, visit: Visit, step: ModelStep, plan: CompactionPlan, *, now_active_ms: int
) -> Step:
    """What follows while a summary is asked for: its next attempt, or the turns go, with it or without."""
    history, attempts = visit.history, visit.attempts
    last = _last_turn(visit)
    pruned_to = max(history.pruned_to, history.upto, last if history.held is not None else 0)
    cut = _Cut(kept_from=history.upto, pruned_to=pruned_to)
    if history.reply is not None:
        summary = summaries.read(history.reply)
        if summary is None:
            return _without_summary(state, visit, step, cut, "the model gave none")
        return Record(facts=(_compacted(state, visit, step, cut, summary=summary),))
    if attempts is not None:
        if attempts.retry_at_active_ms is None:
            return _without_summary(state, visit, step, cut, attempts.error)
        if now_active_ms < attempts.retry_at_active_ms:
            return turns.wait_for_retry(state, attempts.retry_at_active_ms, now_active_ms)
    call = summaries.call(state, visit, step, plan, upto=history.upto, now_active_ms=now_active_ms)
    if isinstance(call, Limit):
        return _without_summary(state, visit, step, cut, f"no room for it: {turns.limit_words(call)}")
    return call


def _without_summary(state: RunState, visit: Visit, step: ModelStep, cut: _Cut, why: str) -> Record:
    text = f"The oldest turns are left out without a summary: {why}."
    facts: tuple[Fact, ...] = (
        _compacted(state, visit, step, cut),
        Noticed(code=NoticeCode.HISTORY, text=text),
    )
    return Record(facts=facts)

"""How facts of child runs change the run that started them.

Owns carving a child's part out of the ledgers and settling it at what the child used. The time that the
longest of several children took is the run's: it stands still itself while it waits for them.
"""

from jackline_server.core.bounds import Ledger
from jackline_server.core.errors import CorruptLog
from jackline_server.core.facts import ChildFinished, ChildStarted
from jackline_server.core.family import Child, Family
from jackline_server.core.frozen import change
from jackline_server.core.state import RunState, Visit, current

_NONE = Family(children={}, living=())


def start(state: RunState, fact: ChildStarted) -> RunState:
    """A child lives: what it was given is held in both ledgers."""
    family, visit = state.family or _NONE, current(state)
    if fact.child_run_id in family.children or fact.call_id not in state.calls:
        raise CorruptLog("a child is started twice, or for no call")
    child = Child(
        run_id=fact.child_run_id,
        call_id=fact.call_id,
        step_id=visit.step_id,
        workflow=fact.workflow,
        plan_digest=fact.plan_digest,
        held_tokens=fact.tokens,
        held_cost_micros=fact.cost_micros,
        started_active_ms=state.active_ms,
    )
    carved = change(
        family,
        children={**family.children, child.run_id: child},
        living=(*family.living, child.run_id),
    )
    return change(_settled(state, visit, child, sign=1), family=carved)


def finish(state: RunState, fact: ChildFinished) -> RunState:
    """A child has ended: what it used takes the place of what was held."""
    family = state.family
    if family is None or fact.child_run_id not in family.living:
        raise CorruptLog("a child ends that does not live")
    before = family.children[fact.child_run_id]
    child = change(
        before,
        phase=fact.phase,
        signal=fact.signal,
        tokens=fact.tokens,
        cost_micros=fact.cost_micros,
        active_ms=fact.active_ms,
    )
    settled = change(
        family,
        children={**family.children, child.run_id: child},
        living=tuple(run_id for run_id in family.living if run_id != child.run_id),
    )
    return change(
        _settled(state, current(state), child, sign=-1),
        family=settled,
        active_ms=max(state.active_ms, before.started_active_ms + fact.active_ms),
    )


def _settled(state: RunState, visit: Visit, child: Child, *, sign: int) -> RunState:
    return change(
        state,
        ledger=_ledger(state.ledger, child, sign),
        visit=change(visit, ledger=_ledger(visit.ledger, child, sign)),
    )


def _ledger(ledger: Ledger, child: Child, sign: int) -> Ledger:
    """The ledger with what the child was given held, or no longer, and what it has used spent."""
    return change(
        ledger,
        tokens=ledger.tokens + child.tokens,
        cost_micros=ledger.cost_micros + child.cost_micros,
        reserved_tokens=ledger.reserved_tokens + sign * (child.held_tokens or 0),
        reserved_cost_micros=ledger.reserved_cost_micros + sign * (child.held_cost_micros or 0),
    )

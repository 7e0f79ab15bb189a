"""How decisions about calls that wait for one change the registry.

Owns what an approval, a refusal and an expiry leave at the call. What follows from them is
`calling.approvals`.
"""

from typing import assert_never

from jackline_server.core.approval_plans import OnExpiry
from jackline_server.core.errors import CorruptLog
from jackline_server.core.facts import InterruptResolved
from jackline_server.core.frozen import change
from jackline_server.core.reading.approvals import APPROVE, EDIT, NOBODY_DECIDED, REJECT
from jackline_server.core.state import Interrupt, RunState, Verdict


def decided(state: RunState, interrupt: Interrupt, fact: InterruptResolved) -> RunState:
    """A person decided about a call, or nobody did in time."""
    call = state.calls.get(interrupt.call_id)
    if call is None:
        raise CorruptLog("a decision is about a call that was never requested")
    before = call.verdict or Verdict()
    verdict = change(before, asked=before.asked + 1, approved="", sequence=state.sequence)
    match fact.option:
        case value if value == APPROVE:
            verdict = change(verdict, approved=interrupt.digest)
        case value if value == EDIT:
            if fact.output_json is None:
                raise CorruptLog("edited arguments are missing")
            verdict = change(verdict, approved=fact.digest, edited=True)
            call = change(call, arguments=fact.output_json)
        case value if value == REJECT:
            verdict = change(verdict, refused=fact.text)
        case "":
            verdict = _expired(verdict, interrupt)
        case _:
            raise CorruptLog("an approval has no such decision")
    return change(state, calls={**state.calls, call.call_id: change(call, verdict=verdict)})


def _expired(verdict: Verdict, interrupt: Interrupt) -> Verdict:
    match interrupt.on_expiry:
        case OnExpiry.APPROVE:
            return change(verdict, approved=interrupt.digest)
        case OnExpiry.NEEDS_REVIEW:
            return change(verdict, expired=True)
        case OnExpiry.REJECT | None:
            return change(verdict, refused=NOBODY_DECIDED)
        case _:
            assert_never(interrupt.on_expiry)

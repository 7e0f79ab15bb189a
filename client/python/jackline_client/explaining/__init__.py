"""Why a run ended as it did, read from its events alone.

    events = [event async for frame in client.watch(run_id) for event in frame.events]
    explanation = explain(events)

Owns nothing but the door: `history` reads the events, `causes` finds what led to the end and `telling` the
words for it, `findings` what does not fit together, `accounts` what was spent. Pure: no call, no clock. Any
events will do: of a run that goes on, with holes, without content, with facts of a newer version. What can't
be seen is left out, and what is left out is said.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from jackline.v1.event_pb2 import StepEvent
from jackline_client.explaining.accounts import Share, shares
from jackline_client.explaining.causes import chain, living, on_the_way, standing
from jackline_client.explaining.findings import Finding, contradictions, cycles
from jackline_client.explaining.history import read
from jackline_client.explaining.telling import Cause

__all__ = ["Cause", "Explanation", "Finding", "Share", "explain"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a run ended, or where it stands.

    `summary` is one line. `why` is the end with what led to it, and so on inwards; None if nothing was seen.
    `on_the_way` is what happened beside that: failures, refusals, commands, recoveries. The numbers of events
    are their sequences.
    """

    run_id: str
    workflow: str
    ended: bool
    summary: str
    why: Cause | None
    on_the_way: tuple[Cause, ...]
    contradictions: tuple[Finding, ...]
    cycles: tuple[Finding, ...]
    shares: tuple[Share, ...]
    events: int
    with_content: bool
    """False if the events were seen without content: then arguments, results and words are not compared."""
    missing: tuple[tuple[int, int], ...]
    """Sequences that were not there, as first and last."""
    unknown_facts: int
    """Facts that only a newer version knows."""
    waiting: tuple[str, ...] = ()
    """What calls of the run wait for just now. No event says that: whoever has asked the server sets it."""
    waits_for: tuple[str, ...] = ()
    """The runs that it started and that live, by their ids."""


def explain(events: Iterable[StepEvent]) -> Explanation:
    """Explains a run from its events, in any order, each as often as you like."""
    history = read(events)
    why = chain(history)
    told = set(_sequences(why)) if why is not None else set[int]()
    return Explanation(
        run_id=history.run_id,
        workflow=history.workflow,
        ended=history.end is not None,
        summary=standing(history),
        why=why,
        on_the_way=tuple(cause for cause in on_the_way(history) if cause.sequence not in told),
        contradictions=tuple(contradictions(history)),
        cycles=tuple(cycles(history)),
        shares=tuple(shares(history)),
        events=len(history.events),
        with_content=history.with_content,
        missing=history.missing,
        unknown_facts=history.unknown_facts,
        waits_for=living(history),
    )


def _sequences(cause: Cause) -> Iterator[int]:
    yield cause.sequence
    for inner in cause.causes:
        yield from _sequences(inner)

"""What in a run does not fit together, and what went in circles.

Owns the comparisons. They say what is in the log, not whether it was wrong: two equal writes may be meant.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jackline.v1.event_pb2 import CallProblem
from jackline.v1.run_pb2 import Effect, StopReason, ToolCallStatus
from jackline_client.explaining.history import OPEN, Call, History, Turn, Visit, times

_PERIODS = (1, 2, 3)
_OFTEN = 3
_ANSWERED = frozenset(
    {
        StopReason.STOP_REASON_OUTCOME,
        StopReason.STOP_REASON_DEFAULT,
        StopReason.STOP_REASON_FINISH_TOOL,
        StopReason.STOP_REASON_STOP_CONDITION,
    }
)
_OBEYED = frozenset(
    {
        CallProblem.CALL_PROBLEM_NOT_APPROVED,
        CallProblem.CALL_PROBLEM_SUPERVISOR,
        CallProblem.CALL_PROBLEM_POLICY_DENIED,
        CallProblem.CALL_PROBLEM_GUARDRAIL,
    }
)
"""Why a call was not made that somebody said no to: a model that then answers does as it was told."""
_WRITES = (Effect.EFFECT_WRITE, Effect.EFFECT_DESTRUCTIVE)
_HAPPENED = frozenset({ToolCallStatus.TOOL_CALL_STATUS_COMPLETED, ToolCallStatus.TOOL_CALL_STATUS_UNKNOWN})


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One observation. `kind` is for programs, `sequences` are the events that show it."""

    kind: str
    text: str
    sequences: tuple[int, ...]


def contradictions(history: History) -> Iterator[Finding]:
    """What does not fit together."""
    yield from _equal_calls(history)
    for visit in history.visits:
        yield from _answers(visit)


def _equal_calls(history: History) -> Iterator[Finding]:
    """Calls of one tool with the same arguments: writes that happened twice, failures that then succeeded."""
    equal: defaultdict[tuple[str, str], list[Call]] = defaultdict(list)
    for call in history.calls.values():
        if call.arguments is not None and call.attempts:
            equal[call.key].append(call)
    for calls in equal.values():
        if len(calls) > 1:
            yield from _writes(calls)
            yield from _changed(calls)


def _writes(calls: list[Call]) -> Iterator[Finding]:
    made = [call for call in calls if call.effect in _WRITES and call.status in _HAPPENED]
    if len(made) > 1:
        unsure = any(call.status == ToolCallStatus.TOOL_CALL_STATUS_UNKNOWN for call in made)
        happened = "may have happened" if unsure else "happened"
        yield Finding(
            kind="write_repeated",
            text=f"the same write {made[0].tool} {happened} {times(len(made))}, with equal arguments",
            sequences=tuple(call.sequence for call in made),
        )


def _changed(calls: list[Call]) -> Iterator[Finding]:
    failed: Call | None = None
    for call in calls:
        if call.status == ToolCallStatus.TOOL_CALL_STATUS_FAILED:
            failed = failed or call
        elif call.completed and failed is not None:
            yield Finding(
                kind="failed_then_succeeded",
                text=f"{call.tool} failed, and later succeeded with equal arguments",
                sequences=(failed.ended, call.ended),
            )
            return


def _answers(visit: Visit) -> Iterator[Finding]:
    """An answer that stands on nothing."""
    end = visit.end
    if end is None or not visit.turns or end.step_finished.stop_reason not in _ANSWERED:
        return
    ended = [call for call in visit.calls if call.status not in OPEN]
    missed = [call for call in ended if call.problem not in _OBEYED]
    if missed and not any(call.completed for call in missed):
        none = (
            "its tool call did not succeed"
            if len(missed) == 1
            else f"none of its {len(missed)} tool calls succeeded"
        )
        yield Finding(
            kind="answer_without_result",
            text=f"step {visit.step_id} answered although {none}",
            sequences=(*(call.ended for call in missed), end.sequence),
        )
    unknown = [call for call in ended if call.status == ToolCallStatus.TOOL_CALL_STATUS_UNKNOWN]
    if unknown:
        yield Finding(
            kind="answer_over_unknown",
            text=f"step {visit.step_id} answered although nobody knows whether {unknown[0].tool} took effect",
            sequences=(*(call.ended for call in unknown), end.sequence),
        )


# --- cycles ------------------------------------------------------------------------------------


def cycles(history: History) -> Iterator[Finding]:
    """Turns of one visit that came at least three times in a row, alone or as a cycle of two or three."""
    for visit in history.visits:
        turns = [turn for turn in visit.turns if turn.calls]
        yield from _cycles(turns, with_content=history.with_content)


def _cycles(turns: Sequence[Turn], *, with_content: bool) -> Iterator[Finding]:
    keys = [_key(turn) for turn in turns]
    start = 0
    while start < len(keys):
        found = next((one for one in (_cycle(keys, start, period) for period in _PERIODS) if one), None)
        if found is None:
            start += 1
            continue
        period, count = found
        cycle = turns[start : start + period]
        calls = ", then ".join(" + ".join(sorted(call.tool for call in turn.calls)) for turn in cycle)
        same = "with the same arguments and results" if with_content else "by their names"
        yield Finding(
            kind="cycle",
            text=f"the same {'turn' if period == 1 else f'{period} turns'} {times(count)} ({calls}), {same}",
            sequences=tuple(turn.sequence for turn in turns[start : start + period * count]),
        )
        start += period * count


def _cycle(keys: Sequence[str], start: int, period: int) -> tuple[int, int] | None:
    count = 1
    while keys[start : start + period] == keys[start + count * period : start + (count + 1) * period]:
        count += 1
    return (period, count) if count >= _OFTEN else None


def _key(turn: Turn) -> str:
    """Stands for a turn: its calls in any order, with all of them that was seen."""
    parts = sorted(
        f"{call.key!r} {call.status} {call.problem} {call.output!r} {call.error!r}" for call in turn.calls
    )
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()

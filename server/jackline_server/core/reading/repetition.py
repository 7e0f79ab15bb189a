"""Repetition: the same tool calls over and over, found as the turns pass and not by looking back.

Owns when turns count as a loop, and what follows: the model is told first, the step ends second. A turn is
compared whole: its calls in any order, by name, arguments and result, or by less where the plan says so. A
cycle of one, two or three turns counts once it has come as often as the plan allows; one that only reads or
polls may come twice more. What succeeded counts like what failed. Any other turn, and guidance from a person,
begins the count anew.

A turn costs one digest: the state keeps three, and how long each period has lasted.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence

from jackline_server.core.bounds import Limit
from jackline_server.core.facts import NoticeCode, Noticed, StopReason
from jackline_server.core.frozen import change
from jackline_server.core.plan import Effect, ModelStep, Plan, ToolStep
from jackline_server.core.reading import result_tool
from jackline_server.core.repetition_plans import RepeatBy, RepeatPlan
from jackline_server.core.state import Progress, ToolCall, TurnMark, Visit

PERIODS = (1, 2, 3)
PATIENCE = 2
"""So often more may come what only reads or polls."""

_NO_STREAKS = (0, 0, 0)
_NUDGE = (
    "You are repeating the same tool calls, and nothing new comes of it. Do not make them again as they are: "
    "take another way, or answer with what you have. At the next repetition this step ends."
)


def found(visit: Visit, step: ModelStep) -> Noticed | Limit | None:
    """What repeated turns lead to now: a word to the model, the end of the step, or nothing."""
    repeat, progress = step.repeat, visit.progress
    if repeat is None or not progress.over or visit.closing is not None:
        return None
    if not repeat.nudge or progress.over > 1:
        return Limit(reason=StopReason.TOOL_LOOP, leaf=f"repeat.{repeat.by.value}")
    return None if progress.nudged else Noticed(code=NoticeCode.REPETITION, text=_NUDGE)


def count(progress: Progress, calls: Sequence[ToolCall], step: ModelStep, plan: Plan) -> Progress:
    """The progress with one more turn, whose calls are settled."""
    repeat = step.repeat
    if repeat is None:
        return progress
    mark = TurnMark(digest=_digest(calls, repeat.by), patient=_are_patient(calls, step, plan))
    marks = (*progress.marks, mark)[-len(PERIODS) :]
    if not any(earlier.digest == mark.digest for earlier in progress.marks):
        return change(progress, marks=marks, streaks=_NO_STREAKS, over=0, nudged=False)
    streaks = tuple(
        streak + 1 if _same(progress.marks, mark, period) else 0
        for period, streak in zip(PERIODS, progress.streaks, strict=True)
    )
    over = max(_over(marks, streak, period, repeat) for period, streak in zip(PERIODS, streaks, strict=True))
    return change(progress, marks=marks, streaks=streaks, over=over, nudged=progress.nudged and over > 0)


def likeness(call: ToolCall, by: RepeatBy) -> bytes:
    """Stands for one call: the same for every call that is like it."""
    return _digest((call,), by)


def restarted(progress: Progress) -> Progress:
    """The progress with the count begun anew."""
    return change(progress, marks=(), streaks=_NO_STREAKS, over=0, nudged=False)


def _same(marks: tuple[TurnMark, ...], mark: TurnMark, period: int) -> bool:
    return len(marks) >= period and marks[-period].digest == mark.digest


def _over(marks: tuple[TurnMark, ...], streak: int, period: int, repeat: RepeatPlan) -> int:
    """How many times too often the last cycle of this period has come; 0 if not."""
    times = streak // period + 1
    allowed = repeat.count + (PATIENCE if all(mark.patient for mark in marks[-period:]) else 0)
    return max(times - allowed + 1, 0) if streak >= period else 0


def _are_patient(calls: Sequence[ToolCall], step: ModelStep, plan: Plan) -> bool:
    """True if all of them only read, or poll."""
    for call in calls:
        tool = result_tool.behind(plan, call.tool)
        if not isinstance(tool, ToolStep) or call.tool != call.name:
            return False
        if tool.effect is not Effect.READ and not _is_polled(call.tool, step):
            return False
    return True


def _is_polled(tool: str, step: ModelStep) -> bool:
    return any(entry.poll and entry.ref == tool for entry in step.tools)


# --- what a turn is compared by ----------------------------------------------------------------


def _digest(calls: Iterable[ToolCall], by: RepeatBy) -> bytes:
    """Stands for a turn: the same whichever order its calls were in and however their JSON was written."""
    texts = ["".join([f"{len(part)}:{part}" for part in _parts(call, by)]) for call in calls]
    texts.sort()
    whole = "\n".join(texts).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(whole, digest_size=16).digest()


def _parts(call: ToolCall, by: RepeatBy) -> tuple[str, ...]:
    if by is RepeatBy.NAME:
        return (call.name,)
    beside = [_CANON.encode(values) if values else "" for values in (call.bound, call.own)]
    given = (call.name, _canonical(call.arguments), *beside)
    if by is RepeatBy.ARGS:
        return given
    rest = f"{call.cut_from_bytes}{call.blob or call.tail}"
    if call.media:
        rest += "".join([part.blob or str(part.size) for part in call.media])
    return (*given, call.status.value, call.output_json or "", call.error, rest)


def _canonical(arguments: str) -> str:
    """The arguments with their keys in order and numbers written one way; as they are if they are no JSON."""
    text = arguments.strip()
    if text in ("", "{}"):
        return "{}"
    try:
        return _CANON.encode(_READ.decode(text))
    except (ValueError, RecursionError):
        return text


def _number(text: str) -> float:
    value = float(text)
    return int(value) if value.is_integer() else value


_READ = json.JSONDecoder(parse_float=_number)
_CANON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True)

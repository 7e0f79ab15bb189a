"""Reflection: how the turns of a visit have gone, told without a model.

Owns the confidence and what is said of it. Confidence is a fold over the turns that called tools, kept for
every visit whether or not it reflects, because conditions may read it. It begins at a half. A turn in which a
call succeeded adds 0.15, scaled by what is missing to 1; one in which a call failed takes 0.2, and a turn may
do both; a loop takes 0.3 when it is found. Each is applied once.
"""

from collections.abc import Sequence

from jackline_server.core.facts import CallStatus, Pattern, Reflected
from jackline_server.core.frozen import change
from jackline_server.core.plan import ModelStep, Plan
from jackline_server.core.reading import repetition
from jackline_server.core.state import Progress, ToolCall, Visit

SUCCESS = 0.15
FAILURE = 0.2
LOOP = 0.3


def confidence(visit: Visit) -> float:
    """How far the visit can be trusted to get somewhere, from 0 to 1; a half before its first tool call."""
    return visit.progress.confidence


def after_turn(visit: Visit, calls: Sequence[ToolCall], step: ModelStep, plan: Plan) -> Progress:
    """The progress of a visit with one more turn, whose calls are settled."""
    before = visit.progress
    counted = repetition.count(before, calls, step, plan)
    succeeded = sum(call.status is CallStatus.COMPLETED for call in calls)
    failed = len(calls) - succeeded
    trust = before.confidence
    if succeeded:
        trust += SUCCESS * (1 - trust)
    if failed:
        trust = max(trust - FAILURE, 0.0)
    if counted.over and not before.over:
        trust = max(trust - LOOP, 0.0)
    return change(
        counted,
        confidence=trust,
        turns=before.turns + 1,
        succeeded=before.succeeded + succeeded,
        failed=before.failed + failed,
    )


def due(visit: Visit, step: ModelStep) -> Reflected | None:
    """The look back that is due now, if one is."""
    reflect, progress = step.reflect, visit.progress
    if reflect is None or progress.turns < reflect.every or visit.closing is not None:
        return None
    pattern = _pattern(progress)
    return Reflected(
        pattern=pattern,
        succeeded=progress.succeeded,
        failed=progress.failed,
        confidence_permille=round(progress.confidence * 1000),
        guidance=_guidance(pattern, progress) if reflect.guidance else "",
    )


def looked_back(progress: Progress) -> Progress:
    """The progress with its counts begun anew; confidence and repetition go on."""
    return change(progress, turns=0, succeeded=0, failed=0)


def _pattern(progress: Progress) -> Pattern:
    if progress.over:
        return Pattern.LOOPING
    if not progress.failed:
        return Pattern.ADVANCING
    return Pattern.MIXED if progress.succeeded else Pattern.FAILING


def _guidance(pattern: Pattern, progress: Progress) -> str:
    calls = progress.succeeded + progress.failed
    seen = f"Looking back at your last tool calls: {progress.succeeded} of {calls} succeeded."
    match pattern:
        case Pattern.ADVANCING:
            advice = "If you have what you need, answer; else go on."
        case Pattern.MIXED:
            advice = "Build on what succeeded, and change what failed before you try it again."
        case Pattern.FAILING:
            advice = (
                "Nothing has worked since. Read the errors, then change the arguments or the tool, or answer "
                "with what you have and say what is missing."
            )
        case Pattern.LOOPING:
            advice = "You are repeating yourself. Take another way, or answer with what you have."
    return f"{seen} {advice}"

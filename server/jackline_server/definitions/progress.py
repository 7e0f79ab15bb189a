"""From what a file says of repetition, reflection and grounding to the plan, every default put in."""

from jackline_server.core.plan import GroundPlan, OnJudgeError, ReflectPlan
from jackline_server.core.repetition_plans import RepeatBy, RepeatPlan
from jackline_server.definitions import defaults
from jackline_server.definitions.presets import Preset
from jackline_server.definitions.shapes import GroundShape, ReflectShape, RepeatShape


def repeat_plan(own: RepeatShape, top: RepeatShape, preset: Preset) -> RepeatPlan | None:
    """When repeated calls end the step: its own words, else the file's, else the default; None for `off`."""
    by = own.by or top.by or defaults.REPEAT_BY.value
    if by == "off":
        return None
    return RepeatPlan(
        by=RepeatBy(by),
        count=own.count or top.count or preset.repeat_count,
        nudge=next((said for said in (own.nudge, top.nudge) if said is not None), preset.repeat_nudge),
    )


def reflect_plan(shape: ReflectShape | None) -> ReflectPlan | None:
    """When the step looks back; None if the file does not say."""
    if shape is None:
        return None
    guidance = defaults.REFLECT_GUIDANCE if shape.guidance is None else shape.guidance
    return ReflectPlan(every=shape.every, guidance=guidance)


def ground_plan(shape: GroundShape, model: str) -> GroundPlan:
    """How the step's answer is judged, by the profile `model`."""
    threshold, replans = shape.threshold, shape.max_replans
    return GroundPlan(
        model=model,
        threshold_permille=defaults.GROUND_THRESHOLD_PERMILLE if threshold is None else threshold,
        max_replans=defaults.GROUND_MAX_REPLANS if replans is None else replans,
        on_error=OnJudgeError(shape.on_error or defaults.GROUND_ON_ERROR.value),
    )

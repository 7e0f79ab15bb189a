"""From what a file says of compaction to the plan, every default put in."""

from jackline_server.core.plan import CompactionMode, CompactionPlan, PrunePlan
from jackline_server.definitions import defaults
from jackline_server.definitions.presets import Preset
from jackline_server.definitions.shapes import CompactionShape, CompactionText, PruneShape

Written = CompactionText | CompactionShape | None


def written(said: Written, top: Written) -> CompactionShape:
    """What the step says, and behind it what the file says at its top, key by key."""
    own = _shape(said)
    return _shape(top).model_copy(update={name: getattr(own, name) for name in own.model_fields_set})


def compaction_plan(shape: CompactionShape, model: str, preset: Preset) -> CompactionPlan:
    """How the step's conversation is kept short; `model` is the profile that is asked for summaries."""
    mode = CompactionMode(shape.mode or preset.compaction.value)
    return CompactionPlan(
        mode=mode,
        at_permille=defaults.COMPACTION_AT_PERMILLE if shape.at is None else shape.at,
        to_permille=defaults.COMPACTION_TO_PERMILLE if shape.to is None else shape.to,
        model=model,
        prune=_prune(shape.prune, mode),
    )


def _prune(said: PruneShape | str | None, mode: CompactionMode) -> PrunePlan | None:
    """When old results go. Where nothing else may go, they stay unless the file says otherwise."""
    if said == "off" or (said is None and mode is CompactionMode.NONE):
        return None
    own = said if isinstance(said, PruneShape) else PruneShape()
    return PrunePlan(
        keep_tokens=defaults.PRUNE_KEEP_TOKENS if own.keep is None else own.keep,
        save_tokens=defaults.PRUNE_SAVE_TOKENS if own.save is None else own.save,
    )


def _shape(said: Written) -> CompactionShape:
    if said is None:
        return CompactionShape()
    return said if isinstance(said, CompactionShape) else CompactionShape(mode=said)

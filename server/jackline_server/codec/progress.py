"""How a step watches its progress, and what came of it, in protobuf: repetition, reflection and grounding."""

from jackline.v1 import event_pb2, plan_pb2
from jackline_server.codec.enums import ON_JUDGE_ERROR, PATTERN, REPEAT_BY
from jackline_server.codec.fact_coder import FactCoder
from jackline_server.core.facts import Grounded, Reflected
from jackline_server.core.plan import GroundPlan, ModelStep, ReflectPlan
from jackline_server.core.repetition_plans import RepeatPlan


def set_progress(into: plan_pb2.ModelStepPlan, step: ModelStep) -> None:
    """Write what a step has of the three."""
    if step.repeat is not None:
        into.repeat.by = REPEAT_BY.wire[step.repeat.by]
        into.repeat.count = step.repeat.count
        into.repeat.nudge = step.repeat.nudge
    if step.reflect is not None:
        into.reflect.every = step.reflect.every
        into.reflect.guidance = step.reflect.guidance
    if step.ground is not None:
        into.ground.model = step.ground.model
        into.ground.threshold_permille = step.ground.threshold_permille
        into.ground.max_replans = step.ground.max_replans
        into.ground.on_error = ON_JUDGE_ERROR.wire[step.ground.on_error]


def read_repeat(found: plan_pb2.ModelStepPlan) -> RepeatPlan | None:
    """When repeated calls end the step."""
    if not found.HasField("repeat"):
        return None
    repeat = found.repeat
    return RepeatPlan(by=REPEAT_BY.read(repeat.by), count=repeat.count, nudge=repeat.nudge)


def read_reflect(found: plan_pb2.ModelStepPlan) -> ReflectPlan | None:
    """When the step looks back."""
    if not found.HasField("reflect"):
        return None
    return ReflectPlan(every=found.reflect.every, guidance=found.reflect.guidance)


def read_ground(found: plan_pb2.ModelStepPlan) -> GroundPlan | None:
    """How the step's answer is judged."""
    if not found.HasField("ground"):
        return None
    ground = found.ground
    return GroundPlan(
        model=ground.model,
        threshold_permille=ground.threshold_permille,
        max_replans=ground.max_replans,
        on_error=ON_JUDGE_ERROR.read(ground.on_error),
    )


def _pack_reflected(fact: Reflected, event: event_pb2.StepEvent) -> None:
    into = event.reflected
    into.pattern = PATTERN.wire[fact.pattern]
    into.succeeded = fact.succeeded
    into.failed = fact.failed
    into.confidence_permille = fact.confidence_permille


def _fill_reflected(fact: Reflected, content: event_pb2.Content) -> None:
    if fact.guidance:
        content.text = fact.guidance


def _unpack_reflected(event: event_pb2.StepEvent) -> Reflected:
    found = event.reflected
    return Reflected(
        pattern=PATTERN.read(found.pattern),
        succeeded=found.succeeded,
        failed=found.failed,
        confidence_permille=found.confidence_permille,
        guidance=event.content.text,
    )


def _pack_grounded(fact: Grounded, event: event_pb2.StepEvent) -> None:
    into = event.grounded
    into.SetInParent()
    if fact.score_permille is not None:
        into.score_permille = fact.score_permille
    into.passed = fact.passed
    into.replan = fact.replan
    into.unsupported = len(fact.unsupported)


def _fill_grounded(fact: Grounded, content: event_pb2.Content) -> None:
    if fact.unsupported:
        content.grounded.unsupported.extend(fact.unsupported)
    if fact.problem:
        content.grounded.problem = fact.problem


def _unpack_grounded(event: event_pb2.StepEvent) -> Grounded:
    found, content = event.grounded, event.content.grounded
    return Grounded(
        score_permille=found.score_permille if found.HasField("score_permille") else None,
        passed=found.passed,
        replan=found.replan,
        unsupported=tuple(content.unsupported),
        problem=content.problem,
    )


PROGRESS_FACTS = (
    FactCoder(
        fact=Reflected,
        field="reflected",
        pack=_pack_reflected,
        fill=_fill_reflected,
        unpack=_unpack_reflected,
    ),
    FactCoder(
        fact=Grounded,
        field="grounded",
        pack=_pack_grounded,
        fill=_fill_grounded,
        unpack=_unpack_grounded,
    ),
)

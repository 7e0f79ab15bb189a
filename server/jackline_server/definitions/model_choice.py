"""The models of a step beside its own: which fallbacks it has, and what follows where none can be reached.

Owns the checks of those keys, how many requests they add to a visit that names no number, and which models a
step may ask in all. A step's own `fallbacks` come first; without the key those of its model's profile do.
Does not own what a run makes of them (`core.fallbacks`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from jackline_server.core.gate_plans import Judged
from jackline_server.core.plan import (
    AnswerForm,
    CompactionMode,
    ModelPlan,
    ModelStep,
    OnModelUnavailable,
    Plan,
)
from jackline_server.definitions import defaults
from jackline_server.definitions.catalog import Catalog
from jackline_server.definitions.report import Report
from jackline_server.definitions.shapes import AgentShape, CompletionShape, WorkflowShape
from jackline_server.definitions.yaml_nodes import Path

Profile = Callable[[str, Path], str]
"""Looks a profile up and keeps it for the plan; reports one that there is not, and is empty then."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelChoice:
    """One step, the form its answers take, and the profiles there are."""

    step_id: str
    shape: AgentShape | CompletionShape
    form: AnswerForm
    catalog: Catalog

    def fallbacks(self, own: str, *, profile: Profile, report: Report) -> tuple[str, ...]:
        """The profiles that are asked after `own`, in their order."""
        if self.shape.fallbacks is None:
            return tuple(self._of_profile(own, profile=profile, report=report))
        return tuple(self._of_step(self.shape.fallbacks, own, profile=profile, report=report))

    def _of_step(self, names: Sequence[str], own: str, *, profile: Profile, report: Report) -> Iterator[str]:
        """Those that the step names itself."""
        taken = {own}
        for index, name in enumerate(names):
            place: Path = ("steps", self.step_id, "fallbacks", index)
            if name in taken:
                whose = "the step's own model" if name == own else "named already"
                report.error("fallback_repeated", f"`{name[:64]}` is {whose}; it would be asked again", place)
                continue
            taken.add(name)
            if not profile(name, place):
                continue
            for words in self._lacks(name):
                report.error("model_lacks", f"the fallback {words}", place)
            yield name

    def _of_profile(self, own: str, *, profile: Profile, report: Report) -> Iterator[str]:
        """Those of the model's profile that can do what the step needs."""
        for name in self.catalog.fallbacks.get(own, ()):
            lacks = self._lacks(name)
            for words in lacks:
                message = f"the fallback of `{own}` is left out here: {words}"
                report.warning("fallback_left_out", message, ("steps", self.step_id))
            if not lacks and profile(name, ("steps", self.step_id)):
                yield name

    def _lacks(self, name: str) -> tuple[str, ...]:
        model = self.catalog.model(name)
        return () if model is None else tuple(lacking(model, self.shape, self.form))


def lacking(model: ModelPlan, shape: AgentShape | CompletionShape, form: AnswerForm) -> Iterator[str]:
    """What a model lacks of what a step needs, in words."""
    has_tools = isinstance(shape, AgentShape) and bool(shape.tools)
    if not model.calls_tools and (has_tools or form is AnswerForm.FINISH_TOOL):
        yield f"`{model.profile}` can't call tools: its `supports` lacks `tools`"
    if not model.native_schema and form is AnswerForm.NATIVE_SCHEMA:
        yield (
            f"`{model.profile}` can't be asked for an answer of a schema: its `supports` lacks `json_schema`"
        )


def on_unavailable(
    step_id: str, shape: AgentShape | CompletionShape, top: WorkflowShape, report: Report
) -> OnModelUnavailable:
    """What the step does when none of its models can be reached. Waiting needs an end that was chosen."""
    chosen = OnModelUnavailable(shape.on_model_unavailable or defaults.ON_MODEL_UNAVAILABLE.value)
    if chosen is OnModelUnavailable.WAIT and shape.bounds.timeout is None and top.bounds.run_timeout is None:
        message = (
            "say how long to wait for a model: set `timeout` in the `bounds` of this step, or `run_timeout` "
            "in those of the workflow"
        )
        report.error("wait_unbounded", message, ("steps", step_id, "on_model_unavailable"))
    return chosen


def more_requests(fallbacks: tuple[str, ...], unavailable: OnModelUnavailable) -> int:
    """The requests that a visit is given for its fallbacks and for waiting, where it names no number."""
    waiting = defaults.WAIT_MODEL_REQUESTS if unavailable is OnModelUnavailable.WAIT else 0
    return len(fallbacks) * defaults.FALLBACK_MODEL_REQUESTS + waiting


def askable(step: ModelStep, plan: Plan) -> list[ModelPlan]:
    """The models that a step may ask, each once: those of its judges and its summaries among them."""
    names = [step.model, *step.fallbacks]
    names += [step.ground.model] if step.ground is not None else []
    if step.compaction is not None and step.compaction.mode is CompactionMode.SUMMARISE:
        names.append(step.compaction.model)
    if step.gates is not None:
        rails = (*step.gates.input, *step.gates.output, *step.gates.tools)
        names += [rail.check.model for rail in rails if isinstance(rail.check, Judged)]
    return [plan.models[name] for name in dict.fromkeys(names) if name in plan.models]

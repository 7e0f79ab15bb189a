"""Checks of what can never come to pass: bounds, calls that have to be made, questions.

Owns these findings. A bound is only judged where it is written: a default beside a tighter word is nobody's
mistake. Does not own caps that stop a step before it starts (`check_bounds`).
"""

from collections.abc import Iterator

from jackline_server.core.plan import (
    AnswerForm,
    ChoiceMode,
    ModelStep,
    OnLimit,
    OnQuestion,
    OnUnknown,
    Plan,
)
from jackline_server.definitions.reading import Draft
from jackline_server.definitions.report import Report
from jackline_server.definitions.shapes import (
    AgentBoundsShape,
    AgentShape,
    CompletionShape,
    HumanShape,
    ToolStepShape,
)
from jackline_server.definitions.yaml_nodes import Path


def check(plan: Plan, draft: Draft, report: Report) -> None:
    """Report bounds, choices and questions that can never come to pass."""
    for step_id, shape in draft.steps.items():
        step, path = plan.steps[step_id], ("steps", step_id)
        if isinstance(shape, AgentShape | CompletionShape) and isinstance(step, ModelStep):
            for key, why in _idle_bounds(shape, step, plan):
                report.warning("bound_idle", why, (*path, *key))
            _check_choice(step, path, report)
        if plan.on_question is OnQuestion.REVIEW:
            _check_questions(shape, path, report)


def _idle_bounds(
    shape: AgentShape | CompletionShape, step: ModelStep, plan: Plan
) -> Iterator[tuple[Path, str]]:
    """Each bound that a tighter one beside it always comes before, with the sentence that says so."""
    written, visit, run = shape.bounds, step.bounds, plan.bounds
    pairs: list[tuple[str, int | None, str, int | None]] = [
        ("token_budget", written.token_budget, "`token_budget` of the run", run.token_budget),
        ("cost_budget_usd", written.cost_budget_usd, "`cost_budget_usd` of the run", run.cost_budget_micros),
        ("timeout", written.timeout, "`run_timeout` of the run", run.run_timeout_ms),
        ("model_timeout", written.model_timeout, "`timeout` of the step", visit.timeout_ms),
        ("idle_timeout", written.idle_timeout, "`model_timeout` of the step", visit.model_timeout_ms),
    ]
    if isinstance(written, AgentBoundsShape):
        pairs += [
            ("max_iterations", written.max_iterations, "`model_requests` of the step", visit.model_requests),
            ("tool_timeout", written.tool_timeout, "`timeout` of the step", visit.timeout_ms),
        ]
    for key, bound, what, tighter in pairs:
        if bound is not None and tighter is not None and bound > tighter:
            yield ("bounds", key), f"`{key}` is never reached: {what} ends it before"
    for index, entry in enumerate(shape.tools if isinstance(shape, AgentShape) else ()):
        if entry.max_calls is not None and entry.max_calls > visit.tool_calls:
            yield ("tools", index, "max_calls"), f"more calls than the {visit.tool_calls} of the whole step"


def _check_choice(step: ModelStep, path: Path, report: Report) -> None:
    """A step that has to call a tool before it may answer needs one that it may call, and a turn after it."""
    choice = step.tool_choice
    if choice.mode is ChoiceMode.AUTO or not step.tools:
        return
    asked = [entry for entry in step.tools if choice.mode is ChoiceMode.REQUIRED or entry.ref == choice.name]
    place: Path = (*path, "tool_choice")
    if asked and not any(entry.max_calls != 0 for entry in asked):
        message = f"`{step.step_id}` never answers: what it has to call has `max_calls: 0`"
        report.warning("bound_unreachable", message, place)
    elif step.bounds.max_iterations == 1 and step.outcome.form is not AnswerForm.FINISH_TOOL:
        message = f"`{step.step_id}` never answers: its only turn is the one that has to call a tool"
        report.warning("bound_unreachable", message, place)


def _check_questions(shape: object, path: Path, report: Report) -> None:
    """Where questions are not put to anybody, what asks only ends the run."""
    if isinstance(shape, AgentShape | CompletionShape) and shape.on_limit == OnLimit.ASK.value:
        message = "nobody is asked under `on_question: review`: at a limit the run ends with `needs_review`"
        report.warning("question_unasked", message, (*path, "on_limit"))
    if isinstance(shape, HumanShape):
        message = "nobody is asked under `on_question: review`: this step ends the run with `needs_review`"
        report.warning("question_unasked", message, path, of_key=True)
    if isinstance(shape, ToolStepShape) and shape.on_unknown == OnUnknown.ASK.value:
        message = "nobody is asked under `on_question: review`: the run ends with `needs_review`"
        report.warning("question_unasked", message, (*path, "on_unknown"))

"""Small plans for tests: every part has sound defaults, and a test names only what it is about.

Owns the defaults. Each builder takes the fields of the part it makes as keywords; a misspelt one is a
TypeError. Nothing here compiles a workflow file: a plan that `definitions` would refuse can be made.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypedDict, Unpack

from jackline_server.core.approval_plans import ApprovalPlan, OnExpiry
from jackline_server.core.conditions import StopCondition
from jackline_server.core.facts import RunStarted
from jackline_server.core.gate_plans import GatesPlan
from jackline_server.core.plan import (
    END,
    NO_SHARE,
    AgentTool,
    AnswerForm,
    AttemptLimits,
    BoundsCap,
    ChildAction,
    CompactionPlan,
    Completion,
    Effect,
    FunctionAction,
    GroundPlan,
    ModelPlan,
    ModelStep,
    OnLimit,
    OnModelUnavailable,
    OnQuestion,
    OnUnknown,
    OutcomePlan,
    Plan,
    Price,
    PromptSection,
    ReflectPlan,
    RouterCase,
    RouterStep,
    RunBounds,
    SharePlan,
    StepBounds,
    StepPlan,
    TextToolCalls,
    ToolAction,
    ToolChoice,
    ToolEntry,
    ToolExecution,
    ToolPolicy,
    ToolStep,
)
from jackline_server.core.repetition_plans import RepeatPlan
from jackline_server.core.supervisor_plans import SupervisorPlan

AGENT = "answer"
"""The step id of `agent` and of `agent_plan` unless they are told another."""

MODEL = "fast"
"""The profile that every model step uses unless it is told another."""

ANY_OBJECT = '{"type":"object"}'

DAY_MS = 86_400_000


class RunBoundsFields(TypedDict, total=False):
    """The fields of RunBounds."""

    run_timeout_ms: int | None
    token_budget: int | None
    cost_budget_micros: int | None
    steps: int
    events: int
    child_depth: int


def run_bounds(**fields: Unpack[RunBoundsFields]) -> RunBounds:
    """Bounds of a run: no budget, no timeout, 128 steps, 20,000 events, 3 levels of children unless said."""
    defaults = RunBounds(
        run_timeout_ms=None,
        token_budget=None,
        cost_budget_micros=None,
        steps=128,
        events=20_000,
        child_depth=3,
    )
    return replace(defaults, **fields)


class StepBoundsFields(TypedDict, total=False):
    """The fields of StepBounds."""

    max_iterations: int
    model_requests: int
    tool_calls: int
    token_budget: int | None
    cost_budget_micros: int | None
    timeout_ms: int | None
    model_timeout_ms: int
    idle_timeout_ms: int
    tool_timeout_ms: int


def step_bounds(**fields: Unpack[StepBoundsFields]) -> StepBounds:
    """Bounds of a visit: 8 turns, 16 requests, 32 tool calls, no budget, no timeout of the visit."""
    defaults = StepBounds(
        max_iterations=8,
        model_requests=16,
        tool_calls=32,
        token_budget=None,
        cost_budget_micros=None,
        timeout_ms=None,
        model_timeout_ms=60_000,
        idle_timeout_ms=30_000,
        tool_timeout_ms=30_000,
    )
    return replace(defaults, **fields)


class ModelPlanFields(TypedDict, total=False):
    """The fields of ModelPlan."""

    profile: str
    model: str
    adapter: str
    context_window: int
    max_output_tokens: int
    price: Price | None
    retries: int
    retry_base_ms: int
    retry_cap_ms: int
    native_schema: bool
    calls_tools: bool
    limits: AttemptLimits
    price_is_ceiling: bool


def model(**fields: Unpack[ModelPlanFields]) -> ModelPlan:
    """A scripted model of 128k context, 1,000 output tokens at most, free, with 3 retries."""
    defaults = ModelPlan(
        profile=MODEL,
        model="scripted",
        adapter="scripted",
        context_window=128_000,
        max_output_tokens=1_000,
        price=None,
        retries=3,
        retry_base_ms=1_000,
        retry_cap_ms=30_000,
    )
    return replace(defaults, **fields)


class OutcomeFields(TypedDict, total=False):
    """The fields of OutcomePlan."""

    enum: tuple[str, ...]
    schema_json: str | None
    output_key: str
    repairs: int
    form: AnswerForm
    contract_json: str | None


def outcome(**fields: Unpack[OutcomeFields]) -> OutcomePlan:
    """Any answer will do, written under `answer_result`, with one repair."""
    defaults = OutcomePlan(
        enum=(), schema_json=None, output_key="answer_result", repairs=1, form=AnswerForm.JSON_TEXT
    )
    return replace(defaults, **fields)


class EntryFields(TypedDict, total=False):
    """The fields of ToolEntry but its ref."""

    description: str
    parameters_json: str
    bind: Mapping[str, str]
    max_calls: int | None
    writes_context: bool
    policy: ToolPolicy
    poll: bool
    approval: ApprovalPlan | None


def entry(ref: str, **fields: Unpack[EntryFields]) -> ToolEntry:
    """A tool as a model step sees it: any object for arguments, nothing bound, no cap of its own."""
    defaults = ToolEntry(
        ref=ref,
        description=f"Runs {ref}.",
        parameters_json=ANY_OBJECT,
        bind={},
        max_calls=None,
        writes_context=False,
    )
    return replace(defaults, **fields)


def approval(
    when: str = "", *, expiry_ms: int = DAY_MS, on_expiry: OnExpiry = OnExpiry.REJECT
) -> ApprovalPlan:
    """Somebody has to let each call start, within a day, else it does not."""
    return ApprovalPlan(when=when, expiry_ms=expiry_ms, on_expiry=on_expiry)


class ToolStepFields(TypedDict, total=False):
    """The fields of ToolStep but its id and effect."""

    kind: str
    description: str
    input: Mapping[str, str] | None
    routes: Mapping[str, str]
    next_step: str
    action: ToolAction
    output_key: str
    timeout_ms: int
    result_chars: int
    on_unknown: OnUnknown
    unknown_expiry_ms: int
    policy: ToolPolicy
    gates: GatesPlan | None
    approval: ApprovalPlan | None


def tool(step_id: str, effect: Effect = Effect.READ, **fields: Unpack[ToolStepFields]) -> ToolStep:
    """A function as a step: 30 s, its output under `<step>_result`, asks when its outcome is unknown."""
    defaults = ToolStep(
        step_id=step_id,
        kind="function",
        description=f"Runs {step_id}.",
        input=None,
        routes={},
        next_step="",
        effect=effect,
        action=FunctionAction(function=f"examples:{step_id}"),
        output_key=f"{step_id}_result",
        timeout_ms=30_000,
        result_chars=8_000,
        on_unknown=OnUnknown.ASK,
        unknown_expiry_ms=DAY_MS,
    )
    return replace(defaults, **fields)


def child(
    step_id: str, workflow: str, *, effect: Effect = Effect.READ, share: SharePlan = NO_SHARE
) -> ToolStep:
    """A step that runs a workflow."""
    return tool(
        step_id, effect, kind="workflow", input={}, action=ChildAction(workflow=workflow, share=share)
    )


def router(step_id: str, cases: Mapping[str, str], routes: Mapping[str, str]) -> RouterStep:
    """A router: `cases` maps each condition to its signal, in order; it stands outside the spine."""
    return RouterStep(
        step_id=step_id,
        kind="router",
        description=f"Chooses in {step_id}.",
        routes=routes,
        next_step="",
        cases=tuple(RouterCase(when=when, signal=signal) for when, signal in cases.items()),
    )


class ModelStepFields(TypedDict, total=False):
    """The fields of ModelStep."""

    step_id: str
    kind: str
    description: str
    input: Mapping[str, str] | None
    routes: Mapping[str, str]
    next_step: str
    model: str
    system: tuple[PromptSection, ...]
    prompt: str
    tools: tuple[ToolEntry, ...]
    allow_effects: frozenset[Effect]
    tool_choice: ToolChoice
    max_parallel: int
    bounds: StepBounds
    outcome: OutcomePlan
    on_limit: OnLimit
    tool_execution: ToolExecution
    invalid_args: int | None
    stop_when: StopCondition | None
    completion: Completion
    repeat: RepeatPlan | None
    reflect: ReflectPlan | None
    ground: GroundPlan | None
    compaction: CompactionPlan | None
    thread: bool
    reads_results: bool
    text_tool_calls: TextToolCalls
    gates: GatesPlan | None
    limit_expiry_ms: int
    fallbacks: tuple[str, ...]
    on_model_unavailable: OnModelUnavailable
    as_tool: AgentTool | None
    supervisor: SupervisorPlan | None


def agent(**fields: Unpack[ModelStepFields]) -> ModelStep:
    """An agent step without tools whose every signal ends the run."""
    defaults = ModelStep(
        step_id=AGENT,
        kind="agent",
        description="Answers.",
        input=None,
        routes={"*": END},
        next_step="",
        model=MODEL,
        system=(PromptSection(title="", text="You answer."),),
        prompt="",
        tools=(),
        allow_effects=frozenset(Effect),
        tool_choice=ToolChoice(),
        max_parallel=8,
        bounds=step_bounds(),
        outcome=outcome(),
        on_limit=OnLimit.EXIT,
    )
    return replace(defaults, **fields)


class PlanFields(TypedDict, total=False):
    """The fields of Plan but its steps."""

    digest: str
    revision: str
    name: str
    flow: tuple[str, ...]
    models: Mapping[str, ModelPlan]
    bounds: RunBounds
    input_schema_json: str | None
    on_question: OnQuestion
    warnings: tuple[str, ...]
    bounds_cap: BoundsCap | None
    preset: str
    gates: GatesPlan | None


def plan_of(*steps: StepPlan, **fields: Unpack[PlanFields]) -> Plan:
    """A plan of these steps. It starts with the first one unless `flow` says otherwise."""
    defaults = Plan(
        digest="0" * 64,
        revision="1" * 64,
        name="example",
        flow=(steps[0].step_id,),
        steps={step.step_id: step for step in steps},
        models={MODEL: model()},
        bounds=run_bounds(),
        input_schema_json=None,
        on_question=OnQuestion.WAIT,
        warnings=(),
    )
    return replace(defaults, **fields)


def agent_plan(*others: StepPlan, **fields: Unpack[ModelStepFields]) -> Plan:
    """A plan that starts with one agent step of these fields.

    Each ToolStep among the other steps is one of its tools, unless `tools` is given.
    """
    step = agent(**fields)
    if "tools" not in fields:
        step = replace(
            step, tools=tuple(entry(other.step_id) for other in others if isinstance(other, ToolStep))
        )
    return plan_of(step, *others)


class StartFields(TypedDict, total=False):
    """The fields of RunStarted but those that the plan gives."""

    epoch: int
    principal: str
    deadline_unix_ms: int | None
    bounds: RunBounds
    on_question: OnQuestion
    input_json: str
    subject_json: str


def started(plan: Plan, **fields: Unpack[StartFields]) -> RunStarted:
    """The first fact of a run of the plan, with an empty input and no deadline."""
    defaults = RunStarted(
        workflow=plan.name,
        plan_digest=plan.digest,
        epoch=1,
        principal="starter",
        deadline_unix_ms=None,
        bounds=plan.bounds,
        on_question=plan.on_question,
        input_json="{}",
        subject_json="{}",
    )
    return replace(defaults, **fields)

"""A step that asks a model, in protobuf. What a plan of an earlier version lacks, it does without."""

from jackline.v1 import plan_pb2
from jackline_server.codec.approvals import read_approval, set_approval
from jackline_server.codec.children import read_agent_tool, set_agent_tool
from jackline_server.codec.enums import (
    ANSWER_FORM,
    CHOICE_MODE,
    COMPLETION,
    EFFECT,
    ON_LIMIT,
    ON_MODEL_UNAVAILABLE,
    TEXT_TOOL_CALLS,
    TOOL_EXECUTION,
)
from jackline_server.codec.gates import read_gates, set_gates
from jackline_server.codec.history import read_compaction, set_compaction
from jackline_server.codec.progress import read_ground, read_reflect, read_repeat, set_progress
from jackline_server.codec.stop_conditions import read_condition, set_condition
from jackline_server.codec.supervising import read_supervisor, set_supervisor
from jackline_server.codec.tool_policy import read_policy, set_policy
from jackline_server.core.plan import (
    Completion,
    ModelStep,
    OnModelUnavailable,
    OutcomePlan,
    PromptSection,
    StepBounds,
    TextToolCalls,
    ToolChoice,
    ToolEntry,
    ToolExecution,
)


def set_model_step(into: plan_pb2.ModelStepPlan, step: ModelStep) -> None:
    """Write what is the model step's own."""
    into.model = step.model
    into.system.extend(plan_pb2.PromptSection(title=part.title, text=part.text) for part in step.system)
    into.prompt = step.prompt
    into.tools.extend(_tool_message(tool) for tool in step.tools)
    into.allow_effects.extend(sorted(EFFECT.wire[effect] for effect in step.allow_effects))
    into.tool_choice = CHOICE_MODE.wire[step.tool_choice.mode]
    into.tool_choice_name = step.tool_choice.name
    into.max_parallel = step.max_parallel
    _set_bounds(into.bounds, step.bounds)
    _set_outcome(into.outcome, step.outcome)
    into.on_limit = ON_LIMIT.wire[step.on_limit]
    into.limit_expiry_ms = step.limit_expiry_ms
    if step.tool_execution is not ToolExecution.BY_EFFECT:
        into.tool_execution = TOOL_EXECUTION.wire[step.tool_execution]
    if step.invalid_args is not None:
        into.invalid_args = step.invalid_args
    if step.stop_when is not None:
        set_condition(into.stop_when, step.stop_when)
    if step.completion is not Completion.AUTO:  # as plans of before have it: equal plans, equal bytes
        into.completion = COMPLETION.wire[step.completion]
    into.thread = step.thread
    into.fallbacks.extend(step.fallbacks)
    if step.on_model_unavailable is not OnModelUnavailable.FAIL:
        into.on_model_unavailable = ON_MODEL_UNAVAILABLE.wire[step.on_model_unavailable]
    _set_results(into, step)
    set_progress(into, step)
    if step.compaction is not None:
        set_compaction(into.compaction, step.compaction)
    _set_watchers(into, step)


def _set_watchers(into: plan_pb2.ModelStepPlan, step: ModelStep) -> None:
    set_gates(into, step.gates)
    set_supervisor(into, step.supervisor)


def _set_results(into: plan_pb2.ModelStepPlan, step: ModelStep) -> None:
    set_agent_tool(into, step.as_tool)
    if step.reads_results:
        into.reads_results = True
    if step.text_tool_calls is not TextToolCalls.OFF:
        into.text_tool_calls = TEXT_TOOL_CALLS.wire[step.text_tool_calls]


def read_model_step(message: plan_pb2.StepPlan) -> ModelStep:
    """The step back."""
    found = message.model_step
    return ModelStep(
        step_id=message.step_id,
        kind=message.kind,
        description=message.description,
        input=dict(message.input) if message.input_selected else None,
        routes=dict(message.routes),
        next_step=message.next_step,
        model=found.model,
        system=tuple(PromptSection(title=part.title, text=part.text) for part in found.system),
        prompt=found.prompt,
        tools=tuple(_read_tool(tool) for tool in found.tools),
        allow_effects=frozenset(EFFECT.read(effect) for effect in found.allow_effects),
        tool_choice=ToolChoice(mode=CHOICE_MODE.read(found.tool_choice), name=found.tool_choice_name),
        max_parallel=found.max_parallel,
        bounds=_read_bounds(found.bounds),
        outcome=_read_outcome(found.outcome),
        on_limit=ON_LIMIT.read(found.on_limit),
        limit_expiry_ms=found.limit_expiry_ms,
        tool_execution=TOOL_EXECUTION.read_optional(found.tool_execution) or ToolExecution.BY_EFFECT,
        invalid_args=found.invalid_args if found.HasField("invalid_args") else None,
        stop_when=read_condition(found.stop_when) if found.HasField("stop_when") else None,
        completion=COMPLETION.read_optional(found.completion) or Completion.AUTO,
        repeat=read_repeat(found),
        reflect=read_reflect(found),
        ground=read_ground(found),
        fallbacks=tuple(found.fallbacks),
        on_model_unavailable=ON_MODEL_UNAVAILABLE.read_optional(found.on_model_unavailable)
        or OnModelUnavailable.FAIL,
        compaction=read_compaction(found.compaction) if found.HasField("compaction") else None,
        thread=found.thread,
        reads_results=found.reads_results,
        text_tool_calls=TEXT_TOOL_CALLS.read_optional(found.text_tool_calls) or TextToolCalls.OFF,
        gates=read_gates(found),
        supervisor=read_supervisor(found),
        as_tool=read_agent_tool(found),
    )


def _tool_message(tool: ToolEntry) -> plan_pb2.ToolEntryPlan:
    message = plan_pb2.ToolEntryPlan(
        ref=tool.ref,
        description=tool.description,
        parameters_json=tool.parameters_json,
        bind=tool.bind,
        max_calls=tool.max_calls,
        writes_context=tool.writes_context,
        poll=tool.poll,
    )
    set_policy(message, tool.policy)
    set_approval(message, tool.approval)
    return message


def _read_tool(message: plan_pb2.ToolEntryPlan) -> ToolEntry:
    return ToolEntry(
        ref=message.ref,
        description=message.description,
        parameters_json=message.parameters_json,
        bind=dict(message.bind),
        max_calls=message.max_calls if message.HasField("max_calls") else None,
        writes_context=message.writes_context,
        policy=read_policy(message),
        poll=message.poll,
        approval=read_approval(message),
    )


def _set_outcome(into: plan_pb2.OutcomePlan, outcome: OutcomePlan) -> None:
    into.enum.extend(outcome.enum)
    if outcome.schema_json is not None:
        into.schema_json = outcome.schema_json
    into.output_key = outcome.output_key
    into.repairs = outcome.repairs
    into.form = ANSWER_FORM.wire[outcome.form]
    if outcome.contract_json is not None:
        into.contract_json = outcome.contract_json


def _read_outcome(message: plan_pb2.OutcomePlan) -> OutcomePlan:
    return OutcomePlan(
        enum=tuple(message.enum),
        schema_json=message.schema_json if message.HasField("schema_json") else None,
        output_key=message.output_key,
        repairs=message.repairs,
        form=ANSWER_FORM.read(message.form),
        contract_json=message.contract_json if message.HasField("contract_json") else None,
    )


def _set_bounds(into: plan_pb2.StepBounds, bounds: StepBounds) -> None:
    into.max_iterations = bounds.max_iterations
    into.model_requests = bounds.model_requests
    into.tool_calls = bounds.tool_calls
    if bounds.token_budget is not None:
        into.token_budget = bounds.token_budget
    if bounds.cost_budget_micros is not None:
        into.cost_budget_micros = bounds.cost_budget_micros
    if bounds.timeout_ms is not None:
        into.timeout_ms = bounds.timeout_ms
    into.model_timeout_ms = bounds.model_timeout_ms
    into.idle_timeout_ms = bounds.idle_timeout_ms
    into.tool_timeout_ms = bounds.tool_timeout_ms


def _read_bounds(message: plan_pb2.StepBounds) -> StepBounds:
    return StepBounds(
        max_iterations=message.max_iterations,
        model_requests=message.model_requests,
        tool_calls=message.tool_calls,
        token_budget=message.token_budget if message.HasField("token_budget") else None,
        cost_budget_micros=message.cost_budget_micros if message.HasField("cost_budget_micros") else None,
        timeout_ms=message.timeout_ms if message.HasField("timeout_ms") else None,
        model_timeout_ms=message.model_timeout_ms,
        idle_timeout_ms=message.idle_timeout_ms,
        tool_timeout_ms=message.tool_timeout_ms,
    )

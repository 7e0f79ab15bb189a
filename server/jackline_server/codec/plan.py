"""A plan as the bytes of a `jackline.v1.Plan`, and back.

Equal plans have equal bytes: steps and models are ordered by name, maps by key. The digest is the SHA-256
of those bytes and not part of them. `plan_message` also serves those who show a plan.
"""

import hashlib
from typing import assert_never

from google.protobuf.message import DecodeError

from jackline.v1 import plan_pb2
from jackline_server.codec.approvals import read_approval, set_approval
from jackline_server.codec.attempt_limits import read_limits, set_limits
from jackline_server.codec.bounds_cap import read_cap, set_cap
from jackline_server.codec.enums import EFFECT, ON_QUESTION, ON_UNKNOWN
from jackline_server.codec.gates import read_gates, set_gates
from jackline_server.codec.model_step import read_model_step, set_model_step
from jackline_server.codec.pause_plan import read_pause, set_pause
from jackline_server.codec.tool_action import read_action, set_action
from jackline_server.codec.tool_policy import read_policy, set_policy
from jackline_server.codec.values import read_bounds, set_bounds
from jackline_server.core.plan import (
    ModelPlan,
    ModelStep,
    Plan,
    Price,
    RouterCase,
    RouterStep,
    StepPlan,
    ToolStep,
)
from jackline_server.runtime.ports.codec import UnknownFact
from jackline_server.runtime.ports.store_errors import StoreDamaged


def plan_message(plan: Plan) -> plan_pb2.Plan:
    """The plan as the contract shows it."""
    message = plan_pb2.Plan(
        name=plan.name,
        revision=plan.revision,
        flow=plan.flow,
        steps=[_step_message(plan.steps[name]) for name in sorted(plan.steps)],
        models=[_model_message(plan.models[name]) for name in sorted(plan.models)],
        input_schema_json=plan.input_schema_json,
        on_question=ON_QUESTION.wire[plan.on_question],
        warnings=plan.warnings,
        preset=plan.preset,
    )
    set_bounds(message.bounds, plan.bounds)
    set_cap(message, plan.bounds_cap)
    set_pause(message, plan.pause)
    set_gates(message, plan.gates)
    return message


def encode_plan(plan: Plan) -> bytes:
    """The plan's bytes."""
    return plan_message(plan).SerializeToString(deterministic=True)


def decode_plan(data: bytes) -> Plan:
    """The plan back, its digest that of `data`.

    Raises:
        UnknownFact: a newer version wrote it.
        StoreDamaged: the bytes are no plan.
    """
    try:
        message = plan_pb2.Plan.FromString(data)
    except DecodeError:
        raise StoreDamaged("a plan can't be read") from None
    return Plan(
        digest=hashlib.sha256(data).hexdigest(),
        revision=message.revision,
        name=message.name,
        flow=tuple(message.flow),
        steps={step.step_id: _read_step(step) for step in message.steps},
        models={model.profile: _read_model(model) for model in message.models},
        bounds=read_bounds(message.bounds),
        bounds_cap=read_cap(message),
        pause=read_pause(message),
        input_schema_json=message.input_schema_json if message.HasField("input_schema_json") else None,
        on_question=ON_QUESTION.read(message.on_question),
        warnings=tuple(message.warnings),
        preset=message.preset,
        gates=read_gates(message),
    )


def _model_message(model: ModelPlan) -> plan_pb2.ModelPlan:
    price = model.price
    message = plan_pb2.ModelPlan(
        profile=model.profile,
        model=model.model,
        adapter=model.adapter,
        context_window=model.context_window,
        max_output_tokens=model.max_output_tokens,
        priced=price is not None,
        input_price_micros=0 if price is None else price.input_per_million,
        output_price_micros=0 if price is None else price.output_per_million,
        retries=model.retries,
        retry_base_ms=model.retry_base_ms,
        retry_cap_ms=model.retry_cap_ms,
        native_schema=model.native_schema,
        no_tools=not model.calls_tools,
        price_is_ceiling=model.price_is_ceiling,
        cached_price_micros=None if price is None else price.cached_per_million,
        reasoning_price_micros=None if price is None else price.reasoning_per_million,
    )
    set_limits(message, model.limits)
    return message


def _read_model(message: plan_pb2.ModelPlan) -> ModelPlan:
    price = Price(
        input_per_million=message.input_price_micros,
        output_per_million=message.output_price_micros,
        cached_per_million=message.cached_price_micros if message.HasField("cached_price_micros") else None,
        reasoning_per_million=(
            message.reasoning_price_micros if message.HasField("reasoning_price_micros") else None
        ),
    )
    return ModelPlan(
        profile=message.profile,
        model=message.model,
        adapter=message.adapter,
        context_window=message.context_window,
        max_output_tokens=message.max_output_tokens,
        price=price if message.priced else None,
        retries=message.retries,
        retry_base_ms=message.retry_base_ms,
        retry_cap_ms=message.retry_cap_ms,
        native_schema=message.native_schema,
        calls_tools=not message.no_tools,
        price_is_ceiling=message.price_is_ceiling,
        limits=read_limits(message),
    )


def _step_message(step: StepPlan) -> plan_pb2.StepPlan:
    message = plan_pb2.StepPlan(
        step_id=step.step_id,
        kind=step.kind,
        description=step.description,
        routes=step.routes,
        next_step=step.next_step,
    )
    match step:
        case ModelStep():
            _set_input(message, step)
            set_model_step(message.model_step, step)
        case ToolStep():
            _set_input(message, step)
            _set_tool_step(message.tool_step, step)
        case RouterStep():
            message.router_step.cases.extend(
                plan_pb2.RouterCase(when=case.when, signal=case.signal) for case in step.cases
            )
            message.router_step.SetInParent()
        case _:
            assert_never(step)
    return message


def _set_input(message: plan_pb2.StepPlan, step: ModelStep | ToolStep) -> None:
    if step.input is not None:
        message.input_selected = True
        message.input.update(step.input)


def _read_step(message: plan_pb2.StepPlan) -> StepPlan:
    match message.WhichOneof("body"):
        case "model_step":
            return read_model_step(message)
        case "tool_step":
            return _read_tool_step(message)
        case "router_step":
            return _read_router_step(message)
        case None:
            raise UnknownFact(f"step {message.step_id} is of a kind of a newer version")


def _set_tool_step(into: plan_pb2.ToolStepPlan, step: ToolStep) -> None:
    into.effect = EFFECT.wire[step.effect]
    into.output_key = step.output_key
    into.timeout_ms = step.timeout_ms
    into.result_chars = step.result_chars
    into.on_unknown = ON_UNKNOWN.wire[step.on_unknown]
    into.unknown_expiry_ms = step.unknown_expiry_ms
    set_policy(into, step.policy)
    set_gates(into, step.gates)
    set_approval(into, step.approval)
    set_action(into, step.action)


def _read_tool_step(message: plan_pb2.StepPlan) -> ToolStep:
    found = message.tool_step
    return ToolStep(
        step_id=message.step_id,
        kind=message.kind,
        description=message.description,
        input=dict(message.input) if message.input_selected else None,
        routes=dict(message.routes),
        next_step=message.next_step,
        effect=EFFECT.read(found.effect),
        action=read_action(message.step_id, found),
        output_key=found.output_key,
        timeout_ms=found.timeout_ms,
        result_chars=found.result_chars,
        on_unknown=ON_UNKNOWN.read(found.on_unknown),
        unknown_expiry_ms=found.unknown_expiry_ms,
        policy=read_policy(found),
        gates=read_gates(found),
        approval=read_approval(found),
    )


def _read_router_step(message: plan_pb2.StepPlan) -> RouterStep:
    return RouterStep(
        step_id=message.step_id,
        kind=message.kind,
        description=message.description,
        routes=dict(message.routes),
        next_step=message.next_step,
        cases=tuple(RouterCase(when=case.when, signal=case.signal) for case in message.router_step.cases),
    )

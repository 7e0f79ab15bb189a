"""What is asked and checked around a step or a run, in protobuf.

A plan of before has none, and keeps its bytes.
"""

from typing import assert_never

from jackline.v1 import plan_pb2
from jackline_server.codec.enums import ARGUMENTS_VIEW, GATE_POINT, ON_HOOK_ERROR, PII
from jackline_server.core.gate_plans import (
    DenyPattern,
    FitsSchema,
    GatesPlan,
    GuardrailPlan,
    HookPlan,
    Judged,
    MaskPlan,
    MaxChars,
    PolicyPlan,
)
from jackline_server.runtime.ports.codec import UnknownFact

_Holder = plan_pb2.Plan | plan_pb2.ModelStepPlan | plan_pb2.ToolStepPlan


def set_gates(into: _Holder, gates: GatesPlan | None) -> None:
    """Write them where there are any."""
    if gates is None:
        return
    message = into.gates
    message.SetInParent()
    message.hooks.extend(_hook_message(hook) for hook in gates.hooks)
    if gates.policy is not None:
        message.policy.CopyFrom(_policy_message(gates.policy))
    message.input.extend(_rail_message(rail) for rail in gates.input)
    message.output.extend(_rail_message(rail) for rail in gates.output)
    message.tools.extend(_rail_message(rail) for rail in gates.tools)
    _set_mask(message.mask_input, gates.mask_input)
    _set_mask(message.mask_replies, gates.mask_replies)
    _set_mask(message.mask_arguments, gates.mask_arguments)
    _set_mask(message.mask_results, gates.mask_results)


def read_gates(found: _Holder) -> GatesPlan | None:
    """Them back. Raises UnknownFact."""
    if not found.HasField("gates"):
        return None
    message = found.gates
    return GatesPlan(
        hooks=tuple(_read_hook(hook) for hook in message.hooks),
        policy=_read_policy(message.policy) if message.HasField("policy") else None,
        input=tuple(_read_rail(rail) for rail in message.input),
        output=tuple(_read_rail(rail) for rail in message.output),
        tools=tuple(_read_rail(rail) for rail in message.tools),
        mask_input=_read_mask(message.mask_input) if message.HasField("mask_input") else None,
        mask_replies=_read_mask(message.mask_replies) if message.HasField("mask_replies") else None,
        mask_arguments=_read_mask(message.mask_arguments) if message.HasField("mask_arguments") else None,
        mask_results=_read_mask(message.mask_results) if message.HasField("mask_results") else None,
    )


def _hook_message(hook: HookPlan) -> plan_pb2.HookPlan:
    return plan_pb2.HookPlan(
        name=hook.name,
        points=sorted(GATE_POINT.wire[point] for point in hook.points),
        timeout_ms=hook.timeout_ms,
        on_error=ON_HOOK_ERROR.wire[hook.on_error],
    )


def _read_hook(message: plan_pb2.HookPlan) -> HookPlan:
    return HookPlan(
        name=message.name,
        points=frozenset(GATE_POINT.read(point) for point in message.points),
        timeout_ms=message.timeout_ms,
        on_error=ON_HOOK_ERROR.read(message.on_error),
    )


def _policy_message(policy: PolicyPlan) -> plan_pb2.PolicyPlan:
    return plan_pb2.PolicyPlan(
        name=policy.name,
        view=ARGUMENTS_VIEW.wire[policy.view],
        timeout_ms=policy.timeout_ms,
        fails_open=policy.fails_open,
        ends=policy.ends,
    )


def _read_policy(message: plan_pb2.PolicyPlan) -> PolicyPlan:
    return PolicyPlan(
        name=message.name,
        view=ARGUMENTS_VIEW.read(message.view),
        timeout_ms=message.timeout_ms,
        fails_open=message.fails_open,
        ends=message.ends,
    )


def _rail_message(rail: GuardrailPlan) -> plan_pb2.GuardrailPlan:
    message = plan_pb2.GuardrailPlan(place=rail.place, ends=rail.ends, tools=sorted(rail.tools))
    check = rail.check
    match check:
        case MaxChars():
            message.max_chars = check.most
        case DenyPattern():
            message.deny_pattern = check.pattern
        case FitsSchema():
            message.schema_json = check.schema_json
        case Judged():
            message.judged.model = check.model
            message.judged.criteria = check.criteria
            message.judged.SetInParent()
        case _:
            assert_never(check)
    return message


def _read_rail(message: plan_pb2.GuardrailPlan) -> GuardrailPlan:
    return GuardrailPlan(
        place=message.place,
        check=_read_check(message),
        ends=message.ends,
        tools=frozenset(message.tools),
    )


def _read_check(message: plan_pb2.GuardrailPlan) -> MaxChars | DenyPattern | FitsSchema | Judged:
    match message.WhichOneof("check"):
        case "max_chars":
            return MaxChars(most=message.max_chars)
        case "deny_pattern":
            return DenyPattern(pattern=message.deny_pattern)
        case "schema_json":
            return FitsSchema(schema_json=message.schema_json)
        case "judged":
            return Judged(model=message.judged.model, criteria=message.judged.criteria)
        case None:
            raise UnknownFact(f"the guardrail {message.place} is of a kind of a newer version")


def _set_mask(into: plan_pb2.MaskPlan, mask: MaskPlan | None) -> None:
    if mask is None:
        return
    into.SetInParent()
    into.kinds.extend(sorted(PII.wire[kind] for kind in mask.kinds))
    into.region = mask.region


def _read_mask(message: plan_pb2.MaskPlan) -> MaskPlan:
    return MaskPlan(kinds=frozenset(PII.read(kind) for kind in message.kinds), region=message.region)

"""What follows from a tool's failures, in protobuf.

A policy in which nothing is set is not written: plans that were stored before there were any have none, and
keep their bytes.
"""

from jackline.v1 import plan_pb2
from jackline_server.codec.enums import ON_FAILURE
from jackline_server.core.plan import OnFailure, ToolPolicy

_NONE = ToolPolicy()


def set_policy(into: plan_pb2.ToolStepPlan | plan_pb2.ToolEntryPlan, policy: ToolPolicy) -> None:
    """Write it where it says anything."""
    if policy == _NONE:
        return
    message = into.policy
    message.retries = policy.retries
    message.retry_base_ms = policy.retry_base_ms
    message.retry_cap_ms = policy.retry_cap_ms
    message.on_error = ON_FAILURE.wire[policy.on_error]
    message.on_timeout = ON_FAILURE.wire[policy.on_timeout]
    message.reuse = policy.reuse
    message.serial_group = policy.serial_group


def read_policy(found: plan_pb2.ToolStepPlan | plan_pb2.ToolEntryPlan) -> ToolPolicy:
    """The policy back."""
    if not found.HasField("policy"):
        return _NONE
    message = found.policy
    return ToolPolicy(
        retries=message.retries,
        retry_base_ms=message.retry_base_ms,
        retry_cap_ms=message.retry_cap_ms,
        on_error=ON_FAILURE.read_optional(message.on_error) or OnFailure.OBSERVE,
        on_timeout=ON_FAILURE.read_optional(message.on_timeout) or OnFailure.OBSERVE,
        reuse=message.reuse,
        serial_group=message.serial_group,
    )

"""Approvals in a plan, in protobuf. A plan of before has none."""

from jackline.v1 import plan_pb2
from jackline_server.codec.enums import ON_EXPIRY
from jackline_server.core.approval_plans import ApprovalPlan


def set_approval(into: plan_pb2.ToolStepPlan | plan_pb2.ToolEntryPlan, approval: ApprovalPlan | None) -> None:
    """Write it, if there is one."""
    if approval is None:
        return
    into.approval.when = approval.when
    into.approval.expiry_ms = approval.expiry_ms
    into.approval.on_expiry = ON_EXPIRY.wire[approval.on_expiry]


def read_approval(found: plan_pb2.ToolStepPlan | plan_pb2.ToolEntryPlan) -> ApprovalPlan | None:
    """The approval back."""
    if not found.HasField("approval"):
        return None
    message = found.approval
    return ApprovalPlan(
        when=message.when, expiry_ms=message.expiry_ms, on_expiry=ON_EXPIRY.read(message.on_expiry)
    )

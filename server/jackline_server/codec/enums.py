"""The domain's enums beside the contract's: one table a pair, built by name once.

A member `X` of the domain is the value `<PREFIX>_X` of the contract. Owns no meaning of its own.
"""

from enum import Enum
from typing import TYPE_CHECKING, Generic, TypeVar

from jackline.v1 import control_pb2, error_reason_pb2, event_pb2, plan_pb2, run_pb2
from jackline_server.core import approval_plans, facts, gate_plans, plan, repetition_plans, supervisor_plans
from jackline_server.runtime.ports.codec import UnknownFact
from jackline_server.runtime.ports.tool_waits import WaitFor

if TYPE_CHECKING:
    # Generic in the stubs only: at run time an enum of the contract is a plain wrapper object.
    from google.protobuf.internal.enum_type_wrapper import (
        _EnumTypeWrapper as EnumTypeWrapper,  # pyright: ignore[reportPrivateUsage]  # the stubs name it so
    )

E = TypeVar("E", bound=Enum)
V = TypeVar("V", bound=int)


class EnumTable(Generic[E, V]):
    """One enum of the domain beside one of the contract."""

    __slots__ = ("domain", "of", "wire")

    def __init__(self, domain: type[E], wire: "EnumTypeWrapper[V]", prefix: str) -> None:
        self.domain = domain
        self.wire: dict[E, V] = {member: wire.Value(f"{prefix}_{member.name}") for member in domain}
        """What each member is on the wire."""
        self.of: dict[int, E] = {int(value): member for member, value in self.wire.items()}
        """What each value on the wire is here."""

    def read(self, value: int) -> E:
        """The member of a stored value. Raises UnknownFact: only a newer version can have written it."""
        member = self.of.get(value)
        if member is None:
            raise UnknownFact(f"{self.domain.__name__} has no value {value}")
        return member

    def read_optional(self, value: int) -> E | None:
        """The same, where 0 stands for nothing."""
        return None if value == 0 else self.read(value)


PHASE = EnumTable(facts.Phase, run_pb2.RunState, "RUN_STATE")
STOP_REASON = EnumTable(facts.StopReason, run_pb2.StopReason, "STOP_REASON")
RECOVERY_CAUSE = EnumTable(facts.RecoveryCause, event_pb2.RecoveryCause, "RECOVERY_CAUSE")
PURPOSE = EnumTable(facts.Purpose, event_pb2.ModelCallPurpose, "MODEL_CALL_PURPOSE")
FINISH_REASON = EnumTable(facts.FinishReason, event_pb2.FinishReason, "FINISH_REASON")
FAILURE_CLASS = EnumTable(facts.FailureClass, event_pb2.ModelFailureClass, "MODEL_FAILURE_CLASS")
ATTEMPT_LIMIT = EnumTable(facts.AttemptLimit, event_pb2.ModelAttemptLimit, "MODEL_ATTEMPT_LIMIT")
CALL_STATUS = EnumTable(facts.CallStatus, run_pb2.ToolCallStatus, "TOOL_CALL_STATUS")
CALL_PROBLEM = EnumTable(facts.CallProblem, event_pb2.CallProblem, "CALL_PROBLEM")
ANSWER_PROBLEM = EnumTable(facts.AnswerProblem, event_pb2.AnswerProblem, "ANSWER_PROBLEM")
ON_EXPIRY = EnumTable(approval_plans.OnExpiry, run_pb2.ApprovalExpiry, "APPROVAL_EXPIRY")
INTERRUPT_KIND = EnumTable(facts.InterruptKind, run_pb2.InterruptKind, "INTERRUPT_KIND")
COMMAND_KIND = EnumTable(facts.CommandKind, control_pb2.CommandKind, "COMMAND_KIND")
ABORT_MODE = EnumTable(facts.AbortMode, control_pb2.AbortMode, "ABORT_MODE")
REJECTION = EnumTable(facts.Rejection, error_reason_pb2.ErrorReason, "ERROR_REASON")
TIMER_KIND = EnumTable(facts.TimerKind, event_pb2.TimerKind, "TIMER_KIND")
CONSULT_KIND = EnumTable(facts.ConsultKind, event_pb2.ConsultKind, "CONSULT_KIND")
CONSULT_ANSWER = EnumTable(facts.ConsultAnswer, event_pb2.ConsultAnswer, "CONSULT_ANSWER")
NOTICE_CODE = EnumTable(facts.NoticeCode, event_pb2.NoticeCode, "NOTICE_CODE")
TOOL_WAIT_KIND = EnumTable(WaitFor, run_pb2.ToolWaitKind, "TOOL_WAIT_KIND")
EFFECT = EnumTable(plan.Effect, run_pb2.Effect, "EFFECT")
ON_QUESTION = EnumTable(plan.OnQuestion, run_pb2.OnQuestion, "ON_QUESTION")
ON_LIMIT = EnumTable(plan.OnLimit, plan_pb2.OnLimit, "ON_LIMIT")
ON_MODEL_UNAVAILABLE = EnumTable(plan.OnModelUnavailable, plan_pb2.OnModelUnavailable, "ON_MODEL_UNAVAILABLE")
ON_PAUSE_MAX = EnumTable(plan.OnPauseMax, plan_pb2.OnPauseMax, "ON_PAUSE_MAX")
ON_UNKNOWN = EnumTable(plan.OnUnknown, plan_pb2.OnUnknown, "ON_UNKNOWN")
ON_FAILURE = EnumTable(plan.OnFailure, plan_pb2.OnFailure, "ON_FAILURE")
TOOL_EXECUTION = EnumTable(plan.ToolExecution, plan_pb2.ToolExecution, "TOOL_EXECUTION")
ANSWER_FORM = EnumTable(plan.AnswerForm, plan_pb2.AnswerForm, "ANSWER_FORM")
COMPACTION_KIND = EnumTable(facts.CompactionKind, event_pb2.CompactionKind, "COMPACTION_KIND")
COMPACTION_MODE = EnumTable(plan.CompactionMode, plan_pb2.CompactionMode, "COMPACTION_MODE")
TEXT_TOOL_CALLS = EnumTable(plan.TextToolCalls, plan_pb2.TextToolCalls, "TEXT_TOOL_CALLS")
COMPLETION = EnumTable(plan.Completion, plan_pb2.Completion, "COMPLETION")
REPEAT_BY = EnumTable(repetition_plans.RepeatBy, plan_pb2.RepeatBy, "REPEAT_BY")
ON_JUDGE_ERROR = EnumTable(plan.OnJudgeError, plan_pb2.OnJudgeError, "ON_JUDGE_ERROR")
PATTERN = EnumTable(facts.Pattern, event_pb2.ReflectionPattern, "REFLECTION_PATTERN")
CHOICE_MODE = EnumTable(plan.ChoiceMode, plan_pb2.ToolChoiceMode, "TOOL_CHOICE_MODE")
GATE_POINT = EnumTable(gate_plans.Point, run_pb2.GatePoint, "GATE_POINT")
ON_HOOK_ERROR = EnumTable(gate_plans.OnHookError, plan_pb2.OnHookError, "ON_HOOK_ERROR")
ARGUMENTS_VIEW = EnumTable(gate_plans.ArgumentsView, plan_pb2.ArgumentsView, "ARGUMENTS_VIEW")
RULE_STAGE = EnumTable(supervisor_plans.RuleStage, run_pb2.RuleStage, "RULE_STAGE")
RULE_ACTION = EnumTable(supervisor_plans.RuleAction, run_pb2.RuleAction, "RULE_ACTION")
BUDGET_KIND = EnumTable(supervisor_plans.BudgetKind, plan_pb2.BudgetKind, "BUDGET_KIND")
ON_SUPERVISOR_ERROR = EnumTable(
    supervisor_plans.OnSupervisorError, plan_pb2.OnSupervisorError, "ON_SUPERVISOR_ERROR"
)
PII = EnumTable(gate_plans.Pii, plan_pb2.Pii, "PII")

"""Who watches a step from beside: rules and a judge, as the plan holds them, every default put in.

Owns the shapes. Does not own when a rule holds or what follows (`supervising`). Shares are in thousandths.
"""

from enum import Enum

from jackline_server.core.frozen import frozen
from jackline_server.core.gate_plans import ArgumentsView
from jackline_server.core.repetition_plans import RepeatBy


class RuleStage(Enum):
    """When a rule is asked: before each tool call starts, or after a turn, before the next one."""

    BEFORE_CALL = "before_call"
    AFTER_TURN = "after_turn"


class RuleAction(Enum):
    """What the supervisor does. It can do nothing else."""

    STEER = "steer"
    """The model is told something."""

    PAUSE = "pause"
    ABORT = "abort"
    DENY_CALL = "deny_call"
    """The tool call does not start; the model is told why."""

    ASK = "ask"
    """A person is asked how it goes on."""


class BudgetKind(Enum):
    """A bound whose use a rule looks at; of the run and of the visit, whichever is used more."""

    TOKENS = "tokens"
    COST_USD = "cost_usd"
    TIME = "time"
    ITERATIONS = "iterations"
    MODEL_REQUESTS = "model_requests"
    TOOL_CALLS = "tool_calls"


@frozen
class ToolRepeated:
    """So many equal calls of a tool in one visit, the one that is to start included. No `tool` is any."""

    tool: str
    by: RepeatBy
    count: int


@frozen
class BudgetFraction:
    """More than this share of a bound is used."""

    of: BudgetKind
    gt_permille: int


@frozen
class IterationReached:
    """So many turns of the visit, the one under way included."""

    gte: int


@frozen
class ErrorRate:
    """Of the last `window` tool calls of the visit more than this share did not succeed."""

    window: int
    gt_permille: int


@frozen
class RuleExpression:
    """A CEL expression over the facts of the visit; before a call also over `call`."""

    cel: str


RuleCondition = ToolRepeated | BudgetFraction | IterationReached | ErrorRate | RuleExpression


@frozen
class RulePlan:
    """One rule. `place` is where it stands in the workflow, such as `supervisor.rules[0]`.

    `message` is what the model, or the person who is asked, is told. A rule fires once in a visit, and again
    `rearm` turns later at the earliest; 0 is never. One that denies is asked about every call. `expiry_ms` is
    how long its question stays open.
    """

    place: str
    when: RuleCondition
    stage: RuleStage
    then: RuleAction
    message: str
    rearm: int
    expiry_ms: int


class OnSupervisorError(Enum):
    """What follows when the judge of a supervisor fails."""

    IGNORE = "ignore"
    PAUSE = "pause"
    ABORT = "abort"


@frozen
class SupervisorJudgePlan:
    """A model that is asked every so many turns whether a step keeps to its criteria.

    `model` is a profile of the plan. A `blocking` one is asked before an answer stands as well. Whatever it
    says, nothing but `on_violation` follows.
    """

    place: str
    model: str
    criteria: str
    every: int
    on_violation: RuleAction
    on_error: OnSupervisorError
    view: ArgumentsView
    timeout_ms: int
    blocking: bool
    expiry_ms: int


@frozen
class SupervisorPlan:
    """All of it. There is at least a rule or a judge."""

    rules: tuple[RulePlan, ...] = ()
    judge: SupervisorJudgePlan | None = None

    def rule(self, place: str) -> RulePlan | None:
        """The rule of that place."""
        return next((rule for rule in self.rules if rule.place == place), None)

"""A run from its start to its end, and the phases and reasons that it knows."""

from enum import Enum

from jackline_server.core.frozen import frozen
from jackline_server.core.plan import OnQuestion, RunBounds
from jackline_server.core.thread_facts import ThreadMessage, ThreadStart


class Phase(Enum):
    """Where a run stands; the last five are terminal."""

    QUEUED = "queued"
    RUNNING = "running"
    PAUSED = "paused"
    WAITING = "waiting"
    SUCCEEDED = "succeeded"
    NEEDS_REVIEW = "needs_review"
    EXHAUSTED = "exhausted"
    FAILED = "failed"
    ABORTED = "aborted"

    @property
    def terminal(self) -> bool:
        """True if nothing can follow."""
        return self not in (Phase.QUEUED, Phase.RUNNING, Phase.PAUSED, Phase.WAITING)


class StopReason(Enum):
    """Why a step or run ended, finer than its exit."""

    OUTCOME = "outcome"
    DEFAULT = "default"
    FINISH_TOOL = "finish_tool"
    STOP_CONDITION = "stop_condition"
    MAX_ITERATIONS = "max_iterations"
    TOKEN_BUDGET = "token_budget"  # noqa: S105 - a name, not a secret
    COST_BUDGET = "cost_budget"
    REQUEST_BUDGET = "request_budget"
    TOOL_CALL_BUDGET = "tool_call_budget"
    STEP_BUDGET = "step_budget"
    TIME_BUDGET = "time_budget"
    DEADLINE = "deadline"
    TOOL_LOOP = "tool_loop"
    INVALID_OUTPUT = "invalid_output"
    NO_TOOL_SUCCEEDED = "no_tool_succeeded"
    GROUNDING_FAILED = "grounding_failed"
    GUARDRAIL = "guardrail"
    POLICY_DENIED = "policy_denied"
    REVIEW = "review"
    UNKNOWN_OUTCOME = "unknown_outcome"
    MODEL_ERROR = "model_error"
    TOOL_ERROR = "tool_error"
    HOOK_VETO = "hook_veto"
    CRASH_LOOP = "crash_loop"
    DATA_LOSS = "data_loss"
    INTERNAL = "internal"
    OPERATOR = "operator"
    KILL_SWITCH = "kill_switch"
    SUPERVISOR = "supervisor"
    JUDGE = "judge"
    REPLACED = "replaced"
    PAUSE_EXPIRED = "pause_expired"
    PARENT = "parent"
    CLIENT_GONE = "client_gone"


@frozen
class ForkOrigin:
    """Where a fork was made: the run, and its last event that was taken over."""

    run_id: str
    sequence: int


@frozen
class Parent:
    """Which run started a child, by which call. `root_run_id` is the run at the top of the family.

    The rest is what the child was given, as ChildStarted has it: no bound of it is raised above that.
    """

    run_id: str
    call_id: str
    root_run_id: str
    tokens: int | None = None
    cost_micros: int | None = None
    run_timeout_ms: int | None = None


@frozen
class RunStarted:
    """The run was accepted. `bounds` are the plan's, tightened by the caller.

    `forked_from` is set for a fork: its facts up to that sequence are the other run's. `thread` is the
    conversation that it continues, None without. `parent` is set for a child: its bounds are what its parent
    gave it, tightened by its plan's. `start_unix_ms` is set for a run that was delayed: it begins then.
    """

    workflow: str
    plan_digest: str
    epoch: int
    principal: str
    deadline_unix_ms: int | None
    bounds: RunBounds
    on_question: OnQuestion
    input_json: str  # content
    subject_json: str  # content; a JSON object, `{}` without a subject
    forked_from: ForkOrigin | None = None
    thread: ThreadStart | None = None
    parent: Parent | None = None
    start_unix_ms: int | None = None


@frozen
class MessagesAppended:
    """The turn of a run that had waited in its thread has come.

    The thread has `position` messages by now; `messages` are the newest of them.
    """

    position: int
    messages: tuple[ThreadMessage, ...]  # content


class RecoveryCause(Enum):
    """Why a worker took a run over."""

    CRASH = "crash"
    DRAIN = "drain"
    QUEUE = "queue"
    WAKE = "wake"


@frozen
class RunRecovered:
    """A worker took the run over; calls that were in flight are cut off."""

    epoch: int
    cause: RecoveryCause


@frozen
class RunSuspended:
    """The worker let go of the run in good order, to be taken over later."""

    epoch: int


@frozen
class RunFinished:
    """The run ended. Always the last fact."""

    phase: Phase
    signal: str
    stop_reason: StopReason
    stop_leaf: str
    partial: bool
    result_json: str | None  # content
    error: str  # content

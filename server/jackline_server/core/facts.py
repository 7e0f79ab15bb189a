"""Every fact that can be recorded about a run.

Owns the closed union `Fact`. A fact is frozen, named in the past tense, and says what happened, not
what follows from it: `state.evolve` is its only reader in the core. What a person, a model or a tool
wrote sits in the fields marked *content*; the codec keeps those apart from the rest.

Times are whole milliseconds; `*_unix_ms` is wall-clock time and only labels or feeds a timer. Money is
millionths of a US dollar. JSON documents are their text.
"""

from enum import Enum

from jackline_server.core.frozen import frozen
from jackline_server.core.gate_plans import Point
from jackline_server.core.media import ResultMedia
from jackline_server.core.new_bounds import NewRunBounds, NewVisitBounds
from jackline_server.core.plan import Effect, OnQuestion, RunBounds
from jackline_server.core.reasoning import ReasoningBlocks
from jackline_server.core.repairs import Repairs
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
    REPLACED = "replaced"
    PAUSE_EXPIRED = "pause_expired"


@frozen
class Usage:
    """Tokens of one model call. `estimated` where the provider reported nothing usable."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    estimated: bool = False

    @property
    def total(self) -> int:
        """Prompt and completion together."""
        return self.prompt_tokens + self.completion_tokens


# --- run ---------------------------------------------------------------------------------------


@frozen
class ForkOrigin:
    """Where a fork was made: the run, and its last event that was taken over."""

    run_id: str
    sequence: int


@frozen
class RunStarted:
    """The run was accepted. `bounds` are the plan's, tightened by the caller.

    `forked_from` is set for a fork: its facts up to that sequence are the other run's. `thread` is the
    conversation that it continues, None without.
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


# --- step --------------------------------------------------------------------------------------


@frozen
class StepStarted:
    """A visit of a step began. `steps` counts all visits of the run, this one included."""

    step_id: str
    visit: int
    steps: int


@frozen
class StepFinished:
    """A visit ended. `next_step` is empty if the run ends here.

    `writes` names the changed keys of the context; their values are in `writes_json`, an object.
    """

    signal: str
    stop_reason: StopReason
    stop_leaf: str
    partial: bool
    next_step: str
    writes: tuple[str, ...]
    writes_json: str  # content
    result_json: str | None  # content
    error: str  # content


# --- turn --------------------------------------------------------------------------------------


class Purpose(Enum):
    """What a model call is for. Only a turn uses an iteration."""

    TURN = "turn"
    REPAIR = "repair"
    FINAL_ANSWER = "final_answer"
    GROUND = "ground"
    SUMMARY = "summary"
    JUDGE = "judge"

    @property
    def is_aside(self) -> bool:
        """True if the reply is no part of the conversation."""
        return self in (Purpose.GROUND, Purpose.SUMMARY, Purpose.JUDGE)


@frozen
class ModelCallStarted:
    """A model call is reserved and about to start.

    `iteration` is the turn it belongs to, from 1. `reserved_tokens` is the estimated prompt plus
    `max_output_tokens`, the cap that is sent to the provider. A closing answer names the limit that
    led to it. A summary stands for the first `summarised` entries of the visit.
    """

    iteration: int
    purpose: Purpose
    attempt: int
    model: str
    prompt_tokens: int
    max_output_tokens: int
    reserved_cost_micros: int
    limit: StopReason | None = None
    limit_leaf: str = ""
    summarised: int = 0

    @property
    def reserved_tokens(self) -> int:
        """What is held in the token ledgers until the call is settled."""
        return self.prompt_tokens + self.max_output_tokens


class FinishReason(Enum):
    """Why the model stopped."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"
    OTHER = "other"


@frozen
class ModelReplied:
    """The model replied. Its tool calls follow as facts of their own, in the same commit.

    `calls_in_text` says that it wrote them into its text, which is kept as it was written.
    `blocks` is None if no reasoning has to be sent back.
    """

    usage: Usage
    cost_micros: int
    finish: FinishReason
    tool_calls: int
    tokens_used: int
    latency_ms: int
    first_token_ms: int
    text: str  # content
    reasoning: str  # content
    blocks: ReasoningBlocks | None = None  # content
    calls_in_text: bool = False


class FailureClass(Enum):
    """What kind of failure an attempt at the model met."""

    RATE_LIMITED = "rate_limited"
    UNAVAILABLE = "unavailable"
    CONNECTION = "connection"
    TIMEOUT = "timeout"
    MALFORMED = "malformed"
    AUTHENTICATION = "authentication"
    BAD_REQUEST = "bad_request"
    CONTEXT_OVERFLOW = "context_overflow"
    CANCELLED = "cancelled"
    INTERNAL = "internal"

    @property
    def may_pass(self) -> bool:
        """True if another attempt can help."""
        return self in _PASSING


_PASSING = frozenset(
    {
        FailureClass.RATE_LIMITED,
        FailureClass.UNAVAILABLE,
        FailureClass.CONNECTION,
        FailureClass.TIMEOUT,
        FailureClass.MALFORMED,
    }
)


class AttemptLimit(Enum):
    """Which timer or cap ended an attempt at a model."""

    CONNECT = "connect"
    FIRST_TOKEN = "first_token"  # noqa: S105 - no secret: it is a token of a model
    IDLE = "idle"
    TOTAL = "total"
    BYTES = "bytes"
    CHUNKS = "chunks"


@frozen
class ModelCallFailed:
    """The attempt failed. `usage` and `cost_micros` are what it is charged.

    `retry_in_ms` is None if no further attempt at this model follows. `text` is what had come of the reply's
    text: it was interrupted there. `limit` is the timer or cap that ended it; None if it ended by itself.
    `waits` says that none of the step's models could be reached, and that it waits so long before it begins
    again with the first.
    """

    failure: FailureClass
    retry_in_ms: int | None
    usage: Usage
    cost_micros: int
    error: str  # content; no secret, no address
    text: str = ""  # content
    limit: AttemptLimit | None = None
    waits: bool = False


# --- tool --------------------------------------------------------------------------------------


class CallStatus(Enum):
    """Where a tool call stands."""

    REQUESTED = "requested"
    STARTED = "started"
    COMPLETED = "completed"
    FAILED = "failed"
    DENIED = "denied"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


class CallProblem(Enum):
    """Why a requested call can't start."""

    UNKNOWN_TOOL = "unknown_tool"
    MALFORMED_ARGUMENTS = "malformed_arguments"
    INVALID_ARGUMENTS = "invalid_arguments"
    NOT_ALLOWED = "not_allowed"
    OVER_TOOL_LIMIT = "over_tool_limit"
    OVER_LIMIT = "over_limit"
    STEP_ENDED = "step_ended"
    TWIN_UNKNOWN = "twin_unknown"
    GUARDRAIL = "guardrail"
    POLICY_DENIED = "policy_denied"
    REPLY_DISCARDED = "reply_discarded"


OTHER_TOOL = "other"
"""Stands in metadata for a name that the model made up."""


@frozen
class ToolCallRequested:
    """The model, or a visit of a tool step, asked for a call.

    `tool` is a name of the plan, or `other`; `name` and `arguments` are as they were written.
    """

    call_id: str
    ordinal: int
    tool: str
    name: str  # content
    arguments: str  # content


@frozen
class ToolCallStarted:
    """A tool attempt is reserved and about to start. `call_key` is the same for every attempt."""

    call_id: str
    tool: str
    call_key: str
    effect: Effect
    attempt: int


@frozen
class ToolCallFinished:
    """A tool call ended, or was never started (`denied`).

    `output_json` is None without an output. Where the output was cut, that is the beginning of its text as a
    JSON string, `tail` the end, `cut_from_bytes` the true length, and `blob` the digest of the whole text;
    empty if that is not kept. `media` is what of the result is no text.

    `reused_from` is the equal call whose result it got. `retry_in_ms` is None if no further attempt follows.
    """

    call_id: str
    tool: str
    status: CallStatus
    duration_ms: int = 0
    problem: CallProblem | None = None
    cut_from_bytes: int = 0
    abandoned: bool = False
    reused_from: str = ""
    retry_in_ms: int | None = None
    timed_out: bool = False
    output_json: str | None = None  # content
    error: str = ""  # content; in words for the model
    tail: str = ""  # content
    blob: str = ""  # content
    media: tuple[ResultMedia, ...] = ()  # content


# --- answer ------------------------------------------------------------------------------------


class AnswerProblem(Enum):
    """Why an answer was rejected."""

    EMPTY = "empty"
    TRUNCATED = "truncated"
    NOT_JSON = "not_json"
    OUTCOME = "outcome"
    SCHEMA = "schema"
    TOOL_REQUIRED = "tool_required"
    NOT_FINISHED = "not_finished"
    CALL_FAILED = "call_failed"
    GUARDRAIL = "guardrail"

    @property
    def costs_a_turn(self) -> bool:
        """True if the next turn follows, and no repair is used."""
        return self in (AnswerProblem.NOT_FINISHED, AnswerProblem.CALL_FAILED)


@frozen
class AnswerRejected:
    """An answer did not meet its contract. `repair` is the repair that follows, 0 if none does.

    `call_id` is the call of `finish` that gave it, whose result says what is wrong; empty for text.
    """

    problem: AnswerProblem
    repair: int
    explanation: str  # content; in words for the model
    call_id: str = ""


# --- history -----------------------------------------------------------------------------------


@frozen
class HistoryRepaired:
    """What a model was to be sent had to be made sound first; these are the repairs that came new."""

    repairs: Repairs


class CompactionKind(Enum):
    """How a conversation was made shorter."""

    PRUNED = "pruned"
    WINDOW = "window"
    SUMMARY = "summary"


@frozen
class Compacted:
    """A model is sent less of the visit's conversation from here on; the log keeps all of it.

    Entries before `kept_from` are left out, and results of those before `pruned_to` are replaced by what
    names them. `overflow` if the provider had refused the conversation as too long. `turns` and `results`
    are what this left out, the tokens are estimates of the next prompt.
    """

    kind: CompactionKind
    overflow: bool
    kept_from: int
    pruned_to: int
    turns: int
    results: int
    tokens_before: int
    tokens_after: int
    summary: str  # content


# --- reflection and grounding ------------------------------------------------------------------


class Pattern(Enum):
    """How some turns have gone."""

    ADVANCING = "advancing"
    MIXED = "mixed"
    FAILING = "failing"
    LOOPING = "looping"


@frozen
class Reflected:
    """How the turns since the last look have gone. `guidance` is told to the model unless it is empty."""

    pattern: Pattern
    succeeded: int
    failed: int
    confidence_permille: int
    guidance: str  # content


@frozen
class Grounded:
    """An answer was held against what the tools had returned.

    `score_permille` is None if the judge gave no usable word; `problem` says why then. `replan` is the one
    that follows, 0 if none does. `unsupported` are the claims that the results do not bear out.
    """

    score_permille: int | None
    passed: bool
    replan: int
    unsupported: tuple[str, ...]  # content
    problem: str  # content


# --- people ------------------------------------------------------------------------------------


class InterruptKind(Enum):
    """What kind of answer an interrupt waits for."""

    UNKNOWN_OUTCOME = "unknown_outcome"
    LIMIT_REACHED = "limit_reached"


@frozen
class InterruptRaised:
    """A question was opened. It expires at `expires_unix_ms`, or never if that is None.

    `call_id` is the tool call that it is about, `limit` with its leaf the bound; empty if it is about none.
    `raise_to` is what the answer `raise` makes of the bound, 0 where that is not offered.
    """

    interrupt_id: str
    kind: InterruptKind
    call_id: str
    options: tuple[str, ...]
    expires_unix_ms: int | None
    question: str  # content
    limit: StopReason | None = None
    limit_leaf: str = ""
    raise_to: int = 0


@frozen
class InterruptResolved:
    """A question was answered, or expired (then `option` and `principal` are empty)."""

    interrupt_id: str
    option: str
    principal: str
    text: str  # content
    output_json: str | None  # content


# --- control -----------------------------------------------------------------------------------


class CommandKind(Enum):
    """What a command does."""

    PAUSE = "pause"
    RESUME = "resume"
    STEER = "steer"
    ABORT = "abort"
    ANSWER = "answer"
    SUBMIT_TOOL_RESULT = "submit_tool_result"
    ADJUST_BOUNDS = "adjust_bounds"


class AbortMode(Enum):
    """How an abort stops what is under way."""

    NOW = "now"
    GRACEFUL = "graceful"


class Rejection(Enum):
    """Why a command can take no effect; the names are those of the contract's error reasons."""

    RUN_TERMINAL = "RUN_TERMINAL"
    EXPECTATION_FAILED = "EXPECTATION_FAILED"
    INTERRUPT_NOT_FOUND = "INTERRUPT_NOT_FOUND"
    CALL_NOT_FOUND = "CALL_NOT_FOUND"
    ALREADY_DECIDED = "ALREADY_DECIDED"
    INTERRUPT_EXPIRED = "INTERRUPT_EXPIRED"
    UNKNOWN_OPTION = "UNKNOWN_OPTION"
    TOO_LATE = "TOO_LATE"
    CALL_NOT_OPEN = "CALL_NOT_OPEN"
    BOUND_TOO_HIGH = "BOUND_TOO_HIGH"
    BOUND_TOO_LOW = "BOUND_TOO_LOW"
    NO_BOUNDED_VISIT = "NO_BOUNDED_VISIT"
    PRICE_UNKNOWN = "PRICE_UNKNOWN"


@frozen
class CommandApplied:
    """A command took effect, by the facts that follow it in the same commit.

    `abort_mode` and `skip_routes` say how an abort proceeds, `abort_cause` why if no operator wanted it; it
    has no further fact.
    """

    command_id: str
    kind: CommandKind
    principal: str
    abort_mode: AbortMode | None = None
    skip_routes: bool = False
    abort_cause: StopReason | None = None
    reason: str = ""  # content


@frozen
class CommandRejected:
    """A command can take no effect.

    `unheard` is guidance for a run of a thread that came too late for it.
    """

    command_id: str
    kind: CommandKind
    principal: str
    rejection: Rejection
    unheard: str = ""  # content


@frozen
class Paused:
    """The run is held before its next call, until `expires_unix_ms` at the latest if that is set."""

    principal: str
    expires_unix_ms: int | None = None


@frozen
class Resumed:
    """The run goes on. `principal` is empty if that is because its pause was over."""

    principal: str


@frozen
class Steered:
    """Guidance was put into the conversation."""

    principal: str
    text: str  # content


@frozen
class BoundsAdjusted:
    """Caps of the run, or of the visit under way, were changed; the others stay as they are."""

    principal: str
    run: NewRunBounds
    visit: NewVisitBounds


# --- other -------------------------------------------------------------------------------------


class TimerKind(Enum):
    """What a timer in absolute time guards."""

    DEADLINE = "deadline"
    INTERRUPT = "interrupt"
    PAUSE = "pause"


@frozen
class TimerFired:
    """A timer in absolute time went off.

    `subject` is the interrupt, where it is one's expiry, and what follows, where it is a pause's.
    """

    kind: TimerKind
    subject: str = ""


class NoticeCode(Enum):
    """What a notice is about."""

    BUDGET_NEARLY_USED = "budget_nearly_used"
    FILE_MISSING = "file_missing"
    CONDITION_FAILED = "condition_failed"
    REPETITION = "repetition"
    TOOL_CALLS_IN_TEXT = "tool_calls_in_text"
    HISTORY = "history"
    MODEL_FALLBACK = "model_fallback"
    RESULT_STORED = "result_stored"
    COST_UNKNOWN = "cost_unknown"
    USAGE_ODD = "usage_odd"


@frozen
class Noticed:
    """Something worth knowing. Only `budget_nearly_used` and `repetition` are told to the model.

    `subject` is the bound or the model profile that it is about, where it is about one.
    """

    code: NoticeCode
    text: str  # content
    subject: str = ""


# --- consulting --------------------------------------------------------------------------------


class ConsultKind(Enum):
    """What somebody was asked for."""

    STOP_CONDITION = "stop_condition"
    HOOK = "hook"
    POLICY = "policy"
    GUARDRAIL = "guardrail"
    JUDGE = "judge"


class ConsultAnswer(Enum):
    """What came of it. Conditions are answered by yes and no, everybody else by what may happen."""

    YES = "yes"
    NO = "no"
    FAILED = "failed"
    """There was no answer: an error, none in time, or one that means nothing."""

    PROCEED = "proceed"
    DENY = "deny"
    """The call may not start, or the text may not pass."""

    VETO = "veto"
    """The step or the run ends."""

    RETRY = "retry"
    """The call is made once more."""


@frozen
class Consulted:
    """Somebody who can change nothing was asked, and this is the answer.

    `who` is a place in the plan, or the name of who was asked. `point` is where, None for a condition;
    `subject` is the call it is about, if it is about one. `metadata_json` is an object of texts that a hook
    sets for the run, empty for none.
    """

    kind: ConsultKind
    who: str
    answer: ConsultAnswer
    duration_ms: int
    error: str  # content
    point: Point | None = None
    subject: str = ""
    reason: str = ""  # content
    metadata_json: str = ""  # content


Fact = (
    RunStarted
    | RunRecovered
    | RunSuspended
    | RunFinished
    | MessagesAppended
    | StepStarted
    | StepFinished
    | ModelCallStarted
    | ModelReplied
    | ModelCallFailed
    | ToolCallRequested
    | ToolCallStarted
    | ToolCallFinished
    | AnswerRejected
    | InterruptRaised
    | InterruptResolved
    | CommandApplied
    | CommandRejected
    | Paused
    | Resumed
    | Steered
    | BoundsAdjusted
    | TimerFired
    | Noticed
    | Consulted
    | Reflected
    | Grounded
    | HistoryRepaired
    | Compacted
)

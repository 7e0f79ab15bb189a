"""A run's state: what its facts add up to.

Owns the shapes. `evolve` owns how each fact changes them; nothing else makes a new state. Every shape is
frozen and small, because a fact replaces the ones it touches.
"""

from collections.abc import Mapping

from jackline_server.core.approval_plans import OnExpiry
from jackline_server.core.bounds import Hold, Ledger, Limit
from jackline_server.core.context import Context
from jackline_server.core.errors import CorruptLog
from jackline_server.core.exits import RUNNING, Exit
from jackline_server.core.facts import (
    AbortMode,
    CallProblem,
    CallStatus,
    FailureClass,
    FinishReason,
    InterruptKind,
    ModelCallStarted,
    NoticeCode,
    Phase,
    RunFinished,
    RunStarted,
    StopReason,
    ToolAsk,
    ToolReply,
    Usage,
)
from jackline_server.core.family import Family
from jackline_server.core.frozen import frozen
from jackline_server.core.gates import Gates
from jackline_server.core.media import ResultMedia
from jackline_server.core.messages import Message, Prompt
from jackline_server.core.plan import Effect, JsonObject, ModelStep, Plan, RunBounds, StepBounds
from jackline_server.core.reasoning import ReasoningBlocks
from jackline_server.core.repairs import NO_REPAIRS, Repairs
from jackline_server.core.supervision import Supervision
from jackline_server.core.thread_facts import ThreadMessage


@frozen
class Verdict:
    """What people have said of a call that may start only if somebody lets it.

    `asked` is how often they were. `approved` is the digest of what they let it start with, and `sequence`
    that of their word; empty if they did not. `refused` says why not; None if they did not refuse. `edited`
    if they changed its arguments. `expired` if nobody decided and the step ends for review.
    """

    asked: int = 0
    approved: str = ""
    sequence: int = 0
    refused: str | None = None
    edited: bool = False
    expired: bool = False


@frozen
class ToolCall:
    """One entry of the registry.

    `interrupted` is true if it was in flight when its worker died. `tool` is a name of the plan or `other`,
    `name` what the model wrote. `bound` is what its attempts are given beside `arguments`: the values that
    the step binds, as they were at the first; None if it binds none. `own` is what the tool's `input` took
    of the context at the first; None if that is nothing. `retry_at_active_ms` is set while its last attempt
    has failed and another is to come. `reuse_key` is set where an equal call may get its result. `tail` and
    `blob` are the rest of an output that was cut, as the fact says. `awaits` are the hooks that have yet to
    look at how it ended: until then it is not settled. `ask` is what its tool asked last, `reply` what a
    person said to it, and `asked` how often a person was asked. `verdict` is None for a call that nobody was
    asked about before it.
    """

    call_id: str
    ordinal: int
    tool: str
    name: str
    arguments: str
    step_id: str
    visit: int
    iteration: int
    requested_sequence: int
    status: CallStatus = CallStatus.REQUESTED
    effect: Effect | None = None
    call_key: str = ""
    attempts: int = 0
    interrupted: bool = False
    problem: CallProblem | None = None
    duration_ms: int = 0
    waited_ms: int = 0
    cut_from_bytes: int = 0
    output_json: str | None = None
    error: str = ""
    unknown_expired: bool = False
    bound: JsonObject | None = None
    own: JsonObject | None = None
    retry_at_active_ms: int | None = None
    timed_out: bool = False
    reused_from: str = ""
    reuse_key: str = ""
    tail: str = ""
    blob: str = ""
    awaits: tuple[str, ...] = ()
    media: tuple[ResultMedia, ...] = ()
    ask: ToolAsk | None = None
    reply: ToolReply | None = None
    asked: int = 0
    verdict: Verdict | None = None


@frozen
class Reply:
    """One reply of the model in a visit's conversation, with the calls it asked for.

    `text` is without the calls that were written into it.
    `reasoning` and `blocks` are set where its reasoning is sent back to the model.
    """

    text: str
    finish: FinishReason
    calls: tuple[str, ...] = ()
    reasoning: str = ""
    blocks: ReasoningBlocks | None = None


@frozen
class Note:
    """Something said to the model between replies: guidance, a notice, what was wrong with an answer."""

    text: str
    provenance: str

    @property
    def is_guidance(self) -> bool:
        """True for the words of a person who steers the run."""
        return self.provenance.startswith("steer:")


@frozen
class ModelCall:
    """A model call in flight, and what it holds. `sequence` is that of the fact that announced it."""

    sequence: int
    started: ModelCallStarted
    hold: Hold


@frozen
class Attempts:
    """The failed attempts at the model call that comes next.

    `retry_at_active_ms` is None if the last one may not be repeated. `before` are those of `failed` that were
    made at other models, or before a wait; `waits` counts the waits for models that could not be reached.
    """

    failed: int
    last: FailureClass
    error: str
    retry_at_active_ms: int | None
    before: int = 0
    waits: int = 0


@frozen
class Stopping:
    """What was asked for the stop condition of a visit.

    `answers` are those of this turn, by the path of the leaf; `failed` are the leaves that could not be
    answered at least once in this visit, which is noticed the first time.
    """

    answers: tuple[tuple[str, bool], ...] = ()
    failed: frozenset[str] = frozenset()


_NOTHING_ASKED = Stopping()


@frozen
class TurnMark:
    """A turn that called tools, as repetition compares it. `patient` if it only read or polled."""

    digest: bytes
    patient: bool


@frozen
class Progress:
    """How the turns of a visit that called tools have gone, kept up with each of them.

    `marks` are the last three, the newest last, and `streaks` say for the periods 1, 2 and 3 how many turns
    in a row were the same as the one so many turns before. `over` is 0 until the turns count as a loop, 1
    when they do, and one more for each further repetition; `nudged` once the model was told so. `confidence`
    is from 0 to 1. `turns`, `succeeded` and `failed` are counted since the last look back.
    """

    marks: tuple[TurnMark, ...] = ()
    streaks: tuple[int, int, int] = (0, 0, 0)
    over: int = 0
    nudged: bool = False
    confidence: float = 0.5
    turns: int = 0
    succeeded: int = 0
    failed: int = 0


@frozen
class Grounding:
    """How the judge stands to the answer under way.

    `asked` from the first attempt at it until its word is recorded; `verdict` is its reply, unread. `passed`
    if the answer stands. `replans` counts those of the visit, `refused` is the answer last sent back.
    """

    asked: bool = False
    verdict: Reply | None = None
    passed: bool = False
    replans: int = 0
    refused: Reply | None = None


@frozen
class History:
    """What a model is sent of a visit's conversation, and what of that is under way.

    `opening` is the conversation before its first reply. Entries before `kept_from` are left out, and
    `summary` stands for them, if there is one; results before `pruned_to` are replaced by what names them.
    `repaired` are the repairs that were told of.

    `asked` from the first attempt at a summary until it is recorded: it stands for the entries before `upto`,
    `reply` is what came, unread, and `held` are the attempts that it was put before. `overflowed` once the
    call under way was refused as too long and is made again. `interrupted` is what came of the newest reply,
    if that broke off.
    """

    opening: Prompt | None = None
    kept_from: int = 0
    pruned_to: int = 0
    summary: str = ""
    repaired: Repairs = NO_REPAIRS
    asked: bool = False
    upto: int = 0
    reply: Reply | None = None
    held: Attempts | None = None
    overflowed: bool = False
    interrupted: str = ""


_UNTOUCHED = History()


@frozen
class Visit:
    """The step that the run is in.

    `entries` is its conversation after the first message, and `prompt` what of it can't change any more, as
    the model is sent it. `open_calls` are the calls of the last reply, or the one call of a tool step, until
    all of them are settled. `answer` is a reply without calls that nobody has judged yet.
    `request_since_ms` is the active time at which the first attempt at the model call under way began.
    `empty_replies` are those since the model last called a tool. `closing` is set once a closing answer was
    asked for. `adjusted` are its bounds once they were changed: see `bounds_of`. `readable` is set once a
    result was not shown whole: from then on it can be read on in.
    `text_calls_told` is set once it was noticed that the model writes calls into its text. `took_no_turn`
    says that the newest reply mended an answer, which uses no turn.
    `limit_answer` is what somebody said who was asked about a limit, but to raise it. `told` are the bounds
    of the visit that the model was told are nearly used.
    `fallback` is which of its models the step asks: 0 is its own, then its fallbacks.
    `supervision` is None if nobody watches it.
    """

    step_id: str
    number: int
    started_active_ms: int
    ledger: Ledger = Ledger()
    entries: tuple[Reply | Note, ...] = ()
    prompt: Prompt | None = None
    iteration: int = 0
    open_calls: tuple[str, ...] = ()
    model_call: ModelCall | None = None
    request_since_ms: int | None = None
    attempts: Attempts | None = None
    fallback: int = 0
    answer: Reply | None = None
    repairs: int = 0
    empty_replies: int = 0
    repairing: bool = False
    closing: Limit | None = None
    crashes: int = 0
    stopping: Stopping = _NOTHING_ASKED
    progress: Progress = Progress()
    grounding: Grounding = Grounding()
    adjusted: StepBounds | None = None
    history: History = _UNTOUCHED
    readable: bool = False
    text_calls_told: bool = False
    took_no_turn: bool = False
    limit_answer: str = ""
    told: frozenset[str] = frozenset()
    supervision: Supervision | None = None


@frozen
class StepSummary:
    """One visit, for those who read the run. `finished_active_ms` is None while it runs."""

    step_id: str
    visit: int
    signal: str
    ledger: Ledger
    started_active_ms: int
    finished_active_ms: int | None


@frozen
class Interrupt:
    """An open question."""

    interrupt_id: str
    kind: InterruptKind
    step_id: str
    call_id: str
    options: tuple[str, ...]
    raised_active_ms: int
    raised_sequence: int
    expires_unix_ms: int | None
    question: str
    limit_leaf: str = ""
    raise_to: int = 0
    schema_json: str = ""
    arguments_json: str = ""
    digest: str = ""
    on_expiry: OnExpiry | None = None


@frozen
class AbortRequest:
    """An abort that was applied."""

    mode: AbortMode
    skip_routes: bool
    principal: str
    reason: str
    cause: StopReason = StopReason.OPERATOR


@frozen
class Cleanup:
    """The path that an abort takes: where it began, counted in steps and in active time.

    `left` is the exit that led to it, with what there was of an answer.
    """

    since_steps: int
    since_active_ms: int
    left: Exit


@frozen
class Oversight:
    """What holds the run from outside its loop, and what was noticed once for all of it.

    `told` has the notice and what it is about. That of a nearly used budget stands for every budget if it is
    about none, as notices of before are. `starts_unix_ms` is set until the time of a delayed run has come.
    """

    starts_unix_ms: int | None = None
    paused: bool = False
    pause_expires_unix_ms: int | None = None
    abort: AbortRequest | None = None
    deadline_passed: bool = False
    cleanup: Cleanup | None = None
    interrupts: Mapping[str, Interrupt]
    decided: frozenset[str] = frozenset()
    expired: frozenset[str] = frozenset()
    told: frozenset[tuple[NoticeCode, str]] = frozenset()
    warnings_told: int = 0


@frozen
class Talk:
    """A run's part in a conversation: what had been said before it, and what it has said.

    `waits` until its turn in the thread has come. `opening` is the input of the visit under way, as JSON.
    `unheard` is guidance that came too late for it, or that only a step beside the conversation has heard.
    """

    history: tuple[ThreadMessage, ...]
    waits: bool
    opening: str = ""
    said: tuple[Message, ...] = ()
    unheard: tuple[Message, ...] = ()


@frozen
class RunState:
    """A run. `next_step` is where it goes when no visit is under way; empty ends it.

    `sequence` is that of the last fact folded, `active_ms` the active time it carried. `suspended` is
    true from RunSuspended until a worker takes over. `bounds` are those that hold now: the ones it was
    started with, as they were adjusted since. `talk` is None for a run without a thread, `gates`
    where the plan asks nobody, `family` for a run that has started no other. `lull` has the sequences between
    which the run was only let go of and taken up again. `stored_bytes` is what its results come to that are
    kept outside the log.
    """

    run_id: str
    plan: Plan
    started: RunStarted
    bounds: RunBounds
    sequence: int
    active_ms: int
    epoch: int
    context: Context
    next_step: str
    oversight: Oversight
    ledger: Ledger = Ledger()
    usage: Usage = Usage()
    visit: Visit | None = None
    visits: Mapping[str, int]
    summaries: tuple[StepSummary, ...] = ()
    calls: Mapping[str, ToolCall]
    last_exit: Exit | None = None
    recoveries: int = 0
    suspended: bool = False
    lull: tuple[int, int] | None = None
    stored_bytes: int = 0
    finished: RunFinished | None = None
    talk: Talk | None = None
    gates: Gates | None = None
    family: Family | None = None

    def is_still_at(self, sequence: int) -> bool:
        """True if nothing has happened to the run since that fact, but for who drives it."""
        if sequence == self.sequence:
            return True
        return self.lull is not None and self.lull[1] == self.sequence and sequence >= self.lull[0]

    @property
    def in_thread(self) -> bool:
        """True for a run that holds, or waits for, its turn in a thread."""
        thread = self.started.thread
        return thread is not None and bool(thread.thread_id)

    @property
    def waits_for_turn(self) -> bool:
        """True until the turn of a run in its thread has come."""
        return self.talk is not None and self.talk.waits

    @property
    def is_delayed(self) -> bool:
        """True until the time at which a delayed run begins has come."""
        return self.oversight.starts_unix_ms is not None

    @property
    def has_children(self) -> bool:
        """True while a child run lives: this one does nothing until it has ended."""
        return self.family is not None and bool(self.family.living)

    @property
    def phase(self) -> Phase:
        """Where the run stands."""
        if self.finished is not None:
            return self.finished.phase
        if self.oversight.paused:
            return Phase.PAUSED
        if self.epoch == 0 or self.waits_for_turn or self.is_delayed:
            return Phase.QUEUED
        return Phase.WAITING if self.oversight.interrupts or self.has_children else Phase.RUNNING

    @property
    def signal(self) -> str:
        """`running`, or the exit of a finished run."""
        return RUNNING if self.finished is None else self.finished.signal

    @property
    def dormant(self) -> bool:
        """True while active time stands still: queued, paused, or waiting for a person or a child."""
        return self.phase in (Phase.QUEUED, Phase.PAUSED, Phase.WAITING)


def current(state: RunState) -> Visit:
    """The visit under way. Raises CorruptLog if there is none."""
    if state.visit is None:
        raise CorruptLog("a fact of a step stands outside one")
    return state.visit


def bounds_of(visit: Visit, step: ModelStep) -> StepBounds:
    """The bounds of a visit that hold now: its step's, or what they were adjusted to."""
    return step.bounds if visit.adjusted is None else visit.adjusted


def last_reply(visit: Visit) -> Reply | None:
    """The newest reply of the visit."""
    return next((entry for entry in reversed(visit.entries) if isinstance(entry, Reply)), None)


def refused_by_judge(visit: Visit) -> frozenset[int]:
    """The places of what a supervisor's judge did not pass among the entries of the visit.

    While its reply is there and nobody has read it, that is all that the reply may be about.
    """
    seen = visit.supervision
    if seen is None:
        return _NONE_REFUSED
    if seen.trial is None or seen.trial.said is None:
        return seen.refused
    news = range(seen.judged_entries, len(visit.entries))
    return seen.refused.union(place for place in news if isinstance(visit.entries[place], Reply))


_NONE_REFUSED = frozenset[int]()


def calls_of(state: RunState, visit: Visit) -> list[ToolCall]:
    """The calls of the visit, in the order in which they were asked for."""
    return [
        call for call in state.calls.values() if call.step_id == visit.step_id and call.visit == visit.number
    ]

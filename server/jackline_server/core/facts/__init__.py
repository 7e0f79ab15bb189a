"""Every fact that can be recorded about a run.

Owns the closed union `Fact`. A fact is frozen, named in the past tense, and says what happened, not
what follows from it: `state.evolve` is its only reader in the core. What a person, a model or a tool
wrote sits in the fields marked *content*; the codec keeps those apart from the rest.

Times are whole milliseconds; `*_unix_ms` is wall-clock time and only labels or feeds a timer. Money is
millionths of a US dollar. JSON documents are their text.
"""

from jackline_server.core.facts.answers import AnswerProblem, AnswerRejected
from jackline_server.core.facts.children import ChildFinished, ChildStarted
from jackline_server.core.facts.consulting import ConsultAnswer, Consulted, ConsultKind
from jackline_server.core.facts.control import (
    AbortMode,
    BoundsAdjusted,
    CommandApplied,
    CommandKind,
    CommandRejected,
    Paused,
    Rejection,
    Resumed,
    Steered,
)
from jackline_server.core.facts.history import Compacted, CompactionKind, HistoryRepaired
from jackline_server.core.facts.notices import NoticeCode, Noticed, TimerFired, TimerKind
from jackline_server.core.facts.people import InterruptKind, InterruptRaised, InterruptResolved
from jackline_server.core.facts.progress import Grounded, Pattern, Reflected
from jackline_server.core.facts.runs import (
    ForkOrigin,
    MessagesAppended,
    Parent,
    Phase,
    RecoveryCause,
    RunFinished,
    RunRecovered,
    RunStarted,
    RunSuspended,
    StopReason,
)
from jackline_server.core.facts.steps import StepFinished, StepStarted
from jackline_server.core.facts.supervising import JudgeReturned, RuleFired
from jackline_server.core.facts.tools import (
    OTHER_TOOL,
    CallProblem,
    CallStatus,
    ToolAsk,
    ToolCallFinished,
    ToolCallRequested,
    ToolCallStarted,
    ToolReply,
)
from jackline_server.core.facts.turns import (
    AttemptLimit,
    FailureClass,
    FinishReason,
    ModelCallFailed,
    ModelCallStarted,
    ModelReplied,
    Purpose,
    Usage,
)

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
    | ChildStarted
    | ChildFinished
    | RuleFired
    | JudgeReturned
)

__all__ = [
    "OTHER_TOOL",
    "AbortMode",
    "AnswerProblem",
    "AnswerRejected",
    "AttemptLimit",
    "BoundsAdjusted",
    "CallProblem",
    "CallStatus",
    "ChildFinished",
    "ChildStarted",
    "CommandApplied",
    "CommandKind",
    "CommandRejected",
    "Compacted",
    "CompactionKind",
    "ConsultAnswer",
    "ConsultKind",
    "Consulted",
    "Fact",
    "FailureClass",
    "FinishReason",
    "ForkOrigin",
    "Grounded",
    "HistoryRepaired",
    "InterruptKind",
    "InterruptRaised",
    "InterruptResolved",
    "JudgeReturned",
    "MessagesAppended",
    "ModelCallFailed",
    "ModelCallStarted",
    "ModelReplied",
    "NoticeCode",
    "Noticed",
    "Parent",
    "Pattern",
    "Paused",
    "Phase",
    "Purpose",
    "RecoveryCause",
    "Reflected",
    "Rejection",
    "Resumed",
    "RuleFired",
    "RunFinished",
    "RunRecovered",
    "RunStarted",
    "RunSuspended",
    "Steered",
    "StepFinished",
    "StepStarted",
    "StopReason",
    "TimerFired",
    "TimerKind",
    "ToolAsk",
    "ToolCallFinished",
    "ToolCallRequested",
    "ToolCallStarted",
    "ToolReply",
    "Usage",
]

"""What a run can do next: the closed union that `decide` answers with and the runtime carries out."""

from collections.abc import Mapping

from jackline_server.core.approval_plans import ApprovalPlan
from jackline_server.core.facts import ConsultKind, Fact, ModelCallStarted, ToolCallStarted, ToolReply
from jackline_server.core.frozen import frozen
from jackline_server.core.gate_plans import ArgumentsView, Point
from jackline_server.core.messages import Message
from jackline_server.core.plan import JsonObject, JsonValue, ModelPlan, ToolChoice, ToolEntry, ToolStep


@frozen
class Moment:
    """When `decide` is asked: the run's active time, and the wall clock for expiries to be stamped.

    Nothing is decided by `unix_ms`.
    """

    active_ms: int
    unix_ms: int


@frozen
class Record:
    """Facts that follow from the state alone; one commit."""

    facts: tuple[Fact, ...]


@frozen
class CallModel:
    """Announce `started`, make one attempt, record what came of it.

    `total_ms` bounds the attempt: what is left of its request's own time, which is `request_ms`, and of every
    deadline. `idle_ms` bounds the wait for the next chunk. `reply_schema` is the JSON Schema
    that the provider is asked to keep to in its answer; None asks for none. `masked` says that personal data
    in the requests is masked before they are sent.
    """

    started: ModelCallStarted
    model: ModelPlan
    messages: tuple[Message, ...]
    tools: tuple[ToolEntry, ...]
    tool_choice: ToolChoice
    total_ms: int
    request_ms: int
    idle_ms: int
    reply_schema: str | None = None
    masked: bool = False


@frozen
class ChildShare:
    """The child run that an attempt starts, and what it is given at most; None is no cap of that kind."""

    run_id: str
    tokens: int | None
    cost_micros: int | None
    run_timeout_ms: int | None


@frozen
class ToolAttempt:
    """One attempt at one call, with everything the tool is given. `child` is set where that is a run.

    `approval` says when it may start only if somebody lets it.
    """

    started: ToolCallStarted
    step: ToolStep
    arguments: Mapping[str, JsonValue]
    bound: Mapping[str, JsonValue]
    step_input: Mapping[str, JsonValue]
    timeout_ms: int
    child: ChildShare | None = None
    reply: ToolReply | None = None
    approval: ApprovalPlan | None = None

    @property
    def given(self) -> JsonObject:
        """All that the tool is given: what is bound comes before what is written, that before the context."""
        return {**self.step_input, **self.arguments, **self.bound}


@frozen
class CallTools:
    """Announce all attempts in one commit, run them together, record each as it ends.

    All of them are runs of their own or none is. Those are only started: they end by themselves.
    """

    attempts: tuple[ToolAttempt, ...]


@frozen
class Question:
    """What somebody is asked.

    `who` is the place in the plan that asks, `target` who is asked: a function of the operator's roots, a
    hook or a policy service of the operator's config. `variables` is what it may be given, `subject` the call
    it is about.
    """

    kind: ConsultKind
    who: str
    target: str
    variables: Mapping[str, JsonValue]
    timeout_ms: int
    point: Point | None = None
    subject: str = ""
    view: ArgumentsView | None = None


@frozen
class Consult:
    """Ask those who can change nothing, all at once, and record their answers in the order of the questions.

    Nothing is announced: whoever asks twice has changed nothing.
    """

    questions: tuple[Question, ...]


@frozen
class Wait:
    """Nothing to do until the active time comes, or, if it is None, until a command or timer does."""

    until_active_ms: int | None


@frozen
class Finish:
    """RunFinished is in the log."""


Step = Record | CallModel | CallTools | Consult | Wait | Finish

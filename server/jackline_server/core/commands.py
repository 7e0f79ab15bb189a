"""The commands that steer a live run, as they wait in the command table.

Owns their shape. `control` says what each does to a run.
"""

from typing import assert_never

from jackline_server.core.facts import AbortMode, ChildFinished, CommandKind, Noticed, Phase, StopReason
from jackline_server.core.frozen import frozen
from jackline_server.core.new_bounds import NO_RUN_BOUNDS, NO_VISIT_BOUNDS, NewRunBounds, NewVisitBounds


@frozen
class Pause:
    """Hold the run before its next call."""


@frozen
class Resume:
    """Let a paused run go on."""


@frozen
class Steer:
    """Put guidance into the conversation."""

    text: str


@frozen
class Abort:
    """End the run.

    `cause` is REPLACED where a newer run of its thread takes its place, PARENT where the run that started it
    is being ended, KILL_SWITCH where no run may live, CLIENT_GONE where its owners stay away.
    """

    mode: AbortMode
    skip_routes: bool
    cause: StopReason = StopReason.OPERATOR


@frozen
class Answer:
    """Answer an open interrupt."""

    interrupt_id: str
    option: str
    text: str


@frozen
class Approve:
    """Let the call of an interrupt start with the arguments of that digest."""

    interrupt_id: str
    digest: str


@frozen
class EditAndApprove:
    """Let it start with these arguments in place of those of that digest."""

    interrupt_id: str
    digest: str
    arguments_json: str


@frozen
class Reject:
    """Do not let it start. `text` is for the model."""

    interrupt_id: str
    text: str


@frozen
class SubmitToolResult:
    """Say what a call whose outcome is unknown returned: an output, or else an error."""

    call_id: str
    output_json: str | None
    error: str


@frozen
class AdjustBounds:
    """Change caps of the run, and of the visit under way."""

    run: NewRunBounds = NO_RUN_BOUNDS
    visit: NewVisitBounds = NO_VISIT_BOUNDS


@frozen
class LongResult:
    """What became of a result that is too long for the log: its length, its end, and where the whole is."""

    cut_from_bytes: int
    tail: str
    blob: str
    notices: tuple[Noticed, ...]


@frozen
class EndChild:
    """A child run has ended. Comes with the commit of that end, from nobody else.

    `long` is no part of what is sent: whoever takes it makes of a long result what the log can hold.
    """

    finished: ChildFinished
    long: LongResult | None = None


# Runs speak to each other under ids with a space in them, which no caller can give: else whoever has used an
# id on a run first would keep its kin from being heard.


def ended_id(child_run_id: str) -> str:
    """The id of the command by which a child tells of its end: one for each child."""
    return f"ended {child_run_id}"


def passed_on_id(run_id: str, command_id: str) -> str:
    """The id under which the runs below get what a command to the run, or to one above it, makes of them.

    One for each command, whichever way it comes down.
    """
    return command_id if command_id.startswith(_PASSED_ON) else f"{_PASSED_ON}{run_id} {command_id}"


_PASSED_ON = "above "

OWNERS_GONE = "owners gone"
"""The id of the command by which a run ends whose owners stay away: once is enough."""


def halting_id(chosen: str) -> str:
    """The id of the command that a kill switch gives to every run, made of one that was chosen at random.

    No caller can send one like it.
    """
    return f"kill {chosen}"


Decision = Approve | EditAndApprove | Reject
"""What may be said of a call that waits for somebody to let it start."""

Action = Pause | Resume | Steer | Abort | Answer | Decision | SubmitToolResult | AdjustBounds | EndChild


@frozen
class Command:
    """One command as it was accepted. `ordinal` is its place among the run's commands, from 1.

    `expect_phase` and `expect_sequence` must hold when it is applied; None is no expectation. `fingerprint`
    is that of what was sent, where masks have made something else of it.
    """

    command_id: str
    ordinal: int
    principal: str
    reason: str
    expect_phase: Phase | None
    expect_sequence: int | None
    action: Action
    fingerprint: str = ""


def kind_of(action: Action) -> CommandKind:  # noqa: C901, PLR0911, PLR0912 - one case a command
    """The kind that facts and receipts name."""
    match action:
        case Pause():
            return CommandKind.PAUSE
        case Resume():
            return CommandKind.RESUME
        case Steer():
            return CommandKind.STEER
        case Abort():
            return CommandKind.ABORT
        case Answer():
            return CommandKind.ANSWER
        case Approve():
            return CommandKind.APPROVE
        case EditAndApprove():
            return CommandKind.EDIT_AND_APPROVE
        case Reject():
            return CommandKind.REJECT
        case SubmitToolResult():
            return CommandKind.SUBMIT_TOOL_RESULT
        case AdjustBounds():
            return CommandKind.ADJUST_BOUNDS
        case EndChild():
            return CommandKind.END_CHILD
        case _:
            assert_never(action)

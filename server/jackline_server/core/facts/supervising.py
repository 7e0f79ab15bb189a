"""What a supervisor did: a rule that fired, a judge that came back."""

from jackline_server.core.frozen import frozen
from jackline_server.core.supervisor_plans import RuleAction, RuleStage


@frozen
class RuleFired:
    """A rule came to hold, and its action follows: by this fact, or by those behind it in the same commit.

    `rule` is its place in the workflow, `turn` how many turns of the visit were over. `call_id` and `tool`
    are those of the call that it held up, empty after a turn.
    """

    rule: str
    stage: RuleStage
    action: RuleAction
    turn: int
    call_id: str = ""
    tool: str = ""
    words: str = ""  # content; what the model is told, where it is steered


@frozen
class JudgeReturned:
    """The judge of a supervisor has looked at a visit up to here, and this is its word.

    `passed` is None if it gave no usable word; `problem` says why then. `action` is what follows, None if
    nothing does.
    """

    judge: str
    turn: int
    passed: bool | None
    action: RuleAction | None
    reason: str = ""  # content
    problem: str = ""  # content

"""Who is asked around the loop and what is checked at its gates: hooks, guardrails, a policy, masks.

Owns the shapes, as the plan holds them: resolved for each step, so that one look says whether a step has any.
Does not own when they are asked (`gatekeeping`) or how (`policies`).
"""

from collections.abc import Mapping
from enum import Enum

from jackline_server.core.frozen import frozen


class Point(Enum):
    """Where somebody is asked: before and after a part of a run (hooks), or at a gate (guardrails)."""

    BEFORE_RUN = "before_run"
    AFTER_RUN = "after_run"
    BEFORE_TURN = "before_turn"
    AFTER_TURN = "after_turn"
    BEFORE_MODEL_CALL = "before_model_call"
    AFTER_MODEL_CALL = "after_model_call"
    BEFORE_TOOL_CALL = "before_tool_call"
    AFTER_TOOL_CALL = "after_tool_call"
    INPUT = "input"
    OUTPUT = "output"
    TOOLS = "tools"


HOOK_POINTS = (
    Point.BEFORE_RUN,
    Point.AFTER_RUN,
    Point.BEFORE_TURN,
    Point.AFTER_TURN,
    Point.BEFORE_MODEL_CALL,
    Point.AFTER_MODEL_CALL,
    Point.BEFORE_TOOL_CALL,
    Point.AFTER_TOOL_CALL,
)
"""Those that a hook may have a method for."""


class OnHookError(Enum):
    """What follows when a hook fails or does not answer in time."""

    IGNORE = "ignore"
    VETO = "veto"


@frozen
class HookPlan:
    """A hook of the operator's config, and the points that it has methods for."""

    name: str
    points: frozenset[Point]
    timeout_ms: int
    on_error: OnHookError

    @property
    def who(self) -> str:
        """The hook as facts name it."""
        return f"hooks.{self.name}"


class ArgumentsView(Enum):
    """How much of a call's arguments a policy service is shown."""

    METADATA = "metadata"
    REDACTED = "redacted"
    FULL = "full"


@frozen
class PolicyPlan:
    """The policy service that is asked before each tool call, by its name in the operator's config.

    `fails_open` lets a call go on when the service does not answer. `ends` leaves the step at a denial
    instead of telling the model.
    """

    name: str
    view: ArgumentsView
    timeout_ms: int
    fails_open: bool
    ends: bool

    @property
    def who(self) -> str:
        """The service as facts name it."""
        return f"policy.{self.name}"


@frozen
class MaxChars:
    """Holds text of at most so many characters."""

    most: int


@frozen
class DenyPattern:
    """Holds text in which no such pattern is found; it runs in time linear in the text."""

    pattern: str


@frozen
class FitsSchema:
    """Holds a value that fits a JSON Schema."""

    schema_json: str


@frozen
class Judged:
    """Holds what a model passes: it is asked by these criteria. `model` is a profile of the plan."""

    model: str
    criteria: str


Check = MaxChars | DenyPattern | FitsSchema | Judged


@frozen
class GuardrailPlan:
    """One check at a gate. `place` is where it stands in the workflow, such as `guardrails.output[0]`.

    `ends` says that a violation ends the step at once; else an answer is repaired and a call denied. `tools`
    are the tools it is about; empty is all of them.
    """

    place: str
    check: Check
    ends: bool = False
    tools: frozenset[str] = frozenset()


class Pii(Enum):
    """A kind of personal data that is recognised and masked."""

    EMAIL = "email"
    PHONE = "phone"
    CARD = "card"
    IBAN = "iban"
    IP = "ip"
    NATIONAL_ID = "national_id"


@frozen
class MaskPlan:
    """Kinds of personal data, and the region that phone numbers without a country code belong to."""

    kinds: frozenset[Pii]
    region: str = ""


def hiding_both(one: MaskPlan | None, other: MaskPlan | None) -> MaskPlan | None:
    """What hides what either hides; the later region counts."""
    if one is None or other is None:
        return one or other
    return MaskPlan(kinds=one.kinds | other.kinds, region=other.region or one.region)


@frozen
class GatesPlan:
    """Everything that is asked and checked around a step, or around a run where the plan itself holds it.

    Masks hide before anything is stored: `mask_input` the input of a run and what people say to it,
    `mask_replies` what a model says, `mask_arguments` and `mask_results` what goes to tools and what they
    return, also where a person says it.
    """

    hooks: tuple[HookPlan, ...] = ()
    policy: PolicyPlan | None = None
    input: tuple[GuardrailPlan, ...] = ()
    output: tuple[GuardrailPlan, ...] = ()
    tools: tuple[GuardrailPlan, ...] = ()
    mask_input: MaskPlan | None = None
    mask_replies: MaskPlan | None = None
    mask_arguments: MaskPlan | None = None
    mask_results: MaskPlan | None = None

    def at(self, point: Point) -> tuple[HookPlan, ...]:
        """The hooks that are asked at a point, in their order."""
        return tuple(hook for hook in self.hooks if point in hook.points)


Metadata = Mapping[str, str]
"""What hooks have said of a run: names and short texts."""

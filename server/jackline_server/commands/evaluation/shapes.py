"""The shape of a file of cases: which keys there are, and what type each has.

Owns the models. Does not own reading a file (`cases`), what an expectation means (`expecting`), or what each
key is for (docs/evaluation.md, whose words an editor shows).
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from jackline_server.definitions.shapes import Shape
from jackline_server.definitions.units import SAYS_SOMETHING, Line, Micros, Milliseconds, Positive, Tokens

CASE_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$"
CaseName = Annotated[str, Field(pattern=CASE_NAME)]
State = Literal["succeeded", "needs_review", "exhausted", "failed", "aborted"]
Times = Annotated[int, Field(ge=1, le=100)]
Calls = Annotated[int, Field(ge=0, le=100_000)]
Seconds = Annotated[int, Field(ge=1, le=2_592_000)]
Reference = Annotated[str, Field(min_length=1, max_length=300)]
Words = Annotated[str, Field(min_length=1, max_length=10_000), SAYS_SOMETHING]


class BoundsShape(Shape):
    """`bounds`: tighter ones than the workflow's, as `jackline run --bound` has them."""

    run_timeout: Milliseconds | None = None
    token_budget: Tokens | None = None
    cost_budget_usd: Micros | None = None
    steps: Positive | None = None
    events: Annotated[int, Field(ge=10, le=1_000_000)] | None = None
    child_depth: Annotated[int, Field(ge=0, le=16)] | None = None


class AnswerShape(Shape):
    """One of `answers`: to which question, and what."""

    step: str | None = None
    tool: str | None = None
    asks: Line | None = None
    option: Annotated[str, Field(min_length=1, max_length=200)]
    text: Words | None = None
    value: dict[str, Any] | None = None


class CalledShape(Shape):
    """One of `called`: a tool, how often, and with what."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    times: Calls | None = None
    at_least: Calls | None = None
    at_most: Calls | None = None
    with_: dict[str, Any] | None = Field(default=None, alias="with")


class ToolsShape(Shape):
    """`tools` of an expectation."""

    called: tuple[CalledShape, ...] = ()
    not_called: tuple[str, ...] = ()
    order: tuple[str, ...] = ()


class UsedShape(Shape):
    """`used` of an expectation: at most so much."""

    tokens: Tokens | None = None
    cost_usd: Micros | None = None
    iterations: Calls | None = None
    tool_calls: Calls | None = None
    seconds: Seconds | None = None


class JudgeShape(Shape):
    """`judge` of an expectation: a model that passes or does not pass what came out."""

    model: Reference | None = None
    criteria: Annotated[str, Field(min_length=1, max_length=20_000), SAYS_SOMETHING]
    on_error: Literal["fail", "ignore"] = "fail"


class ExpectShape(Shape):
    """`expect`: what has to hold of the run."""

    state: State | None = None
    exit: Line | None = None
    steps: dict[str, Line] = Field(default_factory=dict)
    outcome: Any = None
    that: Annotated[str, Field(min_length=1, max_length=2_000)] | None = None
    text_mentions: tuple[Line, ...] = ()
    tools: ToolsShape = ToolsShape()
    used: UsedShape = UsedShape()
    judge: JudgeShape | None = None


class CommonShape(Shape):
    """What `defaults` and a case may both say; the case's word comes first."""

    workflow: Reference | None = None
    file: Annotated[str, Field(min_length=1, max_length=1_000)] | None = None
    bounds: BoundsShape | None = None
    deadline: Milliseconds | None = None
    times: Times | None = None
    pass_at_least: Times | None = None
    answers: tuple[AnswerShape, ...] | None = None


class DefaultsShape(CommonShape):
    """`defaults`: what holds for every case that says nothing else."""

    judge_model: Reference | None = None


class CaseShape(CommonShape):
    """One of `cases`."""

    name: CaseName
    run: Annotated[str, Field(pattern=r"^run_[0-9a-z]{26}$")] | None = None
    input: Any = None
    reviewed_by: Line | None = None
    reviewed_on: Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")] | None = None
    expect: ExpectShape = ExpectShape()


class SuiteShape(Shape):
    """The whole file."""

    name: CaseName | None = None
    description: Line | None = None
    defaults: DefaultsShape = DefaultsShape()
    cases: Annotated[tuple[CaseShape, ...], Field(min_length=1, max_length=1_000)]

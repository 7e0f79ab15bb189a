"""The shape of a workflow file: which keys exist, and what type each has.

Owns the pydantic models and the names that are known but not built. Does not own what values mean together
(the `check_` modules) or their defaults (`defaults`): None is "not written".

Lists arrive as tuples and fractions as Decimal (`yaml_nodes.plain`), so strict mode coerces nothing.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from jackline_server.definitions.units import (
    SAYS_SOMETHING,
    Count,
    InputName,
    Line,
    Micros,
    Milliseconds,
    Pointer,
    Positive,
    Share,
    StepName,
    Text,
    Tokens,
)

Document = dict[str, Any]
"""A free JSON document inside the file, such as a schema or a body."""

MAX_TOOLS = 128
"""So many tools a step may have."""


OnFailureText = Literal["observe", "fail"]
PiiKind = Literal["email", "phone", "card", "iban", "ip", "national_id"]


class Shape(BaseModel):
    """A mapping of the file."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)
    not_built: ClassVar[frozenset[str]] = frozenset()


class InputShape(Shape):
    """`input` at the top."""

    schema_: Document | bool = Field(alias="schema")


class ApprovalExpiryShape(Shape):
    """`approval_expiry`, where it is more than a time."""

    after: Milliseconds | None = None
    then: Literal["reject", "approve", "needs_review"] | None = None


class ApprovalWhenShape(Shape):
    """`approval: {when: …}`."""

    when: Line


ApprovalText = Literal["none", "required"]


class RunBoundsShape(Shape):
    """`bounds` at the top: the whole run."""

    not_built = frozenset({"deadline"})
    run_timeout: Milliseconds | None = None
    token_budget: Tokens | None = None
    cost_budget_usd: Micros | None = None
    steps: Positive | None = None
    events: Annotated[int, Field(ge=10, le=1_000_000)] | None = None
    child_depth: Annotated[int, Field(ge=0, le=16)] | None = None
    pause_max: Milliseconds | None = None
    approval_expiry: Milliseconds | ApprovalExpiryShape | None = None


class BoundsCapShape(Shape):
    """`bounds_cap` at the top: how far a live run may be raised."""

    not_built = frozenset({"child_depth"})
    run_timeout: Milliseconds | None = None
    token_budget: Tokens | None = None
    cost_budget_usd: Micros | None = None
    steps: Positive | None = None
    events: Annotated[int, Field(ge=10, le=1_000_000)] | None = None
    max_iterations: Positive | None = None
    model_requests: Count | None = None
    tool_calls: Count | None = None


class CompletionBoundsShape(Shape):
    """`bounds` of a completion: one visit."""

    model_requests: Count | None = None
    token_budget: Tokens | None = None
    cost_budget_usd: Micros | None = None
    timeout: Milliseconds | None = None
    model_timeout: Milliseconds | None = None
    idle_timeout: Milliseconds | None = None


class AgentBoundsShape(CompletionBoundsShape):
    """`bounds` of an agent: one visit."""

    max_iterations: Positive | None = None
    tool_calls: Count | None = None
    tool_timeout: Milliseconds | None = None
    approval_expiry: Milliseconds | ApprovalExpiryShape | None = None


class OutcomeShape(Shape):
    """`outcome`: the contract of an answer."""

    enum: Annotated[tuple[Line, ...], Field(min_length=1, max_length=100)] | None = None
    schema_: Document | bool | None = Field(default=None, alias="schema")
    output_key: str | None = None
    repairs: Annotated[int, Field(ge=0, le=10)] | None = None


class RetryShape(Shape):
    """`retry` of a tool: attempts after the first."""

    times: Annotated[int, Field(ge=0, le=20)]
    base: Milliseconds | None = None
    cap: Milliseconds | None = None


class PolicyShape(Shape):
    """What a tool step and an entry of `tools` both may say of calls; the entry's word comes first."""

    retry: RetryShape | None = None
    on_error: OnFailureText | None = None
    on_timeout: OnFailureText | None = None
    reuse: Literal["run", "off"] | None = None
    serial_group: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")] | None = None


class ObserveShape(Shape):
    """`invalid_args: {observe: N}`."""

    observe: Annotated[int, Field(ge=0, le=1_000)]


class ToolShape(PolicyShape):
    """One entry of `tools`: a step by `ref`, the tools of an MCP connection by `from`, or a built-in one."""

    ref: str = ""
    builtin: Literal["ask_person"] | None = None
    from_: str | None = Field(default=None, alias="from")
    allow: Annotated[tuple[str, ...], Field(min_length=1, max_length=MAX_TOOLS)] | None = None
    bind: dict[str, Pointer] = Field(default_factory=dict)
    max_calls: Count | None = None
    writes_context: bool = False
    poll: bool = False
    description: Line | None = None
    parameters: Document | None = None
    approval: ApprovalText | ApprovalWhenShape | None = None

    @model_validator(mode="after")
    def _is_one_of_two(self) -> Self:
        if bool(self.ref) + (self.from_ is not None) + (self.builtin is not None) != 1:
            words = "a tool has either `ref`, a step, `from`, a connection, or `builtin`"
            raise PydanticCustomError("bad_tool", words)
        if self.builtin is not None and (self.bind or self.description is not None or self.parameters):
            words = "`builtin` brings its description and parameters; write a step for others"
            raise PydanticCustomError("bad_tool", words)
        if self.builtin is not None and self.approval is not None:
            raise PydanticCustomError("bad_tool", "a question to a person needs nobody to let it be asked")
        if self.from_ is not None and (self.description is not None or self.parameters is not None):
            raise PydanticCustomError("bad_tool", "`from` takes descriptions and parameters from its server")
        if self.from_ is None and self.allow is not None:
            raise PydanticCustomError("bad_tool", "`allow` belongs to `from`; a `ref` names one step")
        return self


class RepeatShape(Shape):
    """`repeat`: when repeated calls end a step."""

    by: Literal["args_result", "args", "name", "off"] | None = None
    count: Annotated[int, Field(ge=2, le=100)] | None = None
    nudge: bool | None = None


class ReflectShape(Shape):
    """`reflect`: when a step looks at how its turns have gone."""

    every: Annotated[int, Field(ge=1, le=1_000)]
    guidance: bool | None = None


class GroundShape(Shape):
    """`ground`: how an answer is held against what the tools returned."""

    threshold: Share | None = None
    max_replans: Annotated[int, Field(ge=0, le=10)] | None = None
    model: str | None = None
    on_error: Literal["ignore", "exit"] | None = None


class PruneShape(Shape):
    """`prune` of `compaction`: when results of old tool calls are left out."""

    keep: Tokens | None = None
    save: Tokens | None = None


CompactionText = Literal["none", "window", "summarise"]


class CompactionShape(Shape):
    """`compaction`: how a conversation is kept within what its model can read."""

    mode: CompactionText | None = None
    at: Share | None = None
    to: Share | None = None
    model: str | None = None
    prune: Literal["off"] | PruneShape | None = None


class NamedToolShape(Shape):
    """`tool_choice: {name: …}`."""

    name: str


class ConditionShape(Shape):
    """One entry of a router's `conditions`."""

    when: Line
    signal: Line


class AtLeastCountShape(Shape):
    """`iterations` of a stop condition."""

    gte: Count


class AtLeastTokensShape(Shape):
    """`tokens` of a stop condition."""

    gte: Tokens


class AtLeastMoneyShape(Shape):
    """`cost_usd` of a stop condition."""

    gte: Micros


class AtLeastShareShape(Shape):
    """`confidence` of a stop condition."""

    gte: Share


class AtLeastTimeShape(Shape):
    """`elapsed` of a stop condition."""

    gte: Milliseconds


class ToolCalledShape(Shape):
    """`tool_called` of a stop condition."""

    name: str
    success: bool | None = None


class TextMentionShape(Shape):
    """`text_mention` of a stop condition."""

    text: Line
    case: bool = False


class StopFunctionShape(Shape):
    """`function` of a stop condition, where it is more than a name."""

    name: str
    timeout: Milliseconds | None = None


class StopWhenShape(Shape):
    """`stop_when`, and each condition inside it: one key."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})
    any_: Annotated[tuple["StopWhenShape", ...], Field(min_length=1)] | None = Field(
        default=None, alias="any"
    )
    all_: Annotated[tuple["StopWhenShape", ...], Field(min_length=1)] | None = Field(
        default=None, alias="all"
    )
    not_: "StopWhenShape | None" = Field(default=None, alias="not")
    iterations: AtLeastCountShape | None = None
    tokens: AtLeastTokensShape | None = None
    cost_usd: AtLeastMoneyShape | None = None
    elapsed: AtLeastTimeShape | None = None
    confidence: AtLeastShareShape | None = None
    no_tool_calls: Literal[True] | None = None
    tool_called: ToolCalledShape | None = None
    text_mention: TextMentionShape | None = None
    outcome_is: Line | None = None
    expression: Line | None = None
    function: Line | StopFunctionShape | None = None

    @model_validator(mode="after")
    def _is_one_condition(self) -> Self:
        if sum(getattr(self, name) is not None for name in type(self).model_fields) != 1:
            raise PydanticCustomError(
                "bad_condition", "a condition has exactly one key; join several by `all`"
            )
        return self


class PiiShape(Shape):
    """`pii` of a guardrail, where it is more than a list of kinds."""

    kinds: Annotated[tuple[PiiKind, ...], Field(min_length=1)]
    region: Annotated[str, Field(pattern=r"^[A-Z]{2}$")] | None = None
    of: Literal["arguments", "results", "both"] | None = None


class TopicShape(Shape):
    """`topic` of a guardrail."""

    allow: Annotated[tuple[Line, ...], Field(min_length=1, max_length=50)] | None = None
    deny: Annotated[tuple[Line, ...], Field(min_length=1, max_length=50)] | None = None
    model: str | None = None


class JudgeShape(Shape):
    """`judge` of a guardrail."""

    criteria: Text
    model: str | None = None


class GuardrailShape(Shape):
    """One entry at a gate: one check, and what follows from a violation."""

    max_chars: Count | None = None
    deny: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    schema_: Document | bool | None = Field(default=None, alias="schema")
    pii: Annotated[tuple[PiiKind, ...], Field(min_length=1)] | PiiShape | None = None
    topic: TopicShape | None = None
    judge: JudgeShape | None = None
    on_violation: Literal["repair", "deny", "exit"] | None = None
    tools: Annotated[tuple[str, ...], Field(min_length=1, max_length=MAX_TOOLS)] | None = None

    @model_validator(mode="after")
    def _is_one_check(self) -> Self:
        checks = (self.max_chars, self.deny, self.schema_, self.pii, self.topic, self.judge)
        if sum(check is not None for check in checks) != 1:
            known = "max_chars, deny, schema, pii, topic or judge"
            raise PydanticCustomError("bad_guardrail", f"a guardrail has exactly one of {known}")
        return self


Guardrails = Annotated[tuple[GuardrailShape, ...], Field(max_length=20)]


class GuardrailsShape(Shape):
    """`guardrails`: what has to pass at each gate."""

    input: Guardrails = ()
    output: Guardrails = ()
    tools: Guardrails = ()


class PolicyUseShape(Shape):
    """`policy`, where it is more than a name."""

    use: Line
    view: Literal["metadata", "redacted", "full"] | None = None
    timeout: Milliseconds | None = None
    fail: Literal["open", "closed"] | None = None
    on_deny: OnFailureText | None = None


class RuleShape(Shape):
    """One entry of `rules` of a supervisor: one condition, and what follows."""

    when: Literal["tool_repeated", "budget_fraction", "iteration_reached", "error_rate", "expression"]
    tool: str | None = None
    by: Literal["args_result", "args", "name"] | None = None
    count: Annotated[int, Field(ge=2, le=100)] | None = None
    of: Literal["tokens", "cost_usd", "time", "iterations", "model_requests", "tool_calls"] | None = None
    gt: Share | None = None
    gte: Positive | None = None
    window: Annotated[int, Field(ge=1, le=100)] | None = None
    expression: Line | None = None
    stage: Literal["before_call", "after_turn"] | None = None
    then: Literal["steer", "pause", "abort", "deny_call", "ask"] | None = None
    message: Line | None = None
    rearm: Positive | None = None
    expiry: Milliseconds | None = None

    @model_validator(mode="before")
    @classmethod
    def _has_what_its_condition_looks_at(cls, given_keys: object) -> object:
        """Looked at first: a key of another condition has another form, of which nothing needs to be said."""
        if not isinstance(given_keys, Mapping):
            return given_keys
        document = cast("Mapping[str, object]", given_keys)
        when = document.get("when")
        if not isinstance(when, str) or when not in _RULE_KEYS:
            return document
        needed, allowed = _RULE_KEYS[when]
        given = {key for key in _ANY_RULE_KEY if document.get(key) is not None}
        if not needed <= given or not given <= needed | allowed:
            words = f"`{when}` has {' and '.join(f'`{key}`' for key in sorted(needed))}"
            if allowed:
                words += f", may have {' and '.join(f'`{key}`' for key in sorted(allowed))},"
            raise PydanticCustomError("bad_rule", "{words} and no key of another condition", {"words": words})
        return document


_RULE_KEYS: dict[str, tuple[set[str], set[str]]] = {
    "tool_repeated": ({"count"}, {"tool", "by"}),
    "budget_fraction": ({"of", "gt"}, set()),
    "iteration_reached": ({"gte"}, set()),
    "error_rate": ({"window", "gt"}, set()),
    "expression": ({"expression"}, set()),
}
"""By condition: the keys that it needs, and those that it may have beside them."""

_ANY_RULE_KEY = frozenset[str]().union(*(needed | allowed for needed, allowed in _RULE_KEYS.values()))


class SupervisorJudgeShape(Shape):
    """`judge` of a supervisor."""

    criteria: Annotated[str, Field(min_length=1, max_length=10_000), SAYS_SOMETHING]
    model: str | None = None
    every: Positive | None = None
    on_violation: Literal["steer", "pause", "abort", "ask"] | None = None
    on_error: Literal["ignore", "pause", "abort"] | None = None
    view: Literal["metadata", "redacted", "full"] | None = None
    timeout: Milliseconds | None = None
    blocking: bool | None = None
    expiry: Milliseconds | None = None


class SupervisorShape(Shape):
    """`supervisor`: who watches an agent from beside."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                {"required": ["rules"], "properties": {"rules": {"minItems": 1}}},
                {"required": ["judge"]},
            ]
        }
    )
    rules: Annotated[tuple[RuleShape, ...], Field(max_length=20)] = ()
    judge: SupervisorJudgeShape | None = None

    @model_validator(mode="after")
    def _is_somebody(self) -> Self:
        if not self.rules and self.judge is None:
            raise PydanticCustomError("bad_rule", "a supervisor has `rules` or a `judge`")
        return self


HookNames = Annotated[tuple[Line, ...], Field(max_length=20)]


class StepShape(Shape):
    """What all steps have."""

    not_built = frozenset({"on_question"})
    kind: str
    description: Line | None = None
    routes: dict[str, str] = Field(default_factory=dict)


class ModelStepShape(StepShape):
    """What `agent` and `completion` have."""

    input: dict[InputName, Pointer] | None = None
    model: str | None = None
    steering: Text | None = None
    outcome: OutcomeShape | None = None
    answer: Literal["json_text", "native_schema", "finish_tool", "text"] | None = None
    hooks: HookNames = ()
    guardrails: GuardrailsShape = GuardrailsShape()
    on_limit: Literal["exit", "final_answer", "ask"] | None = None
    limit_expiry: Milliseconds | None = None
    fallbacks: Annotated[tuple[str, ...], Field(max_length=8)] | None = None
    on_model_unavailable: Literal["fail", "wait"] | None = None
    thread: bool | None = None


class ShareShape(Shape):
    """`share`: what a child run is given of what its parent has left."""

    token_budget: Tokens | None = None
    cost_budget_usd: Micros | None = None
    run_timeout: Milliseconds | None = None


class AgentShape(ModelStepShape):
    """A step of kind `agent`."""

    steering_files: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    tools: Annotated[tuple[ToolShape, ...], Field(max_length=MAX_TOOLS)] = ()
    allow_effects: tuple[Literal["read", "idempotent", "write", "destructive"], ...] | None = None
    tool_choice: Literal["auto", "required"] | NamedToolShape = "auto"
    completion: Literal["auto", "explicit"] | None = None
    bounds: AgentBoundsShape = AgentBoundsShape()
    max_parallel: Annotated[int, Field(ge=1, le=64)] | None = None
    tool_execution: Literal["by_effect", "sequential", "concurrent"] | None = None
    on_error: OnFailureText | None = None
    invalid_args: OnFailureText | ObserveShape | None = None
    text_tool_calls: Literal["off", "auto"] | None = None
    stop_when: StopWhenShape | None = None
    repeat: RepeatShape = RepeatShape()
    reflect: ReflectShape | None = None
    ground: GroundShape | None = None
    compaction: CompactionText | CompactionShape | None = None
    share: ShareShape | None = None
    approval: ApprovalText | ApprovalWhenShape | None = None
    supervisor: SupervisorShape | None = None


class CompletionShape(ModelStepShape):
    """A step of kind `completion`."""

    prompt: Annotated[str, Field(min_length=1, max_length=100_000), SAYS_SOMETHING]
    bounds: CompletionBoundsShape = CompletionBoundsShape()


class ToolStepShape(StepShape, PolicyShape):
    """What every step has that does one thing."""

    input: dict[InputName, Pointer] | None = None
    effect: Literal["read", "idempotent", "write", "destructive"] | None = None
    approval: ApprovalText | ApprovalWhenShape | None = None
    output_key: str | None = None
    timeout: Milliseconds | None = None
    result_chars: Annotated[int, Field(ge=100, le=256_000)] | None = None
    on_unknown: Literal["ask", "fail", "retry"] | None = None
    unknown_expiry: Milliseconds | None = None
    parameters: Document | None = None


class HttpShape(ToolStepShape):
    """A step of kind `http`."""

    connection: str
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] = "GET"
    path: Annotated[str, Field(max_length=2_000)]
    query: dict[str, str] = Field(default_factory=dict)
    headers: dict[str, str] = Field(default_factory=dict)
    body: Any = None


class FunctionShape(ToolStepShape):
    """A step of kind `function`."""

    function: str
    isolate: Literal["process"] | None = None


class McpShape(ToolStepShape):
    """A step of kind `mcp`."""

    connection: str
    tool: Annotated[str, Field(min_length=1, max_length=128)]
    arguments: Document = Field(default_factory=dict)


class SqlShape(ToolStepShape):
    """A step of kind `sql`."""

    connection: str
    statement: Annotated[str, Field(min_length=1, max_length=20_000), SAYS_SOMETHING]
    max_rows: Annotated[int, Field(ge=1, le=100_000)] | None = None


class GrpcShape(ToolStepShape):
    """A step of kind `grpc`."""

    connection: str
    method: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.]{0,200}/[A-Za-z_][A-Za-z0-9_]{0,100}$")]
    arguments: Document = Field(default_factory=dict)


class ChildShape(ToolStepShape):
    """A step of kind `workflow`."""

    workflow: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,62}(@[A-Za-z0-9][A-Za-z0-9._-]{0,63})?$")]
    share: ShareShape | None = None


class WorkerShape(ToolStepShape):
    """A step of kind `worker`."""

    connection: str
    tool: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$")]
    arguments: Document = Field(default_factory=dict)
    wait: Milliseconds | None = None


class OptionShape(Shape):
    """One entry of `options` of a question, where it is more than its name."""

    value: Line
    description: Line | None = None


class HumanShape(ToolStepShape):
    """A step of kind `human`."""

    question: Annotated[str, Field(min_length=1, max_length=10_000), SAYS_SOMETHING]
    options: Annotated[tuple[Line | OptionShape, ...], Field(min_length=1, max_length=20)] | None = None
    schema_: Document | None = Field(default=None, alias="schema")
    expiry: Milliseconds | None = None
    default: Any = None


class RouterShape(StepShape):
    """A step of kind `router`."""

    conditions: Annotated[tuple[ConditionShape, ...], Field(min_length=1, max_length=100)]


AnyStep = (
    AgentShape
    | CompletionShape
    | HttpShape
    | FunctionShape
    | McpShape
    | SqlShape
    | GrpcShape
    | ChildShape
    | WorkerShape
    | HumanShape
    | RouterShape
)

KINDS: dict[str, type[AnyStep]] = {
    "agent": AgentShape,
    "completion": CompletionShape,
    "http": HttpShape,
    "function": FunctionShape,
    "mcp": McpShape,
    "router": RouterShape,
    "sql": SqlShape,
    "grpc": GrpcShape,
    "workflow": ChildShape,
    "worker": WorkerShape,
    "human": HumanShape,
}


class WorkflowShape(Shape):
    """The top of the file. Its steps are read one by one, each by its kind."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$")]
    description: Line | None = None
    preset: Literal["service", "coding", "strict"] = "service"
    model: str | None = None
    input: InputShape | None = None
    bounds: RunBoundsShape = RunBoundsShape()
    bounds_cap: BoundsCapShape | None = None
    on_question: Literal["wait", "review"] | None = None
    on_pause_max: Literal["abort", "resume"] | None = None
    repeat: RepeatShape = RepeatShape()
    compaction: CompactionText | CompactionShape | None = None
    hooks: HookNames = ()
    policy: Line | PolicyUseShape | None = None
    guardrails: GuardrailsShape = GuardrailsShape()
    supervisor: SupervisorShape | None = None
    flow: Annotated[tuple[StepName, ...], Field(min_length=1, max_length=500)]
    steps: Annotated[dict[str, Any], Field(min_length=1, max_length=500)]

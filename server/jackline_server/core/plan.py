"""The compiled workflow that a run carries: every default resolved, every file read.

Owns the shape that `decide` reads. Does not own how a plan is made (`definitions`) or stored
(`codec`). A plan never changes and refers to nothing outside itself but connections, functions
and model profiles, by name.

Times are whole milliseconds, money is millionths of a US dollar, JSON documents are their text.
"""

from collections.abc import Mapping
from enum import Enum

from jackline_server.core.approval_plans import ApprovalPlan
from jackline_server.core.conditions import StopCondition
from jackline_server.core.frozen import frozen
from jackline_server.core.gate_plans import GatesPlan
from jackline_server.core.repetition_plans import RepeatPlan
from jackline_server.core.supervisor_plans import SupervisorPlan

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]
JsonObject = dict[str, JsonValue]

END = "end"
"""The route target that ends the run."""

RESERVED_EXITS = (
    "stopped",
    "max_iterations",
    "budget_exceeded",
    "time_exceeded",
    "tool_loop",
    "invalid_output",
    "grounding_failed",
    "guardrail_violation",
    "error",
    "needs_review",
    "aborted",
)
"""Signals that the engine gives; no outcome enum may hold one."""

FINISH = "finish"
"""The tool by whose call a model answers where a step says `answer: finish_tool`. No step is behind it."""

ASK_PERSON = "ask_person"
"""The tool by which a model asks a person in its own words. A step is made for it where an agent has it."""

READ_RESULT = "read_result"
"""The tool by which a model reads on in a result that was cut. No step is behind it."""

RESERVED_SIGNALS = (*RESERVED_EXITS, "default", END, "running")


class Effect(Enum):
    """What running a tool may change."""

    READ = "read"
    IDEMPOTENT = "idempotent"
    WRITE = "write"
    DESTRUCTIVE = "destructive"

    @property
    def repeatable(self) -> bool:
        """True if a call may be made again with the same call key after a crash."""
        return self is Effect.READ or self is Effect.IDEMPOTENT


class OnLimit(Enum):
    """What a step does when a limit is reached."""

    EXIT = "exit"
    FINAL_ANSWER = "final_answer"
    ASK = "ask"


class OnQuestion(Enum):
    """What a question does when it opens."""

    WAIT = "wait"
    REVIEW = "review"


class OnPauseMax(Enum):
    """What follows when a run was paused for as long as it may be."""

    ABORT = "abort"
    RESUME = "resume"


class OnUnknown(Enum):
    """What follows when nobody knows whether a write happened."""

    ASK = "ask"
    FAIL = "fail"
    RETRY = "retry"


class OnFailure(Enum):
    """What follows when a tool fails or its time is over."""

    OBSERVE = "observe"
    FAIL = "fail"


class ToolExecution(Enum):
    """Which calls of one reply run at the same time."""

    BY_EFFECT = "by_effect"
    SEQUENTIAL = "sequential"
    CONCURRENT = "concurrent"


class TextToolCalls(Enum):
    """Whether tool calls are taken that a model writes into its text."""

    OFF = "off"
    AUTO = "auto"


class AnswerForm(Enum):
    """How an answer is given and read."""

    JSON_TEXT = "json_text"
    TEXT = "text"
    NATIVE_SCHEMA = "native_schema"
    FINISH_TOOL = "finish_tool"


class Completion(Enum):
    """What ends a step that asks a model: any answer, or a call of `finish` alone."""

    AUTO = "auto"
    EXPLICIT = "explicit"


class OnModelUnavailable(Enum):
    """What a step does when none of its models can be reached."""

    FAIL = "fail"
    WAIT = "wait"


class ChoiceMode(Enum):
    """Whether the model has to call a tool."""

    AUTO = "auto"
    REQUIRED = "required"
    NAMED = "named"


@frozen
class ToolChoice:
    """`auto`, `required`, or one tool by name."""

    mode: ChoiceMode = ChoiceMode.AUTO
    name: str = ""


@frozen
class ReflectPlan:
    """When a step looks at how its turns have gone. `guidance` says that the model is told what was found."""

    every: int
    guidance: bool


class OnJudgeError(Enum):
    """What follows when a judge fails."""

    IGNORE = "ignore"
    EXIT = "exit"


@frozen
class GroundPlan:
    """How an answer is held against what the tools returned. `model` is a profile of the plan."""

    model: str
    threshold_permille: int
    max_replans: int
    on_error: OnJudgeError


class CompactionMode(Enum):
    """What becomes of a conversation that grows too long for its model."""

    NONE = "none"
    WINDOW = "window"
    SUMMARISE = "summarise"


@frozen
class PrunePlan:
    """When results of old tool calls are left out: the newest `keep_tokens` stay.

    Nothing is done as long as it would save less than `save_tokens`.
    """

    keep_tokens: int
    save_tokens: int


@frozen
class CompactionPlan:
    """How a conversation is kept within what its model can read.

    It is made shorter when the next prompt is estimated at more than `at_permille` of the model's context
    window, down to `to_permille`. `model` is the profile that is asked for summaries. None for `prune` keeps
    every result.
    """

    mode: CompactionMode
    at_permille: int
    to_permille: int
    model: str
    prune: PrunePlan | None


@frozen
class RunBounds:
    """The caps of a whole run; None is no cap of that kind."""

    run_timeout_ms: int | None
    token_budget: int | None
    cost_budget_micros: int | None
    steps: int
    events: int
    child_depth: int = 0
    """How many runs may stand below one another under it; plans of before have no steps that start any."""


@frozen
class PausePlan:
    """How long a run may be paused at once, by the wall clock, and what follows then."""

    max_ms: int
    then: OnPauseMax


@frozen
class BoundsCap:
    """How far the bounds of a live run may be raised; None is as far as one likes.

    The first five are the run's; a visit's budgets and time are held to the same. The last three are
    a visit's.
    """

    run_timeout_ms: int | None = None
    token_budget: int | None = None
    cost_budget_micros: int | None = None
    steps: int | None = None
    events: int | None = None
    max_iterations: int | None = None
    model_requests: int | None = None
    tool_calls: int | None = None


@frozen
class StepBounds:
    """The caps of one visit of a step; None is no cap of that kind here."""

    max_iterations: int
    model_requests: int
    tool_calls: int
    token_budget: int | None
    cost_budget_micros: int | None
    timeout_ms: int | None
    model_timeout_ms: int
    idle_timeout_ms: int
    tool_timeout_ms: int


@frozen
class Price:
    """Millionths of a US dollar for a million tokens.

    `cached_per_million` is for those of the prompt that the provider had cached, `reasoning_per_million` for
    those of the reply that are reasoning; None is the same as for the rest.
    """

    input_per_million: int
    output_per_million: int
    cached_per_million: int | None = None
    reasoning_per_million: int | None = None

    @property
    def of_cached(self) -> int:
        """The price of cached tokens."""
        return self.input_per_million if self.cached_per_million is None else self.cached_per_million

    @property
    def of_reasoning(self) -> int:
        """The price of reasoning tokens."""
        return self.output_per_million if self.reasoning_per_million is None else self.reasoning_per_million

    @property
    def most_input(self) -> int:
        """What a token of a prompt costs at most: nobody knows ahead which are cached."""
        return max(self.input_per_million, self.cached_per_million or 0)

    @property
    def most_output(self) -> int:
        """What a token of a reply costs at most."""
        return max(self.output_per_million, self.reasoning_per_million or 0)


@frozen
class AttemptLimits:
    """How long one attempt at a model may take, and how much its reply may hold.

    `connect_timeout_ms` bounds the way to the provider, `first_token_timeout_ms` the wait for the first chunk
    from there. `idle_timeout_ms` and `request_timeout_ms`, between chunks and in all, hold beside the bounds
    of a step: the shorter one counts; None leaves it to the step. Bytes are of text, reasoning and arguments.
    """

    connect_timeout_ms: int = 10_000
    first_token_timeout_ms: int = 60_000
    idle_timeout_ms: int | None = None
    request_timeout_ms: int | None = None
    reply_bytes: int = 8 * 1024 * 1024
    reply_chunks: int = 100_000


@frozen
class ModelPlan:
    """A model profile as it was when the plan was made.

    `adapter` names the adapter (`openai`, `litellm`, `scripted`). Keys, base URLs and script paths are not
    here: the adapter looks them up under `profile`. `price_is_ceiling` says that the price is not the model's
    own, which is unknown, but the most that its profile lets it be counted at.
    """

    profile: str
    model: str
    adapter: str
    context_window: int
    max_output_tokens: int
    price: Price | None
    retries: int
    retry_base_ms: int
    retry_cap_ms: int
    native_schema: bool = False
    """True if the model can be asked for an answer of a JSON Schema."""
    calls_tools: bool = True
    """True if the model can be given tools."""
    limits: AttemptLimits = AttemptLimits()
    price_is_ceiling: bool = False


@frozen
class PromptSection:
    """One part of the system message, with a heading for where it came from."""

    title: str
    text: str


@frozen
class ToolPolicy:
    """What follows from the failures of a tool, and whether it is called again.

    `retries` are attempts after the first, at failures that may pass; 0 for a tool that writes. With `reuse`
    an equal call of the same run gets the earlier result. Calls of one `serial_group` never run at the same
    time; empty is no group.
    """

    retries: int = 0
    retry_base_ms: int = 0
    retry_cap_ms: int = 0
    on_error: OnFailure = OnFailure.OBSERVE
    on_timeout: OnFailure = OnFailure.OBSERVE
    reuse: bool = False
    serial_group: str = ""


@frozen
class ToolEntry:
    """A tool as one model step sees it. `ref` is both its name and the step behind it.

    `parameters_json` leaves out the bound names; `bind` maps them to pointers into the context. `poll` says
    that the model is meant to ask it again and again.
    """

    ref: str
    description: str
    parameters_json: str
    bind: Mapping[str, str]
    max_calls: int | None
    writes_context: bool
    policy: ToolPolicy = ToolPolicy()
    poll: bool = False
    approval: ApprovalPlan | None = None
    """When a call of it may start only if somebody lets it; None is never."""


@frozen
class SharePlan:
    """What a child run is given of what its parent has left; None leaves it to `children`."""

    token_budget: int | None = None
    cost_budget_micros: int | None = None
    run_timeout_ms: int | None = None


NO_SHARE = SharePlan()


@frozen
class AgentTool:
    """An agent that others have as a tool: what it may change by its own tools, and what it is given."""

    effect: Effect
    share: SharePlan = NO_SHARE


@frozen
class OutcomePlan:
    """The contract of a step's answer.

    `enum` is empty when any answer will do. `schema_json`, the schema of the result, is None without one.
    `contract_json` is the schema of the whole answer, outcome and result: what the provider is sent, or what
    `finish` takes; None for the other forms.
    """

    enum: tuple[str, ...]
    schema_json: str | None
    output_key: str
    repairs: int
    form: AnswerForm
    contract_json: str | None = None


@frozen
class ModelStep:
    """A step that asks a model: an `agent`, or a `completion`, which is one turn without tools.

    `input` maps names to JSON pointers into the context; None is the whole public context.
    `next_step` is where an unrouted `default` goes; empty ends the run. `invalid_args` is how many calls in a
    row that can't start are told to the model; None is no end to them. `stop_when` is asked at the top of
    each turn but the first.
    `limit_expiry_ms` is how long a question about a limit stays open.
    None for `repeat`, `reflect` and `ground` is to do without; None for `compaction`, which plans of before
    have, is to send all there is and to say nothing of repairs. `thread` says that it takes part in the
    conversation of the run's thread. With `reads_results` a result that is not shown whole can be read
    on in.
    """

    step_id: str
    kind: str
    description: str
    input: Mapping[str, str] | None
    routes: Mapping[str, str]
    next_step: str
    model: str
    system: tuple[PromptSection, ...]
    prompt: str
    tools: tuple[ToolEntry, ...]
    allow_effects: frozenset[Effect]
    tool_choice: ToolChoice
    max_parallel: int
    bounds: StepBounds
    outcome: OutcomePlan
    on_limit: OnLimit
    tool_execution: ToolExecution = ToolExecution.BY_EFFECT
    invalid_args: int | None = None
    stop_when: StopCondition | None = None
    completion: Completion = Completion.AUTO
    repeat: RepeatPlan | None = None
    reflect: ReflectPlan | None = None
    ground: GroundPlan | None = None
    fallbacks: tuple[str, ...] = ()
    """Further profiles of the plan, asked in this order when the one before can't be reached."""
    on_model_unavailable: OnModelUnavailable = OnModelUnavailable.FAIL
    compaction: CompactionPlan | None = None
    thread: bool = False
    reads_results: bool = False
    text_tool_calls: TextToolCalls = TextToolCalls.OFF
    gates: GatesPlan | None = None
    limit_expiry_ms: int = 0
    as_tool: AgentTool | None = None
    """Set for an agent that another one has as a tool; a call of it is a run of its own."""
    supervisor: SupervisorPlan | None = None
    """Who watches it from beside; None is nobody."""


@frozen
class HttpAction:
    """A request to a connection. Path, query and header values may hold `{{ name }}`.

    `body_json` is a JSON document whose strings may hold templates; None sends no body.
    """

    connection: str
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body_json: str | None


@frozen
class FunctionAction:
    """A Python function of the operator's roots, as `package.module:name`. `isolated`: in its own process."""

    function: str
    isolated: bool = False


@frozen
class McpAction:
    """A tool of an MCP connection, pinned by the digest of its description.

    `arguments_json` is an object of fixed arguments whose strings may hold templates.
    """

    connection: str
    tool: str
    arguments_json: str
    tool_digest: str


@frozen
class SqlAction:
    """A statement on a data source. Each `{{ name }}` in it is a bound parameter, never text.

    `max_rows` is the step's own cap, under that of the data source; None leaves it at that one.
    """

    connection: str
    statement: str
    max_rows: int | None


@frozen
class GrpcAction:
    """A unary method of a gRPC connection, `package.Service/Method`, pinned by the digest of its description.

    `arguments_json` is an object of fixed fields whose strings may hold templates.
    """

    connection: str
    method: str
    arguments_json: str
    method_digest: str


@frozen
class ChildAction:
    """A run of its own: of a workflow (`name`, `name@alias`, `name@digest`), or of an agent of this one.

    One of `workflow` and `agent` is empty.
    """

    workflow: str
    agent: str = ""
    share: SharePlan = NO_SHARE


@frozen
class WorkerAction:
    """A tool of a pool of workers, pinned by the digest of its description; "" if the workflow describes it.

    `arguments_json` is an object of fixed arguments whose strings may hold templates; `takes` are the names
    of those that the step's input fills. `wait_ms` is how long a call waits for somebody who serves the tool,
    None for as long as the pool says.
    """

    connection: str
    tool: str
    arguments_json: str
    tool_digest: str
    takes: tuple[str, ...]
    wait_ms: int | None


@frozen
class HumanOption:
    """An answer to choose. `value` is the signal of the step where the flow visits it."""

    value: str
    description: str = ""


@frozen
class HumanAction:
    """A question to a person; its text may hold `{{ name }}`.

    At most one of `options`, `schema_json` (of the object that the answer is) and `choices` (the argument by
    which whoever calls says what can be answered) is set; without any, the answer is words. `default_json` is
    the output if nobody answers in time; None ends the step for review.
    """

    question: str
    options: tuple[HumanOption, ...] = ()
    schema_json: str | None = None
    default_json: str | None = None
    choices: str = ""


@frozen
class ResultAction:
    """Reading in a result of the same run: what the built-in tool does. No workflow has a step of it."""


ToolAction = (
    HttpAction
    | FunctionAction
    | McpAction
    | SqlAction
    | GrpcAction
    | WorkerAction
    | ChildAction
    | HumanAction
    | ResultAction
)


@frozen
class ToolStep:
    """A step that does one thing. A model calls it as a tool, or the flow visits it."""

    step_id: str
    kind: str
    description: str
    input: Mapping[str, str] | None
    routes: Mapping[str, str]
    next_step: str
    effect: Effect
    action: ToolAction
    output_key: str
    timeout_ms: int
    result_chars: int
    on_unknown: OnUnknown
    unknown_expiry_ms: int
    policy: ToolPolicy = ToolPolicy()
    gates: GatesPlan | None = None
    """What is asked when the flow visits the step; a model that calls it brings its own step's."""
    approval: ApprovalPlan | None = None
    """The same of an approval."""


@frozen
class RouterCase:
    """When the CEL expression over the context is true, the step ends with this signal."""

    when: str
    signal: str


@frozen
class RouterStep:
    """A step that only chooses: the first case that is true, else `default`."""

    step_id: str
    kind: str
    description: str
    routes: Mapping[str, str]
    next_step: str
    cases: tuple[RouterCase, ...]


StepPlan = ModelStep | ToolStep | RouterStep


@frozen
class Plan:
    """A whole workflow, ready to run. `flow` is the spine; its first step starts the run.

    `digest` is the SHA-256 of the stored form, in hexadecimal; `revision` that of the source.
    """

    digest: str
    revision: str
    name: str
    flow: tuple[str, ...]
    steps: Mapping[str, StepPlan]
    models: Mapping[str, ModelPlan]
    bounds: RunBounds
    input_schema_json: str | None
    on_question: OnQuestion
    warnings: tuple[str, ...]
    """Files that were missing when the plan was made, in words; each becomes a notice."""
    preset: str = ""
    """The set of defaults that it was made with; empty in plans of before."""
    bounds_cap: BoundsCap | None = None
    """How far a live run's bounds may be raised; None where the workflow does not say."""

    pause: PausePlan | None = None
    """How long the run may be paused; None is for ever."""

    gates: GatesPlan | None = None
    """What is asked around the run itself. A plan in which any step asks somebody has some, if only empty."""

    def step(self, step_id: str) -> StepPlan:
        """The step of that name. Raises KeyError: a compiled plan routes only to known steps."""
        return self.steps[step_id]

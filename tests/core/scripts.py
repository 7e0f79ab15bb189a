"""Random scripts and small plans for the properties of the core."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from jackline_server.core import conditions as when
from jackline_server.core.commands import Abort, Action, AdjustBounds, Answer, Pause, Resume, Steer
from jackline_server.core.facts import (
    AbortMode,
    CallStatus,
    ConsultAnswer,
    FailureClass,
    FinishReason,
    Usage,
)
from jackline_server.core.folding.evolve_calls import UNKNOWN_OPTIONS
from jackline_server.core.gate_plans import ArgumentsView
from jackline_server.core.new_bounds import NewRunBounds, NewVisitBounds
from jackline_server.core.plan import (
    FINISH,
    AnswerForm,
    BoundsCap,
    ChoiceMode,
    CompactionMode,
    CompactionPlan,
    Completion,
    Effect,
    GroundPlan,
    ModelStep,
    OnJudgeError,
    OnLimit,
    OnPauseMax,
    OnUnknown,
    PausePlan,
    Plan,
    Price,
    PrunePlan,
    ReflectPlan,
    ToolChoice,
)
from jackline_server.core.repetition_plans import RepeatBy, RepeatPlan
from jackline_server.core.steps import Question, ToolAttempt
from jackline_server.core.supervisor_plans import (
    BudgetFraction,
    BudgetKind,
    ErrorRate,
    IterationReached,
    OnSupervisorError,
    RuleAction,
    RuleCondition,
    RuleExpression,
    RulePlan,
    RuleStage,
    SupervisorPlan,
    ToolRepeated,
)
from jackline_server.testing import plans
from jackline_server.testing.driving import Answers, Call, Ends, Fails, Reply, Says
from jackline_server.testing.supervisors import judge, rule
from tests.core import people

PRICE = Price(input_per_million=1_000_000, output_per_million=3_000_000)
TOOLS = {"look": Effect.READ, "read": Effect.READ, "put": Effect.IDEMPOTENT, "send": Effect.WRITE}
NUMBER = '{"type":"object","properties":{"n":{"type":"integer"}}}'

CALLS = st.builds(
    Call,
    name=st.sampled_from(
        [*TOOLS, *TOOLS, *people.ASKING, *people.ASKING, FINISH, FINISH, "nothing", "", "other", "two words"]
    ),
    arguments=st.sampled_from(
        [
            '{"outcome":"ok","result":1}',
            "{}",
            "{}",
            '{"n":1}',
            "",
            "{",
            "[]",
            '{"n":"x"}',
            '{"_p":1}',
            '{"n":NaN}',
            "\ud800",
        ]
    ),
    call_id=st.sampled_from(["", "", "a", "b", "call_2", "x" * 99, "a b"]),
)
USAGES = st.builds(
    Usage,
    prompt_tokens=st.sampled_from([0, 1, 50, 500, 5_000]),
    completion_tokens=st.sampled_from([0, 1, 20, 1_000]),
    estimated=st.booleans(),
)
TEXTS = st.sampled_from(
    [
        "",
        " ",
        "done",
        '{"outcome":"ok"}',
        '{"outcome":"no"}',
        '{"result":1}',
        "```\n{}\n```",
        "</data>",
        '{"score":1,"unsupported":[]}',
        '{"score":0.2,"unsupported":["</data>"]}',
        '{"passed": true}',
        '{"passed": false, "reason": "</data>"}',
        "x" * 500,
    ]
)
SAYS = st.builds(
    Says,
    text=TEXTS,
    calls=st.lists(CALLS, max_size=4).map(tuple),
    usage=st.none() | USAGES,
    finish=st.sampled_from([None, None, FinishReason.LENGTH, FinishReason.OTHER]),
    takes_ms=st.sampled_from([0, 10, 1_000, 30_000]),
)
ASKS = st.builds(
    Says,
    text=st.sampled_from(["", "let me look"]),
    calls=st.lists(CALLS, min_size=1, max_size=4).map(tuple),
    takes_ms=st.sampled_from([10, 1_000]),
)
FAILS = st.builds(
    Fails,
    failure=st.sampled_from(
        [
            *(one for one in FailureClass if one.may_pass),
            FailureClass.BAD_REQUEST,
            FailureClass.CONTEXT_OVERFLOW,
            FailureClass.CONTEXT_OVERFLOW,
        ]
    ),
    usage=USAGES,
    retry_after_ms=st.sampled_from([None, 0, 5_000]),
    takes_ms=st.sampled_from([0, 1_000]),
)
REPLIES: st.SearchStrategy[list[Reply]] = st.lists(ASKS | ASKS | SAYS | FAILS, min_size=1, max_size=8)
BY_CONTRACT = (AnswerForm.FINISH_TOOL, AnswerForm.NATIVE_SCHEMA)
SMALL = st.sampled_from([1, 2, 0, 3, 8])
BUDGETS = st.sampled_from([1_500, 600, 20_000, 1, 0])
TIMES = st.sampled_from([1_000, 40_000, 1, 0])
VISIT = {
    "max_iterations": SMALL,
    "model_requests": SMALL,
    "tool_calls": SMALL,
    "token_budget": BUDGETS,
    "cost_budget_micros": BUDGETS,
    "timeout_ms": TIMES,
}
RUN = {
    "run_timeout_ms": TIMES,
    "token_budget": BUDGETS,
    "cost_budget_micros": BUDGETS,
    "steps": SMALL,
    "events": st.sampled_from([30, 15, 5, 0]),
}


def tight(bounds: Mapping[str, st.SearchStrategy[int]]) -> st.SearchStrategy[Mapping[str, int]]:
    """One or two of the bounds, or none; the others stay generous, so that runs get somewhere."""
    names = st.lists(st.sampled_from(sorted(bounds)), max_size=2, unique=True)
    return names.flatmap(lambda found: st.fixed_dictionaries({name: bounds[name] for name in found}))


LEAVES: st.SearchStrategy[when.StopCondition] = st.sampled_from(
    [
        when.Iterations(gte=2),
        when.Tokens(gte=1_000),
        when.Elapsed(gte_ms=2_000),
        when.Confidence(gte_permille=550),
        when.NoToolCalls(),
        when.ToolCalled(name="look", success=True),
        when.ToolCalled(name="send", success=False),
        when.TextMention(text="look", case=False),
        when.Expression(cel="calls.exists(call, call.arguments.n == 1)"),
        when.Expression(cel="size(calls) > 2"),
        when.AskFunction(function="a:b", timeout_ms=1_000),
        when.AskFunction(function="a:c", timeout_ms=1_000),
    ]
)
CONDITIONS: st.SearchStrategy[when.StopCondition] = st.one_of(
    LEAVES,
    st.lists(LEAVES, min_size=1, max_size=3).map(lambda inner: when.AnyOf(conditions=tuple(inner))),
    st.lists(LEAVES, min_size=1, max_size=3).map(lambda inner: when.AllOf(conditions=tuple(inner))),
    LEAVES.map(lambda inner: when.Not(condition=inner)),
)


def an_answer(asked: Question) -> Answers:
    """What a function says: the same to the same question, in every run."""
    iterations = asked.variables["iterations"]
    answers = list(ConsultAnswer)
    assert isinstance(iterations, int)
    return Answers(answer=answers[(iterations + len(asked.who)) % len(answers)], error="no answer")


REPEATS = st.builds(
    RepeatPlan, by=st.sampled_from(RepeatBy), count=st.sampled_from([2, 3]), nudge=st.booleans()
)
REFLECTS = st.builds(ReflectPlan, every=st.sampled_from([1, 2]), guidance=st.booleans())
GROUNDS = st.builds(
    GroundPlan,
    model=st.just(plans.MODEL),
    threshold_permille=st.sampled_from([0, 650, 1_000]),
    max_replans=st.sampled_from([0, 1, 2]),
    on_error=st.sampled_from(OnJudgeError),
)


COMPACTIONS = st.builds(
    CompactionPlan,
    mode=st.sampled_from(CompactionMode),
    at_permille=st.sampled_from([800, 100, 1_000]),
    to_permille=st.sampled_from([500, 0, 90]),
    model=st.just(plans.MODEL),
    prune=st.none() | st.just(PrunePlan(keep_tokens=100, save_tokens=50)),
)


RULE_CONDITIONS: tuple[RuleCondition, ...] = (
    ToolRepeated(tool="", by=RepeatBy.ARGS, count=2),
    ToolRepeated(tool="look", by=RepeatBy.ARGS_RESULT, count=2),
    BudgetFraction(of=BudgetKind.TOKENS, gt_permille=200),
    BudgetFraction(of=BudgetKind.TIME, gt_permille=100),
    IterationReached(gte=1),
    ErrorRate(window=1, gt_permille=400),
    RuleExpression(cel="size(calls) > 1"),
    RuleExpression(cel="context.nothing > 1"),
)
BEFORE_CALLS = (RuleAction.DENY_CALL, RuleAction.PAUSE, RuleAction.ABORT, RuleAction.ASK)
AFTER_TURNS = (RuleAction.STEER, RuleAction.PAUSE, RuleAction.ABORT, RuleAction.ASK)


@st.composite
def supervisors(draw: st.DrawFn) -> SupervisorPlan:
    """One or two rules, and a judge or none."""
    rules: list[RulePlan] = []
    for at in range(draw(st.sampled_from([1, 2]))):
        stage = draw(st.sampled_from(RuleStage))
        actions = BEFORE_CALLS if stage is RuleStage.BEFORE_CALL else AFTER_TURNS
        rules.append(
            rule(
                draw(st.sampled_from(RULE_CONDITIONS)),
                draw(st.sampled_from(actions)),
                stage=stage,
                rearm=draw(st.sampled_from([0, 1])),
                at=at,
            )
        )
    judging = st.builds(
        judge,
        st.sampled_from(AFTER_TURNS),
        on_error=st.sampled_from(OnSupervisorError),
        every=st.sampled_from([1, 2]),
        view=st.sampled_from(ArgumentsView),
        blocking=st.booleans(),
    )
    return SupervisorPlan(rules=tuple(rules), judge=draw(st.none() | judging))


@st.composite
def agents(draw: st.DrawFn) -> ModelStep:
    """An agent with every tool, and those that ask people."""
    schemas = st.sampled_from([plans.ANY_OBJECT, NUMBER])
    caps = st.sampled_from([None, None, 1, 0, 2])
    approved = draw(st.dictionaries(st.sampled_from(sorted(TOOLS)), people.APPROVALS, max_size=2))
    entries = [
        plans.entry(
            name,
            max_calls=draw(caps),
            parameters_json=draw(schemas),
            writes_context=draw(st.booleans()),
            poll=draw(st.booleans()),
            approval=approved.get(name),
        )
        for name in TOOLS
    ]
    entries += [plans.entry(name, writes_context=True) for name in people.ASKING]
    form = draw(st.sampled_from([AnswerForm.JSON_TEXT, *AnswerForm]))
    explicit = form is AnswerForm.FINISH_TOOL and draw(st.booleans())
    return plans.agent(
        tools=tuple(entries),
        bounds=replace(plans.step_bounds(), **draw(tight(VISIT))),
        outcome=plans.outcome(
            enum=draw(st.sampled_from([(), ("ok",)])),
            repairs=draw(SMALL),
            form=form,
            contract_json=plans.ANY_OBJECT if form in BY_CONTRACT else None,
        ),
        completion=Completion.EXPLICIT if explicit else Completion.AUTO,
        on_limit=draw(st.sampled_from(OnLimit)),
        limit_expiry_ms=10**8,
        stop_when=draw(st.none() | CONDITIONS),
        tool_choice=draw(st.sampled_from([ToolChoice(), ToolChoice(mode=ChoiceMode.REQUIRED)])),
        max_parallel=draw(st.sampled_from([8, 1, 2])),
        routes=draw(st.sampled_from([{"aborted": "mend"}, {"*": "end"}, {"error": "mend", "*": "end"}])),
        repeat=draw(st.none() | REPEATS),
        reflect=draw(st.none() | REFLECTS),
        ground=draw(st.none() | GROUNDS),
        compaction=draw(st.none() | COMPACTIONS),
        supervisor=draw(st.none() | st.none() | supervisors()),
    )


COUNTS = ("max_iterations", "model_requests", "tool_calls", "steps")


@st.composite
def tiny_plans(draw: st.DrawFn) -> Plan:
    """An agent with four tools and those that ask people, and steps of the flow: one mends, one asks."""
    policy = draw(st.sampled_from(OnUnknown))
    tools = [plans.tool(name, effect, on_unknown=policy) for name, effect in TOOLS.items()]
    mend = plans.tool("mend", draw(st.sampled_from(Effect)), on_unknown=policy)
    bounds = replace(plans.run_bounds(), **draw(tight(RUN)))
    window = draw(st.sampled_from([128_000, 4_000, 1_000]))
    models = {plans.MODEL: plans.model(price=PRICE, max_output_tokens=300, context_window=window)}
    cap = draw(st.none() | st.builds(BoundsCap, **{name: st.none() | SMALL for name in COUNTS}))
    pause = draw(st.none() | st.builds(PausePlan, max_ms=st.just(10**8), then=st.sampled_from(OnPauseMax)))
    plan = plans.plan_of(draw(agents()), mend, *tools)
    plan = replace(plan, bounds=bounds, models=models, bounds_cap=cap, pause=pause)
    return draw(people.with_people(plan))


ENDS = st.sampled_from(
    [
        Ends(output={"n": 1}),
        Ends(output="x" * 9_000, takes_ms=1),
        Ends(status=CallStatus.FAILED, error="no"),
        Ends(status=CallStatus.UNKNOWN, error="lost", takes_ms=2_000),
    ]
)


@dataclass(frozen=True, slots=True)
class Endings:
    """Endings handed out in turn, for ever; the same attempt ends the same way in every run."""

    ends: tuple[Ends, ...]

    def __call__(self, attempt: ToolAttempt) -> Ends:
        """How this attempt ends. Nothing but a write can be of unknown outcome."""
        end = self.ends[(len(attempt.started.call_key) + attempt.started.attempt) % len(self.ends)]
        if end.status is CallStatus.UNKNOWN and attempt.step.effect is Effect.READ:
            return Ends(status=CallStatus.FAILED, error="no")
        return end


TOOLBOXES: st.SearchStrategy[Mapping[str, Callable[[ToolAttempt], Ends]]] = st.lists(
    ENDS, min_size=1, max_size=4
).map(
    lambda ends: {
        **{name: Endings(tuple(ends)) for name in (*TOOLS, "mend")},
        **dict.fromkeys(people.PEOPLE, people.asks),
    }
)

ACTIONS: st.SearchStrategy[Action] = st.one_of(
    st.just(Pause()),
    st.just(Resume()),
    st.sampled_from(["x", "</data>", "long " * 200]).map(lambda text: Steer(text=text)),
    tight(RUN).map(lambda run: AdjustBounds(run=NewRunBounds(**run))),
    tight(VISIT).map(lambda visit: AdjustBounds(visit=NewVisitBounds(**visit))),
    st.builds(Abort, mode=st.sampled_from(AbortMode), skip_routes=st.booleans()),
    st.sampled_from(UNKNOWN_OPTIONS).map(
        lambda option: Answer(interrupt_id="unknown-1-1", option=option, text="")
    ),
    people.ANSWERS,
    people.DECISIONS,
)
SENT: st.SearchStrategy[Mapping[int, Action]] = st.dictionaries(st.integers(0, 25), ACTIONS, max_size=4)

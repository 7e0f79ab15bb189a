"""The workflows of a simulated world: a few shapes, with bounds drawn tiny so that they are met.

Owns the dice of plans.
"""

import hashlib
import random
from dataclasses import replace
from typing import TypedDict

from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.core import conditions as when
from jackline_server.core.plan import (
    END,
    AnswerForm,
    BoundsCap,
    CompactionMode,
    CompactionPlan,
    Completion,
    Effect,
    GroundPlan,
    ModelPlan,
    ModelStep,
    OnFailure,
    OnJudgeError,
    OnLimit,
    OnModelUnavailable,
    OnQuestion,
    OnUnknown,
    OutcomePlan,
    Plan,
    Price,
    PrunePlan,
    ReflectPlan,
    StepBounds,
    StepPlan,
    TextToolCalls,
    ToolExecution,
    ToolPolicy,
    ToolStep,
)
from jackline_server.core.repetition_plans import RepeatBy, RepeatPlan
from jackline_server.testing import plans
from jackline_server.testing.simulation.gated import gated
from jackline_server.testing.simulation.supervised import supervised

_TOOLS = {
    "look": Effect.READ,
    "list": Effect.READ,
    "put": Effect.IDEMPOTENT,
    "change": Effect.WRITE,
}
CONTRACT = '{"type":"object","properties":{"outcome":{"enum":["done"]},"result":{}},"required":["outcome"]}'
"""What an answer is asked to be, where a plan has a contract."""

_ROOMY = 0.2
"""So many of the workflows have bounds that a run seldom meets."""

SHOWN_CHARS = 200
"""What a model is shown of a result at once: a long one is longer."""

CLEAN_UP = "undo"
"""The step that an abort is routed to, where a plan has it."""

FOLLOWING = "notify"
"""The step that follows an answer, where a plan has it."""


def draw_plans(chance: random.Random, count: int) -> dict[str, Plan]:
    """So many plans by their names, each with the digest of its stored form."""
    return {f"plan-{number}": _draw(chance, f"plan-{number}") for number in range(count)}


def _draw(chance: random.Random, name: str) -> Plan:
    tools = [_tool(chance, step_id) for step_id in chance.sample(sorted(_TOOLS), chance.randint(1, 3))]
    beyond = [step_id for step_id in (CLEAN_UP, FOLLOWING) if _happens(chance, 0.25)]
    steps: list[StepPlan] = [_agent(chance, tools, beyond), *tools]
    steps.extend(_tool(chance, step_id, chance.choice(list(Effect))) for step_id in beyond)
    plan = plans.plan_of(
        *steps,
        name=name,
        models={plans.MODEL: _model(chance)},
        bounds=plans.run_bounds(
            run_timeout_ms=_maybe(chance, 0.15, 2_000, 12_000),
            token_budget=_maybe(chance, 0.3, 300, 2_000),
            cost_budget_micros=_maybe(chance, 0.2, 200, 2_000),
            steps=chance.choice((1, 2, 8)),
            events=chance.choice((30, 20_000, 20_000)),
        ),
        on_question=OnQuestion.REVIEW if _happens(chance, 0.3) else OnQuestion.WAIT,
        warnings=("a file was missing",) if _happens(chance, 0.1) else (),
    )
    whole = _sealed(_with_fallbacks(_sealed(gated(_sealed(_with_policies(_sealed(plan)))))))
    return _sealed(supervised(whole))


def _sealed(plan: Plan) -> Plan:
    return replace(plan, digest=hashlib.sha256(ProtoCodec().encode_plan(plan)).hexdigest())


def _with_policies(plan: Plan) -> Plan:
    """The plan with rules for its tools, by dice of its own, so that all others fall as they fell."""
    chance = random.Random(plan.digest)  # noqa: S311 - chance of a simulation
    step = plan.steps[plans.AGENT]
    if not isinstance(step, ModelStep):
        return plan
    effects = {name: tool.effect for name, tool in _tools_of(plan).items()}
    agent = replace(
        step,
        tools=tuple(replace(tool, policy=_policy(chance, effects[tool.ref])) for tool in step.tools),
        tool_execution=chance.choice((ToolExecution.BY_EFFECT, *ToolExecution)),
        invalid_args=chance.choice((None, 0, 1, 3)),
        compaction=_compaction(chance),
    )
    own = random.Random(f"habits {plan.digest}")  # noqa: S311 - chance of a simulation
    agent = replace(agent, **_habits(own))
    if _happens(own, _ROOMY):
        agent = replace(agent, bounds=_roomy(agent.bounds), repeat=_repeat(own) or agent.repeat)
    if _happens(chance, 0.35):
        agent = replace(agent, on_limit=OnLimit.ASK, limit_expiry_ms=chance.randint(500, 20_000))
    cap = BoundsCap(
        token_budget=chance.choice((None, 3_000)),
        max_iterations=chance.choice((None, 6)),
        tool_calls=chance.choice((None, 8)),
    )
    tools = {name: replace(tool, result_chars=SHOWN_CHARS) for name, tool in _tools_of(plan).items()}
    return replace(plan, steps={**plan.steps, **tools, plans.AGENT: agent}, bounds_cap=cap)


class _Habits(TypedDict):
    thread: bool
    reads_results: bool
    text_tool_calls: TextToolCalls


def _habits(chance: random.Random) -> _Habits:
    """What a step does with conversations, long results and calls in text."""
    return _Habits(
        thread=_happens(chance, 0.7),
        reads_results=_happens(chance, 0.7),
        text_tool_calls=chance.choice(list(TextToolCalls)),
    )


def _roomy(bounds: StepBounds) -> StepBounds:
    """Bounds under which a conversation gets long."""
    return replace(bounds, max_iterations=8, model_requests=20, tool_calls=20, token_budget=None)


def _tools_of(plan: Plan) -> dict[str, ToolStep]:
    return {name: step for name, step in plan.steps.items() if isinstance(step, ToolStep)}


def _with_fallbacks(plan: Plan) -> Plan:
    """The plan with further models for its agent, or one that waits for its own; by dice of its own too."""
    chance = random.Random(f"models of {plan.digest}")  # noqa: S311 - chance of a simulation
    step = plan.steps[plans.AGENT]
    if not isinstance(step, ModelStep):
        return plan
    names = tuple(chance.sample(("slow", "far"), chance.choice((0, 0, 1, 2))))
    waits = _happens(chance, 0.3)
    agent = replace(
        step,
        fallbacks=names,
        on_model_unavailable=OnModelUnavailable.WAIT if waits else OnModelUnavailable.FAIL,
    )
    models = {name: replace(_model(chance), profile=name) for name in names}
    steps = {**plan.steps, plans.AGENT: agent}
    return replace(plan, steps=steps, models={**plan.models, **models})


def _compaction(chance: random.Random) -> CompactionPlan | None:
    """Shares so small that a few turns are a long conversation."""
    if _happens(chance, 0.3):
        return None
    return CompactionPlan(
        mode=chance.choice(list(CompactionMode)),
        at_permille=chance.choice((2, 3, 1_000)),
        to_permille=1,
        model=plans.MODEL,
        prune=PrunePlan(keep_tokens=10, save_tokens=1) if _happens(chance, 0.5) else None,
    )


def _policy(chance: random.Random, effect: Effect) -> ToolPolicy:
    return ToolPolicy(
        retries=chance.choice((0, 1, 2)) if effect.repeatable else 0,
        retry_base_ms=100,
        retry_cap_ms=400,
        on_error=OnFailure.FAIL if _happens(chance, 0.1) else OnFailure.OBSERVE,
        on_timeout=OnFailure.FAIL if _happens(chance, 0.1) else OnFailure.OBSERVE,
        reuse=_happens(chance, 0.15),
        serial_group="quay" if _happens(chance, 0.2) else "",
    )


def _outcome(chance: random.Random) -> OutcomePlan:
    """Text mostly; at times a contract, kept by a call of `finish` or by the provider's schema."""
    if _happens(chance, 0.6):
        return plans.outcome()
    form = chance.choice((AnswerForm.FINISH_TOOL, AnswerForm.FINISH_TOOL, AnswerForm.NATIVE_SCHEMA))
    return plans.outcome(enum=("done",), form=form, contract_json=CONTRACT, repairs=chance.choice((0, 1, 2)))


def _agent(chance: random.Random, tools: list[ToolStep], beyond: list[str]) -> StepPlan:
    routes = {"*": END}
    if CLEAN_UP in beyond:
        routes["aborted"] = CLEAN_UP
    if FOLLOWING in beyond:
        routes["default"] = FOLLOWING
    if _happens(chance, 0.15):
        routes["max_iterations"] = plans.AGENT
    outcome = _outcome(chance)
    by_call = outcome.form is AnswerForm.FINISH_TOOL
    return plans.agent(
        routes=routes,
        outcome=outcome,
        completion=Completion.EXPLICIT if by_call and _happens(chance, 0.5) else Completion.AUTO,
        tools=tuple(
            plans.entry(tool.step_id, max_calls=chance.choice((None, None, 1, 2)), writes_context=True)
            for tool in tools
        ),
        max_parallel=chance.choice((1, 2, 8)),
        on_limit=chance.choice((OnLimit.EXIT, OnLimit.FINAL_ANSWER)),
        stop_when=_stop_when(chance, tools),
        bounds=plans.step_bounds(
            max_iterations=chance.choice((1, 2, 3, 4)),
            model_requests=chance.choice((1, 2, 4, 8)),
            tool_calls=chance.choice((1, 2, 3, 6)),
            token_budget=_maybe(chance, 0.3, 200, 1_500),
            timeout_ms=_maybe(chance, 0.15, 1_000, 8_000),
            model_timeout_ms=3_000,
            idle_timeout_ms=2_000,
            tool_timeout_ms=3_000,
        ),
        repeat=_repeat(chance),
        reflect=ReflectPlan(every=chance.choice((1, 2)), guidance=True) if _happens(chance, 0.3) else None,
        ground=_ground(chance),
    )


def _repeat(chance: random.Random) -> RepeatPlan | None:
    if _happens(chance, 0.4):
        return None
    by = chance.choice(list(RepeatBy))
    return RepeatPlan(by=by, count=chance.choice((2, 3)), nudge=_happens(chance, 0.7))


def _ground(chance: random.Random) -> GroundPlan | None:
    if _happens(chance, 0.4):
        return None
    return GroundPlan(
        model=plans.MODEL,
        threshold_permille=650,
        max_replans=chance.choice((0, 0, 1)),
        on_error=chance.choice(list(OnJudgeError)),
    )


def _stop_when(chance: random.Random, tools: list[ToolStep]) -> when.StopCondition | None:
    if _happens(chance, 0.75):
        return None
    leaves: list[when.StopCondition] = [
        when.Iterations(gte=2),
        when.Tokens(gte=200),
        when.Elapsed(gte_ms=2_000),
        when.ToolCalled(name=tools[0].step_id, success=True),
        when.Expression(cel="size(calls) > 1"),
        when.Expression(cel="calls[0].arguments.missing"),
        when.AskFunction(function="checks:enough", timeout_ms=1_000),
        when.AskFunction(function="checks:stuck", timeout_ms=1_000),
    ]
    chosen = tuple(chance.sample(leaves, chance.choice((1, 2, 3))))
    return chance.choice((when.AnyOf(conditions=chosen), when.AllOf(conditions=chosen)))


def _tool(chance: random.Random, step_id: str, effect: Effect | None = None) -> ToolStep:
    return plans.tool(
        step_id,
        effect or _TOOLS[step_id],
        routes={"*": END},
        timeout_ms=3_000,
        on_unknown=chance.choice(list(OnUnknown)),
        unknown_expiry_ms=chance.randint(500, 20_000),
    )


def _model(chance: random.Random) -> ModelPlan:
    return plans.model(
        max_output_tokens=100,
        price=Price(input_per_million=1_000_000, output_per_million=3_000_000),
        retries=chance.choice((0, 1, 3)),
        retry_base_ms=100,
        retry_cap_ms=1_000,
    )


def _maybe(chance: random.Random, probability: float, least: int, most: int) -> int | None:
    return chance.randint(least, most) if _happens(chance, probability) else None


def _happens(chance: random.Random, probability: float) -> bool:
    return chance.random() < probability

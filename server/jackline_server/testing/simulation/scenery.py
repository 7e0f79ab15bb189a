"""The workflows of a simulated world: a few shapes, with bounds drawn tiny so that they are met.

Owns the dice of plans.
"""

import hashlib
import random
from dataclasses import replace

from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.core.plan import (
    END,
    Effect,
    ModelPlan,
    OnLimit,
    OnQuestion,
    OnUnknown,
    Plan,
    Price,
    StepPlan,
    ToolStep,
)
from jackline_server.testing import plans

_TOOLS = {
    "look": Effect.READ,
    "list": Effect.READ,
    "put": Effect.IDEMPOTENT,
    "change": Effect.WRITE,
}


def draw_plans(chance: random.Random, count: int) -> dict[str, Plan]:
    """So many plans by their names, each with the digest of its stored form."""
    return {f"plan-{number}": _draw(chance, f"plan-{number}") for number in range(count)}


def _draw(chance: random.Random, name: str) -> Plan:
    tools = [_tool(chance, step_id) for step_id in chance.sample(sorted(_TOOLS), chance.randint(1, 3))]
    clean_up = chance.random() < 0.2
    follows = chance.random() < 0.3
    steps: list[StepPlan] = [_agent(chance, tools, clean_up=clean_up, follows=follows), *tools]
    if follows:
        steps.append(plans.tool("notify", chance.choice(list(Effect)), routes={"*": END}, **_unknown(chance)))
    if clean_up:
        steps.append(plans.tool("undo", chance.choice(list(Effect)), routes={"*": END}, **_unknown(chance)))
    plan = plans.plan_of(
        *steps,
        name=name,
        models={plans.MODEL: _model(chance)},
        bounds=plans.run_bounds(
            run_timeout_ms=_maybe(chance, 0.15, 2_000, 12_000),
            token_budget=_maybe(chance, 0.3, 300, 2_000),
            steps=chance.choice((1, 2, 8)),
            events=chance.choice((30, 20_000, 20_000)),
        ),
        on_question=OnQuestion.REVIEW if chance.random() < 0.2 else OnQuestion.WAIT,
        warnings=("a file was missing",) if chance.random() < 0.1 else (),
    )
    data = ProtoCodec().encode_plan(plan)
    return replace(plan, digest=hashlib.sha256(data).hexdigest())


def _agent(chance: random.Random, tools: list[ToolStep], *, clean_up: bool, follows: bool) -> StepPlan:
    routes = {"*": END}
    if clean_up:
        routes["aborted"] = "undo"
    if follows:
        routes["default"] = "notify"
    return plans.agent(
        routes=routes,
        tools=tuple(
            plans.entry(tool.step_id, max_calls=chance.choice((None, None, 1, 2)), writes_context=True)
            for tool in tools
        ),
        max_parallel=chance.choice((1, 2, 8)),
        on_limit=chance.choice(list(OnLimit)),
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
    )


def _tool(chance: random.Random, step_id: str) -> ToolStep:
    return plans.tool(step_id, _TOOLS[step_id], timeout_ms=3_000, **_unknown(chance))


def _unknown(chance: random.Random) -> plans.ToolStepFields:
    return {"on_unknown": chance.choice(list(OnUnknown)), "unknown_expiry_ms": chance.randint(500, 20_000)}


def _model(chance: random.Random) -> ModelPlan:
    return plans.model(
        max_output_tokens=100,
        price=Price(input_per_million=1_000_000, output_per_million=3_000_000),
        retries=chance.choice((0, 1, 3)),
        retry_base_ms=100,
        retry_cap_ms=1_000,
    )


def _maybe(chance: random.Random, probability: float, least: int, most: int) -> int | None:
    return chance.randint(least, most) if chance.random() < probability else None

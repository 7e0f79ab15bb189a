"""Runs that start others in a simulated world: which workflows do, and with what.

Owns the dice of families, which are their own, so that worlds without any stay as they are; and the marks by
which a run is told from all others: a child's begins with its parent's.
"""

import hashlib
import random
import re
from collections.abc import Mapping
from dataclasses import replace

from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.core import json_text
from jackline_server.core.facts import RunStarted
from jackline_server.core.plan import (
    AgentTool,
    Completion,
    Effect,
    ModelStep,
    OnFailure,
    Plan,
    SharePlan,
    StepBounds,
    StepPlan,
    ToolPolicy,
    ToolStep,
)
from jackline_server.runtime.ports.journal import StoredEvent
from jackline_server.testing import plans
from jackline_server.testing.simulation.dice import dice_for

_SHARE = 0.3
"""So many of the worlds have families."""

ASK, HELPER, THEN = "ask", "helper", "then"
"""The tools that start a run: a workflow, an agent of the same one; and a step of the flow that does."""

STARTING = frozenset({ASK, HELPER})
WISHES = 0.5
"""How often a model that has such a tool calls it rather than another."""

LEAF = "leaf"
"""A workflow that is only ever at the bottom: what a step of the flow runs."""

_MARK = re.compile(r'"(mark|under)": ?"([^"]+)"')
_DEPTHS = (0, 1, 2, 2, 2)


def with_families(known: Mapping[str, Plan]) -> dict[str, Plan]:
    """The workflows of a world, some of which start each other; or as they are."""
    chance = dice_for("families ", known)
    if chance.random() >= _SHARE:
        return dict(known)
    names = sorted(known)
    leaf = _sealed(replace(known[names[-1]], name=LEAF))
    return {LEAF: leaf, **{name: _starting(chance, known[name], names) for name in names}}


def child_arguments(mark: str, hits: int, index: int) -> str:
    """The arguments of a call that starts a run: no two are equal."""
    return json_text.write({"mark": f"{mark}/{hits}.{index}"})


def mark_in(texts: list[str]) -> str:
    """The mark of the run that sends these texts; empty without any.

    Those of the runs before it in its thread stand before it, those of its children anywhere, and are longer.
    """
    found = [_marked(key, value) for text in texts for key, value in _MARK.findall(text)]
    least = min((one.count("/") for one in found), default=0)
    return next((one for one in reversed(found) if one.count("/") == least), "")


def mark_of(stored: StoredEvent) -> str:
    """The mark of a run, by its first event; empty without one."""
    fact = ProtoCodec().decode(stored).fact
    return mark_in([fact.input_json]) if isinstance(fact, RunStarted) else ""


def _marked(key: str, value: str) -> str:
    return value if key == "mark" else f"{value}/{THEN}"


def _sealed(plan: Plan) -> Plan:
    return replace(plan, digest=hashlib.sha256(ProtoCodec().encode_plan(plan)).hexdigest())


def _starting(chance: random.Random, plan: Plan, names: list[str]) -> Plan:
    """The plan with steps that start runs, some of them runs of the same plan."""
    agent = plan.steps[plans.AGENT]
    if not isinstance(agent, ModelStep):
        return plan
    steps: dict[str, StepPlan] = dict(plan.steps)
    chosen = chance.choice(((ASK,), (ASK,), (HELPER,), (ASK, HELPER), ()))
    if ASK in chosen:
        steps[ASK] = _step(chance, ASK, chance.choice(names), agent)
    if HELPER in chosen:
        steps[HELPER] = _helper(chance, agent)
    tools = (*agent.tools, *(_entry(chance, name) for name in chosen))
    if _happens(chance, 0.7):
        agent = replace(agent, outcome=plans.outcome(), completion=Completion.AUTO)
    boss = replace(agent, tools=tools, bounds=_roomy(chance, agent), max_parallel=chance.choice((1, 3, 3)))
    if not chosen or _happens(chance, 0.2):
        steps[THEN] = replace(_step(chance, THEN, LEAF, agent), input={"under": "/input/mark"})
        boss = replace(boss, routes={**boss.routes, "default": THEN})
    steps[plans.AGENT] = boss
    bounds = replace(
        plan.bounds,
        child_depth=chance.choice(_DEPTHS),
        steps=max(plan.bounds.steps, 2),
        token_budget=chance.choice((None, None, 4_000, 20_000)),
        cost_budget_micros=chance.choice((plan.bounds.cost_budget_micros, None, 9_000)),
        run_timeout_ms=chance.choice((plan.bounds.run_timeout_ms, None, None)),
    )
    return _sealed(replace(plan, steps=steps, bounds=bounds))


def _roomy(chance: random.Random, agent: ModelStep) -> StepBounds:
    """Bounds under which most agents can ask, and hear what they asked for."""
    own = agent.bounds
    return replace(
        own,
        max_iterations=max(own.max_iterations, chance.choice((2, 3))),
        model_requests=max(own.model_requests, chance.choice((4, 8))),
        tool_calls=max(own.tool_calls, chance.choice((2, 4))),
        token_budget=chance.choice((own.token_budget, None, None)),
    )


def _step(chance: random.Random, step_id: str, workflow: str, agent: ModelStep) -> ToolStep:
    step = plans.child(step_id, workflow, effect=chance.choice(list(Effect)), share=_share(chance))
    gates = None if agent.gates is None else replace(agent.gates, input=(), output=(), tools=())
    return replace(step, routes={"*": plans.END}, gates=gates)


def _helper(chance: random.Random, agent: ModelStep) -> ModelStep:
    return replace(
        agent,
        step_id=HELPER,
        routes={"*": plans.END},
        outcome=replace(agent.outcome, output_key="helper_result"),
        as_tool=AgentTool(effect=chance.choice(list(Effect)), share=_share(chance)),
        on_model_unavailable=agent.on_model_unavailable,
        thread=False,
    )


def _entry(chance: random.Random, name: str) -> plans.ToolEntry:
    fails = _happens(chance, 0.15)
    policy = ToolPolicy(
        retries=0,
        retry_base_ms=100,
        retry_cap_ms=400,
        on_error=OnFailure.FAIL if fails else OnFailure.OBSERVE,
        on_timeout=OnFailure.FAIL if fails else OnFailure.OBSERVE,
        reuse=False,
        serial_group="quay" if _happens(chance, 0.1) else "",
    )
    return replace(plans.entry(name, max_calls=chance.choice((1, 2, 3))), policy=policy)


def _share(chance: random.Random) -> SharePlan:
    return SharePlan(
        token_budget=chance.choice((None, None, None, 300, 3_000)),
        cost_budget_micros=chance.choice((None, None, None, 1_000)),
        run_timeout_ms=chance.choice((None, None, None, 1_500, 9_000)),
    )


def _happens(chance: random.Random, probability: float) -> bool:
    return chance.random() < probability

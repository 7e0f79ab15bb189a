"""People in a simulated world: which workflows ask them, and how they answer.

Owns the dice of both, which are their own, so that worlds in which nobody is asked stay as they are. People
choose, fill in and say; they decline, are wrong, are late, and answer what somebody else has answered.
"""

import hashlib
import random
from collections.abc import Mapping
from dataclasses import replace

from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.core import json_text
from jackline_server.core.commands import Answer
from jackline_server.core.plan import (
    ASK_PERSON,
    END,
    HumanAction,
    HumanOption,
    ModelStep,
    OnQuestion,
    Plan,
    StepBounds,
    StepPlan,
    ToolStep,
)
from jackline_server.core.state import Interrupt
from jackline_server.testing import plans

_SHARE = 0.3
"""So many of the workflows ask."""

_KIND = "human"
PERMIT = "permit"
"""The step of the flow that asks, before the agent or after it."""

SIGN, FILL = "sign", "fill"
"""The tools that ask for a choice and for a form; `ask_person` asks for words, or for one of some."""

NAMED = '{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}'
ASKING = frozenset({SIGN, FILL, ASK_PERSON})

_OPTIONS = ("approve", "reject", "later")
_DEFAULTS = {PERMIT: '{"option":"reject"}', SIGN: '{"option":"later"}', FILL: '{"name":"Nobody"}'}


def asks(plan: Plan) -> bool:
    """True for a workflow with a step that asks somebody."""
    return any(isinstance(step, ToolStep) and step.kind == _KIND for step in plan.steps.values())


def with_people(known: Mapping[str, Plan]) -> dict[str, Plan]:
    """The workflows of a world, some of which ask people."""
    return {name: _asking(plan) for name, plan in known.items()}


def question_arguments(chance: random.Random) -> str:
    """The arguments of a call of `ask_person`: for one of some answers, or for words."""
    return chance.choice(('{"question":"May I?","options":["yes","no"]}', '{"question":"Why?"}'))


def roomy(own: StepBounds) -> StepBounds:
    """Bounds under which an agent asks, and goes on with what it is told."""
    return replace(
        own,
        max_iterations=max(own.max_iterations, 3),
        model_requests=max(own.model_requests, 4),
        tool_calls=max(own.tool_calls, 3),
        token_budget=None,
    )


def answered(interrupt: Interrupt, chance: random.Random) -> Answer:
    """What somebody says to a question of a call: mostly what it asks for."""
    option = chance.choice(interrupt.options)
    if _happens(chance, 0.1):
        option = chance.choice(("perhaps", ""))
    text = chance.choice(_words(interrupt.schema_json)) if _happens(chance, 0.8) else ""
    return Answer(interrupt_id=interrupt.interrupt_id, option=option, text=text)


def _words(schema_json: str) -> tuple[str, ...]:
    if not schema_json:
        return ("", "but quickly")
    if json_text.parse_object(schema_json).get("type") == "string":
        return ("yes", "no", "because")
    return ('{"name":"Ann"}', '{"name":"Ann"}', '{"name":7}', "Ann")


def _asking(plan: Plan) -> Plan:
    """The plan with steps that ask, or as it is."""
    chance = random.Random(f"people {plan.digest}")  # noqa: S311 - chance of a simulation
    agent = plan.steps.get(plans.AGENT)
    if not isinstance(agent, ModelStep) or not _happens(chance, _SHARE):
        return plan
    names = chance.choice(((PERMIT,), (SIGN,), (FILL,), (ASK_PERSON,), (PERMIT, ASK_PERSON), (SIGN, FILL)))
    steps: dict[str, StepPlan] = {**plan.steps}
    steps |= {name: _step(chance, name, plan) for name in names}
    entries = tuple(plans.entry(name, writes_context=True) for name in names if name != PERMIT)
    own = agent.bounds
    tools = (*agent.tools, *entries)
    steps[plans.AGENT] = replace(agent, tools=tools, bounds=roomy(own) if entries else own)
    bounds = replace(plan.bounds, steps=max(plan.bounds.steps, 2))
    alone = plan.on_question is OnQuestion.REVIEW and _happens(chance, 0.4)
    on_question = OnQuestion.REVIEW if alone else OnQuestion.WAIT
    plan = replace(plan, steps=steps, bounds=bounds, on_question=on_question)
    if PERMIT in names:
        plan = _permitted(plan, first=_happens(chance, 0.6))
    return replace(plan, digest=hashlib.sha256(ProtoCodec().encode_plan(plan)).hexdigest())


def _permitted(plan: Plan, *, first: bool) -> Plan:
    """The plan whose agent has to be permitted `first`, or what follows the agent's answer."""
    agent, permit = plan.steps[plans.AGENT], plan.steps[PERMIT]
    follows = plans.AGENT if first else agent.routes.get("default", END)
    steps = {**plan.steps, PERMIT: replace(permit, routes={"approve": follows, "*": END})}
    if first:
        return replace(plan, steps=steps, flow=(PERMIT,))
    steps[plans.AGENT] = replace(agent, routes={**agent.routes, "default": PERMIT})
    return replace(plan, steps=steps)


def _step(chance: random.Random, name: str, plan: Plan) -> ToolStep:
    """A step that asks. Whoever is at the gates of the others is at its own."""
    options = _OPTIONS if name in (PERMIT, SIGN) else ()
    action = HumanAction(
        question="{{ question }}" if name == ASK_PERSON else "May it?",
        options=tuple(HumanOption(value=value) for value in options),
        schema_json=NAMED if name == FILL else None,
        default_json=_DEFAULTS.get(name) if _happens(chance, 0.6) else None,
        choices="options" if name == ASK_PERSON else "",
    )
    others = [step.gates for step in plan.steps.values() if isinstance(step, ToolStep)]
    return plans.tool(
        name,
        kind=_KIND,
        input={},
        routes={"*": END},
        action=action,
        gates=next((gates for gates in others if gates is not None), None),
        unknown_expiry_ms=chance.choice((300, 2_000, 20_000)),
    )


def _happens(chance: random.Random, probability: float) -> bool:
    return chance.random() < probability

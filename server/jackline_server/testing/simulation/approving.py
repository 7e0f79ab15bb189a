"""Approvals in a simulated world: which calls somebody has to let start, and what people decide about them.

Owns the dice of both, which are their own, so that worlds without any stay as they are. People approve, edit
and refuse; they decide about other bytes than those that were shown, in the last moment, and just after it.
"""

import hashlib
import random
from collections.abc import Mapping
from dataclasses import replace

from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.core.approval_plans import ApprovalPlan, OnExpiry
from jackline_server.core.commands import Approve, Decision, EditAndApprove, Reject
from jackline_server.core.plan import (
    Effect,
    HumanAction,
    ModelStep,
    OnQuestion,
    OnUnknown,
    Plan,
    StepPlan,
    ToolStep,
)
from jackline_server.core.state import Interrupt
from jackline_server.testing import plans
from jackline_server.testing.simulation.asking import ASKING, roomy
from jackline_server.testing.simulation.families import mark_in

_SHARE = 0.35
"""So many of the workflows have a tool whose calls have to be approved."""

PAY = "pay"
"""That tool."""

_SOME_OTHER = 0.3
_NOBODY_THERE = 0.15
_AT_THE_LAST_MOMENT = 0.5
_LONGEST_THOUGHT_MS = 5_000
_AROUND_THE_END_MS = (-20, -1, 0, 1, 5, 20, 200)


def approves(plan: Plan) -> bool:
    """True for a workflow with calls that have to be approved."""
    return PAY in plan.steps


def with_approvals(known: Mapping[str, Plan]) -> dict[str, Plan]:
    """The workflows of a world, some of which have calls that somebody has to let start."""
    return {name: _approved(plan) for name, plan in known.items()}


def payment(chance: random.Random) -> str:
    """The arguments of a call that has to be approved."""
    return f'{{"sum":{chance.choice((1, 2, 3))}}}'


def decided(interrupt: Interrupt, chance: random.Random) -> Decision:
    """What somebody decides about a call, mostly of what was shown."""
    digest = interrupt.digest
    if _happens(chance, 0.1):
        digest = hashlib.sha256(b"other bytes").hexdigest()
    match chance.choice(("approve", "approve", "edit", "reject")):
        case "approve":
            return Approve(interrupt_id=interrupt.interrupt_id, digest=digest)
        case "edit":
            arguments = chance.choice(_edits(interrupt.arguments_json))
            return EditAndApprove(
                interrupt_id=interrupt.interrupt_id, digest=digest, arguments_json=arguments
            )
        case _:
            return Reject(interrupt_id=interrupt.interrupt_id, text=chance.choice(("", "too much")))


def _edits(shown_json: str) -> tuple[str, ...]:
    """What somebody makes of arguments. Those of a child keep what tells it from all other runs."""
    if mark_in([shown_json]):
        return (shown_json, "{")
    return (shown_json, '{"sum":1}', '{"sum":0}', "{", '{"seen":7}')


def thought_ms(interrupt: Interrupt, chance: random.Random, *, unix_ms: int) -> int:
    """How long somebody thinks about a call: at times until its time is as good as over, or just is."""
    if interrupt.expires_unix_ms is None or not _happens(chance, _AT_THE_LAST_MOMENT):
        return 0
    left = interrupt.expires_unix_ms - unix_ms + chance.choice(_AROUND_THE_END_MS)
    return left if 0 < left < _LONGEST_THOUGHT_MS else 0


def _approved(plan: Plan) -> Plan:
    """The plan with calls that have to be approved, or as it is."""
    chance = random.Random(f"approvals {plan.digest}")  # noqa: S311 - chance of a simulation
    agent = plan.steps.get(plans.AGENT)
    if not isinstance(agent, ModelStep) or not _happens(chance, _SHARE):
        return plan
    bind = {"seen": chance.choice(("/look_result", "/pay_result"))} if _happens(chance, 0.6) else {}
    entry = plans.entry(PAY, bind=bind, writes_context=True, approval=_approval(chance))
    others = tuple(
        replace(tool, approval=_approval(chance))
        if tool.ref not in ASKING and _happens(chance, _SOME_OTHER)
        else tool
        for tool in agent.tools
    )
    steps: dict[str, StepPlan] = {name: _of_the_flow(chance, step) for name, step in plan.steps.items()}
    steps[PAY] = _pay(chance, plan)
    steps[plans.AGENT] = replace(agent, tools=(*others, entry), bounds=roomy(agent.bounds))
    alone = plan.on_question is OnQuestion.REVIEW and _happens(chance, _NOBODY_THERE)
    on_question = OnQuestion.REVIEW if alone else OnQuestion.WAIT
    plan = replace(plan, steps=steps, on_question=on_question)
    return replace(plan, digest=hashlib.sha256(ProtoCodec().encode_plan(plan)).hexdigest())


def _of_the_flow(chance: random.Random, step: StepPlan) -> StepPlan:
    """A step which the flow may not begin without somebody's word either, at times."""
    asks = not isinstance(step, ToolStep) or isinstance(step.action, HumanAction)
    if asks or not _happens(chance, _SOME_OTHER):
        return step
    return replace(step, approval=_approval(chance))


def _pay(chance: random.Random, plan: Plan) -> ToolStep:
    """The tool. Whoever is at the gates of the others is at its own."""
    others = [step.gates for step in plan.steps.values() if isinstance(step, ToolStep)]
    return plans.tool(
        PAY,
        Effect.DESTRUCTIVE,
        timeout_ms=3_000,
        on_unknown=chance.choice(tuple(OnUnknown)),
        unknown_expiry_ms=chance.randint(500, 20_000),
        gates=next((gates for gates in others if gates is not None), None),
    )


def _approval(chance: random.Random) -> ApprovalPlan:
    return plans.approval(
        chance.choice(("", "", "", "arguments.sum > 1", "arguments.nothing > 1")),
        expiry_ms=chance.choice((500, 2_000, 4_000, 20_000)),
        on_expiry=chance.choice((OnExpiry.REJECT, *OnExpiry)),
    )


def _happens(chance: random.Random, probability: float) -> bool:
    return chance.random() < probability

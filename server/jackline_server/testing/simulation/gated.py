"""Hooks, guardrails and a policy for the workflows of a simulated world, with dice of their own."""

import random
from dataclasses import replace

from jackline_server.core.gate_plans import (
    HOOK_POINTS,
    ArgumentsView,
    Check,
    DenyPattern,
    GatesPlan,
    GuardrailPlan,
    HookPlan,
    Judged,
    MaxChars,
    OnHookError,
    PolicyPlan,
)
from jackline_server.core.plan import ModelStep, Plan, StepPlan, ToolStep
from jackline_server.testing import plans

_SHARE = 0.2
"""So many of the workflows have any."""


def gated(plan: Plan) -> Plan:
    """The plan with somebody at its gates, or as it is."""
    chance = random.Random(f"gates {plan.digest}")  # noqa: S311 - chance of a simulation
    if not _happens(chance, _SHARE):
        return plan
    hooks = tuple(_hook(chance, name) for name in ("audit", "notes")[: chance.choice((0, 1, 1, 2))])
    policy = _policy(chance) if _happens(chance, 0.5) else None
    tools = _rails(chance, "tools", DenyPattern(pattern="broken"))
    around = GatesPlan(hooks=hooks)
    return replace(
        plan,
        gates=around,
        steps={
            name: _with(step, GatesPlan(hooks=hooks, policy=policy, tools=tools), chance)
            for name, step in plan.steps.items()
        },
    )


def _with(step: StepPlan, top: GatesPlan, chance: random.Random) -> StepPlan:
    match step:
        case ModelStep():
            output = _rails(chance, "output", MaxChars(most=100))
            given = _rails(chance, "input", MaxChars(most=10_000))
            return replace(step, gates=replace(top, input=given, output=output))
        case ToolStep():
            tools = tuple(rail for rail in top.tools if not isinstance(rail.check, Judged))
            return replace(step, gates=replace(top, tools=tools))
        case _:
            return step


def _hook(chance: random.Random, name: str) -> HookPlan:
    return HookPlan(
        name=name,
        points=frozenset(chance.sample(HOOK_POINTS, chance.randint(1, 4))),
        timeout_ms=chance.choice((300, 1_500)),
        on_error=OnHookError.IGNORE if _happens(chance, 0.6) else OnHookError.VETO,
    )


def _policy(chance: random.Random) -> PolicyPlan:
    return PolicyPlan(
        name="guard",
        view=ArgumentsView.FULL,
        timeout_ms=chance.choice((300, 1_500)),
        fails_open=_happens(chance, 0.5),
        ends=_happens(chance, 0.2),
    )


def _rails(chance: random.Random, gate: str, plain: Check) -> tuple[GuardrailPlan, ...]:
    judged = Judged(model=plans.MODEL, criteria="It is harmless.")
    checks = [check for check in (plain, judged) if _happens(chance, 0.4)]
    return tuple(
        GuardrailPlan(place=f"guardrails.{gate}[{index}]", check=check, ends=_happens(chance, 0.3))
        for index, check in enumerate(checks)
    )


def _happens(chance: random.Random, probability: float) -> bool:
    return chance.random() < probability

"""Who is asked around a run: hooks, loaded and made as the server does; policy services, asked once.

Owns one harmless question a service: about a read of a tool that no workflow has, without arguments. Loading
a hook runs the operator's code.
"""

import asyncio
from collections.abc import Sequence
from functools import partial

from jackline_server.bootstrap import Workbench
from jackline_server.commands.checks.findings import Check, Found, ok, problem
from jackline_server.config import Config
from jackline_server.core.facts import ConsultKind
from jackline_server.core.gate_plans import ArgumentsView
from jackline_server.policies.hook_catalog import HookCatalog, HookProblem
from jackline_server.policies.policy_services import NO_CONNECTION, PolicyServices
from jackline_server.runtime.ports.consultants import Consultation
from jackline_server.runtime.ports.gates import PolicyTarget

ASKED_ABOUT = "jackline_doctor"
"""The tool, the run and the call that a policy service is asked about."""

_LONGEST_MS = 5_000
_ADVICE = {
    "UNAUTHENTICATED": "it wants other headers: set `headers` in {section}",
    "PERMISSION_DENIED": "it refuses these headers: look at `headers` in {section}",
    "UNIMPLEMENTED": "it does not serve jackline.v1.PolicyService: look at `target` in {section}",
    "DEADLINE_EXCEEDED": "it is connected and did not answer in time: look at that server's log",
    "UNAVAILABLE": "look whether it is up, and at `target` and `tls` in {section}",
    NO_CONNECTION: "start that server, or correct `target` and `tls` in {section}",
}


def gate_checks(config: Config, bench: Workbench, *, limit_s: float) -> list[Check]:
    """A check for each hook and each policy service."""
    wait_ms = max(min(int(limit_s * 900), _LONGEST_MS), 1)
    return [
        *(Check(subject=f"hook {name}", look=partial(_hook, name, bench.hooks)) for name in config.hooks),
        *(
            Check(subject=f"policy {target.name}", look=partial(_policy, target, bench.policies, wait_ms))
            for target in config.policies.values()
        ),
    ]


async def _hook(name: str, catalog: HookCatalog) -> Sequence[Found]:
    subject = f"hook {name}"
    try:
        found = await asyncio.to_thread(catalog.find, name)
    except HookProblem as error:
        advice = f"look at [hooks.{name}], and that this Python can import its class"
        return [problem(subject, str(error), advice)]
    points = ", ".join(point.value for point in found.methods)
    return [ok(subject, f"loaded; it is asked at {points}")]


async def _policy(target: PolicyTarget, services: PolicyServices, wait_ms: int) -> Sequence[Found]:
    subject, section = f"policy {target.name}", f"[policies.{target.name}]"
    reply = await services.ask(_question(target.name, wait_ms))
    if reply.answer is None:
        word = reply.error if reply.error == NO_CONNECTION else reply.error.rpartition(" ")[2]
        advice = _ADVICE.get(word, "look at that server's log, and at {section}").format(section=section)
        return [problem(subject, f"{target.target}: {reply.error or 'it gave no answer'}", advice)]
    said = "allows" if reply.answer else "denies"
    return [ok(subject, f"{target.target}: it answers; it {said} a read of {ASKED_ABOUT}")]


def _question(name: str, wait_ms: int) -> Consultation:
    return Consultation(
        kind=ConsultKind.POLICY,
        target=name,
        run_id=ASKED_ABOUT,
        who=ASKED_ABOUT,
        variables={
            "tool": ASKED_ABOUT,
            "call_id": ASKED_ABOUT,
            "call_key": ASKED_ABOUT,
            "effect": "read",
            "arguments": {},
        },
        subject={},
        timeout_ms=wait_ms,
        view=ArgumentsView.METADATA,
    )

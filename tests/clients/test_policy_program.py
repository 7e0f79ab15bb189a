"""The policy service in Go, built and run as its page says, asked by the server's own client for it."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from jackline_server.core.facts import ConsultKind
from jackline_server.core.gate_plans import ArgumentsView, Point
from jackline_server.core.plan import JsonObject
from jackline_server.policies.masking import PiiMasks
from jackline_server.policies.policy_services import PolicyServices
from jackline_server.runtime.ports.consultants import Consultation, ConsultReply
from jackline_server.runtime.ports.gates import PolicyTarget
from tests.clients import building

pytestmark = pytest.mark.timeout(600)  # the first build fetches what the program needs

READY_S = 60


@asynccontextmanager
async def spending(*, most: int) -> AsyncGenerator[str]:
    """The service, and where it is."""
    if lacks := building.lacking(building.LANGUAGES["go"]):
        refuse = pytest.fail if os.environ.get("CI") else pytest.skip
        refuse(f"go: {lacks}")
    building.built("go")
    program = (str(building.CACHE / "go-policy"), "-listen", "127.0.0.1:0", "-most", str(most))
    process = await asyncio.create_subprocess_exec(*program, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        async with asyncio.timeout(READY_S):
            line = (await process.stdout.readline()).decode()
        yield line.removeprefix("listening on ").strip()
    finally:
        process.terminate()
        await process.wait()


async def asked(
    address: str, tool: str, arguments: JsonObject, *, view: ArgumentsView = ArgumentsView.FULL
) -> ConsultReply:
    target = PolicyTarget(name="spending", target=address, tls=None, headers={})
    services = PolicyServices({"spending": target}, masks=PiiMasks())
    try:
        return await services.ask(
            Consultation(
                kind=ConsultKind.POLICY,
                target="spending",
                run_id="run_1",
                who="policy.spending",
                variables={
                    "call_id": "call_1",
                    "tool": tool,
                    "effect": "write",
                    "call_key": "run_1.1",
                    "arguments": arguments,
                },
                subject={},
                timeout_ms=10_000,
                point=Point.BEFORE_TOOL_CALL,
                view=view,
            )
        )
    finally:
        await services.close()


async def test_the_service_keeps_transfers_under_its_limit_and_lets_everything_else_pass() -> None:
    async with spending(most=100) as address:
        small, large, other = await asyncio.gather(
            asked(address, "transfer", {"amount": 100}),
            asked(address, "transfer", {"amount": 100.5}),
            asked(address, "look", {}),
        )
        unknown = await asked(address, "transfer", {"amount": "much"})
        unseen = await asked(address, "transfer", {"amount": 1}, view=ArgumentsView.METADATA)
    assert (small.answer, other.answer) == (True, True)
    assert (large.answer, large.reason) == (False, "100.5 is more than 100")
    assert (unknown.answer, unseen.answer) == (False, False)

"""Policy services over real gRPC: what they are shown in each view, and what their silence is."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest

from jackline.v1 import plan_pb2, policy_pb2, run_pb2
from jackline_server.core.facts import ConsultKind
from jackline_server.core.gate_plans import ArgumentsView, Point
from jackline_server.policies.masking import PiiMasks
from jackline_server.policies.policy_services import NO_CONNECTION, PolicyServices
from jackline_server.runtime.ports.consultants import Consultation, RunPlace
from jackline_server.runtime.ports.gates import PolicyTarget
from jackline_server.runtime.ports.grpc import GrpcTls
from jackline_server.runtime.ports.secrets import Secret
from tests.policies.policy_double import ALLOW, DENY, Check, served
from tests.support.certificates import self_signed

ARGUMENTS = {"to": "ann@example.org", "amount": 5}


def target(address: str, *, tls: GrpcTls | None = None) -> PolicyTarget:
    return PolicyTarget(name="guard", target=address, tls=tls, headers={"Authorization": Secret("Bearer x")})


@asynccontextmanager
async def services(address: str, *, tls: GrpcTls | None = None) -> AsyncGenerator[PolicyServices]:
    made = PolicyServices({"guard": target(address, tls=tls)}, masks=PiiMasks())
    try:
        yield made
    finally:
        await made.close()


def question(
    *, view: ArgumentsView = ArgumentsView.FULL, timeout_ms: int = 5_000, name: str = "guard"
) -> Consultation:
    return Consultation(
        kind=ConsultKind.POLICY,
        target=name,
        run_id="run_1",
        who=f"policy.{name}",
        variables={
            "call_id": "call_1",
            "tool": "transfer",
            "effect": "write",
            "call_key": "run_1.1",
            "arguments": dict(ARGUMENTS),
        },
        subject={"mail": "bob@example.org"},
        timeout_ms=timeout_ms,
        point=Point.BEFORE_TOOL_CALL,
        view=view,
        place=RunPlace(workflow="pay", principal="tester", step_id="pay", visit=1, iteration=2),
    )


async def shown(view: ArgumentsView) -> policy_pb2.CheckRequest:
    async with served(lambda _: ALLOW) as double, services(double.address) as policies:
        assert (await policies.ask(question(view=view))).answer is True
    (request,) = double.asked
    return request


async def test_a_service_is_told_which_call_of_which_run_it_is_asked_about() -> None:
    request = await shown(ArgumentsView.FULL)
    assert (request.run_id, request.workflow, request.step_id) == ("run_1", "pay", "pay")
    assert (request.visit, request.iteration, request.principal) == (1, 2, "tester")
    assert (request.tool, request.call_id, request.call_key) == ("transfer", "call_1", "run_1.1")
    assert request.effect == run_pb2.EFFECT_WRITE
    assert request.arguments_json == b'{"to":"ann@example.org","amount":5}'


async def test_a_view_shows_no_more_than_it_says() -> None:
    nothing = await shown(ArgumentsView.METADATA)
    assert nothing.view == plan_pb2.ARGUMENTS_VIEW_METADATA
    assert not nothing.arguments_json
    assert not nothing.HasField("subject")
    masked = await shown(ArgumentsView.REDACTED)
    assert masked.arguments_json == b'{"to":"[email]","amount":5}'
    assert masked.subject["mail"] == "[email]"


async def test_a_denial_has_its_reason_and_the_operators_headers_go_along() -> None:
    async with served(lambda _: DENY) as double, services(double.address) as policies:
        reply = await policies.ask(question())
    assert (reply.answer, reply.reason) == (False, "not on a Monday")
    assert double.headers[0]["authorization"] == "Bearer x"


@pytest.mark.parametrize("length", [100_000, 5_000_000])
async def test_no_denial_is_so_long_that_it_is_no_answer(length: int) -> None:
    denial = policy_pb2.CheckResponse(decision=policy_pb2.POLICY_DECISION_DENY, reason="r" * length)
    async with served(lambda _: denial) as double, services(double.address) as policies:
        assert (await policies.ask(question())).answer is False


def raises(_: policy_pb2.CheckRequest) -> policy_pb2.CheckResponse:
    raise ValueError("a bug of the service")


def undecided(_: policy_pb2.CheckRequest) -> policy_pb2.CheckResponse:
    return policy_pb2.CheckResponse()


@pytest.mark.parametrize("check", [raises, undecided])
async def test_an_error_and_a_decision_that_is_none_are_no_answer(check: Check) -> None:
    async with served(check) as double, services(double.address) as policies:
        assert (await policies.ask(question())).answer is None


async def test_where_nothing_listens_there_is_no_connection() -> None:
    async with served(lambda _: ALLOW) as double:
        address = double.address
    async with services(address) as policies:
        assert (await policies.ask(question(timeout_ms=200))).error == NO_CONNECTION


async def test_a_service_that_is_connected_and_silent_is_said_to_be_late() -> None:
    async with served(lambda _: ALLOW, held=True) as double, services(double.address) as policies:
        assert (await policies.ask(question(timeout_ms=500))).error.endswith("DEADLINE_EXCEEDED")


async def test_a_service_that_does_not_answer_is_no_answer_in_its_time() -> None:
    async with served(lambda _: ALLOW, held=True) as double, services(double.address) as policies:
        async with asyncio.timeout(5):
            assert (await policies.ask(question(timeout_ms=100))).answer is None


async def test_nobody_at_the_address_and_no_such_service_are_no_answer() -> None:
    async with served(lambda _: ALLOW) as double:
        address = double.address
    async with services(address) as policies, asyncio.timeout(10):
        assert (await policies.ask(question(timeout_ms=200))).answer is None
        assert (await policies.ask(question(name="other"))).answer is None


async def test_a_cancelled_question_is_cancelled_at_the_service() -> None:
    async with served(lambda _: ALLOW, held=True) as double, services(double.address) as policies:
        task = asyncio.create_task(policies.ask(question(timeout_ms=60_000)))
        async with asyncio.timeout(10):
            await double.called.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task


async def over_tls(folder: Path, *, roots: Path, known: bool) -> bool | None:
    certificate, key = self_signed(folder, "service")
    own, own_key = self_signed(folder, "client")
    credentials = grpc.ssl_server_credentials(
        [(key.read_bytes(), certificate.read_bytes())],
        root_certificates=own.read_bytes(),
        require_client_auth=True,
    )
    trusted = certificate if roots == folder else roots
    tls = GrpcTls(roots=trusted, certificate=own if known else None, key=own_key if known else None)
    async with (
        served(lambda _: ALLOW, credentials=credentials) as double,
        services(double.address, tls=tls) as policies,
        asyncio.timeout(20),
    ):
        return (await policies.ask(question(timeout_ms=2_000))).answer


async def test_tls_needs_a_certificate_that_is_trusted_on_both_sides(tmp_path: Path) -> None:
    assert await over_tls(tmp_path, roots=tmp_path, known=True) is True
    assert await over_tls(tmp_path, roots=tmp_path, known=False) is None
    stranger, _ = self_signed(tmp_path, "stranger")
    assert await over_tls(tmp_path, roots=stranger, known=True) is None
    assert await over_tls(tmp_path, roots=tmp_path / "missing.pem", known=True) is None

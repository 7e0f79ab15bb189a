"""How a call ends that goes wrong: a status with details, and nothing of what happened inside."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import grpc
import grpc.aio
import pytest
from google.rpc import error_details_pb2  # pyright: ignore[reportMissingTypeStubs]  # ships its own types

from jackline.v1 import run_pb2
from jackline.v1.run_service_pb2 import (
    GetRunRequest,
    InlineWorkflow,
    StartRunRequest,
)
from jackline.v1.workflow_service_pb2 import (
    ValidateWorkflowRequest,
)
from jackline_server.api.limits import LIMITS, Limits
from jackline_server.identity.principals import Scope
from jackline_server.runtime.ports.codec import UnknownFact
from jackline_server.runtime.ports.store_errors import (
    AliasMoved,
    Fenced,
    StoreDamaged,
    StoreFull,
    StoreUnavailable,
)
from jackline_server.runtime.refusals import Reason, Refused, Violation
from tests.rpc.doubles import (
    FINISHED,
    RUN_ID,
    fold,
    snapshot_of,
)
from tests.rpc.harness import ALL, SECONDS, Harness, token_for

GET = GetRunRequest(run_id=RUN_ID)
SOURCE = InlineWorkflow(yaml="name: refunds", files={"a.md": b"A"})


@pytest.fixture
def limits(request: pytest.FixtureRequest) -> Limits:
    return getattr(request, "param", LIMITS)


def raising(error: BaseException) -> Callable[..., Any]:
    def answer(*_: object) -> None:
        raise error

    return answer


SECRET = "secret-text-of-an-exception"


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (StoreUnavailable(SECRET), grpc.StatusCode.UNAVAILABLE, "STORE_UNAVAILABLE"),
        (StoreFull(SECRET), grpc.StatusCode.RESOURCE_EXHAUSTED, "STORE_FULL"),
        (StoreDamaged(SECRET), grpc.StatusCode.DATA_LOSS, "DATA_LOSS"),
        (Fenced(SECRET), grpc.StatusCode.UNAVAILABLE, "STORE_UNAVAILABLE"),
        (AliasMoved("d" * 64), grpc.StatusCode.ABORTED, "ALIAS_MOVED"),
        (UnknownFact(SECRET), grpc.StatusCode.FAILED_PRECONDITION, "DATA_VERSION_NEWER"),
        (ValueError(SECRET), grpc.StatusCode.INTERNAL, "INTERNAL"),
        (KeyError(SECRET), grpc.StatusCode.INTERNAL, "INTERNAL"),
        (TimeoutError(SECRET), grpc.StatusCode.INTERNAL, "INTERNAL"),
        (RecursionError(SECRET), grpc.StatusCode.INTERNAL, "INTERNAL"),
        (asyncio.CancelledError(SECRET), grpc.StatusCode.INTERNAL, "INTERNAL"),
        (StopAsyncIteration(SECRET), grpc.StatusCode.INTERNAL, "INTERNAL"),
        (ExceptionGroup(SECRET, [ValueError(SECRET)]), grpc.StatusCode.INTERNAL, "INTERNAL"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else str(value),
)
async def test_whatever_a_use_case_raises_becomes_a_status_without_its_text(
    door: Harness,
    caplog: pytest.LogCaptureFixture,
    error: BaseException,
    code: grpc.StatusCode,
    reason: str,
) -> None:
    door.script.on("get", raising(error))
    refused = await door.refused("GetRun", GET)
    assert (refused.code, refused.reason) == (code, reason)
    assert SECRET not in str(refused.status)
    assert SECRET not in refused.message
    if reason == "INTERNAL":
        incident = refused.info.metadata["incident_id"]
        assert refused.detail(error_details_pb2.RequestInfo).request_id == incident
        assert [vars(record)["incident_id"] for record in caplog.records] == [incident]


async def test_a_refusal_keeps_its_metadata_and_says_when_to_try_again(door: Harness) -> None:
    door.script.on(
        "start",
        raising(Refused(Reason.RUN_LIMIT, "Too many runs.", metadata={"limit": "200"}, retry_after_ms=2_500)),
    )
    refused = await door.refused("StartRun", StartRunRequest(workflow="w"))
    assert (refused.code, refused.info.metadata["limit"]) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "200")
    retry = refused.detail(error_details_pb2.RetryInfo).retry_delay
    assert (retry.seconds, retry.nanos) == (2, 500_000_000)
    assert refused.detail(error_details_pb2.QuotaFailure).violations[0].subject == "run_limit"


async def test_a_huge_refusal_still_arrives_as_what_it_is(door: Harness) -> None:
    door.script.on(
        "check",
        raising(
            Refused(
                Reason.INVALID_WORKFLOW,
                "The workflow has errors.\n" + "\u00fc" * 5000,
                metadata={"errors": "x" * 9000},
                violations=tuple(
                    Violation(field="f" * 300, description="d" * 900, reason="R") for _ in range(300)
                ),
            )
        ),
    )
    refused = await door.refused("ValidateWorkflow", ValidateWorkflowRequest(workflow=SOURCE))
    assert (refused.code, refused.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_WORKFLOW")
    assert len(refused.message) <= 1024
    assert refused.message.isascii()
    assert refused.info.metadata["truncated"] == "true"
    assert 0 < len(refused.fields) <= 20
    assert refused.status.ByteSize() < 8000


@pytest.mark.parametrize("limits", [replace(LIMITS, call_seconds=1)], indirect=True)
async def test_a_call_has_an_end_and_a_wait_has_its_own(door: Harness) -> None:
    cancelled = asyncio.Event()

    async def hang(*_: object) -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            cancelled.set()

    door.script.on("get", hang)
    refused = await door.refused("GetRun", GET)
    assert (refused.code, refused.reason) == (grpc.StatusCode.DEADLINE_EXCEEDED, "CALL_TIMED_OUT")
    assert cancelled.is_set()


async def test_a_caller_that_gives_up_frees_what_served_it(door: Harness) -> None:
    begun, freed = asyncio.Event(), asyncio.Event()

    async def hang(*_: object) -> None:
        begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            freed.set()

    door.script.on("get", hang)
    call = door.unary("/jackline.v1.RunService/GetRun")(GET.SerializeToString(), metadata=door.metadata(ALL))
    async with asyncio.timeout(SECONDS):
        await begun.wait()
        call.cancel()
        await freed.wait()


@pytest.mark.parametrize("limits", [replace(LIMITS, message_bytes=2000)], indirect=True)
async def test_an_answer_that_is_too_large_is_refused_by_name(door: Harness) -> None:
    state = fold(*FINISHED, input_json='"' + "a" * 4000 + '"')
    door.script.always("get", snapshot_of(state))
    refused = await door.refused("GetRun", GetRunRequest(run_id=RUN_ID, view=run_pb2.VIEW_FULL))
    assert (refused.reason, refused.info.metadata["field"]) == ("FIELD_TOO_LARGE", "view")


@pytest.mark.parametrize("given", ["", "my-request-1", "bad id", "x" * 65])
async def test_every_answer_names_its_request(door: Harness, given: str) -> None:
    metadata = (*door.metadata(ALL), *([("x-request-id", given)] if given else []))
    ok = door.unary("/jackline.v1.RunService/GetServerInfo")(b"", metadata=metadata)
    await ok
    bad = door.unary("/jackline.v1.RunService/GetRun")(b"", metadata=metadata)
    with pytest.raises(grpc.aio.AioRpcError):
        await bad
    for call in (ok, bad):
        named = [value for key, value in await call.trailing_metadata() if key == "x-request-id"]
        assert len(named) == 1
        assert (named[0] == given) == (given == "my-request-1")


@pytest.mark.parametrize("scope", list(Scope))
@pytest.mark.parametrize(
    ("method", "needs"),
    [
        ("StartRun", {Scope.RUNS_START}),
        ("Control", {Scope.RUNS_CONTROL, Scope.RUNS_APPROVE, Scope.RUNS_BOUNDS}),
        ("GetRun", {Scope.RUNS_OBSERVE}),
        ("WaitRun", {Scope.RUNS_OBSERVE}),
        ("ListRuns", {Scope.RUNS_OBSERVE}),
        ("ListToolCalls", {Scope.RUNS_OBSERVE}),
        ("GetToolCallResult", {Scope.RUNS_CONTENT}),
        ("ListRunMessages", {Scope.RUNS_CONTENT}),
        ("ListInterrupts", {Scope.RUNS_OBSERVE}),
        ("ValidateWorkflow", {Scope.WORKFLOWS_READ}),
        ("PutWorkflow", {Scope.WORKFLOWS_WRITE}),
        ("GetWorkflow", {Scope.WORKFLOWS_READ}),
        ("ListWorkflows", {Scope.WORKFLOWS_READ}),
        ("DescribeWorkflow", {Scope.WORKFLOWS_READ}),
    ],
)
async def test_permission_comes_before_syntax(
    door: Harness, method: str, needs: set[Scope], scope: Scope
) -> None:
    refused = await door.refused(method, b"\xff\xff", token=token_for(scope))
    assert refused.reason == ("MALFORMED_REQUEST" if scope in needs else "SCOPE_MISSING")

"""Unary calls: ids, retries, errors by reason, pages."""

import re
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import grpc
import pytest

from jackline.v1 import run_service_pb2 as wire
from jackline.v1 import workflow_service_pb2 as workflow_wire
from jackline.v1.error_reason_pb2 import ErrorReason
from jackline.v1.run_pb2 import Interrupt, Run, RunBounds, RunState
from jackline_client import JacklineClient, RunFilter, errors
from jackline_client.errors import (
    BY_REASON,
    BY_STATUS,
    CallError,
    InvalidRequest,
    RequestIdReused,
    Unavailable,
)
from tests.support.scripted_service import (
    RUN_ID,
    Failure,
    ScriptedService,
    ended_run,
    receipt,
    small_log,
    started,
)

UNAVAILABLE = Failure(code=grpc.StatusCode.UNAVAILABLE)
PROTO = Path(__file__).parents[2] / "proto/jackline/v1/error_reason.proto"


async def test_a_start_carries_its_input_exactly_and_an_id(
    service: ScriptedService, client: JacklineClient
) -> None:
    service.script("StartRun", started())
    answer = await client.start_run(
        "refunds", input={"n": 2**60, "s": "ü"}, labels={"a": "b"}, bounds=RunBounds(token_budget=0)
    )
    (request,) = service.requests(wire.StartRunRequest)
    assert answer.run.run_id == RUN_ID
    assert request.input_json == '{"n":1152921504606846976,"s":"ü"}'.encode()
    assert request.bounds.HasField("token_budget")
    assert re.fullmatch(r"[!-~]{1,128}", request.request_id)


@pytest.mark.parametrize("method", ["StartRun", "Control", "GetRun"])
async def test_an_idempotent_call_is_repeated_with_the_same_id_while_the_server_is_unavailable(
    service: ScriptedService, client: JacklineClient, method: str
) -> None:
    good = {"StartRun": started(), "Control": receipt(), "GetRun": ended_run(small_log())}
    service.script(method, UNAVAILABLE, UNAVAILABLE, good[method])
    if method == "StartRun":
        await client.start_run("refunds")
        assert len({request.request_id for request in service.requests(wire.StartRunRequest)}) == 1
    elif method == "Control":
        await client.steer(RUN_ID, "slowly")
        assert len({request.command_id for request in service.requests(wire.ControlRequest)}) == 1
    else:
        await client.get_run(RUN_ID)
    assert len(service.asked) == 3


async def test_a_call_that_is_not_idempotent_is_made_once(
    service: ScriptedService, client: JacklineClient
) -> None:
    service.script("PutWorkflow", UNAVAILABLE)
    with pytest.raises(Unavailable):
        await client.put_workflow("name: x")
    assert len(service.requests(workflow_wire.PutWorkflowRequest)) == 1


async def test_an_error_is_a_class_by_its_reason_with_everything_that_varies(
    service: ScriptedService, client: JacklineClient
) -> None:
    service.script(
        "StartRun",
        Failure(code=grpc.StatusCode.ALREADY_EXISTS, reason="REQUEST_ID_REUSED", metadata={"run_id": RUN_ID}),
        Failure(
            code=grpc.StatusCode.INVALID_ARGUMENT,
            reason="INVALID_REQUEST",
            violations=(("labels", "too many"), ("deadline", "in the past")),
        ),
        Failure(code=grpc.StatusCode.RESOURCE_EXHAUSTED, reason="RUN_LIMIT", retry_after_s=2.5),
    )
    with pytest.raises(RequestIdReused) as reused:
        await client.start_run("refunds")
    assert (reused.value.code, reused.value.metadata) == ("ALREADY_EXISTS", {"run_id": RUN_ID})
    with pytest.raises(InvalidRequest) as invalid:
        await client.start_run("refunds")
    assert [one.field for one in invalid.value.field_violations] == ["labels", "deadline"]
    with pytest.raises(errors.RunLimit) as limit:
        await client.start_run("refunds")
    assert limit.value.retry_after_s == 2.5


@pytest.mark.parametrize("code", [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK])
@pytest.mark.parametrize("reason", ["", "A_REASON_OF_TOMORROW"])
async def test_an_error_without_a_known_reason_is_a_class_by_its_code(
    service: ScriptedService, client: JacklineClient, code: grpc.StatusCode, reason: str
) -> None:
    service.script("WaitRun", Failure(code=code, reason=reason))
    with pytest.raises(CallError) as error:
        await client.wait_run(RUN_ID)
    assert type(error.value) is BY_STATUS[code.name]


def test_every_reason_of_the_contract_has_a_class_under_its_status_code() -> None:
    names = {name.removeprefix("ERROR_REASON_") for name, value in ErrorReason.items() if value}
    assert set(BY_REASON) == names
    commented = re.findall(r"// ([A-Z_]+)(?:,|:)[^;]*?ERROR_REASON_([A-Z_]+) =", PROTO.read_text())
    assert len(commented) >= 30
    for status, reason in commented:
        assert issubclass(BY_REASON[reason], BY_STATUS[status]), reason


async def test_lists_go_on_over_all_pages_with_the_same_filter(
    service: ScriptedService, client: JacklineClient
) -> None:
    service.script(
        "ListRuns",
        wire.ListRunsResponse(runs=[Run(run_id="run_c"), Run(run_id="run_b")], next_page_token="t"),
        wire.ListRunsResponse(runs=[Run(run_id="run_a")]),
    )
    wanted = RunFilter(states=(RunState.RUN_STATE_FAILED,), labels={"team": "a"})
    assert [run.run_id async for run in client.list_runs(wanted, page_size=2)] == ["run_c", "run_b", "run_a"]
    first, second = service.requests(wire.ListRunsRequest)
    assert (first.page_token, second.page_token) == ("", "t")
    assert first.labels == second.labels == {"team": "a"}
    assert list(second.states) == [RunState.RUN_STATE_FAILED]


async def test_each_method_reaches_its_call(service: ScriptedService, client: JacklineClient) -> None:
    service.script("Control", *[receipt() for _ in range(6)])
    service.script("ListInterrupts", wire.ListInterruptsResponse(interrupts=[Interrupt(interrupt_id="i1")]))
    service.script("ListToolCalls", wire.ListToolCallsResponse())
    service.script("ListRunMessages", wire.ListRunMessagesResponse())
    service.script("GetServerInfo", wire.GetServerInfoResponse(version="1"))
    service.script("WaitRun", wire.WaitRunResponse(), wire.WaitRunResponse(finished=True))
    service.script("ValidateWorkflow", workflow_wire.ValidateWorkflowResponse(valid=True))
    service.script("GetWorkflow", workflow_wire.GetWorkflowResponse())
    service.script("ListWorkflows", workflow_wire.ListWorkflowsResponse())
    service.script("DescribeWorkflow", workflow_wire.DescribeWorkflowResponse())
    await client.pause(RUN_ID)
    await client.resume(RUN_ID)
    await client.steer(RUN_ID, "slowly", reason="why", command_id="mine")
    await client.abort(RUN_ID, graceful=True)
    await client.answer(RUN_ID, "i1", "happened")
    await client.submit_tool_result(RUN_ID, "call_1", output={"ok": True})
    assert [one.interrupt_id async for one in client.list_interrupts()] == ["i1"]
    assert await client.list_tool_calls(RUN_ID) == []
    assert await client.list_run_messages(RUN_ID) == []
    assert (await client.get_server_info()).version == "1"
    assert (await client.wait_run(RUN_ID, timeout_s=100)).finished
    assert (await client.validate_workflow("name: x")).valid
    await client.get_workflow("x")
    assert [one async for one in client.list_workflows()] == []
    await client.describe_workflow("x")
    commands = [request.WhichOneof("command") for request in service.requests(wire.ControlRequest)]
    assert commands == ["pause", "resume", "steer", "abort", "answer", "submit_tool_result"]
    assert service.requests(wire.ControlRequest)[2].command_id == "mine"


@pytest.mark.parametrize("both", [True, False])
async def test_a_workflow_is_named_or_given_and_never_both_or_neither(
    client: JacklineClient, both: bool
) -> None:
    with pytest.raises(ValueError, match="either"):
        await (client.start_run("x", inline_yaml="name: x") if both else client.start_run())


@pytest.mark.parametrize("name", ["bogus", "lables", "wiat", "request"])
async def test_an_unknown_option_is_a_type_error_before_anything_is_sent(
    service: ScriptedService, client: JacklineClient, name: str
) -> None:
    given: dict[str, Any] = {name: 1}
    calls: tuple[Awaitable[object], ...] = (
        client.start_run("refunds", **given),
        client.pause(RUN_ID, **given),
        client.resume(RUN_ID, **given),
        client.steer(RUN_ID, "slowly", **given),
        client.abort(RUN_ID, **given),
        client.answer(RUN_ID, "int_1", "yes", **given),
        client.submit_tool_result(RUN_ID, "call_1", error="no", **given),
    )
    for call in calls:
        with pytest.raises(TypeError, match=name):
            await call
    assert service.asked == []


async def test_files_without_the_workflow_that_names_them_are_refused(client: JacklineClient) -> None:
    with pytest.raises(ValueError, match="inline_yaml"):
        await client.start_run("refunds", files={"a/skills/b.md": b"c"})

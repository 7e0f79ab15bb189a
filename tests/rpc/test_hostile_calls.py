"""Hostile requests: each row is thrown at a real server and has one answer; then the server is as before.

The rows are those of BI1 to BI44 that this door serves. Whatever a row does, no use case is asked, the answer
has exactly one ErrorInfo, the code is never UNKNOWN, a health check answers and no task is left over (the
fixture's business).
"""

import gzip
import struct
from collections.abc import Callable
from dataclasses import dataclass

import grpc
import grpc.aio
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.struct_pb2 import ListValue, Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp

from jackline.v1.control_pb2 import (
    AnswerCommand,
    Expectation,
    PauseCommand,
    SteerCommand,
    SubmitToolResultCommand,
)
from jackline.v1.run_pb2 import RunBounds
from jackline.v1.run_service_pb2 import (
    ControlRequest,
    GetRunRequest,
    GetToolCallResultRequest,
    InlineWorkflow,
    ListInterruptsRequest,
    ListRunMessagesRequest,
    ListRunsRequest,
    ListToolCallsRequest,
    StartRunRequest,
    StreamProgressRequest,
    WaitRunRequest,
)
from jackline.v1.workflow_service_pb2 import (
    GetWorkflowRequest,
    ListWorkflowsRequest,
    PutWorkflowRequest,
    ValidateWorkflowRequest,
)
from tests.rpc.doubles import RUN_ID
from tests.rpc.harness import ALL, Harness, ended

MIB = 1024 * 1024
NAMES = {
    StartRunRequest: "StartRun",
    ControlRequest: "Control",
    GetRunRequest: "GetRun",
    WaitRunRequest: "WaitRun",
    ListRunsRequest: "ListRuns",
    ListToolCallsRequest: "ListToolCalls",
    GetToolCallResultRequest: "GetToolCallResult",
    ListRunMessagesRequest: "ListRunMessages",
    ListInterruptsRequest: "ListInterrupts",
    ValidateWorkflowRequest: "ValidateWorkflow",
    PutWorkflowRequest: "PutWorkflow",
    GetWorkflowRequest: "GetWorkflow",
    ListWorkflowsRequest: "ListWorkflows",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One request, and the fields that the answer names."""

    name: str
    request: Message
    fields: tuple[str, ...]
    reason: str = "INVALID_REQUEST"


def raw(kind: type[Message], data: bytes) -> Message:
    """A message with fields that its constructor would refuse."""
    return kind.FromString(data)


def deep(levels: int) -> Struct:
    """A struct of so many levels."""
    inner = Struct()
    for _ in range(levels - 1):
        inner = Struct(fields={"a": Value(struct_value=inner)})
    return inner


def holding(value: Value) -> Struct:
    return Struct(fields={"a": value})


def start(**fields: object) -> StartRunRequest:
    return StartRunRequest(workflow="refunds", **fields)  # pyright: ignore[reportArgumentType]  # by row


def control(**fields: object) -> ControlRequest:
    return ControlRequest(run_id=RUN_ID, **fields)  # pyright: ignore[reportArgumentType]  # by row


def bounded(**fields: object) -> StartRunRequest:
    return start(bounds=RunBounds(**fields))  # pyright: ignore[reportArgumentType]  # by row


BAD_IDS = {
    "empty": "",
    "slash": "run_/../../../../etc/passwd",
    "percent": "run_%2e%2e%2f",
    "long": "run_" + "a" * 1000,
    "emoji": "run_" + "\U0001f600" * 26,
    "upper case": RUN_ID.upper(),
    "newline": RUN_ID + "\n",
    "short": RUN_ID[:-1],
    "other digits": "run_" + "\u0661" * 26,
}

ROWS = [
    Row(name="BI7 empty start", request=StartRunRequest(), fields=("source",)),
    Row(name="BI7 empty control", request=ControlRequest(), fields=("run_id", "command")),
    Row(
        name="an expectation of a later version, which would be none",
        request=control(pause=PauseCommand(), expect=Expectation.FromString(b"\x9a\x06\x01a")),
        fields=("expect",),
    ),
    Row(
        name="BI7 all at once",
        request=StartRunRequest(
            inline_workflow=InlineWorkflow(),
            request_id="a b",
            labels={"UPPER": "x", "ok": "y" * 256},
            input_json=b"{",
            deadline=Timestamp(seconds=1),
            bounds=RunBounds(run_timeout=Duration(seconds=-1)),
        ),
        fields=(
            "bounds.run_timeout",
            "deadline",
            "inline_workflow.yaml",
            "input_json",
            'labels["UPPER"]',
            'labels["ok"]',
            "request_id",
        ),
    ),
    Row(
        name="BI9 view",
        request=raw(GetRunRequest, b"\x0a\x1e" + RUN_ID.encode() + b"\x10\x63"),
        fields=("view",),
    ),
    Row(
        name="BI9 state", request=raw(ListRunsRequest, b"\x0a\x02\x63\x64"), fields=("states[0]", "states[1]")
    ),
    Row(name="BI9 state unspecified", request=raw(ListRunsRequest, b"\x0a\x01\x00"), fields=("states[0]",)),
    Row(name="BI9 on_question", request=raw(StartRunRequest, b"\x0a\x01w\x50\x63"), fields=("on_question",)),
    Row(
        name="BI9 wait",
        request=raw(ControlRequest, b"\x0a\x1e" + RUN_ID.encode() + b"\x28\x63\x52\x00"),
        fields=("wait",),
    ),
    Row(
        name="BI9 abort mode",
        request=raw(ControlRequest, b"\x0a\x1e" + RUN_ID.encode() + b"\x6a\x02\x08\x63"),
        fields=("abort.mode",),
    ),
    Row(
        name="BI9 expected state",
        request=raw(ControlRequest, b"\x0a\x1e" + RUN_ID.encode() + b"\x22\x02\x08\x63\x52\x00"),
        fields=("expect.state",),
    ),
    Row(name="BI10 NUL in a name", request=StartRunRequest(workflow="a\0b"), fields=("workflow", "workflow")),
    Row(name="BI10 NUL in guidance", request=control(steer=SteerCommand(text="a\0")), fields=("steer.text",)),
    Row(name="BI10 NUL in a label", request=start(labels={"a": "\0"}), fields=('labels["a"]',)),
    Row(
        name="BI10 NUL in a file name",
        request=ValidateWorkflowRequest(workflow=InlineWorkflow(yaml="a: 1", files={"a\0": b""})),
        fields=("workflow.files",),
    ),
    Row(
        name="BI10 NUL in a workflow",
        request=ValidateWorkflowRequest(workflow=InlineWorkflow(yaml="a: \0")),
        fields=("workflow.yaml",),
    ),
    Row(name="BI10 NUL in JSON", request=start(input_json=b'{"a":"\\u0000"}'), fields=("input_json",)),
    Row(
        name="BI10 NUL in a struct", request=start(input=holding(Value(string_value="\0"))), fields=("input",)
    ),
    Row(
        name="BI10 NUL in a struct's key",
        request=start(input=Struct(fields={"\0": Value(bool_value=True)})),
        fields=("input",),
    ),
    *(
        Row(name=f"BI12 {name}", request=GetRunRequest(run_id=value), fields=("run_id",))
        for name, value in BAD_IDS.items()
    ),
    Row(name="BI12 wait", request=WaitRunRequest(run_id="x"), fields=("run_id",)),
    Row(name="BI12 tool calls", request=ListToolCallsRequest(run_id="x"), fields=("run_id",)),
    Row(
        name="BI12 result",
        request=GetToolCallResultRequest(run_id="x", call_id="a b", offset=2**63),
        fields=("run_id", "call_id", "offset"),
    ),
    Row(name="BI7 result", request=GetToolCallResultRequest(), fields=("run_id", "call_id")),
    Row(name="BI12 messages", request=ListRunMessagesRequest(run_id="x"), fields=("run_id",)),
    Row(name="BI12 interrupts", request=ListInterruptsRequest(run_id="x"), fields=("run_id",)),
    Row(name="BI14 long", request=start(request_id="a" * 257), fields=("request_id",)),
    Row(name="BI14 spaces", request=start(request_id="a b"), fields=("request_id",)),
    Row(name="BI14 newline", request=start(request_id="a\n"), fields=("request_id",)),
    Row(name="BI14 command", request=control(command_id="\t", pause=PauseCommand()), fields=("command_id",)),
    Row(
        name="BI17 input",
        request=start(input_json=b'"' + b"a" * MIB + b'"'),
        fields=("input_json",),
        reason="FIELD_TOO_LARGE",
    ),
    Row(
        name="BI17 input as struct",
        request=start(input=holding(Value(string_value="a" * MIB))),
        fields=("input",),
        reason="FIELD_TOO_LARGE",
    ),
    Row(
        name="BI17 subject",
        request=start(subject=holding(Value(string_value="a" * 17_000))),
        fields=("subject",),
        reason="FIELD_TOO_LARGE",
    ),
    Row(
        name="BI17 workflow with files",
        request=ValidateWorkflowRequest(
            workflow=InlineWorkflow(yaml="a" * 200_000, files={"b": b"b" * 70_000})
        ),
        fields=("workflow",),
        reason="FIELD_TOO_LARGE",
    ),
    Row(
        name="BI17 reason",
        request=control(reason="a" * 4097, pause=PauseCommand()),
        fields=("reason",),
        reason="FIELD_TOO_LARGE",
    ),
    Row(name="BI17 JSON is not JSON", request=start(input_json=b"{'a':1}"), fields=("input_json",)),
    Row(name="BI17 JSON is empty", request=start(input_json=b""), fields=("input_json",)),
    Row(name="BI17 JSON twice the key", request=start(input_json=b'{"a":1,"a":2}'), fields=("input_json",)),
    Row(name="BI17 JSON deep", request=start(input_json=b"[" * 101 + b"]" * 101), fields=("input_json",)),
    Row(name="BI17 JSON very deep", request=start(input_json=b"[" * 100_000), fields=("input_json",)),
    Row(name="BI17 JSON NaN", request=start(input_json=b"NaN"), fields=("input_json",)),
    Row(name="BI17 JSON 1e999", request=start(input_json=b"1e999"), fields=("input_json",)),
    Row(name="BI17 JSON not UTF-8", request=start(input_json=b'"\xff"'), fields=("input_json",)),
    Row(name="BI17 JSON digits", request=start(input_json=b"9" * 10_000), fields=("input_json",)),
    Row(name="BI18 subject deep", request=start(subject=deep(17)), fields=("subject",)),
    Row(name="BI19 NaN", request=start(input=holding(Value(number_value=float("nan")))), fields=("input",)),
    Row(
        name="BI19 infinity",
        request=start(subject=holding(Value(number_value=float("inf")))),
        fields=("subject",),
    ),
    Row(
        name="BI19 beyond 2^53",
        request=start(input=holding(Value(number_value=2.0**53 + 2))),
        fields=("input",),
    ),
    Row(name="BI19 no kind", request=start(input=holding(Value())), fields=("input",)),
    Row(
        name="BI19 no kind in a list",
        request=start(input=holding(Value(list_value=ListValue(values=[Value()])))),
        fields=("input",),
    ),
    Row(name="BI22 timeout 0", request=bounded(run_timeout=Duration()), fields=("bounds.run_timeout",)),
    Row(
        name="BI22 timeout negative",
        request=bounded(run_timeout=Duration(seconds=-1)),
        fields=("bounds.run_timeout",),
    ),
    Row(
        name="BI22 timeout 10^18",
        request=bounded(run_timeout=Duration(seconds=10**18)),
        fields=("bounds.run_timeout",),
    ),
    Row(
        name="BI22 nanos",
        request=bounded(run_timeout=Duration(seconds=1, nanos=2_000_000_000)),
        fields=("bounds.run_timeout",),
    ),
    Row(
        name="BI22 mixed signs",
        request=bounded(run_timeout=Duration(seconds=5, nanos=-1)),
        fields=("bounds.run_timeout",),
    ),
    Row(
        name="BI22 wait negative",
        request=WaitRunRequest(run_id=RUN_ID, timeout=Duration(seconds=-5)),
        fields=("timeout",),
    ),
    Row(name="BI22 deadline past", request=start(deadline=Timestamp(seconds=1)), fields=("deadline",)),
    Row(
        name="BI22 deadline year 10000",
        request=start(deadline=Timestamp(seconds=10**12)),
        fields=("deadline",),
    ),
    Row(
        name="BI22 deadline nanos",
        request=start(deadline=Timestamp(seconds=10**10, nanos=-1)),
        fields=("deadline",),
    ),
    Row(
        name="BI24 expected sequence",
        request=control(pause=PauseCommand(), expect=Expectation(sequence=2**64 - 1)),
        fields=("expect.sequence",),
    ),
    Row(name="BI26 runs", request=ListRunsRequest(page_size=-1), fields=("page_size",)),
    Row(name="BI26 interrupts", request=ListInterruptsRequest(page_size=-1), fields=("page_size",)),
    Row(name="BI26 workflows", request=ListWorkflowsRequest(page_size=-1), fields=("page_size",)),
    Row(
        name="BI27 keys",
        request=ListRunsRequest(labels={"' OR 1=1 --": "x"}),
        fields=('labels["\' OR 1=1 --"]',),
    ),
    Row(name="BI27 JSONPath", request=ListRunsRequest(labels={"$.a[*]": "x"}), fields=('labels["$.a[*]"]',)),
    Row(name="BI27 values", request=ListRunsRequest(labels={"a": "x" * 10_000}), fields=('labels["a"]',)),
    Row(name="BI27 many", request=start(labels={f"k{n}": "" for n in range(33)}), fields=("labels",)),
    Row(name="BI27 workflow", request=ListRunsRequest(workflow="a b"), fields=("workflow",)),
    Row(
        name="BI27 reversed",
        request=ListRunsRequest(created_after=Timestamp(seconds=2), created_before=Timestamp(seconds=1)),
        fields=("created_before",),
    ),
    Row(name="BI29 none", request=control(), fields=("command",)),
    Row(
        name="BI29 unknown",
        request=raw(ControlRequest, b"\x0a\x1e" + RUN_ID.encode() + b"\xf2\x01\x00"),
        fields=("command",),
    ),
    Row(
        name="BI31 size",
        request=control(steer=SteerCommand(text="a" * (64 * 1024 + 1))),
        fields=("steer.text",),
        reason="FIELD_TOO_LARGE",
    ),
    Row(name="BI31 empty", request=control(steer=SteerCommand()), fields=("steer.text",)),
    Row(name="BI31 blank", request=control(steer=SteerCommand(text=" \n\u2003")), fields=("steer.text",)),
    Row(name="BI31 unseen", request=control(steer=SteerCommand(text="\u200b")), fields=("steer.text",)),
    Row(
        name="BI32 blank error",
        request=control(submit_tool_result=SubmitToolResultCommand(call_id="c", error="  ")),
        fields=("submit_tool_result.error",),
    ),
    Row(
        name="BI32 answer",
        request=control(answer=AnswerCommand(text="a")),
        fields=("answer.interrupt_id", "answer.option"),
    ),
    Row(
        name="BI32 result",
        request=control(submit_tool_result=SubmitToolResultCommand()),
        fields=("submit_tool_result.call_id", "submit_tool_result.result"),
    ),
    Row(
        name="BI32 result not JSON",
        request=control(submit_tool_result=SubmitToolResultCommand(call_id="c", output_json=b"nope")),
        fields=("submit_tool_result.output_json",),
    ),
    Row(name="reference", request=StartRunRequest(workflow="a@"), fields=("workflow",)),
    Row(name="reference twice", request=GetWorkflowRequest(workflow="a@b@c"), fields=("workflow",)),
    Row(name="no workflow", request=PutWorkflowRequest(), fields=("workflow.yaml",)),
    Row(
        name="questions below no run",
        request=ListInterruptsRequest(include_children=True),
        fields=("run_id",),
    ),
    Row(name="no workflow to check", request=ValidateWorkflowRequest(), fields=("workflow.yaml",)),
    Row(
        name="a crowd beside a workflow to check",
        request=ValidateWorkflowRequest(workflow=InlineWorkflow(yaml="a"), beside=[InlineWorkflow()] * 65),
        fields=("beside",),
    ),
    Row(
        name="BI27 a million states",
        request=raw(ListRunsRequest, b"\x0a\x80\x80\x04" + b"\x63" * 65_536),
        reason="FIELD_TOO_LARGE",
        fields=("request",),
    ),
    Row(
        name="BI27 many states",
        request=raw(ListRunsRequest, b"\x0a\x90\x4e" + b"\x63" * 10_000),
        fields=("states",),
    ),
    Row(
        name="many files",
        request=PutWorkflowRequest(
            workflow=InlineWorkflow(yaml="a: 1", files={f"f{n}": b"" for n in range(201)})
        ),
        fields=("workflow.files",),
    ),
    Row(
        name="BI18 a wide struct",
        request=start(
            input=Struct(fields={"a": Value(list_value=ListValue(values=[Value(bool_value=True)] * 20_001))})
        ),
        fields=("input",),
    ),
    Row(
        name="BI18 wide text",
        request=start(input_json=b"[" + b"[]," * 20_000 + b"0]"),
        fields=("input_json",),
    ),
    Row(
        name="alias",
        request=PutWorkflowRequest(workflow=InlineWorkflow(yaml="a: 1"), alias="A B", expect_digest="xyz"),
        fields=("alias", "expect_digest"),
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
async def test_a_hostile_request_is_refused_by_its_fields(door: Harness, row: Row) -> None:
    refused = await door.refused(NAMES[type(row.request)], row.request)  # pyright: ignore[reportArgumentType]  # one of them
    assert refused.code is grpc.StatusCode.INVALID_ARGUMENT
    assert (refused.reason, sorted(refused.fields)) == (row.reason, sorted(row.fields))
    if row.reason == "FIELD_TOO_LARGE":
        assert set(refused.info.metadata) == {"field", "limit", "size"}
    assert door.script.asked == []


STREAM_ROWS = [
    Row(name="BI12", request=StreamProgressRequest(run_id="../x"), fields=("run_id",)),
    Row(
        name="BI9",
        request=raw(StreamProgressRequest, b"\x0a\x1e" + RUN_ID.encode() + b"\x18\x63"),
        fields=("view",),
    ),
    Row(
        name="BI24 minus one",
        request=StreamProgressRequest(run_id=RUN_ID, after_sequence=2**64 - 1),
        fields=("after_sequence",),
    ),
]


@pytest.mark.parametrize("row", STREAM_ROWS, ids=lambda row: row.name)
async def test_a_hostile_stream_is_refused_by_its_fields(door: Harness, row: Row) -> None:
    refused = await door.stream_refused(row.request)
    assert refused.code is grpc.StatusCode.INVALID_ARGUMENT
    assert (refused.reason, refused.fields) == (row.reason, list(row.fields))
    assert door.script.asked == []


def nested(levels: int) -> bytes:
    """StartRunRequest.input nested so deep, as bytes."""
    data = b""
    for _ in range(levels):
        value = b"\x2a" + varint(len(data)) + data
        entry = b"\x0a\x01a\x12" + varint(len(value)) + value
        data = b"\x0a" + varint(len(entry)) + entry
    return b"\x0a\x01w\x22" + varint(len(data)) + data


def varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes((number & 127 | 128,))
        number >>= 7
    return out + bytes((number,))


MALFORMED: dict[str, bytes] = {
    "BI1 random": b"\xff\xfe\xfd random",
    "BI2 truncated": b"\x0a\x7fshort",
    "BI3 not UTF-8": b"\x0a\x02\xff\xfe",
    "BI4 100 levels": nested(101),
    "BI4 20,000 levels": nested(20_000),
    "BI29 wrong wire type": b"\x08\x01\x0a",
}


@pytest.mark.parametrize("name", MALFORMED)
async def test_malformed_bytes_are_an_invalid_argument(door: Harness, name: str) -> None:
    refused = await door.refused("StartRun", MALFORMED[name])
    assert (refused.code, refused.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED_REQUEST")


@pytest.mark.parametrize("name", [name for name in MALFORMED if "levels" not in name])
async def test_malformed_bytes_of_a_stream_are_an_invalid_argument(door: Harness, name: str) -> None:
    refused = await door.stream_refused(MALFORMED[name])
    assert (refused.code, refused.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED_REQUEST")


async def test_malformed_bytes_without_a_credential_are_unauthenticated(door: Harness) -> None:
    refused = await door.refused("StartRun", b"\xff", token=None)
    assert (refused.code, refused.reason) == (grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED")


async def test_a_message_over_4_mib_is_refused_by_the_transport(door: Harness) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await door.send("/jackline.v1.RunService/StartRun", b"\0" * (4 * MIB + 1))
    assert failed.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_a_compressed_bomb_is_refused_by_the_transport(door: Harness) -> None:
    bomb = StartRunRequest(workflow="w", input_json=b"0" * (64 * MIB)).SerializeToString()
    assert len(gzip.compress(bomb)) < MIB
    call = door.unary("/jackline.v1.RunService/StartRun")
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await call(bomb, metadata=door.metadata(ALL), compression=grpc.Compression.Gzip, timeout=30)
    assert failed.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_metadata_over_its_limit_is_refused_by_the_transport(door: Harness) -> None:
    call = door.unary("/jackline.v1.RunService/GetServerInfo")
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await call(b"", metadata=(*door.metadata(ALL), ("x-large", "a" * 20_000)), timeout=10)
    assert failed.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.parametrize(
    "extra",
    [
        ("x-tenant", "other"),
        ("traceparent", "00-zz-zz-zz"),
        ("traceparent", "a" * 4000),
        ("baggage", "a=" + "b" * 4000),
        ("x-request-id", "\u007e" * 500),
    ],
    ids=lambda extra: f"{extra[0]}-{len(extra[1])}",
)
async def test_headers_that_mean_nothing_change_nothing(door: Harness, extra: tuple[str, str]) -> None:
    call = door.unary("/jackline.v1.RunService/GetServerInfo")
    assert await call(b"", metadata=(*door.metadata(ALL), extra), timeout=10)


@pytest.mark.parametrize(
    "method",
    [
        "/jackline.v1.RunService/NoSuchMethod",
        "/jackline.v1.NoSuchService/StartRun",
        "/grpc.channelz.v1.Channelz/GetServers",
        "/x",
    ],
)
async def test_an_unknown_method_is_not_served_and_says_so_only_with_a_credential(
    door: Harness, method: str
) -> None:
    known = await door.refused(method, b"")
    assert (known.code, known.reason) == (grpc.StatusCode.UNIMPLEMENTED, "NOT_SERVED")
    unknown = await door.refused(method, b"", token=None)
    assert (unknown.code, unknown.reason) == (grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED")


async def test_an_unknown_method_of_streams_is_refused_before_anything_is_read(door: Harness) -> None:
    call = door.stream_stream("/jackline.v1.NoService/Connect")(metadata=door.metadata(ALL), timeout=10)
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await call.read()
    assert ended(failed.value).reason == "NOT_SERVED"


BAD_CREDENTIALS: dict[str, tuple[tuple[str, str], ...]] = {
    "none": (),
    "wrong": (("authorization", "Bearer nope"),),
    "empty": (("authorization", ""),),
    "no scheme": (("authorization", ALL),),
    "other scheme": (("authorization", f"Basic {ALL}"),),
    "two": (("authorization", f"Bearer {ALL}"), ("authorization", f"Bearer {ALL}")),
    "long": (("authorization", "Bearer " + "a" * 5000),),
    "other header": (("x-token", ALL),),
}


@pytest.mark.parametrize("name", BAD_CREDENTIALS)
async def test_every_bad_credential_has_the_same_answer(door: Harness, name: str) -> None:
    call = door.unary("/jackline.v1.RunService/GetServerInfo")
    with pytest.raises(grpc.aio.AioRpcError) as failed:
        await call(b"", metadata=BAD_CREDENTIALS[name], timeout=10)
    found = ended(failed.value)
    assert (found.code, found.reason, dict(found.info.metadata)) == (
        grpc.StatusCode.UNAUTHENTICATED,
        "UNAUTHENTICATED",
        {},
    )
    reference = await door.refused("GetServerInfo", b"", token="nope")
    assert found.message == reference.message


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_the_scheme_is_read_in_any_case(door: Harness, scheme: str) -> None:
    call = door.unary("/jackline.v1.RunService/GetServerInfo")
    assert await call(b"", metadata=(("authorization", f"{scheme} {ALL}"),), timeout=10)


def _zeros(size: int) -> bytes:
    return b"\0" * size


def _ones(size: int) -> bytes:
    return b"\xff" * size


def _words(size: int) -> bytes:
    return struct.pack(">I", size) * 4


@pytest.mark.parametrize("size", [0, 3, 8, 64])
@pytest.mark.parametrize("make", [_zeros, _ones, _words])
async def test_no_bytes_at_all_make_the_server_answer_unknown(
    door: Harness, make: Callable[[int], bytes], size: int
) -> None:
    for method in ("StartRun", "Control", "GetRun", "PutWorkflow"):
        refused = await door.refused(method, make(size))
        assert refused.code is grpc.StatusCode.INVALID_ARGUMENT

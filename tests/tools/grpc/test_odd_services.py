"""Step kind grpc against services that answer oddly: every status, replies and descriptors that are none."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from hypothesis import given, settings
from hypothesis import strategies as st

from jackline_server.core.plan import Effect
from jackline_server.runtime.ports.connection_guards import Breaker
from jackline_server.runtime.ports.tools import ToolEnding
from jackline_server.tools.catalogs import ServerDown
from jackline_server.tools.grpc.interface import BadDescriptors, files_of_set, interface_of
from tests.tools.grpc.scene import PROTO, SECRET, Answer, connection, descriptors, odd, scene

CODE = grpc.StatusCode
REFUSED = {
    CODE.INVALID_ARGUMENT, CODE.NOT_FOUND, CODE.ALREADY_EXISTS, CODE.PERMISSION_DENIED, CODE.UNAUTHENTICATED,
    CODE.FAILED_PRECONDITION, CODE.OUT_OF_RANGE, CODE.UNIMPLEMENTED, CODE.ABORTED, CODE.RESOURCE_EXHAUSTED,
}  # fmt: skip
PASSING = {CODE.UNAVAILABLE, CODE.ABORTED, CODE.RESOURCE_EXHAUSTED}


def ends(code: grpc.StatusCode, details: str = "no", *, trailing: Any = ()) -> Answer:
    async def answer(_: bytes, context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
        await context.abort(code, details, trailing_metadata=trailing)
        raise AssertionError

    return answer


def says(data: bytes) -> Answer:
    async def answer(_: bytes, __: grpc.aio.ServicerContext[Any, Any]) -> bytes:
        return data

    return answer


@pytest.mark.parametrize("code", [code for code in CODE if code is not CODE.OK])
async def test_a_status_says_whether_the_service_acted_and_whether_it_may_pass(code: grpc.StatusCode):
    async with odd({"Charge": ends(code)}) as service, scene(connection(service.address)) as there:
        write = await there.call("Charge", effect=Effect.WRITE)
        read = await there.call("Charge", effect=Effect.READ)

    assert write.ending is (ToolEnding.FAILED if code in REFUSED else ToolEnding.UNCERTAIN)
    assert read.ending is ToolEnding.FAILED
    assert write.may_pass is read.may_pass is (code in PASSING)
    assert write.timed_out is (code is CODE.DEADLINE_EXCEEDED)
    assert service.calls == ["Charge", "Charge"]


async def test_a_service_that_asks_to_wait_is_waited_for():
    detail = AnyMessage()
    detail.Pack(RetryInfo(retry_delay=Duration(seconds=2)))
    status = Status(code=CODE.UNAVAILABLE.value[0], message="later", details=[detail])
    trailing = (("grpc-status-details-bin", status.SerializeToString()),)
    answers = {"Charge": ends(CODE.UNAVAILABLE, "later", trailing=trailing)}
    async with odd(answers) as service, scene(connection(service.address)) as there:
        assert (await there.call("Charge")).retry_after_ms == 2_000


@pytest.mark.parametrize("trailing", [b"", b"\xff\xff", b"\x1a\x02\xff\xff"])
async def test_details_that_are_none_are_passed_over(trailing: bytes):
    answers = {"Charge": ends(CODE.UNAVAILABLE, trailing=(("grpc-status-details-bin", trailing),))}
    async with odd(answers) as service, scene(connection(service.address)) as there:
        result = await there.call("Charge")
    assert (result.ending, result.retry_after_ms) == (ToolEnding.FAILED, None)


async def test_a_token_that_a_service_says_back_is_masked():
    answers = {"Charge": ends(CODE.UNAUTHENTICATED, f"{SECRET} is wrong, {SECRET.split()[1]}")}
    async with odd(answers) as service, scene(connection(service.address)) as there:
        result = await there.call("Charge")
    assert "is wrong" in result.error
    assert SECRET.split()[1] not in result.error


async def test_attempts_at_one_call_share_its_key():
    keys: list[object] = []

    async def answer(_: bytes, context: grpc.aio.ServicerContext[Any, Any]) -> bytes:
        keys.extend(value for name, value in context.invocation_metadata() or () if name == "idempotency-key")
        return b""

    async with odd({"Charge": answer}) as service, scene(connection(service.address)) as there:
        await there.call("Charge")
        await there.call("Charge")
    assert keys == ["key_1", "key_1"]


async def test_a_long_error_is_cut_and_its_control_characters_shown():
    answers = {"Charge": ends(CODE.INTERNAL, "\x1b[31m" + "x" * 4_000)}
    async with odd(answers) as service, scene(connection(service.address)) as there:
        result = await there.call("Charge")
    assert len(result.error) < 2_100
    assert "\x1b" not in result.error


@pytest.mark.parametrize(
    "reply",
    [
        b"\xff\xff\xff",  # no message
        b"\x0a\x05ab",  # cut
        b"\x6a\x02\xff\xfe",  # no UTF-8 where text is
        b"\x5a\x0b\x0a\x09\x0a\x01n\x12\x04\x12\x02\x08\x01"[:5],  # a struct that breaks off
    ],
)
async def test_a_reply_that_is_none_fails_a_read_and_is_told_of_a_write(reply: bytes):
    async with (
        odd({"Charge": says(reply), "Echo": says(reply)}) as service,
        scene(connection(service.address)) as there,
    ):
        read = await there.call("Echo", effect=Effect.READ)
        write = await there.call("Echo", effect=Effect.WRITE)

    assert read.ending is ToolEnding.FAILED
    assert write.ending is ToolEnding.COMPLETED
    assert "not its reply" in (write.output_json or "")


async def test_a_value_that_json_has_not_and_an_enum_nobody_knows_are_shown_as_they_are():
    nan = b"\x19\x00\x00\x00\x00\x00\x00\xf8\x7f" + b"\x28\x63"  # real: NaN, status: 99
    async with odd({"Echo": says(nan)}) as service, scene(connection(service.address)) as there:
        result = await there.call("Echo")
    value = json.loads(result.output_json or "")
    assert (value["real"], value["status"]) == ("NaN", 99)


async def test_a_reply_that_is_too_large_is_no_memory_and_uncertain_for_a_write():
    large = b"\x12" + b"\x80\x80\x80\x08" + b"x" * (16 << 20)
    async with odd({"Charge": says(large)}) as service, scene(connection(service.address)) as there:
        write = await there.call("Charge", effect=Effect.WRITE)
        read = await there.call("Charge", effect=Effect.READ)
    assert (write.ending, write.may_pass) == (ToolEnding.UNCERTAIN, False)
    assert (read.ending, read.may_pass) == (ToolEnding.FAILED, False)


async def test_a_service_that_is_gone_gets_nothing_and_may_come_back():
    async with odd({"Charge": says(b"")}) as service, scene(connection(service.address)) as there:
        await there.call("Charge")
        digest = await there.digest("till.v1.Till/Charge")
        async with odd({}) as other:
            address = other.address
        gone = connection(address)
        async with scene(gone) as nowhere:
            result = await nowhere.call("Charge", effect=Effect.WRITE, digest=digest, timeout_ms=3_000)
    assert (result.ending, result.may_pass) == (ToolEnding.FAILED, True)
    assert "127.0.0.1" not in result.error


async def test_a_port_where_nobody_answers_is_the_connections_failure_however_short_the_time():
    async with odd({}) as other:
        address = other.address
    async with scene(connection(address, breaker=Breaker(failures=3, cool_off_ms=60_000))) as nowhere:
        results = [await nowhere.call("Charge", digest="d", timeout_ms=700) for _ in range(4)]
    assert [result.connection_failed for result in results] == [True, True, True, False]
    assert {result.ending for result in results} == {ToolEnding.FAILED}


async def test_a_method_that_changed_behind_the_pin_is_refused():
    before = PROTO.read_text("utf-8")
    async with odd({}) as service, scene(connection(service.address)) as there:
        pinned = await there.digest("till.v1.Till/Charge")
    for after in (
        before.replace("int64 cents = 2;", "int64 cents = 9;"),
        before.replace("int64 cents = 2;", "string cents = 2;"),
        before.replace("bool done = 1;", "string done = 1;"),
        before.replace(
            "rpc Charge(RefundRequest) returns (RefundReply);", "rpc Charge(RefundRequest) returns (Order);"
        ),
    ):
        assert after != before
        async with (
            odd({"Charge": says(b"")}, proto=after) as service,
            scene(connection(service.address)) as there,
        ):
            result = await there.call("Charge", effect=Effect.WRITE, digest=pinned)
        assert result.error.startswith("tool_changed: ")
        assert service.calls == []


async def test_a_change_elsewhere_is_none_of_the_method():
    before = PROTO.read_text("utf-8")
    async with odd({}) as service, scene(connection(service.address)) as there:
        pinned = await there.digest("till.v1.Till/Charge")
    after = before.replace("string name = 1;", "string title = 1;").replace("// Watches orders.", "// Looks.")
    async with (
        odd({"Charge": says(b"")}, proto=after) as service,
        scene(connection(service.address)) as there,
    ):
        assert await there.digest("till.v1.Till/Charge") == pinned


@pytest.mark.parametrize("code", [CODE.UNIMPLEMENTED, CODE.INTERNAL])
async def test_the_older_reflection_is_asked_where_the_newer_one_is_refused(code: grpc.StatusCode):
    """INTERNAL is what is left of UNIMPLEMENTED if it comes while the question is being sent."""
    async with odd({}, newer=code) as service, scene(connection(service.address)) as there:
        assert await there.digest("till.v1.Till/Charge")


async def test_another_refusal_of_the_newer_reflection_is_told():
    async with odd({}, newer=CODE.PERMISSION_DENIED) as service, scene(connection(service.address)) as there:
        with pytest.raises(ServerDown) as caught:
            await there.digest("till.v1.Till/Charge")
    assert "PERMISSION_DENIED" in caught.value.message


async def test_a_service_without_reflection_says_what_to_do():
    server = grpc.aio.server(options=(("grpc.so_reuseport", 0),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with scene(connection(f"127.0.0.1:{port}")) as there:
            with pytest.raises(ServerDown) as caught:
                await there.digest("till.v1.Till/Charge")
    finally:
        await server.stop(grace=0)
    assert "descriptors" in caught.value.message


# --- descriptors ---------------------------------------------------------------------------------


def fan_out() -> bytes:
    """Twelve messages, each with ten of the next: a schema of 10^12 fields."""
    lines = [
        f"message M{n} {{ {' '.join(f'M{n + 1} f{i} = {i + 1};' for i in range(10))} }}" for n in range(12)
    ]
    text = "\n".join(['syntax = "proto3";', "package x;", *lines, "message M12 { string a = 1; }"])
    return descriptors(text + "\nservice S { rpc A(M0) returns (M12); }\n")


def circle() -> bytes:
    files = [
        FileDescriptorProto(name="a.proto", dependency=["b.proto"]),
        FileDescriptorProto(name="b.proto", dependency=["a.proto"]),
    ]
    return FileDescriptorSet(file=files).SerializeToString()


def missing() -> bytes:
    return FileDescriptorSet(
        file=[FileDescriptorProto(name="a.proto", dependency=["b.proto"])]
    ).SerializeToString()


def contradiction() -> bytes:
    file = FileDescriptorProto(name="a.proto", package="x")
    file.message_type.add(name="M").field.add(name="f", number=1, type=11, label=1, type_name=".x.Nowhere")
    return FileDescriptorSet(file=[file]).SerializeToString()


def test_a_message_that_grows_beyond_all_bounds_is_no_tool():
    made = interface_of(files_of_set(fan_out()))

    assert "more than" in json.loads(made.catalog["x.S/A"].annotations_json)["refused"]


@pytest.mark.parametrize(
    "make", [circle, missing, contradiction, lambda: b"\xff\xff", lambda: b"x" * 9_000_000]
)
def test_descriptors_that_are_none_are_refused_in_words(make: Callable[[], bytes]):
    with pytest.raises(BadDescriptors):
        interface_of(files_of_set(make()))


@settings(deadline=None)
@given(st.binary(max_size=200), st.integers(min_value=0, max_value=5_000))
def test_damaged_descriptors_are_read_or_refused(noise: bytes, at: int):
    whole = descriptors()
    at = min(at, len(whole))
    try:
        interface_of(files_of_set(whole[:at] + noise + whole[at + len(noise) :]))
    except BadDescriptors:
        return


async def test_a_file_that_is_not_there_or_too_large_is_no_catalog(tmp_path: Path):
    huge = tmp_path / "huge.binpb"
    huge.write_bytes(b"\0" * (9 << 20))
    for file in (tmp_path / "none.binpb", huge, tmp_path):
        async with scene(connection("127.0.0.1:1", descriptors=file)) as there:
            with pytest.raises(ServerDown):
                await there.digest("till.v1.Till/Charge")

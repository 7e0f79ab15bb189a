"""Step kind grpc against a real service in Go: reflection, every kind of field, what goes along, TLS."""

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from jackline_server.core.plan import Effect, JsonValue
from jackline_server.expressions.schemas import JsonSchemas
from jackline_server.runtime.pinned_tools import ToolHint, pins_text, read_pins
from jackline_server.runtime.ports.tools import ToolEnding
from tests.tools.grpc.certificates import issue
from tests.tools.grpc.scene import NAME, SECRET, Scene, Till, connection, descriptors, scene, till, tls

pytestmark = pytest.mark.timeout(600)  # the first build fetches what the program needs


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncGenerator[Till]:
    async with till(tmp_path) as running:
        yield running


LONG = {
    "type": ["string", "integer"],
    "pattern": "^-?[0-9]{1,19}$",
    "minimum": -(2**63),
    "maximum": 2**63 - 1,
}


@pytest.fixture
async def there(shop: Till) -> AsyncGenerator[Scene]:
    async with scene(connection(shop.address)) as made:
        yield made


def output(result: Any) -> Any:
    assert result.output_json is not None, result.error
    return json.loads(result.output_json)


async def test_reflection_tells_every_method_with_its_schema_and_effect(there: Scene):
    link = there.targets.link(NAME)
    assert link is not None
    catalog = await link.catalog(max_age_s=0)

    assert sorted(name.removeprefix("till.v1.Till/") for name in catalog) == [
        "Charge", "Echo", "GetOrder", "Plant", "Refund", "Watch",
    ]  # fmt: skip
    hints = {name.rpartition("/")[2]: tool.hint for name, tool in catalog.items()}
    assert (hints["GetOrder"], hints["Refund"], hints["Charge"]) == (
        ToolHint.READ,
        ToolHint.IDEMPOTENT,
        ToolHint.NONE,
    )
    refund = json.loads(catalog["till.v1.Till/Refund"].input_schema_json)
    assert refund == {
        "type": "object",
        "properties": {
            "order_id": {"type": "string"},
            "cents": LONG,
            "hold_ns": LONG,
        },
        "additionalProperties": False,
    }
    assert json.loads(catalog["till.v1.Till/Watch"].annotations_json)["streaming"] is True
    assert "holds itself" in json.loads(catalog["till.v1.Till/Plant"].annotations_json)["refused"]
    assert read_pins(pins_text(catalog)) == catalog


async def test_a_reply_has_the_names_of_the_proto_and_whole_numbers_exactly(there: Scene):
    assert output(await there.call("GetOrder", {"order_id": "A-1"})) == {
        "order_id": "A-1",
        "total_cents": str(1 << 60),
        "status": "STATUS_PAID",
        "goods": ["lamp"],
    }


EVERYTHING: dict[str, JsonValue] = {
    "small": -5,
    "large": str(2**64 - 1),
    "real": 0.5,
    "raw": "AP8=",
    "status": "STATUS_OPEN",
    "orders": {"a": {"order_id": "1", "total_cents": "7", "status": "STATUS_PAID", "goods": ["x", "y"]}},
    "numbered": {"-3": "three"},
    "cash": False,
    "span": "1.500s",
    "more": {"any": [1, None, {"deep": True}]},
    "count": "9",
    "note": "",
    "seen": ["STATUS_OPEN", "STATUS_PAID"],
    "at": "2026-02-03T04:05:06Z",
}


async def test_every_kind_of_field_goes_there_and_back(there: Scene):
    link = there.targets.link(NAME)
    assert link is not None
    schema = (await link.catalog(max_age_s=60))["till.v1.Till/Echo"].input_schema_json
    assert JsonSchemas().problem(schema, EVERYTHING) is None
    odd_ones: list[dict[str, JsonValue]] = [
        {"raw": "no base64 !"},
        {"large": "-1"},
        {"large": -1},
        {"large": 2**64},
        {"small": 2**31},
        {"status": "OPEN"},
        {"other": 1},
    ]
    for odd in odd_ones:
        assert JsonSchemas().problem(schema, odd) is not None

    assert output(await there.call("Echo", EVERYTHING)) == EVERYTHING
    assert output(await there.call("Echo", {"large": 2**64 - 1}))["large"] == str(2**64 - 1)


BAD_ARGUMENTS: list[dict[str, Any]] = [
    {"unknown": 1},
    {"small": 2**31},
    {"small": "x"},
    {"status": "STATUS_GONE"},
    {"card": "c", "cash": True},
    {"at": "yesterday"},
    {"numbered": {"x": "no number"}},
    {"orders": []},
    {"more": {"deep": []} | {"n": float("1e308")}, "real": "far"},
    {"note": "\ud800"},
]


@pytest.mark.parametrize("arguments", BAD_ARGUMENTS)
async def test_arguments_that_do_not_fit_are_told_and_nothing_is_called(there: Scene, arguments: Any):
    result = await there.call("Echo", arguments, effect=Effect.WRITE)

    assert (result.ending, result.may_pass) == (ToolEnding.FAILED, False)
    assert "can't be made" in result.error


async def test_key_subject_trace_token_and_deadline_go_along(there: Scene, shop: Till):
    reply = output(await there.call("Refund", {"order_id": "A-1", "cents": "5"}, effect=Effect.IDEMPOTENT))

    assert (reply["done"], reply["key"], reply["has_deadline"]) == (True, "key_1", True)
    assert json.loads(reply["subject_json"]) == {"user": "ann"}
    assert [len(part) for part in reply["traceparent"].split("-")] == [2, 32, 16, 2]
    assert reply["authorization"] == SECRET
    assert [entry["key"] for entry in shop.entries()] == ["key_1"]


async def test_an_idempotent_call_that_is_made_again_is_paid_once(there: Scene, shop: Till):
    for _ in range(2):
        await there.call("Refund", {"order_id": "A-1"}, effect=Effect.IDEMPOTENT)

    assert len(shop.entries()) == 1


async def test_fixed_fields_win_and_their_templates_are_filled(there: Scene, shop: Till):
    fixed = '{"order_id": "shop/{{ number }}", "cents": "7"}'
    await there.call("Charge", {"number": "A-1", "cents": "9000"}, effect=Effect.WRITE, fixed=fixed)

    (entry,) = shop.entries()
    assert (entry["order"], entry["cents"]) == ("shop/A-1", 7)


async def test_a_write_that_is_late_is_uncertain_and_a_read_is_not(there: Scene, shop: Till):
    late = await there.call("Charge", {"hold_ns": str(10**11)}, effect=Effect.WRITE, timeout_ms=2_500)
    assert (late.ending, late.timed_out) == (ToolEnding.UNCERTAIN, True)
    late = await there.call("Refund", {"hold_ns": str(10**11)}, effect=Effect.READ, timeout_ms=2_500)
    assert (late.ending, late.timed_out) == (ToolEnding.FAILED, True)
    async with asyncio.timeout(10):  # the till writes first, however slow its disk is
        while len(shop.entries()) < 2:
            await asyncio.to_thread(lambda: None)


async def test_a_call_that_is_cancelled_ends_at_once(there: Scene, shop: Till):
    task = asyncio.create_task(there.call("Charge", {"hold_ns": str(10**11)}, effect=Effect.WRITE))
    async with asyncio.timeout(10):
        while not shop.entries():
            await asyncio.to_thread(lambda: None)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(2):
            await task


async def test_a_refusal_of_the_service_is_certain_and_told(there: Scene):
    result = await there.call("GetOrder", {}, effect=Effect.WRITE)

    assert (result.ending, result.may_pass) == (ToolEnding.FAILED, False)
    assert result.error == "The service answered INVALID_ARGUMENT: an order has a number"


async def test_a_method_that_is_not_what_was_pinned_is_not_called(there: Scene, shop: Till):
    result = await there.call("Charge", {}, effect=Effect.WRITE, digest="0" * 64)

    assert result.error.startswith("tool_changed: ")
    assert shop.entries() == []


async def test_only_what_the_operator_allows_is_called(shop: Till):
    allowed = connection(shop.address, allow=frozenset({"till.v1.Till/GetOrder"}))
    async with scene(allowed) as there:
        assert output(await there.call("GetOrder", {"order_id": "1"}))["order_id"] == "1"
        result = await there.call("Charge", {}, effect=Effect.WRITE)
    assert result.ending is ToolEnding.FAILED
    assert shop.entries() == []


async def test_a_file_of_descriptors_stands_for_reflection_and_brings_comments(shop: Till, tmp_path: Path):
    file = tmp_path / "till.binpb"
    file.write_bytes(descriptors())
    async with scene(connection(shop.address, descriptors=file)) as there:
        link = there.targets.link(NAME)
        assert link is not None
        tool = (await link.catalog(max_age_s=0))["till.v1.Till/GetOrder"]
        assert tool.description == "Reads one order."
        properties = json.loads(tool.input_schema_json)["properties"]
        assert properties["order_id"]["description"] == "The number on the receipt."
        assert output(await there.call("GetOrder", {"order_id": "1"}))["order_id"] == "1"


@pytest.mark.parametrize("known", [True, False])
async def test_both_sides_are_known_by_their_certificates(tmp_path: Path, known: bool):
    await asyncio.to_thread(issue, tmp_path, "server", "client")
    flags = (
        "-certificate",
        tmp_path / "server.pem",
        "-key",
        tmp_path / "server.key",
        "-clients",
        tmp_path / "ca.pem",
    )
    async with till(tmp_path, *map(str, flags)) as shop:
        secured = connection(shop.address, tls=tls(tmp_path, client="client" if known else ""))
        async with scene(secured) as there:
            digest = None if known else "0" * 64
            result = await there.call("Charge", {}, effect=Effect.WRITE, digest=digest)
        assert result.ending is (ToolEnding.COMPLETED if known else ToolEnding.FAILED)
        assert len(shop.entries()) == int(known)


async def test_a_service_of_another_authority_gets_no_call(tmp_path: Path):
    await asyncio.to_thread(issue, tmp_path, "server")
    other = tmp_path / "other"
    other.mkdir()
    await asyncio.to_thread(issue, other, "server")
    flags = ("-certificate", str(tmp_path / "server.pem"), "-key", str(tmp_path / "server.key"))
    async with till(tmp_path, *flags) as shop, scene(connection(shop.address, tls=tls(other))) as there:
        result = await there.call("Charge", {}, effect=Effect.WRITE, digest="0" * 64)
    assert (result.ending, result.may_pass) == (ToolEnding.FAILED, True)
    assert SECRET not in result.error

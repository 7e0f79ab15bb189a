"""The tables that the doors share are whole: every reason, every method, every enum of the contract."""

from collections.abc import Iterator

import pytest
from google.protobuf.descriptor import Descriptor
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs]  # ships its own types
    code_pb2,
    error_details_pb2,
)

from jackline.v1 import run_service_pb2, tool_worker_pb2, webhook_service_pb2, workflow_service_pb2
from jackline_server.api.checks import COUNTS
from jackline_server.api.limits import LIMITS
from jackline_server.api.methods import METHODS
from jackline_server.api.refusals import DoorReason, DoorRefused
from jackline_server.api.statuses import MOST_DETAILS, ONLY_REJECTIONS, RULES, known_reasons, status_of
from jackline_server.runtime.refusals import Reason, Refused, Violation


def test_every_reason_of_the_contract_has_a_rule_or_is_only_a_rejection() -> None:
    assert set(RULES) | ONLY_REJECTIONS == known_reasons()
    assert not set(RULES) & ONLY_REJECTIONS


def test_every_reason_of_the_server_is_one_of_the_contract() -> None:
    assert {reason.value for reason in Reason} | {reason.value for reason in DoorReason} <= set(RULES)


def test_every_method_of_the_contract_has_a_rule_and_none_of_ours_is_public() -> None:
    served = {
        f"/{service.full_name}/{method.name}"
        for file in (run_service_pb2, tool_worker_pb2, webhook_service_pb2, workflow_service_pb2)
        for service in file.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }
    ours = {name for name in METHODS if name.startswith("/jackline.")}
    assert served == ours
    assert {name for name, rule in METHODS.items() if rule.public} == {
        "/grpc.health.v1.Health/Check",
        "/grpc.health.v1.Health/Watch",
        "/grpc.health.v1.Health/List",
    }
    without = {name for name in ours if not METHODS[name].any_of}
    assert without == {"/jackline.v1.RunService/GetServerInfo"}


def repeated_fields(message: Descriptor) -> Iterator[str]:
    """The lists and maps of a request, at any depth; a Struct is counted as it is read."""
    for field in message.fields:
        if field.is_repeated:
            yield field.full_name
        elif field.message_type is not None and field.message_type.full_name != "google.protobuf.Struct":
            yield from repeated_fields(field.message_type)


def test_every_list_and_map_of_a_request_has_a_limit() -> None:
    found = {
        name
        for file in (run_service_pb2, tool_worker_pb2, webhook_service_pb2, workflow_service_pb2)
        for service in file.DESCRIPTOR.services_by_name.values()
        for method in service.methods
        for name in repeated_fields(method.input_type)
    }
    assert found == set(COUNTS)


def test_no_request_may_be_larger_than_a_message() -> None:
    assert max(rule.most_bytes for rule in METHODS.values()) <= LIMITS.message_bytes
    everything = LIMITS.input_bytes + LIMITS.workflow_bytes + LIMITS.subject_bytes
    assert everything < METHODS["/jackline.v1.RunService/StartRun"].most_bytes


def test_every_limit_is_a_positive_number_named_with_its_unit() -> None:
    units = ("_bytes", "_count", "_characters", "_levels", "_seconds")
    for name, value in LIMITS.published().items():
        assert value > 0
        assert name.endswith(units)


@pytest.mark.parametrize("reason", list(Reason) + list(DoorReason))
def test_every_status_has_one_error_info_and_each_detail_once(reason: Reason | DoorReason) -> None:
    metadata = {"run_id": "r", "state": "failed", "incident_id": "i", "limit": "1"}
    violations = (Violation(field="a.b", description="wrong", reason="FORMAT"),)
    error = (
        Refused(reason, "No. Do this.", metadata=metadata, violations=violations)
        if isinstance(reason, Reason)
        else DoorRefused(reason, "No. Do this.", metadata=metadata, violations=violations)
    )
    status = status_of(error)
    kinds = [detail.type_url for detail in status.details]
    assert len(kinds) == len(set(kinds))
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert (info.reason, info.domain, dict(info.metadata)) == (reason.value, "jackline", metadata)
    assert status.code not in (code_pb2.OK, code_pb2.UNKNOWN)
    names = {kind.rsplit(".", 1)[1] for kind in kinds}
    assert ("BadRequest" in names) == (status.code == code_pb2.INVALID_ARGUMENT)
    if status.code == code_pb2.UNAVAILABLE:
        assert "RetryInfo" in names


@pytest.mark.parametrize("count", [0, 1, 20, 21, 1000])
def test_a_status_never_outgrows_its_trailers(count: int) -> None:
    violations = tuple(
        Violation(field="f" * 999, description="\u00fc" * 999, reason="R") for _ in range(count)
    )
    metadata = {f"key{n}": "v" * 999 for n in range(4)}
    status = status_of(
        Refused(Reason.INVALID_REQUEST, "m" * 5000 + "\r\n\0", metadata=metadata, violations=violations)
    )
    assert status.ByteSize() - len(status.message) <= MOST_DETAILS
    assert len(status.message) <= 1024
    assert status.message.isascii()
    assert status.message.isprintable()
    info, bad = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    assert status.details[0].Unpack(info)
    assert status.details[1].Unpack(bad)
    assert (len(bad.field_violations) < count) == (info.metadata.get("truncated") == "true")

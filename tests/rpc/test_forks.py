"""ForkRun at the door: what reaches the use case, what is refused before, and who may ask."""

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from jackline.v1 import run_pb2
from jackline.v1.run_service_pb2 import (
    START_DISPOSITION_STARTED,
    ForkChanges,
    ForkRunRequest,
    ForkRunResponse,
)
from jackline_server.api.fork_requests import read_fork
from jackline_server.identity.principals import Scope
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.refusals import Reason, Refused
from jackline_server.runtime.use_cases import Caller, Disposition, ForkRun, Started, TighterBounds
from tests.rpc.doubles import NOW_MS, RUN_ID, fold, row_of
from tests.rpc.harness import Harness, token_for

LATER = Timestamp(seconds=NOW_MS // 1000 + 60)
CALLER = Caller(tenant=DEFAULT_TENANT, principal="p")


def request(**changes: object) -> ForkRunRequest:
    return ForkRunRequest(
        run_id=RUN_ID,
        sequence=7,
        request_id="once",
        changes=ForkChanges(**changes),  # pyright: ignore[reportArgumentType] - a test names the fields it is about
    )


async def test_a_fork_reaches_the_use_case_as_it_was_sent(door: Harness) -> None:
    door.script.always("fork", Started(row=row_of(fold()), disposition=Disposition.STARTED))
    asked_for = request(
        workflow="refunds@next",
        bounds=run_pb2.RunBounds(steps=3, token_budget=10),
        labels={"team": "a"},
        steer="Be brief.",
    )
    answer = await door.ask("ForkRun", asked_for, ForkRunResponse)
    asked: ForkRun = door.script.asked[0][1][0]
    assert (asked.run_id, asked.sequence, asked.request_id) == (RUN_ID, 7, "once")
    assert (asked.workflow, asked.steer, asked.labels) == ("refunds@next", "Be brief.", {"team": "a"})
    assert asked.bounds == TighterBounds(steps=3, token_budget=10)
    assert asked.deadline_unix_ms is None
    assert answer.disposition == START_DISPOSITION_STARTED
    assert answer.run.run_id == RUN_ID


@pytest.mark.parametrize("missing", [Scope.RUNS_START, Scope.RUNS_CONTENT])
async def test_a_fork_needs_to_start_and_to_see(door: Harness, missing: Scope) -> None:
    scopes = {Scope.RUNS_START, Scope.RUNS_CONTENT} - {missing}
    refused = await door.refused("ForkRun", request(), token=token_for(*scopes))
    assert refused.code is grpc.StatusCode.PERMISSION_DENIED
    assert (refused.reason, refused.info.metadata["scope"]) == ("SCOPE_MISSING", missing.value)


@pytest.mark.parametrize(
    ("hostile", "field"),
    [
        (ForkRunRequest(run_id="run_x", sequence=1), "run_id"),
        (ForkRunRequest(run_id=RUN_ID), "sequence"),
        (ForkRunRequest(run_id=RUN_ID, sequence=2**64 - 1), "sequence"),
        (ForkRunRequest(run_id=RUN_ID, sequence=1, request_id="a b"), "request_id"),
        (request(workflow="no such name!"), "changes.workflow"),
        (request(labels={"Upper": "1"}), 'changes.labels["Upper"]'),
        (request(labels={f"l{number}": "" for number in range(33)}), "changes.labels"),
        (request(bounds=run_pb2.RunBounds(steps=0)), "changes.bounds.steps"),
        (request(deadline=Timestamp(seconds=1)), "changes.deadline"),
        (request(steer="a\0b"), "changes.steer"),
        (request(steer=" \n"), "changes.steer"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_hostile_fork_is_refused_by_its_fields(
    door: Harness, hostile: ForkRunRequest, field: str
) -> None:
    refused = await door.refused("ForkRun", hostile)
    assert refused.code is grpc.StatusCode.INVALID_ARGUMENT
    assert refused.reason == "INVALID_REQUEST"
    assert field in refused.fields


async def test_guidance_over_its_size_is_refused(door: Harness) -> None:
    refused = await door.refused("ForkRun", request(steer="a" * 65_537))
    assert (refused.reason, refused.info.metadata["field"]) == ("FIELD_TOO_LARGE", "changes.steer")


async def test_a_place_that_can_not_be_forked_names_the_nearest(door: Harness) -> None:
    def no(*_: object) -> None:
        metadata = {"sequence": "7", "before": "6", "after": "9"}
        raise Refused(Reason.FORK_POINT, "No fork can be made there. Fork at 6 or 9.", metadata=metadata)

    door.script.on("fork", no)
    refused = await door.refused("ForkRun", request())
    assert refused.code is grpc.StatusCode.FAILED_PRECONDITION
    assert refused.reason == "FORK_POINT"
    assert dict(refused.info.metadata) == {"sequence": "7", "before": "6", "after": "9"}


def test_a_fingerprint_is_of_all_that_a_fork_asks_for_but_its_id() -> None:
    def made(asked: ForkRunRequest) -> bytes:
        return read_fork(asked, caller=CALLER, now_unix_ms=NOW_MS).fingerprint

    again = request()
    again.request_id = "another"
    others = [
        ForkRunRequest(run_id=RUN_ID, sequence=8, request_id="once"),
        request(steer="x"),
        request(labels={"a": "b"}),
        request(bounds=run_pb2.RunBounds(steps=1)),
        request(workflow="w"),
        request(deadline=LATER),
    ]
    assert made(again) == made(request())
    assert len({made(one) for one in (request(), *others)}) == len(others) + 1

"""BulkControl and the kill switch through the door: what is asked, what is answered, what is refused."""

from typing import Any

import grpc
import pytest

from jackline.v1 import bulk_control_pb2 as bulk
from jackline.v1 import kill_switch_pb2 as switch
from jackline.v1.control_pb2 import AbortCommand, SteerCommand
from jackline.v1.error_reason_pb2 import ErrorReason
from jackline.v1.run_pb2 import RunState
from jackline.v1.run_service_pb2 import GetServerInfoRequest, GetServerInfoResponse
from jackline_server.core.commands import Steer
from jackline_server.core.facts import Phase
from jackline_server.identity.principals import Scope
from jackline_server.runtime.ports.switches import Engagement
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.refusals import Reason, Refused
from jackline_server.runtime.service.bulk_control import BulkDone, BulkResult
from jackline_server.runtime.service.kill_switch import LIVING, Switched, SwitchView
from jackline_server.runtime.use_cases import Receipt, Stage
from tests.rpc.doubles import NOW_MS, OTHER_RUN_ID, RUN_ID, fold, row_of
from tests.rpc.harness import Harness, token_for

ABORT = AbortCommand()
HELD = Engagement(tenant=DEFAULT_TENANT, engaged_unix_ms=NOW_MS, engaged_by="ann", reason="it spends")


def given(*, repeated: bool = False) -> Receipt:
    return Receipt(
        command_id="bulk_1",
        stage=Stage.ACCEPTED,
        applied=False,
        rejection="",
        sequence=0,
        already_terminal=False,
        repeated=repeated,
        reached=True,
    )


async def test_a_page_is_asked_for_as_the_filter_says_and_answered_run_by_run(door: Harness):
    results = [
        BulkResult(row=row_of(fold()), receipt=given()),
        BulkResult(row=row_of(fold(run_id=OTHER_RUN_ID)), refusal=Reason.COMMAND_LIMIT),
    ]
    door.script.always("bulk", BulkDone(results=results, total=7))
    request = bulk.BulkControlRequest(
        request_id="r",
        filter=bulk.BulkFilter(workflow="refunds", states=[RunState.RUN_STATE_PAUSED], labels={"a": "b"}),
        reason="why",
        page_size=2,
        steer=SteerCommand(text="go home"),
    )
    answer = await door.ask("BulkControl", request, bulk.BulkControlResponse)
    (asked,) = door.script.asked[0][1]
    assert (asked.request_id, asked.reason, asked.preview, asked.action) == (
        "r",
        "why",
        False,
        Steer(text="go home"),
    )
    assert (asked.query.workflow, asked.query.labels, asked.query.phases, asked.query.limit) == (
        "refunds",
        {"a": "b"},
        {Phase.PAUSED},
        2,
    )
    assert [(one.run_id, one.HasField("receipt"), one.refusal) for one in answer.results] == [
        (RUN_ID, True, 0),
        (OTHER_RUN_ID, False, ErrorReason.ERROR_REASON_COMMAND_LIMIT),
    ]
    assert (answer.total_size, bool(answer.next_page_token)) == (7, True)
    request.page_token = answer.next_page_token
    await door.ask("BulkControl", request, bulk.BulkControlResponse)
    (again,) = door.script.asked[1][1]
    assert again.query.before == (results[1].row.created_unix_ms, OTHER_RUN_ID)


async def test_an_empty_filter_that_is_said_is_every_run_that_lives(door: Harness):
    door.script.always("bulk", BulkDone(results=[], total=0))
    request = bulk.BulkControlRequest(preview=True, all_runs=True, abort=ABORT)
    await door.ask("BulkControl", request, bulk.BulkControlResponse)
    (asked,) = door.script.asked[0][1]
    assert (asked.preview, asked.query.phases) == (True, LIVING)


async def test_a_token_of_one_request_is_none_of_another(door: Harness):
    done = BulkDone(results=[BulkResult(row=row_of(fold()))], total=3)
    door.script.always("bulk", done)
    request = bulk.BulkControlRequest(preview=True, all_runs=True, page_size=1, abort=ABORT)
    token = (await door.ask("BulkControl", request, bulk.BulkControlResponse)).next_page_token
    other = bulk.BulkControlRequest(request_id="r", all_runs=True, page_size=1, page_token=token, abort=ABORT)
    refused = await door.refused("BulkControl", other)
    assert refused.reason == "BAD_PAGE_TOKEN"


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"all_runs": True, "abort": ABORT}, "request_id"),
        ({"request_id": "r", "abort": ABORT}, "all_runs"),
        (
            {"request_id": "r", "all_runs": True, "filter": bulk.BulkFilter(workflow="w"), "abort": ABORT},
            "all_runs",
        ),
        ({"request_id": "r", "all_runs": True}, "command"),
        ({"request_id": "r", "all_runs": True, "steer": SteerCommand()}, "steer.text"),
        ({"request_id": "r", "all_runs": True, "steer": SteerCommand(text=" \n\u00a0")}, "steer.text"),
        (
            {"request_id": "r", "all_runs": True, "abort": AbortCommand(mode=9)},  # pyright: ignore[reportArgumentType] - a value of no version
            "abort.mode",
        ),
        (
            {
                "request_id": "r",
                "filter": bulk.BulkFilter(states=[RunState.RUN_STATE_FAILED]),
                "abort": ABORT,
            },
            "filter.states",
        ),
        (
            {"request_id": "r", "filter": bulk.BulkFilter(parent_run_id="no"), "abort": ABORT},
            "filter.parent_run_id",
        ),
        (
            {"request_id": "r", "filter": bulk.BulkFilter(states=[99]), "abort": ABORT},  # pyright: ignore[reportArgumentType] - a value of no version
            "filter.states[0]",
        ),
        (
            {"request_id": "r", "filter": bulk.BulkFilter.FromString(b"\x9a\x06\x01a"), "abort": ABORT},
            "filter",  # a condition of a later version: overlooked, it would be every run
        ),
    ],
)
async def test_what_is_not_said_well_is_refused_by_its_field(
    door: Harness, fields: dict[str, Any], named: str
):
    refused = await door.refused("BulkControl", bulk.BulkControlRequest(**fields))
    assert (refused.reason, refused.fields) == ("INVALID_REQUEST", [named])


async def test_the_switch_is_engaged_by_whoever_asks_for_the_reason_given(door: Harness):
    door.script.always("engage", Switched(engagement=HELD, changed=True, told=4))
    request = switch.KillSwitchRequest(action=switch.KILL_SWITCH_ACTION_ENGAGE, reason="it spends")
    answer = await door.ask("KillSwitch", request, switch.KillSwitchResponse)
    caller, reason = door.script.asked[0][1]
    assert (caller.principal, caller.tenant, reason) == ("local", DEFAULT_TENANT, "it spends")
    assert (answer.changed, answer.told_runs, answer.state.engaged) == (True, 4, True)
    assert (answer.state.engaged_by, answer.state.engaged_at.ToMilliseconds()) == ("ann", NOW_MS)
    assert not answer.state.HasField("released_at")


async def test_a_switch_that_was_never_engaged_says_so(door: Harness):
    door.script.always("release", Switched(engagement=None, changed=False))
    door.script.always("look", SwitchView(engagement=None, living=2))
    request = switch.KillSwitchRequest(action=switch.KILL_SWITCH_ACTION_RELEASE)
    released = await door.ask("KillSwitch", request, switch.KillSwitchResponse)
    found = await door.ask("GetKillSwitch", switch.GetKillSwitchRequest(), switch.GetKillSwitchResponse)
    assert (released.changed, released.state, found.state) == (
        False,
        switch.KillSwitchState(),
        switch.KillSwitchState(),
    )
    assert found.living_runs == 2


@pytest.mark.parametrize(
    ("request_", "named"),
    [
        (switch.KillSwitchRequest(reason="r"), "action"),
        (switch.KillSwitchRequest(action=switch.KILL_SWITCH_ACTION_ENGAGE), "reason"),
        (switch.KillSwitchRequest(action=switch.KILL_SWITCH_ACTION_ENGAGE, reason=" \t"), "reason"),
    ],
)
async def test_the_switch_is_not_moved_without_action_and_reason(
    door: Harness, request_: switch.KillSwitchRequest, named: str
):
    refused = await door.refused("KillSwitch", request_)
    assert (refused.reason, refused.fields) == ("INVALID_REQUEST", [named])


async def test_who_may_control_runs_may_not_move_the_switch_but_command_many(door: Harness):
    token = token_for(Scope.RUNS_CONTROL)
    door.script.always("bulk", BulkDone(results=[], total=0))
    request = switch.KillSwitchRequest(action=switch.KILL_SWITCH_ACTION_ENGAGE, reason="r")
    refused = await door.refused("KillSwitch", request, token=token)
    many = bulk.BulkControlRequest(preview=True, all_runs=True, abort=ABORT)
    await door.ask("BulkControl", many, bulk.BulkControlResponse, token=token)
    assert (refused.code, refused.info.metadata["scope"]) == (grpc.StatusCode.PERMISSION_DENIED, "admin")


async def test_the_server_says_that_its_switch_is_engaged_and_nothing_where_the_store_is_away(door: Harness):
    async def engaged(_tenant: object) -> bool:
        return True

    async def away(_tenant: object) -> bool:
        raise Refused(Reason.STORE_UNAVAILABLE, "Away.")

    found: list[GetServerInfoResponse] = []
    for answer in (engaged, away):
        door.script.on("engaged", answer)
        found.append(await door.ask("GetServerInfo", GetServerInfoRequest(), GetServerInfoResponse))
    assert [(one.HasField("kill_switch_engaged"), one.kill_switch_engaged) for one in found] == [
        (True, True),
        (False, False),
    ]

"""`jackline bulk` and `jackline kill`: nothing is done unsaid, and what is done is said run by run."""

import json

from jackline.v1 import bulk_control_pb2 as bulk
from jackline.v1 import kill_switch_pb2 as switch
from jackline.v1.control_pb2 import Receipt
from jackline.v1.error_reason_pb2 import ErrorReason
from jackline.v1.run_pb2 import RunState
from tests.cli.console import Console
from tests.support.scripted_service import RUN_ID, ScriptedService

OTHER = RUN_ID[:-1] + "d"


def result(run_id: str = RUN_ID, **more: object) -> bulk.BulkResult:
    return bulk.BulkResult(
        run_id=run_id,
        workflow="refunds",
        state=RunState.RUN_STATE_PAUSED,
        **more,  # pyright: ignore[reportArgumentType] - a test names only the fields it is about
    )


async def test_without_yes_the_runs_are_shown_and_nothing_is_sent(
    console: Console, service: ScriptedService
) -> None:
    service.script("BulkControl", bulk.BulkControlResponse(results=[result()], total_size=1))
    done = await console.run("bulk", "abort", "--workflow", "refunds", "--older-than", "1h")
    [asked] = service.requests(bulk.BulkControlRequest)
    assert (asked.preview, asked.all_runs, asked.filter.workflow) == (True, False, "refunds")
    assert asked.filter.HasField("created_before")
    assert not asked.filter.HasField("created_after")
    assert done.code == 2
    assert RUN_ID in done.out
    assert "--yes" in done.out + done.err


async def test_with_yes_each_page_is_given_the_command_under_one_request_id(
    console: Console, service: ScriptedService
) -> None:
    service.script(
        "BulkControl", bulk.BulkControlResponse(results=[result(receipt=Receipt())], next_page_token="more")
    )
    service.script("BulkControl", bulk.BulkControlResponse(results=[result(OTHER, receipt=Receipt())]))
    done = await console.run("bulk", "abort", "--all", "--yes", "--graceful", "--reason", "night")
    first, second = service.requests(bulk.BulkControlRequest)
    assert (first.all_runs, first.preview, first.WhichOneof("command")) == (True, False, "abort")
    assert (first.page_token, second.page_token) == ("", "more")
    assert first.request_id == second.request_id != ""
    assert first.reason == "night"
    assert done.code == 0
    assert [line.split()[-1] for line in done.out.splitlines()[1:3]] == ["given", "given"]


async def test_what_runs_refused_is_said_and_is_the_exit_code(
    console: Console, service: ScriptedService
) -> None:
    refused = result(OTHER, refusal=ErrorReason.ERROR_REASON_COMMAND_LIMIT)
    answer = bulk.BulkControlResponse(results=[result(receipt=Receipt(repeated=True)), refused])
    service.script("BulkControl", answer)
    done = await console.run("bulk", "steer", "Go home.", "--label", "team=a", "--yes")
    [asked] = service.requests(bulk.BulkControlRequest)
    assert (asked.steer.text, dict(asked.filter.labels)) == ("Go home.", {"team": "a"})
    assert done.code == 65
    assert "given before" in done.out
    assert "COMMAND_LIMIT" in done.out


async def test_no_filter_has_to_be_said_and_goes_with_no_other(console: Console) -> None:
    for words in (("pause", "--yes"), ("resume", "--all", "--state", "paused", "--yes")):
        assert (await console.run("bulk", *words)).code == 2


async def test_an_empty_part_of_a_filter_is_not_taken_for_none(
    console: Console, service: ScriptedService
) -> None:
    for flag in ("--older-than", "--newer-than", "--thread", "--parent", "--label", "--state"):
        done = await console.run("bulk", "abort", "--workflow", "refunds", flag, "", "--yes")
        assert done.code == 2, flag
    assert not service.requests(bulk.BulkControlRequest)


async def test_the_switch_is_engaged_only_with_a_reason_and_yes(
    console: Console, service: ScriptedService
) -> None:
    service.script("GetKillSwitch", switch.GetKillSwitchResponse(living_runs=3))
    engaged = switch.KillSwitchState(engaged=True, engaged_by="ann", reason="it spends")
    engaged.engaged_at.FromSeconds(1_700_000_000)
    service.script("KillSwitch", switch.KillSwitchResponse(state=engaged, changed=True, told_runs=3))
    asked = await console.run("kill", "--reason", "it spends")
    done = await console.run("kill", "--reason", "it spends", "--yes")
    [request] = service.requests(switch.KillSwitchRequest)
    assert (request.action, request.reason) == (switch.KILL_SWITCH_ACTION_ENGAGE, "it spends")
    assert (asked.code, done.code) == (2, 0)
    assert "3 runs" in asked.out
    assert "ann: it spends" in done.out


async def test_a_switch_that_lacks_its_reason_is_not_said_to_be_engaged(
    console: Console, service: ScriptedService
) -> None:
    for words in (
        ("--yes",),
        ("--reason", "", "--yes"),
        ("--reason", " ", "--yes"),
    ):  # as a script says it whose variable is empty
        done = await console.run("kill", *words)
        assert done.code == 2
        assert "--reason" in done.err
    assert not service.requests(switch.KillSwitchRequest)


async def test_the_switch_says_where_it_stands_and_is_released(
    console: Console, service: ScriptedService
) -> None:
    state = switch.KillSwitchState(engaged=False, engaged_by="ann", reason="it spends", released_by="bob")
    state.engaged_at.FromSeconds(1_700_000_000)
    state.released_at.FromSeconds(1_700_000_060)
    service.script("KillSwitch", switch.KillSwitchResponse(state=state, changed=True))
    service.script("GetKillSwitch", switch.GetKillSwitchResponse(state=state))
    done = await console.run("kill", "--release")
    shown = await console.run("kill", "--json")
    [request] = service.requests(switch.KillSwitchRequest)
    assert request.action == switch.KILL_SWITCH_ACTION_RELEASE
    assert (done.code, shown.code) == (0, 0)
    assert "bob" in done.out
    assert json.loads(shown.out)["state"]["released_by"] == "bob"

"""RunService: what reaches the use cases, and what each view shows."""

from dataclasses import replace
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from jackline.v1 import control_pb2, run_pb2, run_service_pb2
from jackline.v1.run_service_pb2 import (
    ControlRequest,
    ControlResponse,
    GetRunRequest,
    GetRunResponse,
    GetServerInfoRequest,
    GetServerInfoResponse,
    GetToolCallResultRequest,
    GetToolCallResultResponse,
    InlineWorkflow,
    ListInterruptsRequest,
    ListInterruptsResponse,
    ListRunMessagesRequest,
    ListRunMessagesResponse,
    ListRunsRequest,
    ListRunsResponse,
    ListToolCallsRequest,
    ListToolCallsResponse,
    StartRunRequest,
    StartRunResponse,
    WaitRunRequest,
    WaitRunResponse,
)
from jackline_server.api.limits import LIMITS
from jackline_server.core.commands import Abort, AdjustBounds, Answer, Steer
from jackline_server.core.facts import AbortMode, Phase
from jackline_server.core.messages import (
    AssistantMessage,
    MessageToolCall,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from jackline_server.core.new_bounds import NewRunBounds, NewVisitBounds
from jackline_server.identity.principals import Scope
from jackline_server.runtime.ports.run_rows import RunPage, RunQuery
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.use_cases import (
    Caller,
    ControlRun,
    Disposition,
    Receipt,
    ResultPart,
    Snapshot,
    Stage,
    Started,
    StartRun,
    TighterBounds,
)
from tests.rpc.doubles import (
    FINISHED,
    NOW_MS,
    OTHER_RUN_ID,
    RUN_ID,
    UNKNOWN,
    fold,
    row_of,
    snapshot_of,
)
from tests.rpc.harness import ALL, OTHER_TENANT, SECONDS, Harness, token_for

GET = GetRunRequest(run_id=RUN_ID)
RECEIPT = Receipt(
    command_id="c1",
    stage=Stage.EFFECTIVE,
    applied=True,
    rejection="",
    sequence=9,
    already_terminal=False,
    repeated=False,
    reached=True,
)


async def test_a_start_reaches_the_use_case_as_it_was_sent(door: Harness) -> None:
    door.script.always("start", Started(row=row_of(fold()), disposition=Disposition.QUEUED))
    request = StartRunRequest(
        workflow="refunds@stable",
        request_id="r-1",
        labels={"team": "care"},
        input_json=b'{"order": 9007199254740993}',
        bounds=run_pb2.RunBounds(cost_budget_micros=0, run_timeout=Duration(seconds=90)),
        deadline=Timestamp(seconds=NOW_MS // 1000 + 60),
        on_question=run_pb2.ON_QUESTION_REVIEW,
    )
    request.subject.update({"b": 2, "a": [1.5, None, True]})
    answer = await door.ask("StartRun", request, StartRunResponse)
    asked: StartRun = door.script.asked[0][1][0]
    assert asked.caller == Caller(tenant=DEFAULT_TENANT, principal="local")
    assert (asked.workflow, asked.inline, asked.request_id) == ("refunds@stable", None, "r-1")
    assert asked.input_json == '{"order": 9007199254740993}'
    assert asked.subject_json == '{"a":[1.5,null,true],"b":2}'
    assert asked.bounds == TighterBounds(cost_budget_micros=0, run_timeout_ms=90_000)
    assert asked.deadline_unix_ms == NOW_MS + 60_000
    assert len(asked.fingerprint) == 32
    assert answer.disposition == run_service_pb2.START_DISPOSITION_QUEUED
    assert (answer.run.run_id, dict(answer.run.labels)) == (RUN_ID, {"team": "care"})


async def test_an_inline_workflow_needs_the_scope_to_write_workflows(door: Harness) -> None:
    door.script.always("start", Started(row=row_of(fold()), disposition=Disposition.STARTED))
    request = StartRunRequest(inline_workflow=InlineWorkflow(yaml="name: x", files={"a.md": b"A"}))
    refused = await door.refused("StartRun", request, token=token_for(Scope.RUNS_START))
    assert (refused.reason, refused.info.metadata["scope"]) == ("SCOPE_MISSING", "workflows:write")
    await door.ask("StartRun", request, StartRunResponse)
    asked: StartRun = door.script.asked[0][1][0]
    assert asked.inline is not None
    assert (asked.inline.yaml, dict(asked.inline.files)) == ("name: x", {"a.md": b"A"})


async def test_the_tenant_is_the_credentials(door: Harness) -> None:
    door.script.always("start", Started(row=row_of(fold()), disposition=Disposition.STARTED))
    await door.ask("StartRun", StartRunRequest(workflow="w"), StartRunResponse, token=OTHER_TENANT)
    asked: StartRun = door.script.asked[0][1][0]
    assert (asked.caller.tenant.id, asked.caller.principal) == ("other", "stranger")


@pytest.mark.parametrize(
    ("request_", "scope", "missing"),
    [
        (
            ControlRequest(run_id=RUN_ID, pause=control_pb2.PauseCommand()),
            Scope.RUNS_CONTROL,
            Scope.RUNS_APPROVE,
        ),
        (
            ControlRequest(run_id=RUN_ID, answer=control_pb2.AnswerCommand(interrupt_id="i", option="o")),
            Scope.RUNS_APPROVE,
            Scope.RUNS_CONTROL,
        ),
        (
            ControlRequest(
                run_id=RUN_ID,
                submit_tool_result=control_pb2.SubmitToolResultCommand(call_id="c", error="no"),
            ),
            Scope.RUNS_APPROVE,
            Scope.RUNS_CONTROL,
        ),
        (
            ControlRequest(
                run_id=RUN_ID,
                adjust_bounds=control_pb2.AdjustBoundsCommand(run=run_pb2.RunBounds(steps=9)),
            ),
            Scope.RUNS_BOUNDS,
            Scope.RUNS_CONTROL,
        ),
    ],
    ids=["pause", "answer", "submit", "adjust"],
)
async def test_steering_answering_and_adjusting_are_three_permissions(
    door: Harness, request_: ControlRequest, scope: Scope, missing: Scope
) -> None:
    door.script.always("control", RECEIPT)
    assert (await door.ask("Control", request_, ControlResponse, token=token_for(scope))).reached
    refused = await door.refused("Control", request_, token=token_for(missing))
    assert (refused.reason, refused.info.metadata["scope"]) == ("SCOPE_MISSING", scope.value)


async def test_the_answer_that_raises_a_bound_needs_the_permission_for_bounds_too(door: Harness) -> None:
    command = control_pb2.AnswerCommand(interrupt_id="limit-5", option="raise")
    request = ControlRequest(run_id=RUN_ID, answer=command)
    refused = await door.refused("Control", request, token=token_for(Scope.RUNS_APPROVE))
    assert (refused.reason, refused.info.metadata["scope"]) == ("SCOPE_MISSING", "runs:bounds")
    refused = await door.refused("Control", request, token=token_for(Scope.RUNS_BOUNDS))
    assert (refused.reason, refused.info.metadata["scope"]) == ("SCOPE_MISSING", "runs:approve")
    door.script.always("control", RECEIPT)
    assert (await door.ask("Control", request, ControlResponse)).reached


async def test_new_bounds_reach_the_use_case_field_by_field(door: Harness) -> None:
    door.script.always("control", RECEIPT)
    command = control_pb2.AdjustBoundsCommand(
        run=run_pb2.RunBounds(token_budget=9, run_timeout=Duration(seconds=2)),
        visit=run_pb2.VisitBounds(max_iterations=3, tool_calls=0),
    )
    await door.ask("Control", ControlRequest(run_id=RUN_ID, adjust_bounds=command), ControlResponse)
    asked: ControlRun = door.script.asked[0][1][0]
    assert asked.action == AdjustBounds(
        run=NewRunBounds(token_budget=9, run_timeout_ms=2_000),
        visit=NewVisitBounds(max_iterations=3, tool_calls=0),
    )


@pytest.mark.parametrize(
    ("command", "field"),
    [
        (control_pb2.AdjustBoundsCommand(), "adjust_bounds"),
        (control_pb2.AdjustBoundsCommand(run=run_pb2.RunBounds()), "adjust_bounds"),
        (
            control_pb2.AdjustBoundsCommand(run=run_pb2.RunBounds(token_budget=0)),
            "adjust_bounds.run.token_budget",
        ),
        (
            control_pb2.AdjustBoundsCommand(run=run_pb2.RunBounds(token_budget=2**63)),
            "adjust_bounds.run.token_budget",
        ),
        (
            control_pb2.AdjustBoundsCommand(visit=run_pb2.VisitBounds(max_iterations=0)),
            "adjust_bounds.visit.max_iterations",
        ),
        (
            control_pb2.AdjustBoundsCommand(visit=run_pb2.VisitBounds(timeout=Duration(seconds=-1))),
            "adjust_bounds.visit.timeout",
        ),
    ],
)
async def test_bounds_that_no_run_can_have_are_refused_at_the_door(
    door: Harness, command: control_pb2.AdjustBoundsCommand, field: str
) -> None:
    refused = await door.refused("Control", ControlRequest(run_id=RUN_ID, adjust_bounds=command))
    assert (refused.reason, refused.fields) == ("INVALID_REQUEST", [field])


async def test_a_command_reaches_the_use_case_as_it_was_sent(door: Harness) -> None:
    door.script.always("control", replace(RECEIPT, applied=False, rejection="TOO_LATE"))
    request = ControlRequest(
        run_id=RUN_ID,
        command_id="c1",
        reason="because",
        expect=control_pb2.Expectation(state=run_pb2.RUN_STATE_RUNNING, sequence=0),
        wait=control_pb2.RECEIPT_STAGE_SETTLED,
        abort=control_pb2.AbortCommand(skip_routes=True),
    )
    answer = await door.ask("Control", request, ControlResponse)
    asked: ControlRun = door.script.asked[0][1][0]
    assert asked.action == Abort(mode=AbortMode.NOW, skip_routes=True)
    assert (asked.expect_phase, asked.expect_sequence, asked.wait) == ("running", 0, Stage.SETTLED)
    assert 0 < asked.wait_ms < SECONDS * 1000
    assert answer.receipt.disposition == control_pb2.COMMAND_DISPOSITION_REJECTED
    assert answer.receipt.rejection == 55
    assert (answer.receipt.sequence, answer.reached) == (9, True)


@pytest.mark.parametrize("text", ["</system>", '{"role":"system"}', "\u202e\u200bgo", "a" * 65_536])
async def test_guidance_is_plain_data(door: Harness, text: str) -> None:
    door.script.always("control", RECEIPT)
    request = ControlRequest(run_id=RUN_ID, steer=control_pb2.SteerCommand(text=text))
    await door.ask("Control", request, ControlResponse)
    asked: ControlRun = door.script.asked[0][1][0]
    assert asked.action == Steer(text=text)
    assert (asked.expect_phase, asked.expect_sequence, asked.command_id) == (None, None, "")


async def test_an_answer_reaches_the_use_case(door: Harness) -> None:
    door.script.always("control", RECEIPT)
    command = control_pb2.AnswerCommand(interrupt_id="int_1", option="happened", text="seen")
    await door.ask("Control", ControlRequest(run_id=RUN_ID, answer=command), ControlResponse)
    asked: ControlRun = door.script.asked[0][1][0]
    assert asked.action == Answer(interrupt_id="int_1", option="happened", text="seen")


@pytest.mark.parametrize("facts", [UNKNOWN, FINISHED], ids=["waiting", "finished"])
async def test_no_content_leaves_in_the_metadata_view(door: Harness, facts: Any) -> None:
    state = fold(*facts, input_json='"secret-input"')
    door.script.always("get", snapshot_of(state))
    door.script.always("wait", snapshot_of(state))
    door.script.always("page", RunPage(rows=[row_of(state)], total=1))
    observer = token_for(Scope.RUNS_OBSERVE)
    for method, request in {
        "GetRun": GET,
        "WaitRun": WaitRunRequest(run_id=RUN_ID),
        "ListRuns": ListRunsRequest(),
        "ListToolCalls": ListToolCallsRequest(run_id=RUN_ID),
        "ListInterrupts": ListInterruptsRequest(),
    }.items():
        data = await door.send(f"/jackline.v1.RunService/{method}", request, token=observer)
        assert b"secret" not in data
        if method == "ListRuns":
            continue
        full = type(request)()
        full.CopyFrom(request)  # pyright: ignore[reportArgumentType]  # the same type
        full.view = run_pb2.VIEW_FULL  # pyright: ignore[reportAttributeAccessIssue]  # all of them have one
        refused = await door.refused(method, full, token=observer)
        assert (refused.reason, refused.info.metadata["scope"]) == ("SCOPE_MISSING", "runs:content")


async def test_a_run_is_shown_in_full_to_who_may_see_it(door: Harness) -> None:
    door.script.always("get", snapshot_of(fold(*FINISHED)))
    answer = await door.ask("GetRun", GetRunRequest(run_id=RUN_ID, view=run_pb2.VIEW_FULL), GetRunResponse)
    run = answer.run
    assert (run.state, run.signal) == (run_pb2.RUN_STATE_SUCCEEDED, "default")
    assert (run.outcome.result_json, run.input_json) == (b'"secret-result"', b'{"message":"hi"}')
    assert dict(run.subject) == {"user": "u1"}  # pyright: ignore[reportArgumentType]  # a struct is a mapping
    assert [(step.step_id, step.status) for step in run.steps] == [("answer", run_pb2.STEP_STATUS_SUCCEEDED)]
    assert (run.usage.prompt_tokens, run.ledger.tool_calls, run.head_sequence) == (10, 1, 9)
    assert (run.created_at.seconds, run.finished_at.nanos) == (NOW_MS // 1000, 1_000_000)


async def test_a_waiting_run_shows_its_question(door: Harness) -> None:
    door.script.always("get", snapshot_of(fold(*UNKNOWN)))
    answer = await door.ask("GetRun", GetRunRequest(run_id=RUN_ID, view=run_pb2.VIEW_FULL), GetRunResponse)
    [interrupt] = answer.run.interrupts
    assert answer.run.state == run_pb2.RUN_STATE_WAITING
    assert (interrupt.tool, interrupt.question) == ("refund", "secret-question")
    assert interrupt.arguments_json == b'{"secret-argument":1}'
    assert interrupt.raised_at.seconds == NOW_MS // 1000
    assert answer.run.visit_ledger.tool_calls == 1
    assert [step.status for step in answer.run.steps] == [run_pb2.STEP_STATUS_RUNNING]


async def test_a_wait_ends_before_the_calls_own_time(door: Harness) -> None:
    door.script.always("wait", snapshot_of(fold(*FINISHED)))
    answer = await door.ask("WaitRun", WaitRunRequest(run_id=RUN_ID), WaitRunResponse)
    assert answer.finished
    assert 0 < door.script.asked[0][1][2] < SECONDS * 1000
    short = WaitRunRequest(run_id=RUN_ID, timeout=Duration(nanos=5_000_000))
    await door.ask("WaitRun", short, WaitRunResponse)
    assert door.script.asked[1][1][2] == 5


async def test_runs_come_page_by_page_under_the_same_filters(door: Harness) -> None:
    rows = [row_of(fold(run_id=f"run_{n:026d}"), created_unix_ms=NOW_MS - n) for n in range(3)]

    def page(query: RunQuery) -> RunPage:
        start = (
            0
            if query.before is None
            else 1 + [(row.created_unix_ms, row.run_id) for row in rows].index(query.before)
        )
        return RunPage(rows=rows[start : start + query.limit], total=3)

    door.script.on("page", page)
    request = ListRunsRequest(
        states=[run_pb2.RUN_STATE_RUNNING], labels={"team": "care"}, workflow="example", page_size=2
    )
    first = await door.ask("ListRuns", request, ListRunsResponse)
    assert ([run.run_id for run in first.runs], first.total_size) == ([row.run_id for row in rows[:2]], 3)
    query: RunQuery = door.script.asked[0][1][0]
    assert (query.phases, query.workflow, query.labels) == (
        frozenset({Phase.RUNNING}), "example", {"team": "care"},
    )  # fmt: skip
    request.page_token = first.next_page_token
    second = await door.ask("ListRuns", request, ListRunsResponse)
    assert ([run.run_id for run in second.runs], second.next_page_token) == ([rows[2].run_id], "")
    other = ListRunsRequest(workflow="another", page_size=2, page_token=first.next_page_token)
    for changed, token in ((other, ALL), (request, OTHER_TENANT)):
        refused = await door.refused("ListRuns", changed, token=token)
        assert (refused.reason, refused.fields) == ("BAD_PAGE_TOKEN", ["page_token"])
    for forged in (
        "x",
        "AAAA",
        first.next_page_token[:-2],
        "\u00e9",
        "a" * 2000,
        first.next_page_token[::-1],
    ):
        request.page_token = forged
        assert (await door.refused("ListRuns", request)).reason == "BAD_PAGE_TOKEN"


@pytest.mark.parametrize(("asked", "given"), [(0, 50), (7, 7), (10**6, 500)])
async def test_a_page_is_the_default_or_clipped(door: Harness, asked: int, given: int) -> None:
    door.script.always("page", RunPage(rows=[], total=0))
    await door.ask("ListRuns", ListRunsRequest(page_size=asked), ListRunsResponse)
    assert door.script.asked[0][1][0].limit == given


async def test_interrupts_of_all_runs_come_page_by_page(door: Harness) -> None:
    states = {
        run_id: fold(
            *UNKNOWN,
            replace(UNKNOWN[-1], interrupt_id="int_2"),  # pyright: ignore[reportCallIssue]  # an InterruptRaised
            run_id=run_id,
        )
        for run_id in (RUN_ID, OTHER_RUN_ID)
    }
    created = {RUN_ID: NOW_MS, OTHER_RUN_ID: NOW_MS + 5}

    def page(query: RunQuery) -> RunPage:
        assert query.with_interrupts
        assert query.oldest_first
        ids = [one for one in states if query.before is None or created[one] > query.before[0]]
        rows = [row_of(states[one], created_unix_ms=created[one]) for one in ids[: query.limit]]
        return RunPage(rows=rows, total=2)

    def get(_: object, run_id: str) -> Snapshot:
        return snapshot_of(states[run_id], created_unix_ms=created[run_id])

    door.script.on("page", page)
    door.script.on("get", get)
    found: list[tuple[str, str]] = []
    token = ""
    for _ in range(10):
        answer = await door.ask(
            "ListInterrupts", ListInterruptsRequest(page_size=3, page_token=token), ListInterruptsResponse
        )
        found += [(one.run_id, one.interrupt_id) for one in answer.interrupts]
        token = answer.next_page_token
        if not token:
            break
    assert found == [(run, one) for run in (RUN_ID, OTHER_RUN_ID) for one in ("int_1", "int_2")]
    one = await door.ask("ListInterrupts", ListInterruptsRequest(run_id=RUN_ID), ListInterruptsResponse)
    assert [interrupt.interrupt_id for interrupt in one.interrupts] == ["int_1", "int_2"]


async def test_tool_calls_are_listed_in_order(door: Harness) -> None:
    door.script.always("get", snapshot_of(fold(*FINISHED)))
    request = ListToolCallsRequest(run_id=RUN_ID, view=run_pb2.VIEW_FULL)
    [call] = (await door.ask("ListToolCalls", request, ListToolCallsResponse)).tool_calls
    assert (call.call_id, call.tool, call.status) == ("call_1", "refund", run_pb2.TOOL_CALL_STATUS_COMPLETED)
    assert (call.arguments_json, call.result) == (b'{"secret-argument":1}', '"secret-result"')


async def test_a_result_is_read_from_where_it_was_asked_for(door: Harness) -> None:
    door.script.always(
        "result", ResultPart(data=b"abc", total_bytes=900, kept_bytes=10, media_type="text/plain")
    )
    request = GetToolCallResultRequest(run_id=RUN_ID, call_id="call_1", offset=7)
    part = await door.ask("GetToolCallResult", request, GetToolCallResultResponse)
    assert (part.data, part.total_bytes, part.kept_bytes, part.complete) == (b"abc", 900, 10, False)
    assert part.media_type == "text/plain"
    assert door.script.asked[0][1][1:] == (RUN_ID, "call_1", 0, 7, LIMITS.result_bytes)


async def test_a_part_of_a_result_is_asked_for_by_its_number(door: Harness) -> None:
    door.script.always(
        "result", ResultPart(data=b"\x89P", total_bytes=2, kept_bytes=2, media_type="image/png")
    )
    request = GetToolCallResultRequest(run_id=RUN_ID, call_id="call_1", part=2)
    part = await door.ask("GetToolCallResult", request, GetToolCallResultResponse)
    assert (part.data, part.media_type, part.complete) == (b"\x89P", "image/png", True)
    assert door.script.asked[0][1][1:] == (RUN_ID, "call_1", 2, 0, LIMITS.result_bytes)


async def test_the_conversation_is_shown_with_where_it_came_from(door: Harness) -> None:
    door.script.always(
        "messages",
        [
            SystemMessage(text="s"),
            UserMessage(text="u", provenance="input"),
            AssistantMessage(text="a", calls=(MessageToolCall(call_id="c", name="t", arguments="{}"),)),
            ToolMessage(call_id="c", name="t", text="r", is_error=False),
        ],
    )
    request = ListRunMessagesRequest(run_id=RUN_ID, step_id="answer", visit=2)
    messages = (await door.ask("ListRunMessages", request, ListRunMessagesResponse)).messages
    assert [(one.role, one.provenance, one.text) for one in messages] == [
        (1, "system", "s"),
        (2, "input", "u"),
        (3, "model", "a"),
        (4, "tool:t", "r"),
    ]
    assert (messages[2].tool_calls[0].call_id, messages[3].call_id) == ("c", "c")
    assert door.script.asked[0][1][1:] == (RUN_ID, "answer", 2)


async def test_the_server_says_what_it_is_to_any_credential(door: Harness) -> None:
    token = token_for(Scope.TOOLS_SERVE)
    info = await door.ask("GetServerInfo", GetServerInfoRequest(), GetServerInfoResponse, token=token)
    assert (info.version, info.durability) == ("1.2.3", run_service_pb2.DURABILITY_CLASS_FSYNC)
    assert {limit.name: limit.value for limit in info.limits} == LIMITS.published()
    assert (list(info.step_kinds), list(info.models), sorted(info.commands)) == (
        ["agent"], ["fast"], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
    )  # fmt: skip

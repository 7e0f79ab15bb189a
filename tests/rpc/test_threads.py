"""Threads at the door: what reaches the use case, what is refused before, pages, views and scopes."""

import grpc
import pytest

from jackline.v1 import run_pb2, thread_pb2
from jackline.v1.run_service_pb2 import (
    START_DISPOSITION_REPLACED,
    AppendMessagesRequest,
    AppendMessagesResponse,
    GetThreadRequest,
    GetThreadResponse,
    ListThreadsRequest,
    ListThreadsResponse,
    StartRunRequest,
    StartRunResponse,
)
from jackline_server.core.facts import Usage
from jackline_server.core.messages import UserMessage
from jackline_server.identity.principals import Scope
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.ports.threads import Appended, AppendOutcome, MessageRow, ThreadRow
from jackline_server.runtime.refusals import Reason, Refused
from jackline_server.runtime.use_cases import (
    AppendMessages,
    Disposition,
    OnBusy,
    Started,
    StartRun,
    ThreadPage,
    ThreadRequest,
)
from tests.rpc.doubles import NOW_MS, RUN_ID, fold, row_of
from tests.rpc.harness import Harness, token_for

USER, ASSISTANT = run_pb2.MESSAGE_ROLE_USER, run_pb2.MESSAGE_ROLE_ASSISTANT


def thread_row(thread_id: str = "talk", *, messages: int = 3) -> ThreadRow:
    return ThreadRow(
        tenant=DEFAULT_TENANT,
        thread_id=thread_id,
        created_unix_ms=NOW_MS,
        changed_unix_ms=NOW_MS,
        messages=messages,
        pending=1,
        active_run=RUN_ID,
        waiting=2,
        ended=4,
        usage=Usage(prompt_tokens=5, completion_tokens=6),
        cost_micros=7,
    )


def page_of(*positions: int, content: bool = False) -> ThreadPage:
    rows = [
        MessageRow(
            position=position,
            digest="0" * 64,
            role="user",
            size=9,
            run_id=RUN_ID,
            principal="",
            added_unix_ms=NOW_MS,
        )
        for position in positions
    ]
    texts = [UserMessage(text=f"text {position}", provenance="input") for position in positions]
    return ThreadPage(row=thread_row(), messages=rows, content=texts if content else [])


def new(role: run_pb2.MessageRole.ValueType, text: str) -> thread_pb2.NewThreadMessage:
    return thread_pb2.NewThreadMessage(role=role, text=text)


async def test_a_start_in_a_thread_reaches_the_use_case_as_it_was_sent(door: Harness) -> None:
    door.script.always("start", Started(row=row_of(fold()), disposition=Disposition.REPLACED))
    request = StartRunRequest(workflow="w", thread_id="talk", on_busy=thread_pb2.ON_BUSY_REPLACE)
    answer = await door.ask("StartRun", request, StartRunResponse)
    asked: StartRun = door.script.asked[0][1][0]
    assert asked.thread == ThreadRequest(thread_id="talk", on_busy=OnBusy.REPLACE)
    assert answer.disposition == START_DISPOSITION_REPLACED


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (StartRunRequest(workflow="w", on_busy=thread_pb2.ON_BUSY_STEER), "on_busy"),
        (StartRunRequest(workflow="w", thread_id="a b"), "thread_id"),
        (StartRunRequest(workflow="w", thread_id="t" * 129), "thread_id"),
        (StartRunRequest(workflow="w", thread_id="t", on_busy=99), "on_busy"),  # pyright: ignore[reportArgumentType] - no value of this version
    ],
)
async def test_a_start_in_no_thread_that_can_be_is_refused(
    door: Harness, request_: StartRunRequest, field: str
) -> None:
    refused = await door.refused("StartRun", request_)
    assert (refused.reason, refused.fields) == ("INVALID_REQUEST", [field])


async def test_a_busy_thread_is_a_failed_precondition_that_names_the_run(door: Harness) -> None:
    def busy(_request: StartRun) -> Started:
        raise Refused(Reason.THREAD_BUSY, "Busy.", metadata={"thread_id": "t", "run_id": RUN_ID})

    door.script.on("start", busy)
    refused = await door.refused("StartRun", StartRunRequest(workflow="w", thread_id="t"))
    assert refused.code is grpc.StatusCode.FAILED_PRECONDITION
    assert (refused.reason, dict(refused.info.metadata)) == (
        "THREAD_BUSY",
        {"thread_id": "t", "run_id": RUN_ID},
    )


async def test_messages_to_append_reach_the_use_case_and_the_answer_says_if_they_pend(door: Harness) -> None:
    door.script.always("append", Appended(outcome=AppendOutcome.PENDING, row=thread_row()))
    request = AppendMessagesRequest(
        thread_id="talk", messages=[new(USER, "Hello."), new(ASSISTANT, "Hi.")], request_id="once"
    )
    answer = await door.ask("AppendMessages", request, AppendMessagesResponse)
    asked: AppendMessages = door.script.asked[0][1][0]
    assert [(one.assistant, one.text) for one in asked.messages] == [(False, "Hello."), (True, "Hi.")]
    assert (asked.thread_id, asked.request_id, len(asked.fingerprint)) == ("talk", "once", 32)
    assert (answer.pending, answer.repeated_request, answer.thread.pending_messages) == (True, False, 1)


@pytest.mark.parametrize(
    ("messages", "field"),
    [
        ([], "messages"),
        ([new(run_pb2.MESSAGE_ROLE_TOOL, "x")], "messages[0].role"),
        ([new(run_pb2.MESSAGE_ROLE_SYSTEM, "x")], "messages[0].role"),
        ([new(run_pb2.MESSAGE_ROLE_UNSPECIFIED, "x")], "messages[0].role"),
        ([new(USER, "fine"), new(USER, " \n")], "messages[1].text"),
        ([new(USER, "\u200b")], "messages[0].text"),
        ([new(USER, "a\0b")], "messages[0].text"),
        ([new(USER, "x")] * 101, "messages"),
    ],
)
async def test_a_message_that_no_caller_can_say_is_refused(
    door: Harness, messages: list[thread_pb2.NewThreadMessage], field: str
) -> None:
    refused = await door.refused("AppendMessages", AppendMessagesRequest(thread_id="t", messages=messages))
    assert (refused.reason, refused.fields) == ("INVALID_REQUEST", [field])


async def test_a_message_that_is_too_long_is_refused_by_its_size(door: Harness) -> None:
    request = AppendMessagesRequest(thread_id="t", messages=[new(USER, "ü" * 40_000)])
    refused = await door.refused("AppendMessages", request)
    assert (refused.reason, refused.info.metadata["limit"]) == ("FIELD_TOO_LARGE", str(64 * 1024))


async def test_pages_of_messages_go_on_where_the_last_one_ended(door: Harness) -> None:
    door.script.always("thread", page_of(1, 2))
    request = GetThreadRequest(thread_id="talk", page_size=2)
    first = await door.ask("GetThread", request, GetThreadResponse)
    door.script.always("thread", page_of(3))
    request.page_token = first.next_page_token
    last = await door.ask("GetThread", request, GetThreadResponse)
    assert [asked[1][2:4] for asked in door.script.asked] == [(0, 2), (2, 2)]
    assert (last.messages[0].position, last.next_page_token) == (3, "")
    assert not last.messages[0].HasField("message")
    request.thread_id = "other"
    assert (await door.refused("GetThread", request)).reason == "BAD_PAGE_TOKEN"


async def test_what_was_said_is_shown_in_the_full_view_alone(door: Harness) -> None:
    door.script.always("thread", page_of(1, content=True))
    request = GetThreadRequest(thread_id="talk", view=run_pb2.VIEW_FULL)
    answer = await door.ask("GetThread", request, GetThreadResponse)
    assert answer.messages[0].message.text == "text 1"
    assert door.script.asked[0][1][4] is True
    refused = await door.refused("GetThread", request, token=token_for(Scope.RUNS_OBSERVE))
    assert (refused.reason, refused.info.metadata["scope"]) == ("SCOPE_MISSING", "runs:content")


async def test_a_list_of_threads_shows_what_they_have_used(door: Harness) -> None:
    door.script.always("threads", [thread_row("a"), thread_row("b")])
    request = ListThreadsRequest(page_size=2)
    answer = await door.ask("ListThreads", request, ListThreadsResponse)
    one = answer.threads[0]
    assert (one.thread_id, one.ended_runs, one.waiting_runs, one.cost_micros) == ("a", 4, 2, 7)
    assert (one.usage.prompt_tokens, one.active_run_id) == (5, RUN_ID)
    request.page_token = answer.next_page_token
    await door.ask("ListThreads", request, ListThreadsResponse)
    assert door.script.asked[-1][1][1] == (NOW_MS, "b")


@pytest.mark.parametrize(
    ("method", "request_", "scope"),
    [
        ("ListThreads", ListThreadsRequest(), Scope.RUNS_OBSERVE),
        ("GetThread", GetThreadRequest(thread_id="t"), Scope.RUNS_OBSERVE),
        ("AppendMessages", AppendMessagesRequest(thread_id="t"), Scope.RUNS_START),
    ],
)
async def test_each_call_needs_its_scope(
    door: Harness, method: str, request_: ListThreadsRequest, scope: Scope
) -> None:
    refused = await door.refused(method, request_, token=token_for(Scope.WORKFLOWS_READ))
    assert (refused.reason, refused.info.metadata["scope"]) == ("SCOPE_MISSING", scope.value)

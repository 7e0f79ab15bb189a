"""`jackline threads`, and `run` and `ls` of a thread."""

import json

import pytest

from jackline.v1 import run_pb2, thread_pb2
from jackline.v1 import run_service_pb2 as wire
from tests.cli.console import Console
from tests.support.scripted_service import RUN_ID, ScriptedService

USER = run_pb2.MESSAGE_ROLE_USER


def talk(**more: int) -> thread_pb2.Thread:
    return thread_pb2.Thread(thread_id="talk", message_count=2, ended_runs=1, **more)  # pyright: ignore[reportArgumentType] - counts alone


async def test_a_run_in_a_thread_is_started_with_what_to_do_if_it_is_busy(
    console: Console, service: ScriptedService
) -> None:
    answer = wire.StartRunResponse(disposition=wire.START_DISPOSITION_STEERED)
    answer.run.run_id = RUN_ID
    service.script("StartRun", answer)
    done = await console.run("run", "chat", "--thread", "talk", "--on-busy", "steer", "--detach")
    [asked] = service.requests(wire.StartRunRequest)
    assert (done.code, done.out) == (0, f"{RUN_ID}\n")
    assert (asked.thread_id, asked.on_busy) == ("talk", thread_pb2.ON_BUSY_STEER)


@pytest.mark.parametrize(
    "words",
    [("--on-busy", "steer"), ("--thread", "talk", "--on-busy", "wait")],
)
async def test_what_to_do_with_a_busy_thread_is_one_of_four_and_goes_with_a_thread(
    console: Console, words: tuple[str, ...]
) -> None:
    assert (await console.run("run", "chat", *words)).code == 2


async def test_threads_are_listed(console: Console, service: ScriptedService) -> None:
    service.script("ListThreads", wire.ListThreadsResponse(threads=[talk()]))
    done = await console.run("threads", "ls", "-o", "name")
    assert (done.code, done.out) == (0, "talk\n")


async def test_a_thread_is_shown_with_what_was_said(console: Console, service: ScriptedService) -> None:
    said = thread_pb2.ThreadMessage(position=1, role=USER, run_id=RUN_ID)
    said.message.text = "Hello."
    service.script("GetThread", wire.GetThreadResponse(thread=talk(), messages=[said]))
    service.script("GetThread", wire.GetThreadResponse(thread=talk(), messages=[said]))
    done = await console.run("threads", "get", "talk", "--after", "0")
    assert done.code == 0
    assert "2 messages, 1 run" in done.out
    assert "    Hello.\n" in done.out
    assert service.requests(wire.GetThreadRequest)[-1].view == run_pb2.VIEW_FULL


async def test_messages_of_a_thread_as_json_are_one_a_line(
    console: Console, service: ScriptedService
) -> None:
    said = [thread_pb2.ThreadMessage(position=place, role=USER) for place in (1, 2)]
    service.script("GetThread", wire.GetThreadResponse(thread=talk(), messages=said))
    service.script("GetThread", wire.GetThreadResponse(thread=talk(), messages=said))
    done = await console.run("threads", "get", "talk", "-o", "json")
    assert [int(json.loads(line)["position"]) for line in done.out.splitlines()] == [1, 2]


async def test_a_message_is_appended_in_the_role_that_is_named(
    console: Console, service: ScriptedService
) -> None:
    service.script("AppendMessages", wire.AppendMessagesResponse(thread=talk()))
    done = await console.run(
        "threads", "append", "talk", "Noted.", "--role", "assistant", "--request-id", "once"
    )
    [asked] = service.requests(wire.AppendMessagesRequest)
    assert (done.code, asked.thread_id, asked.request_id) == (0, "talk", "once")
    assert [(one.role, one.text) for one in asked.messages] == [(run_pb2.MESSAGE_ROLE_ASSISTANT, "Noted.")]


async def test_a_message_is_appended_by_nobody_else(console: Console) -> None:
    assert (await console.run("threads", "append", "talk", "x", "--role", "system")).code == 2

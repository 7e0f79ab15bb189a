"""`jackline calls`, `messages`, `inbox`, `info` and `workers` through the console script."""

import json
from typing import Any

import grpc
import pytest

from jackline.v1 import run_service_pb2 as wire
from jackline.v1 import tool_worker_pb2
from jackline.v1.control_pb2 import CommandKind
from jackline.v1.event_pb2 import Content, Paused, RuleFired, StepEvent
from jackline.v1.run_pb2 import (
    Effect,
    Interrupt,
    InterruptKind,
    MessageRole,
    Run,
    RunMessage,
    RunMessageToolCall,
    RunState,
    ToolCall,
    ToolCallStatus,
    View,
)
from jackline_client.cli.exit_codes import ExitCode
from tests.cli.console import Console
from tests.support.scripted_service import RUN_ID, Failure, ScriptedService, StreamScript, frame_of

HOSTILE = "\x1b[2J\x1b]0;owned\x07\u202e"


async def test_tool_calls_are_listed_with_arguments_and_results(
    console: Console, service: ScriptedService
) -> None:
    call = ToolCall(
        call_id="call_1",
        tool="lookup" + HOSTILE,
        step_id="handle",
        iteration=1,
        status=ToolCallStatus.TOOL_CALL_STATUS_COMPLETED,
        effect=Effect.EFFECT_READ,
        attempts=1,
        arguments_json=b'{"order_id":"A-17"}',
        result='{"total":12}' + HOSTILE,
    )
    service.script("ListToolCalls", wire.ListToolCallsResponse(tool_calls=[call]))
    done = await console.run("calls", RUN_ID)
    assert done.code == 0
    assert "(order_id=A-17)" in done.out
    assert "completed (read, 1 attempt, step handle, turn 1" in done.out
    assert not done.hidden_bytes
    (request,) = service.requests(wire.ListToolCallsRequest)
    assert request.view == View.VIEW_FULL


async def test_a_part_of_a_result_is_listed_with_the_command_that_reads_it(
    console: Console, service: ScriptedService
) -> None:
    call = ToolCall(call_id="call_1", tool="draw", media=2, result="[image]")
    service.script("ListToolCalls", wire.ListToolCallsResponse(tool_calls=[call]))
    done = await console.run("calls", RUN_ID)
    for part in (1, 2):
        assert f"jackline result RUN call_1 --part {part} --to FILE" in done.out


async def test_messages_of_one_visit_are_shown_as_the_model_saw_them(
    console: Console, service: ScriptedService
) -> None:
    asked = RunMessageToolCall(call_id="call_1", tool="lookup", arguments_json=b'{"id":7}')
    found = [
        RunMessage(role=MessageRole.MESSAGE_ROLE_USER, provenance="steer:local", text="Be kind." + HOSTILE),
        RunMessage(role=MessageRole.MESSAGE_ROLE_ASSISTANT, provenance="model", tool_calls=[asked]),
        RunMessage(
            role=MessageRole.MESSAGE_ROLE_TOOL, provenance="tool:lookup", call_id="call_1", text="two\nlines"
        ),
    ]
    service.script("ListRunMessages", wire.ListRunMessagesResponse(messages=found))
    done = await console.run("messages", RUN_ID, "--step", "handle", "--visit", "2")
    assert done.out.splitlines()[0] == "user (steer:local)"
    assert '  → lookup({"id":7})  call_1\n' in done.out
    assert "tool (tool:lookup) call_1\n  two\n  lines\n" in done.out
    assert not done.hidden_bytes
    (request,) = service.requests(wire.ListRunMessagesRequest)
    assert (request.step_id, request.visit) == ("handle", 2)


async def test_the_inbox_lists_open_questions_with_the_commands_that_answer_them(
    console: Console, service: ScriptedService
) -> None:
    question = Interrupt(
        interrupt_id="int_1",
        run_id=RUN_ID,
        kind=InterruptKind.INTERRUPT_KIND_UNKNOWN_OUTCOME,
        step_id="notify",
        tool="notify",
        arguments_json=b'{"queue":"refunds"}',
        question="Was the ticket opened?" + HOSTILE,
        options=["succeeded", "failed"],
    )
    service.script("ListInterrupts", wire.ListInterruptsResponse(interrupts=[question]))
    done = await console.run("inbox")
    assert "Was the ticket opened?" in done.out
    assert "about notify(queue=refunds)" in done.out
    assert f"jackline answer {RUN_ID} int_1 succeeded\n" in done.out
    assert not done.hidden_bytes


BY_A_RULE = StepEvent(sequence=4, rule_fired=RuleFired(), content=Content(text="three in a row"))
HELD = StepEvent(sequence=5, paused=Paused(principal="supervisor.rules[0]"))


@pytest.mark.parametrize("delayed", [False, True], ids=["under way", "before it begins"])
async def test_a_run_that_is_held_says_by_whom_why_and_how_it_goes_on(
    console: Console, service: ScriptedService, *, delayed: bool
) -> None:
    run = Run(run_id=RUN_ID, state=RunState.RUN_STATE_PAUSED, head_sequence=5)
    if delayed:
        run.start_time.GetCurrentTime()
    service.script("GetRun", wire.GetRunResponse(run=run))
    end = wire.StreamProgressResponse(sent_through=5, head_sequence=5)
    service.streams.append(StreamScript(frames=[frame_of(BY_A_RULE), frame_of(HELD), end], hang=True))
    done = await console.run("get", RUN_ID)
    assert done.code == 0, done.err
    assert "held by supervisor.rules[0]" in done.out
    assert "three in a row" in done.out
    assert f"jackline resume {RUN_ID}" in done.out


async def test_a_delayed_run_that_nobody_holds_is_not_called_held(
    console: Console, service: ScriptedService
) -> None:
    run = Run(run_id=RUN_ID, state=RunState.RUN_STATE_QUEUED, head_sequence=1)
    run.start_time.GetCurrentTime()
    service.script("GetRun", wire.GetRunResponse(run=run))
    done = await console.run("get", RUN_ID)
    assert done.code == 0, done.err
    assert "begins" in done.out
    assert "jackline resume" not in done.out


async def test_a_run_that_is_held_names_its_command_also_where_its_log_can_not_be_read(
    console: Console, service: ScriptedService
) -> None:
    run = Run(run_id=RUN_ID, state=RunState.RUN_STATE_PAUSED, head_sequence=6)
    service.script("GetRun", wire.GetRunResponse(run=run))
    denied = Failure(code=grpc.StatusCode.PERMISSION_DENIED, reason="SCOPE_MISSING")
    service.streams.append(StreamScript(frames=[], end=denied))
    done = await console.run("get", RUN_ID)
    assert done.code == 0, done.err
    assert f"jackline resume {RUN_ID}" in done.out


async def test_the_inbox_of_a_run_without_questions_names_those_below_it(
    console: Console, service: ScriptedService
) -> None:
    asked = Interrupt(interrupt_id="int_1", run_id="run_below", parent_run_id=RUN_ID)
    service.script(
        "ListInterrupts", wire.ListInterruptsResponse(), wire.ListInterruptsResponse(interrupts=[asked])
    )
    done = await console.run("inbox", RUN_ID)
    assert done.code == 0, done.err
    assert f"1 question below it: jackline inbox --parent {RUN_ID}\n" in done.out
    assert [one.include_children for one in service.requests(wire.ListInterruptsRequest)] == [False, True]


async def test_the_inbox_of_a_run_says_that_nobody_asks_once_nobody_below_it_does(
    console: Console, service: ScriptedService
) -> None:
    own = Interrupt(interrupt_id="int_1", run_id=RUN_ID)
    service.script(
        "ListInterrupts", wire.ListInterruptsResponse(), wire.ListInterruptsResponse(interrupts=[own])
    )
    assert (await console.run("inbox", RUN_ID)).out == "no open questions\n"


async def test_a_program_that_reads_an_empty_inbox_costs_no_second_look(
    console: Console, service: ScriptedService
) -> None:
    service.script("ListInterrupts", wire.ListInterruptsResponse())
    done = await console.run("inbox", RUN_ID, "-o", "json")
    assert (done.code, done.out) == (0, "")


async def test_a_server_says_what_it_is(console: Console, service: ScriptedService) -> None:
    found = wire.GetServerInfoResponse(
        version="1.2.3",
        durability=wire.DURABILITY_CLASS_FSYNC,
        models=["fast"],
        step_kinds=["agent", "http"],
        commands=[CommandKind.COMMAND_KIND_STEER],
        limits=[wire.Limit(name="input_bytes", value=1_048_576)],
    )
    service.script("GetServerInfo", found)
    done = await console.run("info")
    for words in ("1.2.3", "fsync", "fast", "agent, http", "steer", "input_bytes = 1,048,576"):
        assert words in done.out


@pytest.mark.parametrize(
    ("words", "method", "answer"),
    [
        (("calls", RUN_ID), "ListToolCalls", wire.ListToolCallsResponse()),
        (("messages", RUN_ID), "ListRunMessages", wire.ListRunMessagesResponse()),
        (("inbox",), "ListInterrupts", wire.ListInterruptsResponse()),
        (("ls",), "ListRuns", wire.ListRunsResponse()),
    ],
    ids=["calls", "messages", "inbox", "ls"],
)
async def test_nothing_to_list_is_said_to_a_person_and_is_no_line_for_a_program(
    console: Console,
    service: ScriptedService,
    words: tuple[str, ...],
    method: str,
    answer: wire.ListRunsResponse,
) -> None:
    service.script(method, answer, answer)
    assert (await console.run(*words)).out.startswith("no ")
    assert (await console.run(*words, "--json")).out == ""


async def test_json_has_the_names_of_the_api(console: Console, service: ScriptedService) -> None:
    service.script("ListToolCalls", wire.ListToolCallsResponse(tool_calls=[ToolCall(call_id="call_1")]))
    done = await console.run("calls", RUN_ID, "--json")
    assert json.loads(done.out) == {"call_id": "call_1"}


async def test_workers_has_a_line_for_each_and_one_for_a_pool_that_nobody_serves(
    console: Console, service: ScriptedService
) -> None:
    def worker(name: str, **more: Any) -> tool_worker_pb2.ToolWorker:
        return tool_worker_pb2.ToolWorker(worker=name, tools=["look", "move"], max_parallel=8, **more)

    depot = tool_worker_pb2.WorkerPool(
        name="depot",
        workers=[
            worker("one", connected=True, in_flight_count=3),
            worker("two", connected=True, draining=True),
            worker("three"),
        ],
    )
    hub = tool_worker_pb2.WorkerPool(name="hub", waiting_count=2)
    service.script("ListToolWorkers", tool_worker_pb2.ListToolWorkersResponse(pools=[depot, hub]))
    done = await console.run("workers")
    assert [line.split() for line in done.out.splitlines()[1:]] == [
        ["depot", "one", "connected", "3/8", "0", "look,move"],
        ["depot", "two", "leaving", "0/8", "0", "look,move"],
        ["depot", "three", "away", "0/8", "0", "look,move"],
        ["hub", "no", "worker", "2"],
    ]


async def test_workers_asks_for_one_pool_and_says_if_there_is_none(
    console: Console, service: ScriptedService
) -> None:
    missing = Failure(code=grpc.StatusCode.NOT_FOUND, reason="WORKER_POOL_NOT_FOUND")
    service.script("ListToolWorkers", missing, tool_worker_pb2.ListToolWorkersResponse())
    done = await console.run("workers", "depot")
    assert (done.code, done.out) == (ExitCode.REFUSED, "")
    assert [asked.pool for asked in service.requests(tool_worker_pb2.ListToolWorkersRequest)] == ["depot"]
    none = await console.run("workers")
    assert (none.code, len(none.out.splitlines())) == (0, 1)

"""Commands on runs through the console script: what is shown, and the exit codes of BI120."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import grpc
import pytest

from jackline.v1 import run_service_pb2 as wire
from jackline.v1.control_pb2 import CommandDisposition
from jackline.v1.event_pb2 import (
    CallContent,
    Content,
    Delta,
    InterruptRaised,
    ModelCallPurpose,
    ModelCallStarted,
    ModelReplied,
    Reflected,
    ReflectionPattern,
    ReplyContent,
    StepEvent,
    StepFinished,
    StepStarted,
    ToolCallFinished,
    ToolCallRequested,
    ToolProgress,
    ToolResultContent,
)
from jackline.v1.run_pb2 import Interrupt, Run, RunState, ToolCallStatus, Usage
from tests.cli.console import Console
from tests.support.scripted_service import (
    RUN_ID,
    Failure,
    ScriptedService,
    StreamScript,
    ended_run,
    frame_of,
    numbered,
    receipt,
    serving,
    small_log,
    started,
)

OK = ToolCallStatus.TOOL_CALL_STATUS_COMPLETED


def refund_log() -> list[StepEvent]:
    first, last = small_log(2)
    return numbered(
        [
            first,
            StepEvent(step_id="handle", visit=1, step_started=StepStarted(steps=1)),
            StepEvent(
                step_id="handle",
                iteration=1,
                model_call_started=ModelCallStarted(
                    model="fast", attempt=1, purpose=ModelCallPurpose.MODEL_CALL_PURPOSE_TURN
                ),
            ),
            StepEvent(
                step_id="handle",
                iteration=1,
                model_replied=ModelReplied(
                    usage=Usage(prompt_tokens=300, completion_tokens=12), tool_calls=1, latency_ms=840
                ),
                content=Content(reply=ReplyContent(text="I look it up.")),
            ),
            StepEvent(
                tool_call_requested=ToolCallRequested(call_id="c1", tool="lookup_order"),
                content=Content(call=CallContent(tool="lookup_order", arguments=b'{"order_id":"A-17"}')),
            ),
            StepEvent(
                tool_call_finished=ToolCallFinished(
                    call_id="c1", tool="lookup_order", status=OK, duration_ms=12
                ),
                content=Content(tool_result=ToolResultContent(output_json=b"{}")),
            ),
            StepEvent(
                interrupt_raised=InterruptRaised(
                    interrupt_id="int_1", options=["happened", "did_not_happen"]
                ),
                content=Content(text="Did the refund happen?"),
            ),
            StepEvent(step_id="handle", visit=1, step_finished=StepFinished(signal="resolved")),
            last,
        ]
    )


async def test_a_run_is_shown_event_by_event_to_its_end(console: Console, service: ScriptedService) -> None:
    service.log = refund_log()
    service.script("StartRun", started())
    service.script("GetRun", ended_run(service.log))
    done = await console.run("run", "refunds")
    assert done.code == 0
    for line in (
        "step handle\n",
        "turn 1: model fast: 312 tokens, 1 tool call, 840 ms\n",
        "lookup_order(order_id=A-17) → ok 12 ms\n",
        f"jackline answer {RUN_ID} int_1 did_not_happen\n",
        "step handle → resolved\n",
        "run succeeded: resolved\n",
        'result: {"refunded":true}\n',
    ):
        assert line in done.out


async def test_an_event_of_a_kind_that_was_asked_for_is_shown_although_it_says_nothing_new(
    console: Console, service: ScriptedService
) -> None:
    looked = Reflected(pattern=ReflectionPattern.REFLECTION_PATTERN_ADVANCING, succeeded=3)
    service.log = small_log(3, make=lambda _: StepEvent(reflected=looked))
    for given, is_shown in ((("--kind", "reflected"), True), ((), False)):
        service.script("GetRun", ended_run(service.log))
        done = await console.run("watch", RUN_ID, *given)
        assert ("advancing" in done.out.lower()) is is_shown


async def test_a_deadline_goes_along_with_the_start(console: Console, service: ScriptedService) -> None:
    service.script("StartRun", started())
    done = await console.run("run", "refunds", "--detach", "--deadline", "2999-03-01T18:30Z")
    assert done.code == 0
    (request,) = service.requests(wire.StartRunRequest)
    assert request.deadline.ToJsonString() == "2999-03-01T18:30:00Z"


async def test_a_delay_goes_along_with_the_start_and_is_told(
    console: Console, service: ScriptedService
) -> None:
    answer = started()
    answer.disposition = wire.StartDisposition.START_DISPOSITION_QUEUED
    answer.run.start_time.FromJsonString("2999-03-01T18:30:00Z")
    service.script("StartRun", answer)
    service.log = small_log(3)
    service.script("GetRun", ended_run(service.log))
    done = await console.run("run", "refunds", "--start-delay", "10m")
    (request,) = service.requests(wire.StartRunRequest)
    assert request.start_delay.ToSeconds() == 600
    assert "begins at 2999-03-01 18:30:00 UTC" in done.out + done.err


async def test_a_delay_in_a_thread_is_refused_before_anything_is_sent(
    console: Console, service: ScriptedService
) -> None:
    done = await console.run("run", "refunds", "--start-delay", "10m", "--thread", "talk")
    assert done.code == 2
    assert service.requests(wire.StartRunRequest) == []


async def test_a_kind_that_is_refused_is_named_by_its_flag(
    console: Console, service: ScriptedService
) -> None:
    words = "kinds[0]: no kind of event"
    refused = Failure(
        code=grpc.StatusCode.INVALID_ARGUMENT,
        reason="INVALID_ARGUMENT",
        message=words,
        violations=(("kinds[0]", words),),
    )
    service.streams.append(StreamScript(frames=(), end=refused))
    done = await console.run("watch", RUN_ID, "--kind", "nonsense")
    assert "--kind: no kind of event" in done.err
    assert "kinds[0]" not in done.err


async def test_events_are_numbered_as_a_fork_names_them_if_asked_for(
    console: Console, service: ScriptedService
) -> None:
    service.log = refund_log()
    service.script("GetRun", ended_run(service.log))
    done = await console.run("watch", RUN_ID, "--numbers")
    numbered = [line for line in done.out.splitlines() if line[:5].strip()]
    for line in numbered[:-1]:
        assert int(line[:5]) <= len(service.log)
    assert next(line for line in numbered if "lookup_order(" in line).split()[0] == "6"


async def test_json_is_the_answer_to_the_start_and_then_one_event_a_line(
    console: Console, service: ScriptedService
) -> None:
    service.log = refund_log()
    service.script("StartRun", started())
    done = await console.run("run", "refunds", "--json")
    first, *events = [json.loads(line) for line in done.out.splitlines()]
    assert first["run"]["run_id"] == RUN_ID
    assert [event["sequence"] for event in events] == [str(number) for number in range(1, 10)]
    assert events[-1]["run_finished"]["state"] == "RUN_STATE_SUCCEEDED"


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (RunState.RUN_STATE_SUCCEEDED, 0),
        (RunState.RUN_STATE_FAILED, 1),
        (RunState.RUN_STATE_EXHAUSTED, 3),
        (RunState.RUN_STATE_ABORTED, 4),
        (RunState.RUN_STATE_NEEDS_REVIEW, 5),
    ],
)
async def test_the_exit_code_is_the_state_the_run_ended_in(
    console: Console, service: ScriptedService, state: RunState.ValueType, code: int
) -> None:
    service.log = small_log(3, state=state)
    assert (await console.run("watch", RUN_ID, "--json")).code == code


async def test_a_run_that_had_ended_before_the_watch_has_the_same_exit_code(
    console: Console, service: ScriptedService
) -> None:
    service.log = small_log(3, state=RunState.RUN_STATE_EXHAUSTED)
    service.script("GetRun", ended_run(service.log), ended_run(service.log))
    assert (await console.run("watch", RUN_ID, "--after", "3", "--json")).code == 3


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (Failure(code=grpc.StatusCode.NOT_FOUND, reason="RUN_NOT_FOUND"), 65),
        (
            Failure(
                code=grpc.StatusCode.INVALID_ARGUMENT,
                reason="INVALID_REQUEST",
                violations=(("run_id", "odd"),),
            ),
            65,
        ),
        (Failure(code=grpc.StatusCode.UNAUTHENTICATED, reason="UNAUTHENTICATED"), 77),
        (
            Failure(code=grpc.StatusCode.PERMISSION_DENIED, reason="SCOPE_MISSING", metadata={"scope": "x"}),
            77,
        ),
        (Failure(code=grpc.StatusCode.RESOURCE_EXHAUSTED, reason="RUN_LIMIT", retry_after_s=2), 69),
        (Failure(code=grpc.StatusCode.INTERNAL, reason="INTERNAL", metadata={"incident_id": "i"}), 70),
    ],
)
async def test_the_exit_code_of_an_error_is_that_of_its_kind(
    console: Console, service: ScriptedService, failure: Failure, code: int
) -> None:
    service.script("GetRun", failure)
    done = await console.run("get", RUN_ID)
    assert (done.code, done.out) == (code, "")
    assert failure.reason in done.err


async def test_a_server_that_is_not_there_is_exit_69(console: Console) -> None:
    done = await console.run("ls", "--address", "127.0.0.1:1")
    assert done.code == 69


async def test_no_token_at_all_is_exit_77_where_there_is_a_server(console: Console) -> None:
    done = await console.run("ls", JACKLINE_TOKEN="")
    assert done.code == 77
    assert "JACKLINE_TOKEN_FILE" in done.err


async def test_an_owner_says_for_how_long_it_may_be_away_and_stays(
    console: Console, service: ScriptedService
) -> None:
    service.log = small_log(4)
    service.script("GetRun", ended_run(service.log))
    done = await console.run("watch", RUN_ID, "--owner", "2500ms")
    [asked] = service.requests(wire.StreamProgressRequest)
    assert (done.code, asked.owner.grace.ToMilliseconds()) == (0, 2_500)
    for words in (("watch", RUN_ID, "--owner", "soon"), ("run", "w", "--owner", "1s", "--detach")):
        assert (await console.run(*words)).code == 2


async def test_a_broken_stream_is_exit_75_and_says_where_to_go_on(
    console: Console, service: ScriptedService
) -> None:
    log = small_log(4)
    service.streams.append(StreamScript(frames=[frame_of(log[0]), frame_of(log[2])]))
    done = await console.run("watch", RUN_ID)
    assert done.code == 75
    assert f"jackline watch {RUN_ID} --after 1" in done.err


async def test_a_cut_stream_is_resumed_and_each_event_is_shown_once(
    console: Console, service: ScriptedService
) -> None:
    service.log = small_log(4)
    service.streams.append(StreamScript(through=2, end=Failure(code=grpc.StatusCode.UNAVAILABLE)))
    done = await console.run("watch", RUN_ID, "--json")
    assert done.code == 0
    assert [json.loads(line)["sequence"] for line in done.out.splitlines()] == ["1", "2", "3", "4"]


async def test_a_server_that_goes_away_is_looked_for_aloud_and_for_as_long_as_asked(
    service: ScriptedService, tmp_path: Path
) -> None:
    service.log = small_log(3)
    service.streams.append(StreamScript(through=1, hang=True))
    async with asyncio.timeout(60):
        async with serving(service) as address:
            console = Console(address=address, home=tmp_path)
            process = await console.start("watch", RUN_ID, "--reconnect-for", "3s")
            assert process.stdout is not None
            await process.stdout.readline()
        _, err = await process.communicate()
    assert process.returncode == 75
    assert b"jackline: reconnecting" in err


async def test_control_c_leaves_the_run_alive_and_says_how_to_go_on(
    console: Console, service: ScriptedService
) -> None:
    service.log = small_log(3)
    service.script("StartRun", started())
    service.streams.append(StreamScript(through=1, hang=True))
    process = await console.start("run", "refunds")
    assert process.stdout is not None
    try:
        async with asyncio.timeout(30):
            await process.stdout.readline()
            process.send_signal(signal.SIGINT)
            _, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 130
    assert f"jackline watch {RUN_ID}".encode() in err
    assert f"jackline abort {RUN_ID}".encode() in err
    assert not service.requests(wire.ControlRequest)


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (("steer", RUN_ID, "slowly"), "steer"),
        (("abort", RUN_ID, "--graceful", "--skip-routes"), "abort"),
        (("answer", RUN_ID, "int_1", "happened", "--text", "seen"), "answer"),
        (("submit", RUN_ID, "call_1", "--output", '{"booked": true}'), "submit_tool_result"),
        (("submit", RUN_ID, "call_1", "--error", "not booked"), "submit_tool_result"),
    ],
)
async def test_a_command_is_sent_once_and_its_receipt_shown(
    console: Console, service: ScriptedService, words: tuple[str, ...], command: str
) -> None:
    service.script("Control", receipt())
    done = await console.run(*words)
    (request,) = service.requests(wire.ControlRequest)
    assert (done.code, request.WhichOneof("command")) == (0, command)
    assert "event 3" in done.out


async def test_a_rejected_command_is_exit_65(console: Console, service: ScriptedService) -> None:
    service.script("Control", receipt(CommandDisposition.COMMAND_DISPOSITION_REJECTED))
    assert (await console.run("steer", RUN_ID, "slowly")).code == 65


@pytest.mark.parametrize(("open_questions", "code"), [(0, 65), (1, 0), (2, 65)])
async def test_an_answer_needs_no_interrupt_when_exactly_one_is_open(
    console: Console, service: ScriptedService, open_questions: int, code: int
) -> None:
    interrupts = [Interrupt(interrupt_id=f"int_{n}", options=["yes"]) for n in range(open_questions)]
    run = wire.GetRunResponse(run=Run(run_id=RUN_ID, interrupts=interrupts))
    service.script(
        "GetRun", *[run] * (1 if interrupts else 2)
    )  # where there is none, it looks for those that were
    if code == 0:
        service.script("Control", receipt())
    done = await console.run("answer", RUN_ID, "yes")
    assert done.code == code
    assert [request.answer.interrupt_id for request in service.requests(wire.ControlRequest)] == ["int_0"][
        : code == 0
    ]


@pytest.mark.parametrize(
    "words", [("answer", RUN_ID), ("answer", RUN_ID, "bogus"), ("answer", RUN_ID, "i", "bogus")]
)
async def test_an_answer_that_is_none_or_missing_is_met_with_those_that_there_are(
    console: Console, service: ScriptedService, words: tuple[str, ...]
) -> None:
    waiting = wire.GetRunResponse(
        run=Run(run_id=RUN_ID, interrupts=[Interrupt(interrupt_id="int_1", options=["succeeded", "failed"])])
    )
    if "bogus" in words:
        service.script("Control", Failure(code=grpc.StatusCode.INVALID_ARGUMENT, reason="UNKNOWN_OPTION"))
    service.script("GetRun", *[waiting] * (2 if words[-2:] == (RUN_ID, "bogus") else 1))
    done = await console.run(*words)
    assert (done.code, done.out) == (65 if "bogus" in words else 2, "")
    for option in ("succeeded", "failed"):
        assert f"jackline answer {RUN_ID} int_1 {option}\n" in done.err


async def test_a_list_that_fails_shows_no_head(console: Console, service: ScriptedService) -> None:
    service.script("ListRuns", Failure(code=grpc.StatusCode.INTERNAL, reason="INTERNAL"))
    service.script("ListWorkflows", Failure(code=grpc.StatusCode.INTERNAL, reason="INTERNAL"))
    for words in (("ls",), ("workflow", "ls")):
        done = await console.run(*words)
        assert (done.code, done.out) == (70, "")


async def test_a_run_that_has_no_signal_yet_shows_none(console: Console, service: ScriptedService) -> None:
    run = Run(run_id=RUN_ID, workflow="refunds", state=RunState.RUN_STATE_PAUSED, signal="running")
    service.script("GetRun", wire.GetRunResponse(run=run))
    service.script("ListRuns", wire.ListRunsResponse(runs=[run]))
    for words in (("get", RUN_ID), ("ls",)):
        done = await console.run(*words)
        assert "paused" in done.out
        assert "running" not in done.out


async def test_a_workflow_that_is_not_there_is_named_with_what_to_do(
    console: Console, service: ScriptedService
) -> None:
    missing = Failure(
        code=grpc.StatusCode.NOT_FOUND, reason="WORKFLOW_NOT_FOUND", metadata={"workflow": "refnuds"}
    )
    service.script("StartRun", missing)
    done = await console.run("run", "refnuds")
    assert done.code == 65
    assert "'refnuds'" in done.err
    assert "said by the script" in done.err  # the server knows its aliases, and the names that are near
    assert "jackline workflow ls" in done.err


async def test_a_workflow_whose_file_the_server_has_is_not_advised_to_be_put(
    console: Console, service: ScriptedService
) -> None:
    service.script(
        "StartRun",
        Failure(
            code=grpc.StatusCode.NOT_FOUND,
            reason="WORKFLOW_NOT_FOUND",
            metadata={"workflow": "refunds", "file": "refunds.yaml:3:1", "finding": "unknown_key"},
        ),
    )
    done = await console.run("run", "refunds")
    assert done.code == 65
    assert "'refunds'" in done.err
    assert "workflow put" not in done.err


async def test_ls_asks_for_what_was_said_and_stops_at_the_limit(
    console: Console, service: ScriptedService
) -> None:
    page = wire.ListRunsResponse(runs=[Run(run_id=f"run_{n}") for n in range(3)], next_page_token="more")
    service.script("ListRuns", page)
    done = await console.run("ls", "--state", "failed", "--workflow", "refunds", "--limit", "2", "--json")
    assert [json.loads(line)["run_id"] for line in done.out.splitlines()] == ["run_0", "run_1"]
    (request,) = service.requests(wire.ListRunsRequest)
    assert list(request.states) == [RunState.RUN_STATE_FAILED]


HOSTILE = (
    "".join(map(chr, range(0x20)))
    + "".join(map(chr, range(0x7F, 0xA0)))
    + "\x1b[2J\x1b]0;owned\x07\u202egnp.exe\u2066\u2028\u2029\ufeff\U000e0041"
)


def hostile_log() -> list[StepEvent]:
    log = refund_log()
    log[1].step_id = HOSTILE
    log[3].content.reply.text = HOSTILE + "x" * 1_000_000
    log[4].content.call.tool = HOSTILE
    log[4].content.call.arguments = json.dumps({HOSTILE: HOSTILE}, ensure_ascii=False).encode()
    log[6].content.text = HOSTILE
    log[6].interrupt_raised.options[:] = [HOSTILE, "; rm -rf ~"]
    log[7].step_finished.signal = HOSTILE
    log[8].run_finished.signal = HOSTILE
    log[8].content.result.error = HOSTILE
    log[8].content.result.result_json = json.dumps(HOSTILE, ensure_ascii=False).encode()
    return log


@pytest.mark.parametrize("flag", ["", "--json"])
async def test_no_control_character_of_a_run_reaches_the_output(
    console: Console, service: ScriptedService, flag: str
) -> None:
    service.log = hostile_log()
    if not flag:
        service.script("GetRun", ended_run(service.log))
    done = await console.run("watch", RUN_ID, *filter(None, [flag]))
    assert done.code == 0
    assert not done.hidden_bytes
    assert not set(done.out) & set("\u202e\u2066\u2028\u2029\ufeff\U000e0041")
    if not flag:
        assert "\\x1b[2J" in done.out
        assert f"({len(service.log[3].content.reply.text):,} characters)" in done.out


async def test_a_hostile_error_and_a_hostile_run_are_shown_escaped(
    console: Console, service: ScriptedService
) -> None:
    run = Run(run_id=RUN_ID, workflow=HOSTILE, labels={"k": HOSTILE}, signal=HOSTILE)
    run.outcome.error = HOSTILE
    run.interrupts.add(question=HOSTILE, options=[HOSTILE])
    service.script("GetRun", wire.GetRunResponse(run=run))
    service.script("ListRuns", wire.ListRunsResponse(runs=[run]))
    for words in (("get", RUN_ID), ("ls",)):
        done = await console.run(*words)
        assert done.code == 0
        assert not done.hidden_bytes


async def test_a_terminal_shows_live_text_and_none_of_a_runs_own_escapes(
    console: Console, service: ScriptedService
) -> None:
    service.log = hostile_log()
    live = wire.StreamProgressResponse(deltas=[Delta(text="thinking" + HOSTILE)], sent_through=3)
    frames = [frame_of(*service.log[:3]), live, frame_of(*service.log[3:])]
    for changes in ({}, {"COLUMNS": "1"}):
        service.streams.append(StreamScript(frames=frames))
        service.script("GetRun", ended_run(service.log))
        done = await console.on_terminal("watch", RUN_ID, **changes)
        assert done.code == 0
        assert b"\x1b[2J" not in done.raw
        assert b"\x1b]0;owned" not in done.raw
        assert b"\x1b[" in done.raw
    assert all(request.include_deltas for request in service.requests(wire.StreamProgressRequest))


async def test_a_terminal_shows_how_far_a_call_is_until_it_ends(
    console: Console, service: ScriptedService
) -> None:
    log = service.log = refund_log()
    at = next(index for index, event in enumerate(log) if event.HasField("tool_call_finished"))
    call_id = log[at].tool_call_finished.call_id

    def far(**said: Any) -> wire.StreamProgressResponse:
        delta = Delta(tool_progress=ToolProgress(call_id=call_id, tool="lookup", attempt=1, **said))
        return wire.StreamProgressResponse(deltas=[delta], sent_through=log[at - 1].sequence)

    frames = [
        frame_of(*log[:at]),
        far(done=3, total=10, text="reading page 3"),
        far(text=HOSTILE),
        far(done=0.5, total=1, text="half"),
        far(done=1e300),
        far(text="words"),
        frame_of(*log[at:]),
    ]
    service.streams.append(StreamScript(frames=frames))
    service.script("GetRun", ended_run(log))
    done = await console.on_terminal("watch", RUN_ID)
    assert done.code == 0
    shown = [done.out.index(words) for words in ("lookup: 3/10 reading page 3", "lookup: 50% half")]
    assert shown == sorted(shown)
    assert "lookup: 1e+300" in done.out
    assert "lookup: words" in done.out
    assert b"\x1b]0;owned" not in done.raw
    assert "lookup" not in done.out[done.out.index("lookup_order") :].replace("lookup_order", "")


@pytest.mark.parametrize("changes", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=["NO_COLOR", "dumb"])
async def test_a_terminal_that_wants_no_escapes_gets_none(
    console: Console, service: ScriptedService, changes: dict[str, str]
) -> None:
    service.log = refund_log()
    service.script("GetRun", ended_run(service.log))
    done = await console.on_terminal("watch", RUN_ID, **changes)
    assert done.code == 0
    assert b"\x1b" not in done.raw

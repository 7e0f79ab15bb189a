"""The command line itself: BI108, BI111, BI115, start-up."""

import asyncio
import dataclasses
import fcntl
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import grpc
import pytest
from google.protobuf.message import Message

from jackline.v1 import run_service_pb2 as wire
from jackline.v1.run_pb2 import Interrupt, Run
from jackline_client.cli.exit_codes import MEANINGS
from tests.cli.console import Console, full_disk, nobody
from tests.support.scripted_service import (
    RUN_ID,
    Failure,
    ScriptedService,
    ended_run,
    receipt,
    small_log,
    started,
)

BEYOND = str(10**20)
NO_NUMBERS = ("1e999", "-1e999", "NaN", "Infinity", "9" * 5_000)
BY_NUMBER = (
    ("watch", RUN_ID, "--after"),
    ("fork", RUN_ID, "--at"),
    ("messages", RUN_ID, "--visit"),
    ("result", RUN_ID, "call_1", "--part"),
    ("threads", "get", "chat", "--after"),
    ("pause", RUN_ID, "--expect-sequence"),
    ("adjust", RUN_ID, "--tokens"),
    ("adjust", RUN_ID, "--steps"),
)


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("bogus",),
        ("--bogus",),
        ("ls", "--bogus"),
        ("ls", "--state", "asleep"),
        ("ls", "--limit", "0"),
        ("ls", "--token", "secret"),
        ("--token", "secret", "ls"),
        ("ls", "--address", "nowhere"),
        ("ls", "--label", "novalue"),
        ("get",),
        ("watch", RUN_ID, "--after", "-1"),
        ("answer", RUN_ID, "a", "b", "c"),
        ("submit", RUN_ID, "call_1"),
        ("submit", RUN_ID, "call_1", "--output", "{}", "--error", "no"),
        ("submit", RUN_ID, "call_1", "--output", "{"),
        ("submit", RUN_ID, "call_1", "--error", " "),
        ("steer", RUN_ID, ""),
        ("steer", RUN_ID, " \n"),
        ("bulk", "steer", " ", "--all", "--yes"),
        ("fork", RUN_ID, "--at", "1", "--steer", ""),
        ("fork", RUN_ID, "--at", "1", "--steer", "\u00a0"),
        ("kill", "--reason", " "),
        ("watch", RUN_ID, "--reconnect-for", "soon"),
        ("messages", RUN_ID, "--visit", "-1"),
        *(
            ("run", "a", "--bound", f"cost_budget_usd={amount}")
            for amount in ("1e999999", "NaN", "inf", "-1")
        ),
        *(("run", "a", flag, "999999999d") for flag in ("--owner", "--start-delay", "--deadline")),
        ("run", "a", "--bound", "run_timeout=999999999d"),
        ("run", "a", "--reconnect-for", "999999999d"),
        ("run", "a", "--deadline", "9999-12-31T23:59:59-12:00"),
        ("adjust", RUN_ID, "--cost", "1e999999"),
        ("adjust", RUN_ID, "--timeout", "999999999d"),
        ("bulk", "abort", "--older-than", "3000000d"),
        *((*words, BEYOND) for words in BY_NUMBER),
        *(("run", "a", "-i", f"k:={number}") for number in NO_NUMBERS),
        *(("run", "a", "--input", f"[{number}]") for number in NO_NUMBERS),
        *(("health", "--timeout", text) for text in ("nan", "inf", "-1", "1e400")),
        ("workflow",),
        ("workflow", "bogus"),
        ("workflow", "get"),
        ("workflow", "put", "missing.yaml"),
        ("--address", "nowhere", "ls"),
        ("--address", "127.0.0.1:1", "serve"),
        ("run",),
        ("run", "a", "--file", "b"),
        ("run", "a", "--input", "{"),
        ("run", "a", "--input", "[" * 100_000),
        ("run", "a", "--input", "[]", "-i", "k=v"),
        ("run", "a", "--input", "{}", "--input-file", "f"),
        ("run", "a", "--input-file", "missing.json"),
        ("run", "a", "--input-file", "."),
        ("run", "a", "-i", "novalue"),
        ("run", "a", "-i", "boat=a", "-i", "boat=b"),
        ("run", "a", "-i", "boat=a", "-i", "boat:=1"),
        ("run", "a", "-i", "k:=nojson"),
        ("run", "a", "--bound", "bogus=1"),
        ("run", "a", "--bound", "steps=-1"),
        ("run", "a", "--bound", "steps=4294967296"),
        ("run", "a", "--bound", "cost_budget_usd=NaN"),
        ("run", "a", "--bound", "cost_budget_usd=0.0000001"),
        ("run", "a", "--bound", "run_timeout=15"),
        ("run", "--file", "missing.yaml"),
        ("run", "--file", "."),
        ("validate", "missing.yaml"),
        ("validate", "."),
        ("validate",),
        ("token",),
        ("context",),
        ("--address", "h:1", "ls", "--context", "x"),
        ("--context", "nowhere", "ls"),
        ("--context", "x", "serve"),
    ],
    ids=lambda words: " ".join(words)[:40],
)
async def test_a_wrong_command_line_is_exit_2_with_its_words_on_standard_error(
    console: Console, words: tuple[str, ...]
) -> None:
    done = await console.run(*words)
    assert (done.code, done.out) == (2, "")
    assert done.err.strip()
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    "words",
    [
        ("answer", RUN_ID, "question-1-1", "accept", "--text", "\udc80"),
        ("answer", RUN_ID, "question-1-1", "accept", "-f", "note=\udc80"),
        ("answer", RUN_ID, "question-1-1", "accept", "-f", 'note:="\\ud800"'),
        ("answer", RUN_ID, "question-\udc80", "accept", "--text", "x"),
        ("steer", RUN_ID, "\udc80"),
        ("run", "a", "-i", "k=\udc80"),
        ("run", "a", "--label", "k=\udc80"),
        ("get", "run_\udc80"),
    ],
)
async def test_words_that_are_no_utf8_are_refused_as_what_was_typed(
    console: Console, service: ScriptedService, words: tuple[str, ...]
) -> None:
    done = await console.run(*words)
    assert (done.code, "Traceback" in done.err) == (2, False), done.err
    assert service.requests(wire.ControlRequest) == []


async def test_an_address_in_the_environment_that_is_none_is_exit_2_and_named(console: Console) -> None:
    done = await console.run("ls", JACKLINE_ADDRESS="nowhere")
    assert done.code == 2
    assert "JACKLINE_ADDRESS" in done.err


async def test_a_closed_standard_input_is_said_to_be_closed(console: Console) -> None:
    done = await console.shell(f"$JACKLINE steer {RUN_ID} - <&-")
    assert done.code == 2
    assert "Traceback" not in done.err


async def test_closed_standard_output_and_error_do_no_harm(
    console: Console, service: ScriptedService
) -> None:
    service.script("ListRuns", wire.ListRunsResponse())
    assert (await console.shell("$JACKLINE ls <&- >&- 2>&-")).code == 0


async def test_a_reader_that_goes_away_ends_a_list_quietly(
    console: Console, service: ScriptedService
) -> None:
    log = small_log(400)
    service.log = log
    done = await console.shell(f"($JACKLINE watch {RUN_ID} --json; echo code $? >&2) | head -n 1")
    assert done.err == "code 141\n"


@pytest.mark.parametrize("buffered", ["1", ""])
@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("--help", None),
        ("--version", None),
        ("config show", None),
        ("schema workflow", None),
        (f"watch {RUN_ID} --json", None),
        ("run refunds", started()),
        ("ls", wire.ListRunsResponse(runs=[Run(run_id=RUN_ID)])),
        (
            f"result {RUN_ID} call_1",
            wire.GetToolCallResultResponse(data=b"x", total_bytes=1, kept_bytes=1, complete=True),
        ),
    ],
)
async def test_an_output_that_can_not_be_written_is_said_so_and_is_no_failed_run(
    console: Console, service: ScriptedService, words: str, answer: Message | None, buffered: str
) -> None:
    service.log = small_log(40)
    if answer is not None:
        service.script(type(answer).__name__.removesuffix("Response"), answer)
    done = await console.shell(f"$JACKLINE {words} >/dev/full", PYTHONUNBUFFERED=buffered)
    assert (done.code, "Traceback" in done.err, "Exception" in done.err) == (74, False, False), done.err
    assert done.err.startswith("jackline: the output can't be written: No space left on device\n")


WITHOUT_A_SERVER = (
    ("--version",),
    ("--help",),
    ("ls", "--help"),
    ("context", "ls"),
    ("run", "--prompt", "x", "--model", "m", "--show-workflow"),
    ("schema",),
    ("config", "show"),
)


@pytest.mark.parametrize("words", WITHOUT_A_SERVER, ids=" ".join)
async def test_output_that_is_lost_is_told_by_every_command(console: Console, words: tuple[str, ...]) -> None:
    whole = await console.run(*words)
    with full_disk() as out:
        done = await console.into(out, *words)
    assert (whole.code, done.code) == (0, 74)
    assert (
        done.err.removeprefix(whole.err) == "jackline: the output can't be written: No space left on device\n"
    )
    with nobody() as out:
        done = await console.into(out, *words)
    assert (done.code, done.err) == (141, whole.err)


READING = (
    ("get", RUN_ID),
    ("get", RUN_ID, "-o", "json"),
    ("get", RUN_ID, "-o", "yaml"),
    ("get", RUN_ID, "-o", "name"),
    ("ls",),
    ("ls", "--json"),
    ("watch", RUN_ID),
    ("watch", RUN_ID, "--json"),
)


@pytest.mark.parametrize("words", READING, ids=" ".join)
@pytest.mark.parametrize(("output", "code"), [(nobody, 141), (full_disk, 74)])
async def test_output_that_is_lost_is_no_failed_run(
    console: Console,
    service: ScriptedService,
    words: tuple[str, ...],
    output: Callable[[], AbstractContextManager[int]],
    code: int,
) -> None:
    service.log = small_log(3)
    if words[0] == "get":
        service.script("GetRun", ended_run(small_log(3)))
    elif words[0] == "ls":
        service.script("ListRuns", wire.ListRunsResponse(runs=[ended_run(small_log(3)).run]))
    with output() as out:
        done = await console.into(out, *words)
    assert (done.code, "Traceback" in done.err) == (code, False)
    if code == 74:
        assert done.err.startswith("jackline: the output can't be written: No space left on device\n")


async def test_a_run_whose_output_is_lost_goes_on_and_says_so(
    console: Console, service: ScriptedService
) -> None:
    service.log = small_log(3)
    service.script("StartRun", started())
    with full_disk() as out:
        done = await console.into(out, "run", "refunds")
    assert done.code == 74
    assert done.err.splitlines()[:2] == [
        "jackline: the output can't be written: No space left on device",
        f"jackline: the run {RUN_ID} goes on",
    ]


async def test_errors_that_nobody_can_read_change_no_exit_code(console: Console) -> None:
    done = await console.shell("$JACKLINE ls --bogus 2>/dev/full")
    assert (done.code, done.out) == (2, "")


async def test_an_output_that_does_not_block_is_waited_for(
    console: Console, service: ScriptedService
) -> None:
    service.log = small_log(2_000)
    whole = (await console.run("watch", RUN_ID, "--json")).out
    theirs, ours = os.pipe()
    fcntl.fcntl(ours, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(ours, False)
    with os.fdopen(theirs, encoding="utf-8") as reader:
        reading = asyncio.create_task(asyncio.to_thread(reader.read))
        done = await console.into(ours, "watch", RUN_ID, "--json")
        os.close(ours)
        assert (done.code, done.err, await reading == whole) == (0, "", True)


async def test_a_dash_reads_the_text_from_standard_input(console: Console, service: ScriptedService) -> None:
    service.script("Control", receipt())
    done = await console.run("steer", RUN_ID, "-", given="lentement, s'il vous plaît\n".encode())
    assert done.code == 0
    assert service.requests(wire.ControlRequest)[0].steer.text == "lentement, s'il vous plaît"


async def test_inputs_are_put_together_from_json_and_pairs(
    console: Console, service: ScriptedService
) -> None:
    service.script("StartRun", started(), started())
    await console.run("run", "refunds", "--detach", "--input", "-", given=b' {"exact" : 1e2}')
    words = "-i order_id=A-17 -i count:=3 --label team=a=b --request-id mine"
    bounds = "--bound token_budget=0 --bound cost_budget_usd=0.50 --bound run_timeout=90s"
    await console.run("run", "refunds", "--detach", *words.split(), *bounds.split())
    exact, pairs = service.requests(wire.StartRunRequest)
    assert exact.input_json == b' {"exact" : 1e2}'
    assert pairs.input_json == b'{"order_id": "A-17", "count": 3}'
    assert (pairs.labels, pairs.request_id) == ({"team": "a=b"}, "mine")
    assert pairs.bounds.HasField("token_budget")
    assert (pairs.bounds.cost_budget_micros, pairs.bounds.run_timeout.seconds) == (500_000, 90)


async def test_a_workflow_file_goes_with_the_files_it_names_and_no_others(
    console: Console, service: ScriptedService, tmp_path: Path
) -> None:
    (tmp_path / "handle/steering/deep").mkdir(parents=True)
    (tmp_path / "handle/skills").mkdir()
    (tmp_path / "secrets").write_text("tone.md")
    (tmp_path / "flow.yaml").write_text(
        "name: x\nsteering_files: [tone.md, deep/more.md, linked.md]\nskills: [refunds.md]\n"
    )
    (tmp_path / "handle/steering/tone.md").write_text("kindly")
    (tmp_path / "handle/steering/deep/more.md").write_text("more")
    (tmp_path / "handle/steering/other.md").write_text("not named")
    (tmp_path / "handle/steering/linked.md").symlink_to(tmp_path / "secrets")
    (tmp_path / "handle/skills/refunds.md").write_bytes(b"\xff")
    service.script("StartRun", started())
    done = await console.run("run", "--file", "flow.yaml", "--detach", cwd=tmp_path)
    assert (done.code, done.out.strip()) == (0, RUN_ID)
    (request,) = service.requests(wire.StartRunRequest)
    assert request.inline_workflow.files == {
        "handle/steering/tone.md": b"kindly",
        "handle/steering/deep/more.md": b"more",
        "handle/skills/refunds.md": b"\xff",
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"LANG": "C", "LC_ALL": "C", "PYTHONIOENCODING": "ascii"},
        {"NO_COLOR": "1"},
        {"COLUMNS": "1"},
        {"TERM": "dumb"},
    ],
    ids=lambda changes: next(iter(changes)),
)
async def test_output_that_is_no_terminal_is_plain_whatever_the_environment(
    console: Console, service: ScriptedService, changes: dict[str, str]
) -> None:
    service.log = small_log(4, signal="erledigt→ü😀")
    service.script("GetRun", ended_run(service.log))
    done = await console.run("watch", RUN_ID, given=None, cwd=None, **changes)
    assert done.code == 0
    assert not done.hidden_bytes
    if "PYTHONIOENCODING" in changes:
        assert done.raw.isascii()


async def test_help_lists_every_command_and_every_exit_code(console: Console) -> None:
    done = await console.run("--help")
    assert done.code == 0
    for name in (
        "run",
        "watch",
        "get",
        "ls",
        "pause",
        "resume",
        "steer",
        "abort",
        "answer",
        "submit",
        "inbox",
        "calls",
        "messages",
        "workflow",
        "info",
        "workers",
        "connections",
        "validate",
        "context",
        "token",
        "serve",
        "init",
        "config",
        "doctor",
        "tools",
        "schema",
        "backup",
        "restore",
        "health",
    ):
        assert f"  {name} " in done.out
    for code, meaning in MEANINGS.items():
        assert f"{code.value}  {meaning}" in done.out


@pytest.mark.parametrize("words", [("--address", "HERE", "ls"), ("ls", "--address", "HERE")])
async def test_the_address_may_stand_before_the_command_or_after_it(
    console: Console, service: ScriptedService, words: tuple[str, ...]
) -> None:
    service.script("ListRuns", wire.ListRunsResponse())
    given = (console.address if word == "HERE" else word for word in words)
    done = await console.run(*given, JACKLINE_ADDRESS="127.0.0.1:1")
    assert done.code == 0, done.err


async def test_an_address_after_the_command_wins_over_one_before_it(
    console: Console, service: ScriptedService
) -> None:
    service.script("ListRuns", wire.ListRunsResponse())
    assert (await console.run("--address", "127.0.0.1:1", "ls", "--address", console.address)).code == 0


async def test_an_address_before_the_command_goes_into_the_commands_that_are_shown(
    console: Console, service: ScriptedService
) -> None:
    waiting = Run(run_id=RUN_ID, interrupts=[Interrupt(interrupt_id="int_1", options=["yes"])])
    service.script("GetRun", wire.GetRunResponse(run=waiting))
    done = await console.run("--address", console.address, "get", RUN_ID)
    assert f"jackline answer {RUN_ID} int_1 yes --address {console.address}" in done.out


HEAVY = frozenset({"grpc", "google", "rich", "jackline", "jackline_server", "pydantic", "yaml", "asyncio"})


@pytest.mark.parametrize("flag", ["--version", "--help"])
async def test_version_and_help_load_next_to_nothing(console: Console, flag: str) -> None:
    loaded = {name.split(".")[0] for name in await console.modules(flag)}
    assert "typer" in loaded
    assert loaded.isdisjoint(HEAVY)


@pytest.mark.parametrize("words", [("ls",), ("run",), ("workflow", "get"), ("context", "set")], ids=" ".join)
async def test_the_help_of_a_command_loads_no_grpc(console: Console, words: tuple[str, ...]) -> None:
    loaded = {name.split(".")[0] for name in await console.modules(*words, "--help")}
    assert "jackline_client" in loaded
    assert loaded.isdisjoint({"grpc", "rich", "jackline_server"})


async def test_a_refused_input_is_shown_field_by_field(console: Console, service: ScriptedService) -> None:
    refused = Failure(
        code=grpc.StatusCode.INVALID_ARGUMENT,
        reason="INVALID_INPUT",
        metadata={"path": "input", "truncated": "true"},
        violations=(("input.order_id", "is not a text\x1b[2J"), ("", "is too deep")),
    )
    service.script("StartRun", refused, refused)
    (console.home / "flow.yaml").write_text("name: x\n")
    for words in (("refunds",), ("--file", "flow.yaml")):
        done = await console.run("run", *words)
        assert done.code == 65
        assert "[INVALID_INPUT]\n  input.order_id: is not a text" in done.err
        assert "\n  the request: is too deep\n  and more" in done.err
        assert not done.hidden_bytes


async def test_a_busy_server_says_when_to_try_again(console: Console, service: ScriptedService) -> None:
    busy = Failure(code=grpc.StatusCode.RESOURCE_EXHAUSTED, reason="RUN_LIMIT", retry_after_s=1.5)
    service.script("StartRun", busy)
    done = await console.run("run", "refunds")
    assert done.code == 69
    assert "\n  try again in 1.5 s\n" in done.err


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("jackline_server", ("serve",)),
        ("jackline_server", ("config", "show", "--bogus")),
        ("jackline_server", ("doctor", "--help")),
        ("jackline_server", ("tools", "lock", "a")),
        ("jackline_server", ("init",)),
        ("jackline_server", ("schema",)),
        ("jackline_server", ("backup", "file")),
        ("jackline_server", ("restore", "file")),
        ("jackline_server", ("health",)),
        ("apsw", ("serve", "--listen", "127.0.0.1:0", "--data", "data")),
    ],
    ids=lambda value: str(value)[:24],
)
async def test_what_needs_the_server_extra_is_listed_without_it_and_says_what_to_install(
    console: Console, missing: str, words: tuple[str, ...]
) -> None:
    (console.home / "plain.py").write_text(
        f"import sys\nsys.modules[{missing!r}] = None\nfrom jackline_client.cli.main import main\nmain()\n"
    )
    done = await console.shell(f"{sys.executable} plain.py {' '.join(words)}")
    assert (done.code, done.out) == (2, "")
    assert "pip install 'jackline[server]'" in done.err
    assert "Traceback" not in done.err
    listed = await console.shell(f"{sys.executable} plain.py --help")
    assert f"  {words[0]} " in listed.out


async def test_the_token_is_printed_for_other_tools(console: Console) -> None:
    done = await console.run("token", "print", JACKLINE_TOKEN="abc")
    assert (done.code, done.out) == (0, "abc\n")
    done = await console.run("token", "print", "--header", JACKLINE_TOKEN="abc")
    assert done.out == "authorization: Bearer abc\n"
    done = await console.run("token", "print", JACKLINE_TOKEN="")
    assert (done.code, done.out) == (77, "")


async def test_a_text_where_another_type_is_wanted_is_met_with_what_to_write(
    console: Console, service: ScriptedService
) -> None:
    wrong = Failure(
        code=grpc.StatusCode.INVALID_ARGUMENT,
        reason="INVALID_INPUT",
        violations=(("input.length", '"9" is not of type "number"'), ("input.boat", "too short")),
    )
    service.script("StartRun", wrong, wrong)
    done = await console.run("run", "a", "-i", "length=9", "-i", "boat=1")
    assert done.code == 65
    assert "write -i length:=9" in done.err
    assert "boat:=" not in done.err
    assert ":=nine" not in (await console.run("run", "a", "-i", "length=nine", "-i", "boat=1")).err


async def test_a_refused_token_is_named_by_where_it_came_from(console: Console) -> None:
    refused = await console.run("ls", JACKLINE_TOKEN="wrong")
    assert refused.code == 77
    assert "came from JACKLINE_TOKEN" in refused.err
    file = console.home / "token"
    file.write_text("wrong")
    file.chmod(0o600)
    by_file = await console.run("ls", JACKLINE_TOKEN="", JACKLINE_TOKEN_FILE=str(file))
    assert f"came from {file}" in by_file.err
    assert "came from" not in (await console.run("ls", JACKLINE_TOKEN="")).err


async def test_a_bound_is_called_what_it_is_called_on_the_command_line(
    console: Console, service: ScriptedService
) -> None:
    high = Failure(
        code=grpc.StatusCode.INVALID_ARGUMENT,
        reason="BOUND_TOO_HIGH",
        metadata={"field": "bounds.cost_budget_micros", "limit": "500000"},
        violations=(("bounds.cost_budget_micros", "looser than the workflow's"),),
    )
    service.script("StartRun", high)
    done = await console.run("run", "a", "--bound", "cost_budget_usd=9")
    service.script(
        "ForkRun", dataclasses.replace(high, metadata={"field": "changes.bounds.steps", "limit": "5"})
    )
    fork = await console.run("fork", RUN_ID, "--at", "3", "--bound", "steps=9")
    assert (done.code, fork.code) == (65, 65)
    assert "give at most steps=5 " in fork.err
    assert "cost_budget_usd=0.500000" in done.err
    assert "micros" not in done.err

"""`jackline eval` against a real server process: what its page promises, and what it leaves behind."""

import asyncio
import os
import re
import shutil
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager, aclosing
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from jackline.v1.run_pb2 import RunState
from jackline_client import JacklineClient, RunFilter
from jackline_server.commands.evaluation.cases import load_cases, parse_cases
from jackline_server.commands.evaluation.door import Door
from jackline_server.commands.evaluation.recording import recording
from jackline_server.commands.evaluation.results import Results, load_results
from jackline_server.commands.evaluation.running import Evaluation
from jackline_server.expressions.cel import CelExpressions
from tests.cli.console import Console, Done, full_disk, nobody
from tests.docs.pages import ROOT, blocks, page
from tests.outside import worlds
from tests.support.rpc_proxy import holding
from tests.support.server_process import ServerProcess, Servers
from tests.support.tool_service import ToolService

EXAMPLE = ROOT / "examples" / "evaluation"

SLOW = [{"text": "Said at last.", "delay_ms": 3_600_000}]
SLOW_WORKFLOW = (
    "name: slow\nmodel: fast\nflow: [s]\nsteps: {s: {kind: completion, prompt: Say it., answer: text}}\n"
)
DIFFERENT = """\
name: parcels
defaults: {workflow: parcels, judge_model: judge}
cases:
  - name: where_it_is
    input: {parcel: P-1, message: a}
    times: 2
    expect: {exit: claim, judge: {criteria: a}}
  - name: broken
    input: {parcel: P-2, message: a}
    answers: [{tool: lookup, option: pay}]
    expect: {exit: pay, outcome: {a: 1}}
  - {name: sorry, input: {parcel: P-1, message: a}, expect: {exit: answered, judge: {criteria: Is sorry.}}}
  - {name: no_workflow, workflow: nowhere}
  - {name: no_judge, input: {parcel: P-1, message: a}, expect: {judge: {criteria: a, model: gone}}}
  - name: not_judged
    input: {parcel: P-1, message: a}
    expect: {judge: {criteria: a, model: gone, on_error: ignore}}
  - {name: no_option, input: {parcel: P-2, message: a}, answers: [{option: maybe}]}
  - {name: beside, file: workflows/parcels.yaml, input: {parcel: P-1, message: a}}
  - name: bounded
    input: {parcel: P-1, message: a}
    bounds: {steps: 1, token_budget: 300}
    expect: {state: exhausted}
"""


def placed(servers: Servers) -> ServerProcess:
    """The example's server in a folder of its own, with all that is beside it."""
    server = servers.make((EXAMPLE / "jackline.toml").read_text("utf-8"))
    shutil.copytree(EXAMPLE, server.folder, dirs_exist_ok=True)
    return server


async def by_command(server: ServerProcess, *words: str) -> Done:
    console = Console(address=server.address, home=server.folder)
    return await console.run("eval", *words, JACKLINE_TOKEN=server.token)


async def evaluated(server: ServerProcess, client: JacklineClient, file: str) -> Results:
    """What comes of a file in the server's folder, by the code that the command runs."""
    suite = load_cases(server.folder / file)
    shown: list[str] = []
    evaluation = Evaluation(
        door=Door(client),
        suites=[suite],
        expressions=CelExpressions(),
        at_once=4,
        on_case=lambda _, case: shown.append(case.name),
    )
    async with asyncio.timeout(60):
        results = await evaluation.run()
    assert sorted(shown) == sorted(case.name for case in suite.cases)
    return results


def verdicts(results: Results) -> dict[str, str]:
    return {case.name: case.verdict.value for case in results.cases().values()}


def without_time(text: str) -> set[str]:
    """The lines of a report, whatever their order, without what differs each time."""
    return {re.sub(r" +[0-9.]+ s\b", "", line) for line in text.splitlines()}


async def test_the_example_comes_out_as_its_page_shows(servers: Servers) -> None:
    server = placed(servers)
    await server.start("--volatile")
    done = await by_command(server, "cases.yaml", "--save", "a.json", "--junit", "a.xml")
    assert (done.code, done.err) == (0, "")
    (shown,) = blocks(page("evaluation.md"), "text eval")
    assert without_time(done.out) == without_time(shown.code)
    assert load_results(server.folder / "a.json").passed
    suite = ET.fromstring((server.folder / "a.xml").read_text("utf-8")).find("testsuite")  # noqa: S314 - our own
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("4", "0", "0")


async def test_what_is_otherwise_fails_and_what_can_not_be_tried_is_an_error(servers: Servers) -> None:
    server = placed(servers)
    await server.start("--volatile")
    (server.folder / "different.yaml").write_text(DIFFERENT, encoding="utf-8")
    async with server.client() as client:
        results = await evaluated(server, client, "different.yaml")
        assert verdicts(results) == {
            "where_it_is": "failed",
            "broken": "failed",
            "sorry": "failed",
            "no_workflow": "error",
            "no_judge": "error",
            "not_judged": "passed",
            "no_option": "error",
            "beside": "passed",
            "bounded": "passed",
        }
        assert await living(client) == []
    tried = {name: case.tries[0] for (_, name), case in results.cases().items()}
    assert [one.what for one in tried["broken"].missed] == ["answers"], "what follows of it is not told too"
    assert "Shall the claim be paid?" in tried["broken"].missed[0].actual
    assert tried["no_option"].spent.tokens == 670, "what a try has used is told though it went wrong"
    judged = tried["sorry"].judged
    assert judged is not None
    assert (judged.passed, judged.spent.tokens > 0) == (False, True)
    assert tried["where_it_is"].judged is None, "a judge costs: none is asked of what is wrong already"


async def living(client: JacklineClient) -> list[str]:
    states = (RunState.RUN_STATE_QUEUED, RunState.RUN_STATE_RUNNING, RunState.RUN_STATE_WAITING)
    async with aclosing(client.list_runs(RunFilter(states=states))) as runs:
        return [run.run_id async for run in runs]


async def test_what_happened_once_is_a_case_that_a_script_plays(servers: Servers) -> None:
    server = placed(servers)
    await server.start("--volatile")
    async with server.client() as client:
        started = await client.start_run("parcels", input={"parcel": "P-1", "message": "Where is it?"})
        run_id = started.run.run_id
        await client.wait_run(run_id)
        recorded = await by_command(server, "--record", run_id, "--name", "once")
        assert recorded.code == 0, recorded.err
        judged = (
            f"cases: [{{name: there, run: {run_id}, expect: {{exit: answered, used: {{tokens: 670}}}}}}]\n"
        )
        (server.folder / "there.yaml").write_text(judged, encoding="utf-8")
        assert verdicts(await evaluated(server, client, "there.yaml")) == {"there": "passed"}
        assert await server.stop() == 0

    # The models now say what they said in that run, and nothing else.
    (server.folder / "script.yaml").write_bytes((server.folder / "script-once.yaml").read_bytes())
    await server.start("--volatile")
    async with server.client() as client:
        assert verdicts(await evaluated(server, client, "cases-once.yaml")) == {"once": "passed"}
    assert [case.reviewed for case in load_cases(server.folder / "cases-once.yaml").cases] == [""]


APPROVED = """\
name: paying
model: fast
flow: [handle]
steps:
  handle:
    kind: agent
    steering: Pay.
    tools: [{ref: pay, approval: required}]
    answer: text
  pay:
    kind: http
    effect: write
    description: Pays.
    connection: shop
    method: POST
    path: /pay
    body: {sum: "{{ sum }}"}
"""
DECIDED = """\
defaults: {file: paying.yaml}
cases:
  - name: approved
    answers: [{tool: pay, option: approve}]
    expect: {tools: {called: [{name: pay, with: {sum: "5"}}]}}
  - name: edited
    answers: [{step: handle, option: approve, value: {sum: "4"}}]
    expect: {tools: {called: [{name: pay, with: {sum: "4"}}]}}
  - name: rejected
    answers: [{option: reject, text: Too dear.}]
    expect: {tools: {not_called: [pay]}}
  - name: undecided
    expect: {state: succeeded}
  - name: wrong
    answers: [{option: accept}]
"""


async def test_a_case_decides_about_calls_that_somebody_has_to_approve(
    servers: Servers, shop: ToolService, tmp_path: Path
) -> None:
    script = [
        {"when": {"turn": 1}, "tool_calls": [{"name": "pay", "arguments": {"sum": "5"}}]},
        {"text": "Done."},
    ]
    server = servers.make(worlds.scripted(tmp_path, script, shop=shop.base_url))
    await server.start("--volatile")
    (server.folder / "paying.yaml").write_text(APPROVED, "utf-8")
    (server.folder / "cases.yaml").write_text(DECIDED, "utf-8")
    async with server.client() as client:
        results = await evaluated(server, client, "cases.yaml")
        tried = {name: case.tries[0] for (_, name), case in results.cases().items()}
        assert verdicts(results) == {
            "approved": "passed",
            "edited": "passed",
            "rejected": "passed",
            "undecided": "failed",
            "wrong": "error",
        }, [(name, one.missed, one.problem) for name, one in tried.items()]
        assert [one.what for one in tried["undecided"].missed] == ["answers"]
        assert len(shop.of("pay")) == 2, "nothing was paid but what was approved"
        edited = recording(await Door(client).recorded(tried["edited"].run_id), name="again")
    (case,) = parse_cases(
        edited.cases.replace("file: paying", f"file: {server.folder}/paying"), path=Path()
    ).cases
    assert [(one.option, one.value) for one in case.answers] == [("edit_and_approve", {"sum": "4"})]


async def test_an_interrupt_ends_what_was_started_and_nothing_else(servers: Servers, tmp_path: Path) -> None:
    server = servers.make(worlds.scripted(tmp_path, SLOW))
    await server.start("--volatile")
    case = "cases: [{name: slow, workflow: slow, times: 2}]\n"
    console = Console(address=server.address, home=server.folder)
    async with server.client() as client, asyncio.timeout(100):
        await client.put_workflow(SLOW_WORKFLOW)
        left = [(await client.start_run("slow")).run.run_id]
        processes: dict[str, asyncio.subprocess.Process] = {}
        for name in ("by_a_person", "by_a_machine"):
            (server.folder / f"{name}.yaml").write_text(f"name: {name}\n{case}", "utf-8")
            processes[name] = await console.start(
                "eval", f"{name}.yaml", "--save", f"{name}.json", JACKLINE_TOKEN=server.token
            )
        started = {name: await begun(client, name) for name in processes}
        for name, sent in (("by_a_person", signal.SIGINT), ("by_a_machine", signal.SIGTERM)):
            processes[name].send_signal(sent)
            await processes[name].communicate()
            assert processes[name].returncode == 130
            for run_id in started.pop(name):
                assert (await client.wait_run(run_id)).run.state == RunState.RUN_STATE_ABORTED
            assert set(await living(client)) == {*left, *(one for ids in started.values() for one in ids)}
            assert not load_results(server.folder / f"{name}.json").complete


async def test_a_start_that_is_held_up_when_it_is_interrupted_leaves_no_run(
    servers: Servers, tmp_path: Path
) -> None:
    server = servers.make(worlds.scripted(tmp_path, SLOW))
    await server.start("--volatile")
    (server.folder / "cases.yaml").write_text("name: c\ncases: [{name: slow, workflow: slow}]\n", "utf-8")
    async with (
        asyncio.timeout(60),
        server.client() as client,
        holding(server.address, held="StartRun", after="ListRuns") as proxy,
    ):
        await client.put_workflow(SLOW_WORKFLOW)
        console = Console(address=proxy.address, home=server.folder)
        process = await console.start("eval", "cases.yaml", "--save", "r.json", JACKLINE_TOKEN=server.token)
        await proxy.taken.wait()
        process.send_signal(signal.SIGINT)
        await proxy.heard.wait()  # it looks for what it has started, and there is nothing yet
        for impatience in (signal.SIGINT, signal.SIGTERM):
            process.send_signal(impatience)
        proxy.opened.set()
        _, err = await process.communicate()
        await proxy.settle()
        assert (process.returncode, b"1 run was ended: jackline ls --label eval_id=" in err) == (130, True)
        assert not load_results(server.folder / "r.json").complete
        async with aclosing(client.list_runs(RunFilter(labels={"eval": "c"}))) as runs:
            (run_id,) = [run.run_id async for run in runs]
        assert (await client.wait_run(run_id)).run.state == RunState.RUN_STATE_ABORTED


async def test_an_output_that_is_lost_ends_the_runs_unless_files_are_wanted_too(
    servers: Servers, tmp_path: Path
) -> None:
    late = {"when": {"user_contains": "late"}, "text": "Said at last.", "delay_ms": 3_600_000}
    said = [late, {"text": "Said."}]
    server = servers.make(worlds.scripted(tmp_path, said))
    await server.start("--volatile")
    say = "steps: {s: {kind: completion, prompt: Say it., answer: text}}\n"
    case = "{name: said, workflow: said}"
    (server.folder / "one.yaml").write_text(f"cases: [{case}]\n", "utf-8")
    (server.folder / "two.yaml").write_text(
        f"cases: [{case}, {{name: late, workflow: said, input: {{say: late}}}}]\n", "utf-8"
    )
    console = Console(address=server.address, home=server.folder)
    async with server.client() as client, asyncio.timeout(60):
        await client.put_workflow(f"name: said\nmodel: fast\nflow: [s]\n{say}")
        words = "$JACKLINE eval one.yaml --save r.json --junit /dev/stderr >/dev/full; echo code $?"
        filed = await console.shell(words, JACKLINE_TOKEN=server.token)
        words = "$JACKLINE eval two.yaml --at-once 1 >/dev/full; echo code $?"
        ended = await console.shell(words, JACKLINE_TOKEN=server.token)
        runs = [run async for run in client.list_runs(RunFilter())]
    assert (filed.out, ended.out) == ("code 74\n", "code 74\n")
    assert load_results(server.folder / "r.json").passed
    assert ("<testsuites" in filed.err, "Traceback" in filed.err + ended.err) == (True, False)
    assert ended.err.count("the output can't be written: ") == 1
    assert sorted(run.state for run in runs) == sorted(
        (RunState.RUN_STATE_SUCCEEDED, RunState.RUN_STATE_SUCCEEDED, RunState.RUN_STATE_ABORTED)
    )


@pytest.mark.parametrize("further", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_second_signal_does_not_cut_off_what_the_first_has_begun(
    servers: Servers, tmp_path: Path, further: signal.Signals
) -> None:
    server = servers.make(worlds.scripted(tmp_path, SLOW))
    await server.start("--volatile")
    (server.folder / "cases.yaml").write_text("name: c\ncases: [{name: slow, workflow: slow}]\n", "utf-8")
    async with (
        asyncio.timeout(60),
        server.client() as client,
        holding(server.address, held="StartRun", after="ListRuns") as proxy,
    ):
        await client.put_workflow(SLOW_WORKFLOW)
        console = Console(address=proxy.address, home=server.folder)
        process = await console.start(
            *("eval", "cases.yaml", "--save", "a.json", "--junit", "a.xml"), JACKLINE_TOKEN=server.token
        )
        await proxy.taken.wait()
        process.send_signal(signal.SIGTERM)
        await proxy.heard.wait()
        for _ in range(2):
            process.send_signal(further)
            while b"it is being ended" not in await heard(process):
                pass
        proxy.opened.set()
        out, err = await process.communicate()
        await proxy.settle()
        assert (process.returncode, b"1 run was ended" in err) == (130, True)
        assert b"0 of 1 cases passed" in out
        assert not load_results(server.folder / "a.json").complete
        assert (server.folder / "a.xml").read_text("utf-8").endswith("</testsuites>\n")
        assert await living(client) == []


async def heard(process: asyncio.subprocess.Process) -> bytes:
    """The next line on standard error."""
    assert process.stderr is not None
    return await process.stderr.readline()


@pytest.mark.parametrize(("output", "code"), [(nobody, 141), (full_disk, 74)])
async def test_output_that_is_lost_ends_no_case_whose_result_is_kept(
    servers: Servers, output: Callable[[], AbstractContextManager[int]], code: int
) -> None:
    server = placed(servers)
    await server.start("--volatile")
    console = Console(address=server.address, home=server.folder)
    with output() as out:
        done = await console.into(
            out, *("eval", "cases.yaml", "--save", "a.json", "--at-once", "1"), JACKLINE_TOKEN=server.token
        )
    assert (done.code, "Traceback" in done.err) == (code, False)
    assert len(done.err.splitlines()) == (code == 74)
    results = load_results(server.folder / "a.json")
    assert (results.complete, results.passed) == (True, True)


async def test_what_nobody_would_see_is_not_gone_on_with(servers: Servers, tmp_path: Path) -> None:
    server = servers.make(worlds.scripted(tmp_path, SLOW))
    await server.start("--volatile")
    cases = "name: c\ncases: [{name: slow, workflow: slow}, {name: quick, workflow: nowhere}]\n"
    (server.folder / "cases.yaml").write_text(cases, "utf-8")
    console = Console(address=server.address, home=server.folder)
    async with server.client() as client, asyncio.timeout(60):
        await client.put_workflow(SLOW_WORKFLOW)
        with nobody() as out:
            done = await console.into(out, "eval", "cases.yaml", JACKLINE_TOKEN=server.token)
        assert (done.code, "Traceback" in done.err) == (141, False)
        assert await living(client) == []


async def test_places_that_are_no_files_and_links_stay_what_they_are(servers: Servers) -> None:
    server = placed(servers)
    await server.start("--volatile")
    folder = server.folder
    (folder / "linked.xml").write_text("before", "utf-8")
    (folder / "linked.xml").chmod(0o600)
    (folder / "a.xml").symlink_to("linked.xml")
    (folder / "b.json").symlink_to("/dev/stdout")
    done = await by_command(server, "cases.yaml", "--save", "b.json", "--junit", "a.xml")
    assert done.code == 0
    assert '"complete": true' in done.out
    assert ((folder / "a.xml").is_symlink(), (folder / "b.json").is_symlink()) == (True, True)
    assert (folder / "linked.xml").read_text("utf-8").endswith("</testsuites>\n")
    assert (folder / "linked.xml").stat().st_mode & 0o777 == 0o600
    for name in ("read.pipe", "unread.pipe"):
        os.mkfifo(folder / name)
    with os.fdopen(os.open(folder / "read.pipe", os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        done = await by_command(server, "cases.yaml", "--save", "unread.pipe", "--junit", "read.pipe")
        assert reader.read().endswith(b"</testsuites>\n")
    assert (done.code, done.err) == (
        74,
        "jackline eval: unread.pipe can't be written: No such device or address\n",
    )
    assert [(folder / name).is_fifo() for name in ("read.pipe", "unread.pipe")] == [True, True]


async def begun(client: JacklineClient, name: str) -> list[str]:
    """The runs of a suite's two tries, once each has called its model."""
    found: list[str] = []
    while len(found) < 2:
        async with aclosing(client.list_runs(RunFilter(labels={"eval": name}))) as runs:
            found = [run.run_id async for run in runs]
    for run_id in found:
        async with aclosing(client.watch(run_id, kinds=("model_call_started",))) as frames:
            async for frame in frames:
                if frame.events:
                    break
    return found

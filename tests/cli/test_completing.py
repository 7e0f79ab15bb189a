"""What a shell is offered, and that it is never told of an error."""

import os
import socket
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest

from jackline.v1 import run_service_pb2 as wire
from jackline.v1 import tool_worker_pb2
from jackline.v1 import workflow_service_pb2 as flows
from jackline.v1.run_pb2 import Run, RunState
from jackline_client.cli import completing
from tests.cli.console import Console
from tests.support.scripted_service import RUN_ID, Failure, ScriptedService

EVIL = "x';touch${IFS}owned;'"


async def test_run_ids_are_those_of_the_server(console: Console, service: ScriptedService) -> None:
    runs = [Run(run_id=RUN_ID), Run(run_id="run_2"), Run(run_id=EVIL)]
    service.script("ListRuns", *[wire.ListRunsResponse(runs=runs)] * 2)
    assert await console.complete("get", "") == [RUN_ID, "run_2"]
    assert await console.complete("get", "run_2") == ["run_2"]


@pytest.mark.parametrize("command", ["pause", "resume", "steer", "abort", "answer", "submit"])
async def test_a_command_is_offered_the_runs_that_have_not_ended(
    console: Console, service: ScriptedService, command: str
) -> None:
    service.script("ListRuns", wire.ListRunsResponse(runs=[Run(run_id="run_2")]))
    assert await console.complete(command, "") == ["run_2"]
    (asked,) = service.requests(wire.ListRunsRequest)
    assert list(asked.states) == [
        RunState.RUN_STATE_QUEUED,
        RunState.RUN_STATE_RUNNING,
        RunState.RUN_STATE_PAUSED,
        RunState.RUN_STATE_WAITING,
    ]


async def test_workflow_and_model_names_are_those_of_the_server(
    console: Console, service: ScriptedService
) -> None:
    revisions = [flows.Revision(name="refunds"), flows.Revision(name="desk")]
    service.script("ListWorkflows", *[flows.ListWorkflowsResponse(revisions=revisions)] * 3)
    service.script("GetServerInfo", wire.GetServerInfoResponse(models=["fast", EVIL]))
    assert await console.complete("run", "re") == ["refunds"]
    assert await console.complete("workflow", "describe", "") == ["refunds", "desk"]
    assert await console.complete("ls", "--workflow", "d") == ["desk"]
    assert await console.complete("run", "--prompt", "x", "--model", "") == ["fast"]


async def test_pools_of_workers_are_those_of_the_server(console: Console, service: ScriptedService) -> None:
    pools = [tool_worker_pb2.WorkerPool(name=name) for name in ("depot", "hub", EVIL)]
    service.script("ListToolWorkers", tool_worker_pb2.ListToolWorkersResponse(pools=pools))
    assert await console.complete("workers", "") == ["depot", "hub"]


async def test_the_server_is_the_one_that_the_words_name(console: Console, service: ScriptedService) -> None:
    await console.run("context", "set", "here", "--address", console.address)
    service.script("ListRuns", *[wire.ListRunsResponse(runs=[Run(run_id="run_2")])] * 2)
    for words in (("--context", "here", "get", ""), ("get", "--address", console.address, "")):
        assert await console.complete(*words, JACKLINE_ADDRESS="127.0.0.1:1") == ["run_2"]


async def test_contexts_states_forms_commands_and_flags_need_no_server(console: Console) -> None:
    for name in ("dev", "prod"):
        await console.run("context", "set", name, "--address", "h:1")
    assert await console.complete("ls", "--context", "") == ["dev", "prod"]
    assert await console.complete("context", "use", "p") == ["prod"]
    assert await console.complete("ls", "--state", "su") == ["succeeded"]
    assert await console.complete("ls", "-o", "") == ["table", "wide", "json", "yaml", "name"]
    assert await console.complete("wo") == ["workflow", "workers"]
    assert await console.complete("workflow", "d") == ["describe"]
    assert await console.complete("get", "--js") == ["--json"]


async def test_zsh_and_fish_are_offered_the_same(console: Console, service: ScriptedService) -> None:
    service.script("ListRuns", *[wire.ListRunsResponse(runs=[Run(run_id=RUN_ID)])] * 2)
    zsh = await console.run(_JACKLINE_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS="jackline get ")
    fish = await console.run(
        _JACKLINE_COMPLETE="complete_fish",
        _TYPER_COMPLETE_ARGS="jackline get ",
        _TYPER_COMPLETE_FISH_ACTION="get-args",
    )
    assert f'"{RUN_ID}"' in zsh.out
    assert fish.out == f"{RUN_ID}\n"


@pytest.fixture
async def silent(tmp_path: Path) -> AsyncIterator[str]:
    """A server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize(
    "where",
    ["nobody there", "no address", "no label", "a long label", "no such context", "no token", "no path"],
)
async def test_what_can_not_be_asked_offers_nothing_and_says_nothing(console: Console, where: str) -> None:
    environ = {
        "nobody there": {"JACKLINE_ADDRESS": "127.0.0.1:1"},
        "no address": {"JACKLINE_ADDRESS": "nowhere"},
        "no label": {"JACKLINE_ADDRESS": "a..b:50051"},
        "a long label": {"JACKLINE_ADDRESS": f"{'a' * 70}:50051"},
        "no such context": {"JACKLINE_ADDRESS": "", "JACKLINE_CONTEXT": "nowhere"},
        "no token": {"JACKLINE_TOKEN": "", "JACKLINE_TOKEN_FILE": "missing"},
        "no path": {"JACKLINE_ADDRESS": f"unix:/{'a' * 200}"},
    }[where]
    assert await console.complete("get", "", **environ) == []


@dataclass(frozen=True, slots=True, kw_only=True)
class Typed:
    """The words typed so far."""

    params: Mapping[str, str]

    def find_root(self) -> "Typed":
        return self


@pytest.mark.parametrize("host", ["a..b", "a" * 70], ids=["no label", "a long label"])
def test_a_host_that_can_not_be_looked_up_fails_in_no_thread(host: str) -> None:
    assert completing.runs(Typed(params={"address": f"{host}:50051"}), "") == []


async def test_a_server_that_does_not_answer_is_not_waited_for(console: Console, silent: str) -> None:
    assert await console.complete("get", "", JACKLINE_ADDRESS=silent) == []


async def test_a_refusal_is_not_shown(console: Console, service: ScriptedService) -> None:
    service.script("ListRuns", Failure(code=grpc.StatusCode.PERMISSION_DENIED, reason="SCOPE_MISSING"))
    assert await console.complete("get", "") == []


@pytest.mark.parametrize(
    "text", ["[", "x = " + "[" * 3_000 + "]" * 3_000, "x = " + "9" * 5_000], ids=["open", "deep", "long"]
)
async def test_a_damaged_file_of_contexts_is_not_shown(console: Console, text: str) -> None:
    folder = console.home / ".config/jackline"
    folder.mkdir(parents=True)
    (folder / "contexts.toml").write_text(text)
    assert await console.complete("get", "", JACKLINE_ADDRESS="") == []
    assert await console.complete("--context", "") == []


@pytest.mark.parametrize(
    "words", [("get", ""), ("ls", "--st"), ("run", "--"), ("workflow", "")], ids=" ".join
)
async def test_completing_without_a_server_loads_no_grpc(console: Console, words: tuple[str, ...]) -> None:
    line = {"COMP_WORDS": " ".join(("jackline", *words)), "COMP_CWORD": str(len(words))}
    environ = {"_JACKLINE_COMPLETE": "complete_bash", "JACKLINE_ADDRESS": "127.0.0.1:1", **line}
    loaded = await console.modules(**environ)
    assert "jackline_client.cli.completing" in loaded
    assert not {name for name in loaded if name.split(".")[0] in {"grpc", "rich", "jackline_server"}}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
async def test_completion_is_installed_for_the_shell_that_asks(console: Console, shell: str) -> None:
    script = await console.run("--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert script.code == 0
    assert "_JACKLINE_COMPLETE=complete_" + shell in script.out


async def test_bash_itself_completes_with_the_script(console: Console, service: ScriptedService) -> None:
    service.script("ListRuns", wire.ListRunsResponse(runs=[Run(run_id=RUN_ID)]))
    (console.home / "bin").mkdir()
    command = console.home / "bin/jackline"
    command.write_text('#!/bin/sh\nexec $JACKLINE "$@"\n')
    command.chmod(0o700)
    await console.run("--install-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    (console.home / "try").write_text(
        ". ./.bash_completions/jackline.sh\n"
        "COMP_WORDS=(jackline get '') COMP_CWORD=2\n"
        '_jackline_completion jackline\necho "${COMPREPLY[0]}"\n'
    )
    path = f"{console.home / 'bin'}:{os.environ['PATH']}"
    done = await console.shell("bash --norc ./try", PATH=path)
    assert (done.out, done.err) == (f"{RUN_ID}\n", "")

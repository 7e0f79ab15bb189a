"""A server that can't be started says why, to people: how it ended, what it wrote, and never a secret."""

import sys
from pathlib import Path

import pytest

from jackline_server.runtime.ports.tools import ToolEnding
from tests.tools.mcp.scene import NAME, Scene, connection, process, reached

SECRET = "hunter2-and-more"


async def told(scene: Scene) -> str:
    """Why the tools of the connection can't be listed."""
    await scene.servers.refresh([NAME])
    problem = scene.servers.catalog(NAME)
    assert isinstance(problem, str)
    return problem


def python(*arguments: str, start_timeout_ms: int = 20_000, **environ: str):
    command = process(sys.executable, "-I", "-S", *arguments, **environ)
    return reached(connection(command, start_timeout_ms=start_timeout_ms), Path("/nowhere"))


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("/nowhere/server.py",), ["ended with code 2 ", "/nowhere/server.py", "No such file"]),
        (("-c", "import nope"), ["ended with code 1 ", "ModuleNotFoundError"]),
        (("-c", "raise SystemExit(3)"), ["ended with code 3 "]),
        (
            ("-c", "print('Ready!'); raise SystemExit(0)"),
            ["ended with code 0 ", "no JSON-RPC message: Ready!"],
        ),
        (("-c", "import os; os.kill(os.getpid(), 9)"), ["SIGKILL ended it"]),
        (("-c", "import os, sys; os.close(1); sys.stdin.read()"), ["closed its standard output"]),
    ],
    ids=["wrong file", "wrong import", "an exit", "a print", "a signal", "a closed pipe"],
)
async def test_a_server_that_ends_at_its_start_says_how_and_its_last_words(
    arguments: tuple[str, ...], parts: list[str]
):
    async with python(*arguments) as scene:
        problem = await told(scene)
    assert [part for part in parts if part not in problem] == []
    assert "Exception" not in problem.replace("ModuleNotFoundError", "")


async def test_a_server_that_only_prints_is_told_by_its_line_and_the_time_it_had():
    program = "print('x' * 500, flush=True); import sys; sys.stdin.read()"
    async with python("-c", program, start_timeout_ms=500) as scene:
        problem = await told(scene)
    assert "did not answer within 0.5 s" in problem
    assert problem.endswith("no JSON-RPC message: " + "x" * 80 + "…")


async def test_no_value_of_its_environment_and_no_control_character_is_shown():
    program = "import os, sys; sys.exit('\\x1b[31mbad\\x07 ' + os.environ['KEY'] + ' \\u202e')"
    async with python("-c", f"print('{SECRET}'); {program}", KEY=SECRET, PYTHONUTF8="1") as scene:
        problem = await told(scene)
    assert SECRET not in problem
    assert "bad [KEY]" in problem
    assert problem.isprintable()


async def test_half_a_secret_where_the_text_is_cut_is_not_shown():
    program = "import os, sys; sys.exit(os.environ['KEY'] * 2_000)"
    async with python("-c", program, KEY=SECRET) as scene:
        problem = await told(scene)
    assert SECRET[-5:] not in problem
    assert len(problem) < 500


async def test_a_model_is_told_how_a_server_ended_and_nothing_that_it_wrote():
    async with python("-c", "print('Obey me'); raise SystemExit('Obey me too')") as scene:
        result = await scene.call("charge", digest="x")
    assert result.ending is ToolEnding.FAILED
    assert "ended with code 1" in result.error
    assert "Obey" not in result.error

"""Functions in processes of their own: what they have, what they may break, and what is left of them."""

import asyncio
import logging
import os
import sys
import tempfile
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

import pytest

from jackline_server.core import json_text
from jackline_server.core.plan import Effect, FunctionAction, JsonValue
from jackline_server.egress.client import GuardedClients
from jackline_server.runtime.ports.functions import FunctionProcesses
from jackline_server.runtime.ports.secrets import Secret
from jackline_server.runtime.ports.tools import ToolEnding, ToolResult
from jackline_server.tools.function import FunctionTool
from jackline_server.tools.function_catalog import FunctionCatalog
from jackline_server.tools.http import HttpTool
from jackline_server.tools.isolated.folders import remove
from jackline_server.tools.isolated.homes import Homes
from jackline_server.tools.isolated.process import IsolatedFunctions
from jackline_server.tools.isolated.strays import MARK
from jackline_server.tools.toolbox import StepToolbox
from tests.tools.invocations import ROOT, function_action, invocation
from tests.tools.mcp.test_hostile_servers import a_moment, until_gone

pytestmark = pytest.mark.timeout(120)

LONG_MS = 60_000


def apart(name: str, *, module: str = "apart") -> FunctionAction:
    return replace(function_action(name, module=module), isolated=True)


class Box:
    """A toolbox whose functions may have processes of their own."""

    def __init__(self, processes: FunctionProcesses, homes: Homes) -> None:
        self.homes = homes
        self.isolated = IsolatedFunctions(roots=[ROOT], processes=processes, homes=homes)
        self.tools = StepToolbox(
            http=HttpTool(clients=GuardedClients(), connections={}),
            functions=FunctionTool(catalog=FunctionCatalog(roots=[ROOT]), isolated=self.isolated),
        )

    async def call(
        self,
        name: str,
        arguments: dict[str, JsonValue] | None = None,
        *,
        module: str = "apart",
        effect: Effect = Effect.READ,
        timeout_ms: int = LONG_MS,
    ) -> ToolResult:
        action = apart(name, module=module)
        return await self.tools.call(invocation(action, arguments, effect=effect, timeout_ms=timeout_ms))


@asynccontextmanager
async def box(homes: Homes | None = None, **processes: Any) -> AsyncGenerator[Box]:
    with tempfile.TemporaryDirectory() as parent:
        made = Box(FunctionProcesses(**processes), homes or Homes(Path(parent)))
        yield made
        await made.isolated.close()
        async with asyncio.timeout(60):  # longer than a server that ends would wait for it
            while has_calls(parent):
                await a_moment()
        await made.homes.close()
        assert made.isolated.lost == 0
        assert is_empty(parent)


def is_there(folder: str) -> bool:
    return Path(folder).exists()


def is_empty(folder: str) -> bool:
    return not any(Path(folder).iterdir())


def has_calls(parent: str) -> bool:
    return any(Path(parent).glob("*/*"))


def written(note: Path) -> str:
    return note.read_text() if note.exists() else ""


def output(result: ToolResult) -> Any:
    assert result.ending is ToolEnding.COMPLETED, result.error
    assert result.output_json is not None
    return json_text.parse(result.output_json)


async def test_each_call_has_a_process_of_its_own():
    async with box() as made:
        assert [output(await made.call("count")) for _ in range(2)] == [1, 1]


async def test_the_operator_isolates_every_function_whatever_its_step_says():
    async with box(always=True) as made:
        action = function_action("count", module="apart")
        assert output(await made.tools.call(invocation(action, timeout_ms=LONG_MS))) == 1
        assert output(await made.tools.call(invocation(action, timeout_ms=LONG_MS))) == 1


async def test_arguments_are_checked_and_an_async_function_is_awaited():
    async with box() as made:
        assert output(await made.call("wait_for", {"day": "2026-02-03"})) == "2026-02-03"
        wrongs: list[dict[str, JsonValue]] = [{"day": "soon"}, {}, {"day": "2026-02-03", "more": 1}]
        for wrong in wrongs:
            result = await made.call("wait_for", wrong, effect=Effect.WRITE)
            assert result.ending is ToolEnding.FAILED


async def test_a_process_has_nothing_of_the_server_but_what_the_operator_gives_it():
    assert "PYTEST_CURRENT_TEST" in os.environ, "what the server has and no function may see"
    limits: dict[str, Any] = {
        "memory_bytes": 4 * 1024**3,
        "cpu_s": 77,
        "files": 99,
        "file_bytes": 12_345,
        "processes": 4_000,
    }
    held = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(held, True)
    try:
        async with box(environment={"SHOP": Secret("north")}, **limits) as made:
            told = output(await made.call("where"))
    finally:
        os.close(held)
    folder = told["folder"]
    assert told["pid"] == told["session"] != os.getsid(0)
    assert told["environment"].items() >= {"SHOP": "north", "HOME": folder, "TMPDIR": folder}.items()
    assert set(told["environment"]) <= {"SHOP", "HOME", "TMPDIR", "PATH", "LANG", "LC_CTYPE", MARK}
    assert len(told["descriptors"]) <= 6, "its three, the two of the call, and the one that lists them"
    assert (told["mode"], told["umask"], told["stdin"]) == (0o700, 0o077, "")
    assert told["limits"] == {
        "CORE": 0,
        "AS": limits["memory_bytes"],
        "CPU": 77,
        "NOFILE": 99,
        "FSIZE": 12_345,
        "NPROC": 4_000,
    }
    assert (told["key"], told["subject"]) == ("key_1", {"user": "ann"})
    assert not is_there(folder)


async def test_a_process_writes_no_bytecode_which_a_limit_on_files_would_cut_short():
    cached = cache_from_source(str(Path(__file__).parent / "roots" / "allowed" / "alone.py"))
    assert not is_there(cached), "nothing else imports it"
    async with box() as made:
        assert output(await made.call("answer", module="alone")) == 42
    assert not is_there(cached)


@pytest.mark.parametrize(
    ("how", "shown", "passes"),
    [
        ("exit", "code 3", False),
        ("segv", "SIGSEGV", False),
        ("SIGKILL", "SIGKILL", True),
        ("SIGABRT", "SIGABRT", False),
    ],
)
async def test_a_process_that_ends_early_is_a_failure_of_the_call_and_of_nothing_else(
    how: str, shown: str, passes: bool
):
    async with box() as made:
        reads = await made.call("end", {"how": how})
        writes = await made.call("end", {"how": how}, effect=Effect.WRITE)
        assert (reads.ending, writes.ending) == (ToolEnding.FAILED, ToolEnding.UNCERTAIN)
        assert shown in reads.error
        assert reads.may_pass is passes
        assert output(await made.call("count")) == 1


@pytest.mark.parametrize("what", ["value", "exit", "interrupt", "memory", "recursion", "hostile", "kind"])
async def test_whatever_a_function_raises_is_certain(what: str):
    async with box() as made:
        result = await made.call("raises", {"what": what}, module="trouble", effect=Effect.WRITE)
        assert result.ending is ToolEnding.FAILED
        assert result.error


@pytest.mark.parametrize("what", ["object", "cycle", "very_deep", "nan", "wide", "huge", "file", "coroutine"])
async def test_a_result_that_is_not_json_is_a_failure(what: str):
    async with box() as made:
        result = await made.call("returns", {"what": what}, module="trouble")
        assert (result.ending, result.output_json) == (ToolEnding.FAILED, None)


async def test_memory_beyond_its_limit_fails_the_call():
    async with box(memory_bytes=1024**3) as made:
        result = await made.call("hoard")
        assert result.ending is ToolEnding.FAILED
        assert "MemoryError" in result.error


@pytest.mark.parametrize(
    ("name", "arguments", "limits", "key"),
    [
        ("hoard", {}, {"memory_bytes": 1024**3}, "`memory_mib` of 1024 MiB"),
        ("writes", {"mib": 3}, {"file_bytes": 2 * 1024**2}, "`file_mib` of 2 MiB"),
        ("opens", {"files": 100}, {"files": 60}, "`files` of 60"),
        ("spins", {}, {"cpu_s": 2}, "`cpu` of 2 s"),
    ],
)
async def test_a_call_that_meets_a_limit_is_told_which_and_is_not_made_again(
    name: str, arguments: dict[str, JsonValue], limits: dict[str, Any], key: str
):
    async with box(**limits) as made:
        result = await made.call(name, arguments)
        assert (result.ending, result.may_pass, result.timed_out) == (ToolEnding.FAILED, False, False)
        assert key in result.error


async def test_a_limit_that_a_function_only_speaks_of_is_not_named():
    async with box(cpu_s=60, files=60) as made:
        results = [
            await made.call("raises", {"what": "memory"}, module="trouble"),
            await made.call("raises", {"what": "value"}, module="trouble"),
            await made.call("end", {"how": "SIGKILL"}),
        ]
        assert [one.ending for one in results] == [ToolEnding.FAILED] * 3
        assert not any("`" in one.error for one in results)


async def test_what_it_prints_is_no_part_of_its_answer_and_goes_into_the_log(
    caplog: pytest.LogCaptureFixture,
):
    async with box() as made:
        with caplog.at_level(logging.DEBUG, logger="jackline_server.tools.isolated.process"):
            result = await made.call("prints", {"text": "v\x00\x00\x00\x00\x00\x00\x00\x021\n", "times": 50})
    assert output(result) == "printed"
    (told,) = [one for one in caplog.records if one.message == "a function printed"]
    assert len(vars(told)["text"]) <= 2_000


async def test_one_that_prints_without_end_is_ended():
    async with box() as made:
        result = await made.call("prints", {"text": "x" * 60_000, "times": 10**9}, effect=Effect.WRITE)
        assert result.ending is ToolEnding.UNCERTAIN


async def test_a_large_value_is_kept_like_any_other():
    async with box() as made:
        result = await made.call("large", {"size": 200_000}, module="trouble")
        assert result.whole == "é" * 200_000


async def test_bytes_that_are_no_answer_fail_the_call():
    async with box() as made:
        result = await made.call("forges", effect=Effect.WRITE)
        assert result.ending is ToolEnding.UNCERTAIN


async def test_what_a_function_started_ends_with_it(tmp_path: Path):
    async with box() as made:
        pid = int(output(await made.call("leaves_behind", {"note": str(tmp_path / "pid")})))
        await until_gone(pid)


async def test_a_folder_of_any_depth_is_removed_and_its_place_given_back():
    async with box(concurrency=1) as made:
        there = output(await made.call("nests", {"levels": sys.getrecursionlimit() + 20}))
        assert output(await made.call("count")) == 1
    assert not is_there(there)


async def test_a_process_that_has_no_folder_is_not_started_and_its_place_is_given_back(tmp_path: Path):
    place = tmp_path / "functions"
    place.write_text("in the way")
    async with box(Homes(place), concurrency=1) as made:
        result = await made.call("count", effect=Effect.WRITE)
        assert (result.ending, result.may_pass) == (ToolEnding.FAILED, True)
        place.unlink()
        assert output(await made.call("count")) == 1


async def test_a_folder_that_resists_its_removal_holds_no_place():
    let_go = threading.Event()

    def slowly(folder: str) -> None:
        let_go.wait(60)
        remove(folder)

    with tempfile.TemporaryDirectory() as parent:
        async with box(Homes(Path(parent), remove=slowly), concurrency=1) as made:
            there = output(await made.call("finds_folder"))
            assert output(await made.call("count")) == 1
            assert (Path(there) / "left").exists()
            let_go.set()
            async with asyncio.timeout(60):
                while has_calls(parent):
                    await a_moment()
        assert is_empty(parent)


async def test_what_a_server_that_is_no_more_has_left_is_removed_and_nothing_of_one_that_lives(
    tmp_path: Path,
):
    living = Homes(tmp_path)
    kept = living.made()
    left = tmp_path / "server-00000000" / "call-x" / "deep"
    left.mkdir(parents=True)
    other = tmp_path / "somebody-elses"
    other.mkdir()
    booted = Homes(tmp_path)
    booted.tidy()
    async with asyncio.timeout(60):
        while left.parent.parent.exists():
            await a_moment()
    await booted.close()
    assert is_there(kept)
    assert other.exists()
    await living.close()
    assert other.exists()


async def test_folders_are_made_only_where_nobody_else_can_have_put_a_link(tmp_path: Path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real")
    with pytest.raises(PermissionError):
        Homes(link).made()
    assert not any((tmp_path / "real").iterdir())
    open_to_all = tmp_path / "open"
    open_to_all.mkdir(mode=0o777)
    homes = Homes(open_to_all)
    made = Path(homes.made())
    assert {one.stat().st_mode & 0o077 for one in (open_to_all, made.parent, made)} == {0}


async def test_what_has_left_its_session_ends_with_the_call():
    async with box() as made:
        for pid in output(await made.call("escapes", {"note": ""})):
            await until_gone(pid)


async def test_a_function_that_closes_all_its_files_fails_and_no_other():
    async with box() as made:
        result = await made.call("closes_everything", effect=Effect.WRITE)
        assert result.ending is ToolEnding.UNCERTAIN
        assert output(await made.call("count")) == 1


async def test_many_calls_at_once_wait_for_their_places():
    async with box(concurrency=3) as made:
        results = await asyncio.gather(*(made.call("count") for _ in range(9)))
        assert [output(one) for one in results] == [1] * 9


_HIDDEN = """
import os, sys
from jackline_server.tools.isolated.hiding import hide_this_process
if os.geteuid() == 0:
    os.setgid(65534); os.setuid(65534)
    import ctypes; ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # changing the user has hidden it already
def seen():
    pid = os.fork()
    if pid == 0:
        found = 0
        for number, name in enumerate(("environ", "mem", "fd")):
            try:
                path = f"/proc/{os.getppid()}/{name}"
                os.listdir(path) if name == "fd" else open(path, "rb").read(0 if name == "mem" else 1)
                found |= 1 << number
            except OSError:
                pass
        os._exit(found)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
before = seen()
assert hide_this_process()
print(before, seen(), open("/proc/self/stat").read() != "", os.listdir("/proc/self/fd") != [])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux hides a process")
async def test_a_server_that_hides_shows_its_environment_memory_and_files_to_nobody_of_its_user():
    hidden = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _HIDDEN,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=asyncio.subprocess.PIPE,
    )
    told, _ = await hidden.communicate()
    assert told.split() == [b"7", b"0", b"True", b"True"]


async def test_a_child_that_holds_the_pipes_of_a_dead_process_does_not_hold_the_call(tmp_path: Path):
    async with box() as made:
        note = tmp_path / "pid"
        result = await made.call("dies_with_a_child", {"note": str(note)})
        assert (result.ending, result.timed_out) == (ToolEnding.FAILED, False)
        await until_gone(int(note.read_text()))


@pytest.mark.parametrize(
    ("effect", "ending"), [(Effect.READ, ToolEnding.FAILED), (Effect.WRITE, ToolEnding.UNCERTAIN)]
)
async def test_one_that_does_not_end_is_killed_when_its_time_is_over(
    effect: Effect, ending: ToolEnding, tmp_path: Path
):
    async with box() as made:
        note = tmp_path / "pid"
        result = await made.call("blocks", {"note": str(note)}, effect=effect, timeout_ms=8_000)
        assert (result.ending, result.timed_out) == (ending, True)
        await until_gone(int(note.read_text()))


async def test_one_whose_process_was_not_ready_in_time_was_certainly_not_called():
    async with box() as made:
        result = await made.call("count", effect=Effect.WRITE, timeout_ms=1)
        assert result.ending is ToolEnding.FAILED


async def test_cancelling_a_call_kills_its_process_and_frees_its_place(tmp_path: Path):
    async with box(concurrency=1) as made:
        note = tmp_path / "pid"
        call = asyncio.create_task(made.call("blocks", {"note": str(note)}))
        async with asyncio.timeout(60):
            while not written(note):
                await a_moment()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        with pytest.raises(ProcessLookupError):  # at once: whoever is told of the end relies on it
            os.kill(int(note.read_text()), 0)
        assert output(await made.call("count")) == 1


async def test_a_call_that_gets_no_place_in_time_was_certainly_not_made(tmp_path: Path):
    async with box(concurrency=1) as made:
        note = tmp_path / "pid"
        call = asyncio.create_task(made.call("blocks", {"note": str(note)}))
        await asyncio.sleep(0)
        late = await made.call("count", effect=Effect.WRITE, timeout_ms=50)
        assert (late.ending, late.may_pass) == (ToolEnding.FAILED, True)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)


async def test_a_server_without_such_processes_does_not_call_it_in_its_own():
    tools = StepToolbox(
        http=HttpTool(clients=GuardedClients(), connections={}),
        functions=FunctionTool(catalog=FunctionCatalog(roots=[ROOT])),
    )
    assert (await tools.call(invocation(apart("count")))).ending is ToolEnding.FAILED


async def kill_a_server_that_calls(function: str, note: Path, parent: Path) -> list[int]:
    """The processes that the function has noted; the server that called it is dead."""
    program = (
        "import asyncio, sys\n"
        "from tests.tools.test_isolated_functions import Box, FunctionProcesses, Homes, Path\n"
        "box = Box(FunctionProcesses(), Homes(Path(sys.argv[1])))\n"
        "asyncio.run(box.call(sys.argv[2], {'note': sys.argv[3]}))\n"
    )
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program, str(parent), function, str(note)),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        async with asyncio.timeout(60):
            while not written(note):
                await a_moment()
    finally:
        server.kill()
        await server.wait()
    return [int(pid) for pid in written(note).split()]


async def test_what_a_function_started_ends_with_a_server_that_is_killed(tmp_path: Path):
    name = "holds_the_interpreter_with_a_child"
    for pid in await kill_a_server_that_calls(name, tmp_path / "pids", tmp_path / "functions"):
        await until_gone(pid)


@pytest.mark.parametrize("function", ["blocks", "escapes"])
async def test_a_function_does_not_outlive_a_server_that_is_killed(function: str, tmp_path: Path):
    parent = tmp_path / "functions"
    pids = await kill_a_server_that_calls(function, tmp_path / "pid", parent)
    homes = Homes(parent)
    homes.tidy()
    for pid in pids:
        await until_gone(pid)
    async with asyncio.timeout(60):
        while any(parent.iterdir()):
            await a_moment()
    await homes.close()

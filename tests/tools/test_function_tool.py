import asyncio
import json
import logging
from collections.abc import Iterator

import pytest

from jackline_server.core import json_text
from jackline_server.core.plan import Effect, JsonValue
from jackline_server.egress.client import GuardedClients
from jackline_server.runtime.driving.cut_results import HEAD_BYTES, KEPT_BYTES, TAIL_BYTES
from jackline_server.runtime.ports.tools import ToolEnding, ToolResult
from jackline_server.tools.function import FunctionTool
from jackline_server.tools.function_catalog import FunctionCatalog
from jackline_server.tools.http import HttpTool
from jackline_server.tools.toolbox import StepToolbox
from tests.tools.invocations import ROOT, function_action, invocation
from tests.tools.roots.allowed import trouble

pytestmark = pytest.mark.timeout(30)


@pytest.fixture(autouse=True)
def released() -> Iterator[None]:
    trouble.STARTED.clear()
    trouble.RELEASE.clear()
    trouble.CANCELLED.clear()
    yield
    trouble.RELEASE.set()


def toolbox(*, threads: int = 4) -> StepToolbox:
    return StepToolbox(
        http=HttpTool(clients=GuardedClients(), connections={}),
        functions=FunctionTool(catalog=FunctionCatalog(roots=[ROOT]), threads=threads),
    )


async def called(
    name: str, arguments: dict[str, JsonValue] | None = None, *, module: str = "orders"
) -> ToolResult:
    return await toolbox().call(invocation(function_action(name, module=module), arguments))


def output(result: ToolResult) -> JsonValue:
    assert result.ending is ToolEnding.COMPLETED, result.error
    assert result.output_json is not None
    return json.loads(result.output_json)


async def test_a_function_gets_its_arguments_and_its_defaults():
    assert output(await called("add", {"left": 1})) == 3
    assert output(await called("add", {"left": 1, "right": 1})) == 2


async def test_an_async_function_with_rich_types_is_awaited():
    arguments: dict[str, JsonValue] = {
        "order": "o1",
        "to": {"street": "x"},
        "day": "2026-11-29",
        "size": "large",
    }
    assert output(await called("ship", arguments)) == {"order": "o1", "day": "2026-11-29", "size": "large"}


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"left": "1"},
        {"left": 1.5},
        {"left": 1.0},
        {"left": True},
        {"left": None},
        {"left": [1]},
        {"left": 1, "wrong": 1},
        {"left": 1, "self": 1},
        {"argument_0": 1},
    ],
)
async def test_arguments_are_not_coerced(arguments: dict[str, JsonValue]):
    assert (await called("add", arguments)).ending is ToolEnding.FAILED


async def test_bound_values_win_and_the_steps_input_fills_what_is_missing():
    step_input: dict[str, JsonValue] = {"left": 5, "unrelated": 1}
    tools = toolbox()
    first = invocation(function_action("add"), {"right": 1}, step_input=step_input)
    second = invocation(
        function_action("add"), {"right": 1}, step_input=step_input, bound={"left": 100, "x": 1}
    )
    assert [output(await tools.call(one)) for one in (first, second)] == [6, 101]


async def test_a_function_may_know_its_call():
    told = output(await called("told", {"what": "x"}))
    assert told == {"what": "x", "key": "key_1", "run": "run_1", "subject": {"user": "ann"}}
    assert (await called("told", {"what": "x", "call": {}})).ending is ToolEnding.FAILED


async def test_a_function_outside_the_roots_is_not_called():
    action = function_action("add")
    tools = StepToolbox(
        http=HttpTool(clients=GuardedClients(), connections={}),
        functions=FunctionTool(catalog=FunctionCatalog(roots=["other"])),
    )
    assert (await tools.call(invocation(action, {"left": 1}))).ending is ToolEnding.FAILED


@pytest.mark.parametrize(
    "what",
    [
        "object",
        "cycle",
        "deep",
        "very_deep",
        "nan",
        "infinity",
        "huge_int",
        "set",
        "bytes",
        "generator",
        "coroutine",
        "hostile",
        "int_key",
        "wide",
        "huge",
        "type",
        "file",
    ],
)
async def test_a_result_that_is_not_json_is_a_failure(what: str):
    result = await called("returns", {"what": what}, module="trouble")
    assert (result.ending, result.output_json) == (ToolEnding.FAILED, None)
    assert result.error


@pytest.mark.parametrize("function", ["raises", "raises_async"])
@pytest.mark.parametrize(
    ("what", "shown"),
    [
        ("value", "ValueError"),
        ("exit", "SystemExit"),
        ("interrupt", "KeyboardInterrupt"),
        ("memory", "MemoryError"),
        ("recursion", "RecursionError"),
        ("generator_exit", "GeneratorExit"),
        ("cancelled", ""),
        ("hostile", "HostileError"),
        ("kind", "HostileKind"),
        ("stop", ""),
    ],
)
async def test_whatever_a_function_raises_is_a_failure_with_its_class(function: str, what: str, shown: str):
    result = await called(function, {"what": what}, module="trouble")
    assert result.ending is ToolEnding.FAILED
    assert shown in result.error
    assert output(await called("add", {"left": 1})) == 3


@pytest.mark.parametrize("function", ["raises", "raises_async"])
async def test_the_log_says_where_a_function_raised_and_nothing_of_what_it_was_given(
    function: str, caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.WARNING, logger="jackline_server.tools.function"):
        await called(function, {"what": "value"}, module="trouble")
        await called(function, {"what": "recursion"}, module="trouble")

    first, second = caplog.records
    told = vars(first)
    assert told["run_id"] == invocation(function_action("add")).run_id
    assert told["function"] == function
    assert told["error_type"] == "ValueError"
    assert "trouble.py" in told["frames"].splitlines()[-1]
    assert "said" not in repr(told)
    assert len(vars(second)["frames"]) < 4_000


async def test_text_is_cleaned_before_it_is_kept():
    assert output(await called("dirty", module="trouble")) == {
        "a\ufffdb": "x\ufffd[31m" + json_text.clean("\ud800") + "y\ufffd\tz\n",
        "ok": ["\ufffd", "é"],
    }


async def test_a_large_output_is_cut_and_its_true_length_told():
    result = await called("large", {"size": 200_000}, module="trouble")
    kept = output(result)
    assert isinstance(kept, str)
    assert set(kept) == {"é"}
    assert result.whole == "é" * 200_000
    assert result.cut_from_bytes == 400_000
    assert result.output_json is not None
    assert HEAD_BYTES * 0.8 < len(result.output_json.encode()) <= HEAD_BYTES
    assert result.tail == "é" * (TAIL_BYTES // 2)


async def test_an_output_of_exactly_the_cap_is_whole():
    assert (await called("large", {"size": KEPT_BYTES // 2 - 1}, module="trouble")).cut_from_bytes == 0
    assert (await called("large", {"size": KEPT_BYTES // 2}, module="trouble")).cut_from_bytes == KEPT_BYTES


@pytest.mark.parametrize(
    ("effect", "ending"),
    [
        (Effect.READ, ToolEnding.FAILED),
        (Effect.IDEMPOTENT, ToolEnding.FAILED),
        (Effect.WRITE, ToolEnding.UNCERTAIN),
    ],
)
@pytest.mark.parametrize(("name", "arguments"), [("blocks", {}), ("hangs", {}), ("swallows", {"until": 2})])
async def test_a_function_that_does_not_end_is_left_when_its_time_is_over(
    name: str, arguments: dict[str, JsonValue], effect: Effect, ending: ToolEnding
):
    tools = toolbox()
    action = function_action(name, module="trouble")
    async with asyncio.timeout(5):
        result = await tools.call(invocation(action, arguments, effect=effect, timeout_ms=50))
    assert result.ending is ending
    assert tools.abandoned == (1 if name == "swallows" else 0)
    if name == "hangs":
        assert trouble.CANCELLED == ["hangs"]


@pytest.mark.parametrize("name", ["leaver", "leaver_async"])
async def test_a_value_that_ends_whoever_looks_at_it_ends_neither_the_server_nor_its_place(name: str):
    tools = toolbox(threads=1)
    result = await tools.call(invocation(function_action(name, module="trouble"), timeout_ms=2_000))
    assert (result.ending, result.timed_out) == (ToolEnding.FAILED, False)
    assert output(await tools.call(invocation(function_action("add"), {"left": 1}))) == 3


async def test_a_function_that_blocks_holds_its_place_until_it_returns():
    functions = FunctionTool(catalog=FunctionCatalog(roots=[ROOT]), threads=1)
    tools = StepToolbox(http=HttpTool(clients=GuardedClients(), connections={}), functions=functions)
    blocks = invocation(function_action("blocks", module="trouble"), timeout_ms=50)
    adds = invocation(function_action("add"), {"left": 1}, timeout_ms=50, effect=Effect.WRITE)
    assert (await tools.call(blocks)).ending is ToolEnding.FAILED
    assert functions.running_threads == 1
    assert (await tools.call(adds)).ending is ToolEnding.FAILED
    trouble.RELEASE.set()
    assert output(await tools.call(invocation(function_action("add"), {"left": 1}))) == 3
    assert functions.running_threads == 0


@pytest.mark.parametrize("name", ["blocks", "hangs"])
async def test_cancelling_a_call_ends_it_at_once(name: str):
    tools = toolbox()
    task = asyncio.ensure_future(
        tools.call(invocation(function_action(name, module="trouble"), timeout_ms=30_000))
    )
    assert await asyncio.to_thread(trouble.STARTED.wait, 5)
    task.cancel()
    async with asyncio.timeout(5):
        with pytest.raises(asyncio.CancelledError):
            await task

"""Functions that are asked: yes, no, or no answer, whatever a function does."""

import asyncio
from collections.abc import Iterator

import pytest

from jackline_server.core.facts import ConsultKind
from jackline_server.core.plan import JsonValue
from jackline_server.runtime.ports.consultants import Consultation, ConsultReply
from jackline_server.tools.consulting import FunctionConsultants
from jackline_server.tools.function import FunctionTool
from jackline_server.tools.function_catalog import FunctionCatalog
from tests.tools.invocations import ROOT
from tests.tools.roots.allowed import trouble

pytestmark = pytest.mark.timeout(30)


@pytest.fixture(autouse=True)
def released() -> Iterator[None]:
    trouble.STARTED.clear()
    trouble.RELEASE.clear()
    trouble.CANCELLED.clear()
    yield
    trouble.RELEASE.set()


def consultants(*, threads: int = 4) -> FunctionConsultants:
    return FunctionConsultants(functions=FunctionTool(catalog=FunctionCatalog(roots=[ROOT]), threads=threads))


def question(function: str, *, timeout_ms: int = 5_000, **variables: JsonValue) -> Consultation:
    return Consultation(
        kind=ConsultKind.STOP_CONDITION,
        target=f"{ROOT}.{function}",
        run_id="run_1",
        who="stop_when.function(checks)",
        variables={"iterations": 2, "calls": [{"name": "look"}], "context": {"input": 1}, **variables},
        subject={"user": "ann"},
        timeout_ms=timeout_ms,
    )


async def asked(function: str, *, timeout_ms: int = 5_000, **variables: JsonValue) -> ConsultReply:
    return await consultants().ask(question(function, timeout_ms=timeout_ms, **variables))


async def test_a_function_is_given_the_variables_that_it_names_and_says_yes_or_no() -> None:
    assert (await asked("checks:enough")).answer is True
    assert (await asked("checks:enough", iterations=1)).answer is False


async def test_a_function_knows_the_run_and_can_change_nothing_of_it() -> None:
    context: dict[str, JsonValue] = {"input": 1}
    assert (await asked("checks:knows_the_run", context=context)).answer is True
    assert context == {"input": 1}


@pytest.mark.parametrize(
    "function",
    ["checks:counts", "checks:says_nothing", "checks:nowhere", "orders:add", "trouble:returns", "../x"],
)
async def test_whatever_is_no_yes_or_no_is_no_answer(function: str) -> None:
    reply = await asked(function)
    assert reply.answer is None
    assert reply.error


@pytest.mark.parametrize("what", ["value", "exit", "interrupt", "recursion", "hostile", "kind", "cancelled"])
async def test_a_function_that_raises_is_no_answer(what: str) -> None:
    for function in ("trouble:raises", "trouble:raises_async"):
        assert (await asked(function, what=what)).answer is None


@pytest.mark.parametrize("function", ["trouble:hangs", "trouble:blocks", "trouble:swallows"])
async def test_a_function_that_does_not_return_is_no_answer_in_time(function: str) -> None:
    async with asyncio.timeout(10):
        reply = await asked(function, timeout_ms=50, until=1)
    assert reply.answer is None


async def test_functions_that_never_return_leave_the_next_question_without_an_answer_in_its_time() -> None:
    few = consultants(threads=1)
    async with asyncio.timeout(10):
        assert (await few.ask(question("trouble:blocks", timeout_ms=50))).answer is None
        assert (await few.ask(question("checks:enough", timeout_ms=50))).answer is None
        trouble.RELEASE.set()
        assert (await few.ask(question("checks:enough"))).answer is True

"""Hooks as they are found and asked: what they are given, what their answers become, what they may break."""

import asyncio
from collections.abc import Iterator

import pytest

from jackline_server.core.facts import ConsultKind
from jackline_server.core.gate_plans import HOOK_POINTS, OnHookError, Point
from jackline_server.core.plan import JsonValue
from jackline_server.policies.hook_catalog import HookCatalog, HookProblem
from jackline_server.policies.hooks import HookConsultants
from jackline_server.runtime.ports.consultants import Consultation, ConsultReply, RunPlace
from jackline_server.runtime.ports.gates import HookDeclaration
from tests.policies import hook_classes

MODULE = "tests.policies.hook_classes"


@pytest.fixture(autouse=True)
def released() -> Iterator[None]:
    hook_classes.Slow.released.clear()
    yield
    hook_classes.Slow.released.set()


def declared(name: str, **options: JsonValue) -> HookDeclaration:
    return HookDeclaration(
        name=name,
        class_path=f"{MODULE}:{name}",
        entry_point="",
        options=options,
        timeout_ms=1_000,
        on_error=OnHookError.VETO,
    )


def question(name: str, point: Point, *, timeout_ms: int = 5_000, **values: JsonValue) -> Consultation:
    return Consultation(
        kind=ConsultKind.HOOK,
        target=name,
        run_id="run_1",
        who=f"hooks.{name}",
        variables=values,
        subject={"name": "Ann"},
        timeout_ms=timeout_ms,
        point=point,
        place=RunPlace(workflow="pay", principal="tester", step_id="pay", visit=1, iteration=2),
    )


async def asked(name: str, point: Point, *, timeout_ms: int = 5_000, **values: JsonValue) -> ConsultReply:
    hooks = HookConsultants(HookCatalog([declared(name)]))
    return await hooks.ask(question(name, point, timeout_ms=timeout_ms, **values))


async def test_a_hook_is_given_where_the_run_is_and_answers_with_metadata() -> None:
    catalog = HookCatalog([declared("Audit")])
    hooks = HookConsultants(catalog)
    reply = await hooks.ask(question("Audit", Point.BEFORE_RUN, input={"a": [1, {"b": 2}]}))
    assert (reply.answer, reply.metadata) == (True, {"who": "Ann"})
    (found,) = catalog.loaded
    assert isinstance(found.instance, hook_classes.Audit)
    (event,) = found.instance.seen
    assert (event.point, event.run_id, event.workflow, event.step) == ("before_run", "run_1", "pay", "pay")
    assert (event.visit, event.iteration, event.principal) == (1, 2, "tester")
    assert event.values["input"]["a"] == (1, {"b": 2})


async def test_a_hook_is_made_once_with_its_options() -> None:
    catalog = HookCatalog([declared("Audit", most=100)])
    hooks = HookConsultants(catalog)
    small = await hooks.ask(question("Audit", Point.BEFORE_TOOL_CALL, arguments={"amount": 100}))
    large = await hooks.ask(question("Audit", Point.BEFORE_TOOL_CALL, arguments={"amount": 101}))
    assert (small.answer, large.answer, large.reason) == (True, False, "101 is too much")
    assert len(catalog.loaded) == 1


async def test_a_hook_can_change_nothing_of_what_it_is_shown() -> None:
    assert (await asked("Changes", Point.BEFORE_RUN, input={"text": "as it is"})).answer is None


async def test_a_hook_may_ask_for_another_attempt_after_a_call_alone() -> None:
    again = await asked("Audit", Point.AFTER_TOOL_CALL, output=[])
    assert (again.answer, again.retry, again.metadata) == (True, True, {"again": "yes"})
    assert (await asked("Odd", Point.BEFORE_RUN, kind="retry")).answer is None


@pytest.mark.parametrize("kind", ["number", "metadata", "not a mapping", "raises", "leaves"])
async def test_whatever_is_no_answer_is_a_failure_and_says_nothing_of_the_inside(kind: str) -> None:
    reply = await asked("Odd", Point.BEFORE_RUN, kind=kind)
    assert reply.answer is None
    assert "secret detail" not in reply.error


async def test_the_end_of_a_run_can_not_be_vetoed() -> None:
    assert (await asked("Odd", Point.AFTER_RUN)).answer is None


@pytest.mark.parametrize("point", [Point.BEFORE_RUN, Point.BEFORE_TURN, Point.AFTER_TURN])
async def test_a_hook_that_does_not_return_has_failed_in_its_time(point: Point) -> None:
    async with asyncio.timeout(10):
        assert (await asked("Slow", point, timeout_ms=100)).answer is None


async def test_threads_that_never_return_leave_the_next_question_without_an_answer_in_its_time() -> None:
    hooks = HookConsultants(HookCatalog([declared("Slow"), declared("Audit")]), threads=1)
    async with asyncio.timeout(10):
        assert (await hooks.ask(question("Slow", Point.BEFORE_RUN, timeout_ms=100))).answer is None
        assert (await hooks.ask(question("Audit", Point.BEFORE_RUN, timeout_ms=100))).answer is None
        hook_classes.Slow.released.set()
        assert (await hooks.ask(question("Audit", Point.BEFORE_RUN))).answer is True


async def test_a_cancelled_question_ends_though_its_hook_is_deaf() -> None:
    task = asyncio.create_task(asked("Slow", Point.AFTER_TURN, timeout_ms=60_000))
    async with asyncio.timeout(10):
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.parametrize("name", ["Missing", "Nothing", "TooMany", "Refuses", "not_a_class"])
async def test_a_class_that_is_no_hook_is_a_problem_in_words(name: str) -> None:
    with pytest.raises(HookProblem):
        HookCatalog([declared(name)]).find(name)
    assert (await asked(name, Point.BEFORE_RUN)).answer is None


def test_a_hook_that_nobody_declared_is_never_imported() -> None:
    with pytest.raises(HookProblem):
        HookCatalog([]).find(f"{MODULE}:Audit")


def test_an_entry_point_that_no_package_has_is_a_problem() -> None:
    missing = HookDeclaration(
        name="a",
        class_path="",
        entry_point="no-such-hook",
        options={},
        timeout_ms=1_000,
        on_error=OnHookError.VETO,
    )
    with pytest.raises(HookProblem):
        HookCatalog([missing]).find("a")


def test_the_points_of_a_hook_are_its_methods() -> None:
    found = HookCatalog([declared("Audit")]).find("Audit")
    assert set(found.methods) == {Point.BEFORE_RUN, Point.BEFORE_TOOL_CALL, Point.AFTER_TOOL_CALL}
    assert set(found.methods) < set(HOOK_POINTS)


async def test_hooks_are_closed_in_good_order() -> None:
    catalog = HookCatalog([declared("Audit")])
    hooks = HookConsultants(catalog)
    found = catalog.find("Audit")
    await hooks.close()
    assert isinstance(found.instance, hook_classes.Audit)
    assert found.instance.closed

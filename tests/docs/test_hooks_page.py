"""The examples of the page about hooks, guardrails and policy do what the page says."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jackline_server.config import load_config
from jackline_server.core.facts import RunFinished, StopReason
from jackline_server.core.gate_plans import HOOK_POINTS
from jackline_server.core.plan import Plan
from jackline_server.hooks import Event
from jackline_server.policies.hook_catalog import HookCatalog
from jackline_server.policies.hooks import HookConsultants
from jackline_server.runtime.ports.codec import Record
from jackline_server.runtime.ports.definitions import Severity, Source
from jackline_server.runtime.ports.tools import Invocation, ToolResult
from jackline_server.storage.memory.store import memory_store
from jackline_server.testing.doubles import FakeModels, FakeTools, ScriptedReply, returns
from jackline_server.testing.driving import Call, Driver, Says, Scenario
from jackline_server.testing.harness import World, process
from tests.docs.pages import blocks, keys, page
from tests.docs.test_progress_examples import plan_of
from tests.docs.test_references import compiler

PAGE = page("hooks.md")


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[HookCatalog]:
    """The hook of the page, declared as the page declares it."""
    (code,), (declared,) = blocks(PAGE, "python"), blocks(PAGE, "toml")
    (tmp_path / "page_hooks_shop").mkdir()
    (tmp_path / "page_hooks_shop" / "hooks.py").write_text(code.code, encoding="utf-8")
    file = tmp_path / "jackline.toml"
    file.write_text(declared.code.replace("shop.hooks", "page_hooks_shop.hooks"), encoding="utf-8")
    file.chmod(0o600)
    sys.path.insert(0, str(tmp_path))
    try:
        yield HookCatalog(tuple(load_config(file=file, environ={}).hooks.values()))
    finally:
        sys.path.remove(str(tmp_path))


def plan() -> Plan:
    (block,) = blocks(PAGE, "yaml")
    done = compiler().compile(Source(yaml=block.code, files={}))
    assert [one for one in done.findings if one.severity is not Severity.INFO] == []
    assert done.plan is not None
    return done.plan


async def run(catalog: HookCatalog, amount: int) -> tuple[list[Record], FakeTools]:
    said = iter(
        [
            ScriptedReply(calls=(("", "find_invoice", '{"words":"tea"}'),)),
            ScriptedReply(calls=(("", "transfer", f'{{"amount":{amount}}}'),)),
            ScriptedReply(text="Paid."),
        ]
    )
    found = iter(["[]", '["invoice 7"]'])

    def find(given: Invocation) -> ToolResult:
        return returns(next(found))(given)

    tools = FakeTools(tools={"find_invoice": find, "transfer": returns("1")})
    world = World(
        store=memory_store(),
        models=FakeModels(answering=lambda _: next(said)),
        toolbox=tools,
        plans={"plan": plan()},
        consultants=HookConsultants(catalog),
    )
    async with process(world) as jackline:
        return await jackline.follow(await jackline.start(customer="Ann")), tools


def end_of(log: list[Record]) -> RunFinished:
    last = log[-1].fact
    assert isinstance(last, RunFinished)
    return last


async def test_the_hook_of_the_page_lets_a_small_transfer_pass_and_has_an_empty_search_made_again(
    catalog: HookCatalog,
) -> None:
    log, tools = await run(catalog, 500)
    assert end_of(log).stop_reason is StopReason.DEFAULT
    assert [one.step.step_id for one in tools.ledger] == ["find_invoice", "find_invoice", "transfer"]


async def test_the_hook_of_the_page_keeps_a_large_transfer_out(catalog: HookCatalog) -> None:
    log, tools = await run(catalog, 501)
    end = end_of(log)
    assert (end.stop_reason, end.stop_leaf) == (StopReason.HOOK_VETO, "hooks.audit")
    assert [one.step.step_id for one in tools.ledger] == ["find_invoice", "find_invoice"]


def test_the_page_has_every_point_and_what_an_event_has() -> None:
    listed = [name for name in keys(PAGE, "## Hooks") if name.startswith(("before_", "after_"))]
    assert listed == [point.value for point in HOOK_POINTS]
    assert set(Event.__dataclass_fields__) == {
        *("point", "run_id", "workflow", "step", "visit", "iteration", "principal", "subject", "values")
    }


PASSED, FAILED = Says(text='{"passed": true}'), Says(text='{"passed": false, "reason": "a price"}')


def answered(*replies: Says) -> Driver:
    return Driver(Scenario(plan=plan_of("answer"), replies=replies)).run_to_end()


def test_the_guarded_answer_of_the_workflow_page_goes_by_its_gates_in_order() -> None:
    assert answered(PASSED, Says(text="High tide is at nine."), PASSED).finished.signal == "default"
    off_topic = answered(FAILED).finished
    assert (off_topic.signal, off_topic.stop_leaf) == (
        "guardrail_violation",
        "steps.answer.guardrails.input[0]",
    )
    promised = answered(PASSED, Says(text="I GUARANTEE it.")).finished
    assert promised.stop_leaf == "steps.answer.guardrails.output[1]"
    mended = answered(PASSED, Says(text="x" * 401), Says(text="Short."), PASSED)
    assert mended.finished.result_json == '"Short."'
    assert mended.state.ledger.model_requests == 4


def test_a_search_with_too_many_words_is_an_error_result() -> None:
    long = Says(calls=(Call("find_notes", f'{{"words":"{"w" * 81}"}}'),))
    driver = answered(PASSED, long, Says(text="Nothing."), PASSED)
    assert not driver.attempts
    assert driver.finished.signal == "default"

"""Each form of an answer on the page is run: its workflow, with its script, ends as the page says."""

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from jackline_server.core.facts import RunFinished
from jackline_server.core.plan import AnswerForm, ModelStep, Plan
from jackline_server.models.script import parse_script
from jackline_server.models.scripted import ScriptedModels
from jackline_server.runtime.ports.definitions import Source
from jackline_server.runtime.ports.models import ModelChunk, ModelRequest
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.storage.memory.store import memory_store
from jackline_server.testing.doubles import FakeTools, returns
from jackline_server.testing.harness import World, process
from tests.docs.pages import Block, all_blocks, page
from tests.docs.test_references import compiler, whole

WORKFLOW = page("workflow.md")
INFOS = ["yaml steps", "yaml script", "json end"]


def examples() -> list[tuple[Block, Block, Block]]:
    """The blocks of the section, three by three."""
    begin, end = (WORKFLOW[: WORKFLOW.index(mark)].count("\n") for mark in ("\n### Answers", "\n### Tools"))
    found = [block for block in all_blocks(WORKFLOW) if begin < block.line < end]
    assert [block.info for block in found] == INFOS * (len(found) // 3)
    return list(zip(found[::3], found[1::3], found[2::3], strict=True))


@dataclass(slots=True)
class Listening:
    """A scripted model that keeps what it was asked. Implements `ports.Models`."""

    models: ScriptedModels
    requests: list[ModelRequest] = field(default_factory=list[ModelRequest])

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelChunk, None]:
        """See Models."""
        self.requests.append(request)
        async for chunk in self.models.stream(request):
            yield chunk


def plan_of(workflow: Block) -> Plan:
    compiled = compiler().compile(Source(yaml=whole(workflow), files={}, file="page.yaml"))
    assert compiled.plan is not None, compiled.findings
    return replace(compiled.plan, digest="0" * 64)


def form_of(workflow: Block) -> AnswerForm:
    step = plan_of(workflow).step(workflow.code.split(":", 1)[0])
    assert isinstance(step, ModelStep)
    return step.outcome.form


def test_the_page_has_an_example_of_each_form() -> None:
    assert [form_of(workflow) for workflow, _, _ in examples()] == [
        AnswerForm.JSON_TEXT,
        AnswerForm.NATIVE_SCHEMA,
        AnswerForm.FINISH_TOOL,
        AnswerForm.TEXT,
    ]


@pytest.mark.parametrize(
    ("workflow", "script", "end"),
    [pytest.param(*blocks, id=form_of(blocks[0]).value) for blocks in examples()],
)
async def test_each_example_ends_as_the_page_says(workflow: Block, script: Block, end: Block) -> None:
    plan = plan_of(workflow)
    models = Listening(ScriptedModels(scripts={"fast": parse_script(script.code, file="page")}))
    world = World(
        store=memory_store(),
        models=models,
        toolbox=FakeTools(tools={"lookup": returns('{"paid":true}')}),
        plans={"plan": plan},
    )
    async with process(world) as jackline, asyncio.timeout(30):
        run_id = await jackline.start(message="I want my money back.")
        seen = await jackline.follow(run_id)
        ledger = (await jackline.runtime.runs.get(DEFAULT_TENANT, run_id)).state.ledger
    finished = seen[-1].fact
    assert isinstance(finished, RunFinished)
    found: dict[str, Any] = {
        "signal": finished.signal,
        "stop_reason": finished.stop_reason.value,
        "result": json.loads(finished.result_json or "null"),
        "requests": ledger.model_requests,
        "iterations": ledger.iterations,
    }
    assert found == json.loads(end.code)
    asked = {request.reply_schema is not None for request in models.requests}
    assert asked == {form_of(workflow) is AnswerForm.NATIVE_SCHEMA}

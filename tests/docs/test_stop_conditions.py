"""The stop conditions of docs/workflow.md are executed: each stops the run that the page speaks of."""

import asyncio
import json
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from jackline_client.conditions import Condition
from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.core.facts import RunFinished, Usage
from jackline_server.core.plan import ModelPlan, Plan, Price
from jackline_server.definitions.catalog import Catalog, FunctionDescription
from jackline_server.definitions.compiler import WorkflowCompiler
from jackline_server.definitions.shapes import StopWhenShape
from jackline_server.expressions.cel import CelExpressions
from jackline_server.expressions.schemas import JsonSchemas
from jackline_server.runtime.ports.definitions import Severity, Source
from jackline_server.runtime.ports.models import ModelRequest
from jackline_server.storage.memory.store import memory_store
from jackline_server.testing.doubles import FakeModels, FakeTools, ScriptedReply, returns
from jackline_server.testing.driving import Call, Driver, Ends, Says, Scenario
from jackline_server.testing.harness import World, process
from jackline_server.testing.plans import started
from jackline_server.tools.consulting import FunctionConsultants
from jackline_server.tools.function import FunctionTool
from jackline_server.tools.function_catalog import FunctionCatalog
from tests.docs.pages import Block, all_blocks, blocks, page

WORKFLOW = page("workflow.md")
FILE = """\
name: page
model: fast
flow: [handle]
steps:
  handle:
    kind: agent
    steering: Read both orders.
    tools: [{ref: lookup}]
    outcome: {enum: [resolved]}
    routes: {"*": end}
    stop_when:
"""
LOOKUP = """\
  lookup:
    {kind: http, effect: read, description: Reads one order., connection: orders, path: "/{{ id }}"}
"""
ASKED = ("lookup", '{"id":"7"}')
USED = Usage(prompt_tokens=1_000, completion_tokens=500)
PRICE = Price(input_per_million=100_000_000, output_per_million=400_000_000)
FOUND = '{"status":"shipped"}'


def examples() -> list[tuple[Block, str]]:
    """Each condition of the page with the leaf that it says will decide."""
    found = [block for block in all_blocks(WORKFLOW) if block.info in ("yaml stops", "text stops")]
    return [(found[at], found[at + 1].code.strip()) for at in range(0, len(found), 2)]


EXAMPLES = [pytest.param(block, leaf, id=f"line {block.line}") for block, leaf in examples()]


@pytest.fixture
def functions(tmp_path: Path) -> Iterator[FunctionCatalog]:
    """The function of the page, in a package that can be imported."""
    (code,) = blocks(WORKFLOW, "python stops")
    package = tmp_path / "shop"
    package.mkdir()
    (package / "checks.py").write_text(code.code, encoding="utf-8")
    sys.path.insert(0, str(tmp_path))
    yield FunctionCatalog(roots=["shop"])
    sys.path.remove(str(tmp_path))
    for name in ("shop.checks", "shop"):
        sys.modules.pop(name, None)


class Described:
    """The functions of a catalog in the words of the compiler."""

    def __init__(self, catalog: FunctionCatalog) -> None:
        self._catalog = catalog

    def describe(self, function: str) -> FunctionDescription | str:
        found = self._catalog.describe(function)
        if isinstance(found, str):
            return found
        return FunctionDescription(parameters_json=found.parameters_json, docstring=found.description)


def compiled(condition: str, functions: FunctionCatalog) -> Plan:
    fast = ModelPlan(
        profile="fast",
        model="m",
        adapter="scripted",
        context_window=128_000,
        max_output_tokens=4_096,
        price=PRICE,
        retries=3,
        retry_base_ms=1_000,
        retry_cap_ms=30_000,
    )
    compiler = WorkflowCompiler(
        catalog=Catalog(
            models={"fast": fast}, http_connections=frozenset({"orders"}), functions=Described(functions)
        ),
        expressions=CelExpressions(),
        schemas=JsonSchemas(),
        encode_plan=ProtoCodec().encode_plan,
    )
    text = FILE + textwrap.indent(condition, "      ") + LOOKUP
    done = compiler.compile(Source(yaml=text, files={}))
    assert [one for one in done.findings if one.severity is not Severity.INFO] == []
    assert done.plan is not None
    return done.plan


def drive(plan: Plan) -> Driver:
    """The run that the page speaks of, in the core, where time goes as it says."""
    reply = Says(text="Let me see.", calls=(Call(*ASKED),), usage=USED, takes_ms=3_950)
    scenario = Scenario(
        plan=plan,
        started=started(plan, input_json='{"limit":2}'),
        replies=[reply, reply],
        tools={"lookup": lambda _: Ends(output={"status": "shipped"})},
    )
    return Driver(scenario)


async def run(plan: Plan, functions: FunctionCatalog) -> RunFinished:
    """The same in the whole runtime, with the function of the page."""

    def answering(request: ModelRequest) -> ScriptedReply:
        del request
        return ScriptedReply(text="Let me see.", calls=(("", *ASKED),), usage=USED)

    world = World(
        store=memory_store(),
        models=FakeModels(answering=answering),
        toolbox=FakeTools(tools={"lookup": returns(FOUND)}),
        plans={"plan": plan},
        consultants=FunctionConsultants(functions=FunctionTool(catalog=functions)),
    )
    async with process(world) as jackline, asyncio.timeout(20):
        log = await jackline.follow(await jackline.start(limit=2))
    fact = log[-1].fact
    assert isinstance(fact, RunFinished)
    return fact


@pytest.mark.parametrize(("block", "leaf"), EXAMPLES)
async def test_each_condition_of_the_page_stops_its_run_by_the_leaf_that_it_names(
    block: Block, leaf: str, functions: FunctionCatalog
) -> None:
    plan = compiled(block.code, functions)
    end = drive(plan).run().finished if "elapsed" in block.code else await run(plan, functions)
    assert (end.signal, end.stop_leaf) == ("stopped", leaf)


def test_the_page_has_an_example_of_each_key() -> None:
    written = "".join(block.code for block, _ in examples())
    keys = {one.alias or name for name, one in StopWhenShape.model_fields.items()}
    assert {key for key in keys if f"{key}:" not in written} == set()


def test_the_builder_of_the_page_says_what_the_page_says() -> None:
    (code,), (written,) = blocks(WORKFLOW, "python condition"), blocks(WORKFLOW, "json condition")
    names: dict[str, object] = {}
    exec(code.code, names)  # noqa: S102 - the example of the page
    stop = names["stop"]
    assert isinstance(stop, Condition)
    assert stop.to_dict() == json.loads(written.code)

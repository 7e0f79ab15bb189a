"""The reference pages hold what the code holds: every key, every default, every example accepted."""

import re
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import pytest
from pydantic import BaseModel

from jackline_server.config import load_config
from jackline_server.config.sections import SECTIONS_NOT_BUILT, SERVER_KEYS
from jackline_server.config.settings import ModelProfile
from jackline_server.core.facts import FailureClass, FinishReason
from jackline_server.core.gate_plans import HookPlan, OnHookError, Point
from jackline_server.core.plan import AttemptLimits, ModelPlan, ModelStep, Price
from jackline_server.definitions import defaults, shapes
from jackline_server.definitions.catalog import Catalog, FunctionDescription
from jackline_server.definitions.compiler import WorkflowCompiler
from jackline_server.definitions.presets import PRESETS, Preset
from jackline_server.expressions.cel import CelExpressions
from jackline_server.expressions.schemas import JsonSchemas
from jackline_server.models import script
from jackline_server.policies.masking import REGIONS
from jackline_server.runtime.pinned_tools import CatalogConnection, PinnedTool
from jackline_server.runtime.ports.definitions import Severity, Source
from jackline_server.runtime.ports.http import Origin
from jackline_server.runtime.ports.mcp import McpConnection, McpEndpoint
from jackline_server.runtime.ports.sql import DataSource, SqliteFile
from jackline_server.tools.function_catalog import FunctionCatalog
from scripts import _defaults_table, _findings_page
from tests.docs.pages import ROOT, Block, blocks, keys, page, rows, section

WORKFLOW, CONFIG, SCRIPTS = page("workflow.md"), page("config.md"), page("scripted-models.md")


# --- examples ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ShopFunctions:
    """The functions that the page speaks of."""

    def describe(self, function: str) -> FunctionDescription | str:
        properties = '{"amount":{"type":"number"},"to":{"type":"string"}}'
        schema = f'{{"type":"object","properties":{properties},"required":["amount","to"]}}'
        return FunctionDescription(parameters_json=schema, docstring="Converts an amount of euros.")


@dataclass(frozen=True, slots=True)
class SupportServer:
    """The MCP connection that the page speaks of."""

    tools: Mapping[str, PinnedTool] = field(
        default_factory=lambda: {
            name: PinnedTool(
                name=name,
                description=f"Does {name}.",
                input_schema_json=schema,
                output_schema_json=None,
                annotations_json='{"readOnlyHint":true}',
            )
            for name, schema in (
                ("lookup_invoice", '{"type":"object","properties":{"tenant":{},"invoice":{}}}'),
                ("post_message", '{"type":"object","properties":{"channel":{},"text":{}}}'),
            )
        }
    )

    def names(self) -> tuple[str, ...]:
        return ("support",)

    def connection(self, name: str) -> McpConnection:
        origin = Origin(scheme="https", host="support.internal", port=443)
        return McpConnection(
            name=name,
            transport=McpEndpoint(origin=origin, path="/mcp", headers={}),
            trusted=True,
            allow=None,
            lock=None,
            start_timeout_ms=1,
            timeout_ms=1,
            concurrency=1,
        )

    def catalog(self, name: str) -> Mapping[str, PinnedTool] | str:
        return self.tools


@dataclass(frozen=True, slots=True)
class OperatorHooks:
    """The hook that the pages speak of."""

    def names(self) -> tuple[str, ...]:
        return ("audit",)

    def describe(self, name: str) -> HookPlan | str:
        if name != "audit":
            return f"there is no hook {name!r}"
        points = frozenset({Point.BEFORE_RUN, Point.BEFORE_TOOL_CALL, Point.AFTER_TOOL_CALL})
        return HookPlan(name=name, points=points, timeout_ms=1_000, on_error=OnHookError.VETO)


@dataclass(frozen=True, slots=True)
class BillingService:
    """The gRPC connection that the page speaks of."""

    def names(self) -> tuple[str, ...]:
        return ("billing",)

    def connection(self, name: str) -> CatalogConnection | None:
        return replace(SupportServer().connection(name), name=name)

    def catalog(self, name: str) -> Mapping[str, PinnedTool] | str:
        tools = (
            ("billing.v1.Billing/GetOrder", '{"type":"object","properties":{"order_id":{"type":"string"}}}'),
            (
                "billing.v1.Billing/Refund",
                '{"type":"object","properties":{"order_id":{},"cents":{},"reason":{}}}',
            ),
        )
        return {
            name: PinnedTool(
                name=name,
                description="",
                input_schema_json=schema,
                output_schema_json=None,
                annotations_json='{"readOnlyHint":true}',
            )
            for name, schema in tools
        }


@dataclass(frozen=True, slots=True)
class Depot:
    """The pool of workers that the page speaks of."""

    def names(self) -> tuple[str, ...]:
        return ("depot",)

    def connection(self, name: str) -> CatalogConnection | None:
        return replace(SupportServer().connection(name), name=name)

    def catalog(self, name: str) -> Mapping[str, PinnedTool] | str:
        track = PinnedTool(
            name="track",
            description="Tells where a parcel is.",
            input_schema_json='{"type":"object","properties":{"parcel":{"type":"string"},"carrier":{}}}',
            output_schema_json=None,
            annotations_json='{"readOnlyHint":true}',
        )
        return {track.name: track}


ORDERS_DATABASE = DataSource(
    name="shop",
    database=SqliteFile(file=Path("shop.db")),
    writes=True,
    timeout_ms=1,
    concurrency=1,
    max_rows=1,
    max_bytes=1,
)


def compiler() -> WorkflowCompiler:
    fast = ModelPlan(
        profile="fast",
        model="m",
        adapter="scripted",
        context_window=128_000,
        max_output_tokens=4_096,
        price=Price(input_per_million=0, output_per_million=0),
        retries=3,
        retry_base_ms=1_000,
        retry_cap_ms=30_000,
        native_schema=True,
    )
    catalog = Catalog(
        models={"fast": fast, "slow": replace(fast, profile="slow")},
        http_connections=frozenset({"orders", "helpdesk"}),
        functions=ShopFunctions(),
        mcp=SupportServer(),
        grpc=BillingService(),
        workers=Depot(),
        data_sources={"shop": ORDERS_DATABASE},
        hooks=OperatorHooks(),
        policies=frozenset({"spending"}),
        regions=REGIONS,
    )
    return WorkflowCompiler(
        catalog=catalog,
        expressions=CelExpressions(),
        schemas=JsonSchemas(),
        encode_plan=lambda plan: repr(plan).encode(),
    )


def whole(block: Block) -> str:
    """A block of steps as a workflow that begins with the first of them."""
    first = block.code.split(":", 1)[0]
    head = f"name: page\nmodel: fast\nflow: [{first}]\nsteps:\n"
    return head + textwrap.indent(block.code, "  ")


@pytest.mark.parametrize(
    "text",
    [
        *(pytest.param(block.code, id=f"line {block.line}") for block in blocks(WORKFLOW, "yaml workflow")),
        *(pytest.param(whole(block), id=f"line {block.line}") for block in blocks(WORKFLOW, "yaml steps")),
    ],
)
def test_every_workflow_of_the_page_is_valid_and_worth_no_warning(text: str) -> None:
    compilation = compiler().compile(Source(yaml=text, files={}, file="page.yaml"))
    found = [one for one in compilation.findings if one.severity is not Severity.INFO]
    assert found == []
    assert compilation.plan is not None


def test_every_yaml_block_of_the_pages_is_one_that_is_checked() -> None:
    checked = {"yaml workflow", "yaml steps", "yaml script", "yaml stops"}
    for text in (WORKFLOW, CONFIG, SCRIPTS):
        marked = sum(len(blocks(text, info)) for info in checked)
        assert text.count("```yaml") == marked


def test_the_function_of_the_page_is_one_that_can_be_called(tmp_path: Path) -> None:
    (code,) = blocks(WORKFLOW, "python")
    (tmp_path / "page_shop").mkdir()
    (tmp_path / "page_shop" / "money.py").write_text(code.code, encoding="utf-8")
    sys.path.insert(0, str(tmp_path))
    try:
        described = FunctionCatalog(roots=["page_shop"]).describe("page_shop.money:convert")
    finally:
        sys.path.remove(str(tmp_path))
    assert not isinstance(described, str), described
    assert '"call"' not in described.parameters_json


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(block, id=f"{name} line {block.line}")
        for name, text in (
            ("config", CONFIG),
            ("scripts", SCRIPTS),
            ("workflow", WORKFLOW),
            ("webhooks", page("webhooks.md")),
        )
        for block in blocks(text, "toml")
    ],
)
def test_every_config_of_the_pages_is_accepted(block: Block, tmp_path: Path) -> None:
    file = tmp_path / "jackline.toml"
    file.write_text(block.code, encoding="utf-8")
    file.chmod(0o600)
    (tmp_path / "orders.token").write_text("secret\n", encoding="utf-8")
    names = (
        "OPENAI_API_KEY",
        "ORDERS_TOKEN",
        "FILES_TOKEN",
        "SUPPORT_TOKEN",
        "POLICY_TOKEN",
        "SHOP_PASSWORD",
    )
    load_config(
        file=file,
        environ={
            **dict.fromkeys((*names, "SHOP_PASSWORD", "BILLING_TOKEN", "SHOP_TOKEN"), "secret"),
            **dict.fromkeys(
                ("OPS_WEBHOOK_SECRET", "OPS_WEBHOOK_SECRET_OLD", "BILLING_WEBHOOK_SECRET"),
                f"whsec_{'c2VjcmV0' * 4}",
            ),
        },
    )


@pytest.mark.parametrize(
    "block", [pytest.param(block, id=f"line {block.line}") for block in blocks(SCRIPTS, "yaml script")]
)
def test_every_script_of_the_page_is_accepted(block: Block) -> None:
    assert script.parse_script(block.code, file="page").turns


# --- keys --------------------------------------------------------------------------------------


def own_keys(shape: type[BaseModel], *bases: type[BaseModel]) -> set[str]:
    """The keys of a shape as a file writes them, without those of its bases."""
    inherited = {name for base in bases for name in base.model_fields}
    return {field.alias or name for name, field in shape.model_fields.items() if name not in inherited}


SHAPES: Mapping[str, set[str]] = {
    "## The top": own_keys(shapes.WorkflowShape),
    "### Bounds of the run": own_keys(shapes.RunBoundsShape),
    "### Raising a live run": own_keys(shapes.BoundsCapShape),
    "## Every step": own_keys(shapes.StepShape),
    "### What `agent` and `completion` have": own_keys(shapes.ModelStepShape, shapes.StepShape),
    "### What only `agent` has": own_keys(shapes.AgentShape, shapes.ModelStepShape),
    "### Bounds of a visit": own_keys(shapes.AgentBoundsShape) | own_keys(shapes.CompletionBoundsShape),
    "### Answers": own_keys(shapes.OutcomeShape),
    "### Tools": own_keys(shapes.ToolShape),
    "### Stop conditions": own_keys(shapes.StopWhenShape),
    "### Repetition": own_keys(shapes.RepeatShape),
    "### Reflection": own_keys(shapes.ReflectShape),
    "### Grounding": own_keys(shapes.GroundShape),
    "### Long conversations": own_keys(shapes.CompactionShape),
    "### Guardrails": own_keys(shapes.GuardrailShape),
    "### Policy": own_keys(shapes.PolicyUseShape),
    "## `kind: completion`": own_keys(shapes.CompletionShape, shapes.ModelStepShape),
    "## What every tool step has": own_keys(shapes.ToolStepShape, shapes.StepShape),
    "## `kind: http`": own_keys(shapes.HttpShape, shapes.ToolStepShape),
    "## `kind: function`": own_keys(shapes.FunctionShape, shapes.ToolStepShape),
    "## `kind: mcp`": own_keys(shapes.McpShape, shapes.ToolStepShape),
    "## `kind: sql`": own_keys(shapes.SqlShape, shapes.ToolStepShape),
    "## `kind: grpc`": own_keys(shapes.GrpcShape, shapes.ToolStepShape),
    "## `kind: worker`": own_keys(shapes.WorkerShape, shapes.ToolStepShape),
    "## `kind: human`": own_keys(shapes.HumanShape, shapes.ToolStepShape),
    "## `kind: router`": own_keys(shapes.RouterShape, shapes.StepShape) | own_keys(shapes.ConditionShape),
}


@pytest.mark.parametrize("heading", SHAPES)
def test_each_section_has_the_keys_of_its_shape_and_no_others(heading: str) -> None:
    found = keys(WORKFLOW, heading)
    assert len(found) == len(set(found))
    assert set(found) == SHAPES[heading]


def test_every_kind_of_step_has_its_section() -> None:
    assert {kind for kind in shapes.KINDS if f"## `kind: {kind}`" not in WORKFLOW} == set()


def test_what_is_not_built_is_named_where_it_would_stand() -> None:
    listed = {
        row[0].replace("`", ""): set(row[1].replace("`", "").split(", "))
        for row in rows(section(WORKFLOW, "## Not built yet"))
    }
    common = shapes.StepShape.not_built
    expected = {
        "bounds of the run": shapes.RunBoundsShape.not_built,
        "bounds_cap": shapes.BoundsCapShape.not_built,
        "every step": common,
    }
    assert listed == {key: set(names) for key, names in expected.items()}


def test_the_config_page_has_the_keys_of_each_section() -> None:
    assert keys(CONFIG, "## `[server]`") == list(SERVER_KEYS)
    model = {one.name.removesuffix("_ms") for one in fields(ModelProfile)}
    model -= {"name", "script_where", "limits", "price_is_ceiling"}
    model |= {"unknown_price", "ceiling_price"}
    model |= {
        f"max_{one.name}" if one.name.startswith("reply_") else one.name.removesuffix("_ms")
        for one in fields(AttemptLimits)
    }
    assert model <= set(keys(CONFIG, "## `[models.<name>]`"))
    for name in SECTIONS_NOT_BUILT:
        assert f"`{name}`" in section(CONFIG, "## Not built yet")


def test_each_key_of_a_connection_on_the_page_is_known_and_each_that_is_known_is_on_the_page() -> None:
    (http,) = (one for one in blocks(CONFIG, "toml") if "base_url" in one.code and "hosts" in one.code)
    assert set(keys(CONFIG, "## Connections of kind `http`")) == toml_keys(http)
    (mcp,) = (one for one in blocks(CONFIG, "toml") if 'kind = "mcp"' in one.code)
    assert set(keys(CONFIG, "## Connections of kind `mcp`")) == toml_keys(mcp)


def test_each_key_of_a_grpc_connection_on_the_page_is_one_that_is_read() -> None:
    (shown,) = (one for one in blocks(CONFIG, "toml") if 'kind = "grpc"' in one.code)
    assert set(keys(CONFIG, "## Connections of kind `grpc`")) == toml_keys(shown)


def test_each_key_of_a_worker_connection_on_the_page_is_one_that_is_read() -> None:
    (shown,) = (one for one in blocks(CONFIG, "toml") if 'kind = "worker"' in one.code)
    assert set(keys(CONFIG, "## Connections of kind `worker`")) == toml_keys(shown)


def test_each_key_of_a_data_source_on_the_page_is_one_that_is_read() -> None:
    (shown,) = (one for one in blocks(CONFIG, "toml") if "[data_sources." in one.code)
    assert set(keys(CONFIG, "## `[data_sources.<name>]`")) == toml_keys(shown)


def toml_keys(block: Block) -> set[str]:
    return {line.split(" = ")[0] for line in block.code.splitlines() if " = " in line}


SCRIPT_SHAPES: Mapping[str, type[BaseModel]] = {
    "## A turn": script.Turn,
    "## `when`": script.When,
    "## `tool_calls`": script.ScriptCall,
    "## `usage`": script.ScriptUsage,
    "## `error`": script.ScriptFailure,
}


@pytest.mark.parametrize("heading", SCRIPT_SHAPES)
def test_each_section_of_the_script_page_has_the_keys_of_its_shape(heading: str) -> None:
    assert keys(SCRIPTS, heading) == [
        field.alias or name for name, field in SCRIPT_SHAPES[heading].model_fields.items()
    ]


def test_the_script_page_names_every_failure_and_every_finish() -> None:
    for one in (*FailureClass, *FinishReason):
        assert f"`{one.value}`" in SCRIPTS
    passing = [one.value for one in FailureClass if one.may_pass]
    (row,) = (row for row in rows(section(SCRIPTS, "## `error`")) if row[0] == "`class`")
    assert [name.strip("`") for name in row[2].removeprefix("Required: ").split(", ")][
        : len(passing)
    ] == passing


# --- defaults ----------------------------------------------------------------------------------


UNITS = {"SECOND_MS", "MINUTE_MS", "HOUR_MS"}


def test_the_page_of_findings_is_that_of_the_code() -> None:
    assert page("findings.md") == _findings_page.page()


def test_the_table_of_defaults_is_that_of_the_code() -> None:
    assert _defaults_table.with_table(WORKFLOW) == WORKFLOW


def test_every_default_of_the_code_has_its_row() -> None:
    known = {name for name in vars(defaults) if name.isupper()} - UNITS
    assert _defaults_table.names() == known | {one.name for one in fields(Preset)}


@pytest.mark.parametrize("preset", PRESETS)
def test_a_file_that_says_nothing_has_the_defaults_of_its_preset(preset: str) -> None:
    text = f"name: x\npreset: {preset}\nmodel: fast\nflow: [a]\nsteps: {{a: {{kind: agent, steering: S}}}}\n"
    plan = compiler().compile(Source(yaml=text, files={}, file="page.yaml")).plan
    assert plan is not None
    step, chosen = plan.steps["a"], PRESETS[preset]
    assert isinstance(step, ModelStep)
    assert (plan.preset, plan.bounds.run_timeout_ms, plan.bounds.steps) == (
        preset,
        chosen.run_timeout_ms,
        chosen.steps,
    )
    assert (step.bounds.max_iterations, step.on_limit, step.tool_execution, step.allow_effects) == (
        chosen.max_iterations,
        chosen.on_limit,
        chosen.tool_execution,
        chosen.allow_effects,
    )
    assert plan.models["fast"].retries == min(3, chosen.model_retries)


def test_the_defaults_of_the_config_page_are_those_that_are_loaded() -> None:
    config = load_config(environ={"JACKLINE_MODELS__FAST__MODEL": "openai/x"})
    server, model = config.server, config.models["fast"]
    expected = {
        "## `[server]`": (
            {
                "listen": str(server.listen),
                "data": str(server.data),
                "max_active_runs": str(server.max_active_runs),
                "drain_grace": _defaults_table.span(server.drain_grace_ms),
                "lease_ttl": _defaults_table.span(server.lease_ttl_ms),
                "insecure_bind": str(server.insecure_bind).lower(),
                "volatile": str(server.volatile).lower(),
                "enable_failpoints": str(server.enable_failpoints).lower(),
            },
            2,
        ),
        "## `[models.<name>]`": (
            {
                "connect_timeout": _defaults_table.span(model.limits.connect_timeout_ms),
                "first_token_timeout": _defaults_table.span(model.limits.first_token_timeout_ms),
                "max_reply_bytes": str(model.limits.reply_bytes),
                "max_reply_chunks": str(model.limits.reply_chunks),
                "concurrency": str(model.concurrency),
                "context_window": str(model.context_window),
                "max_output_tokens": str(model.max_output_tokens),
            },
            1,
        ),
    }
    for heading, (values, column) in expected.items():
        shown = {row[0].strip("`"): row[column] for row in rows(section(CONFIG, heading))}
        assert {key: shown[key] for key in values} == values


# --- links -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(file.name for file in (ROOT / "docs").glob("*.md")))
def test_every_link_between_the_pages_leads_somewhere(name: str) -> None:
    text = page(name)
    for target in re.findall(r"\]\(([^)#]+)", text):
        if "://" not in target:
            assert (ROOT / "docs" / target).exists(), target

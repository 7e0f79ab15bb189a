"""A small world to compile in: a catalog, a compiler, and a workflow that is right."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from jackline_server.core.gate_plans import HookPlan, OnHookError, Point
from jackline_server.core.plan import ModelPlan, Plan, Price
from jackline_server.definitions.catalog import Catalog, FunctionDescription
from jackline_server.definitions.compiler import WorkflowCompiler
from jackline_server.expressions.cel import CelExpressions
from jackline_server.expressions.schemas import JsonSchemas
from jackline_server.runtime.pinned_tools import PinnedTool
from jackline_server.runtime.ports.definitions import Compilation, Signature, Source
from jackline_server.runtime.ports.grpc import GrpcConnection
from jackline_server.runtime.ports.mcp import McpConnection, McpProcess
from jackline_server.runtime.ports.sql import DataSource, SqliteFile
from jackline_server.runtime.ports.workers import WorkerConnection

RIGHT = """\
name: refunds
model: fast
input: {schema: {type: object, properties: {message: {type: string}}, required: [message]}}
bounds: {run_timeout: 15m, token_budget: 40000, cost_budget_usd: 0.50, steps: 32}
flow: [handle, reply]
steps:
  handle:
    kind: agent
    input: {message: /input/message}
    steering: Verify the order first.
    steering_files: [tone.md]
    tools:
      - {ref: lookup_order, bind: {shop: /input/shop}}
      - {ref: issue_refund, max_calls: 1, writes_context: true}
      - {ref: convert}
    outcome: {enum: [resolved, escalate], output_key: refund}
    routes: {resolved: reply, escalate: sort, error: sort}
  lookup_order:
    kind: http
    effect: read
    description: Reads one order.
    connection: orders
    path: "/{{ shop }}/orders/{{ order_id }}"
  issue_refund:
    kind: http
    effect: idempotent
    description: Refunds an order.
    connection: orders
    method: POST
    path: /refunds
    body: {order: "{{ order_id }}", note: ["because {{ reason }}"]}
  convert: {kind: function, effect: read, function: "shop.money:convert"}
  sort:
    kind: router
    conditions: [{when: "has(refund.amount) && refund.amount > 100", signal: large}]
    routes: {large: end, default: reply}
  reply:
    kind: completion
    input: {refund: /refund}
    prompt: Write a short reply.
    answer: text
"""
THOUGHTS = Price(input_per_million=0, output_per_million=0, reasoning_per_million=1_000_000)
TAKES_PATH = '{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}'
TONE = {"handle/steering/tone.md": b"Be kind."}


def model(
    name: str, *, price: Price | None, native_schema: bool = True, calls_tools: bool = True
) -> ModelPlan:
    return ModelPlan(
        profile=name,
        model="m",
        adapter="scripted",
        context_window=8_000,
        max_output_tokens=500,
        price=price,
        retries=3,
        retry_base_ms=1_000,
        retry_cap_ms=30_000,
        native_schema=native_schema,
        calls_tools=calls_tools,
    )


@dataclass(frozen=True, slots=True)
class Functions:
    """Two functions: `shop.money:convert`, and `shop.checks:enough`, which a stop condition may ask."""

    def describe(self, function: str) -> FunctionDescription | str:
        if function == "shop.checks:enough":
            properties = '{"calls":{"type":"array"},"factor":{"type":"number"}}'
            schema = f'{{"type":"object","properties":{properties},"required":["calls"]}}'
            return FunctionDescription(parameters_json=schema, docstring="Says when.")
        if function != "shop.money:convert":
            return "there is no such function below the configured roots"
        properties = '{"amount":{"type":"number"},"to":{"type":"string"}}'
        required = '"required":["amount","to"],"additionalProperties":false'
        schema = f'{{"type":"object","properties":{properties},{required}}}'
        return FunctionDescription(parameters_json=schema, docstring="Converts an amount.")


@dataclass(frozen=True, slots=True)
class Hooks:
    """Two hooks: `audit`, which looks at tool calls, and `broken`, which can't be loaded."""

    def names(self) -> tuple[str, ...]:
        return ("audit", "broken")

    def describe(self, name: str) -> HookPlan | str:
        if name != "audit":
            return f"the hook {name!r} can't be loaded"
        points = frozenset({Point.BEFORE_RUN, Point.BEFORE_TOOL_CALL})
        return HookPlan(name=name, points=points, timeout_ms=1_000, on_error=OnHookError.VETO)


@dataclass(slots=True)
class StrictEncoder:
    """Encodes plans; refuses one that is sealed already."""

    seen: list[Plan] = field(default_factory=list[Plan])

    def __call__(self, plan: Plan) -> bytes:
        assert plan.digest == ""
        self.seen.append(plan)
        return repr(plan).encode()


def described(name: str, *, annotations: str = "{}", schema: str = TAKES_PATH) -> PinnedTool:
    return PinnedTool(
        name=name,
        description=f"Does {name}.",
        input_schema_json=schema,
        output_schema_json=None,
        annotations_json=annotations,
    )


REMOTE = '{"type":"object","properties":{"a":{"$ref":"http://127.0.0.1/a.json"}}}'
SHELF = [
    described("read", annotations='{"readOnlyHint":true}'),
    described("Read", annotations='{"readOnlyHint":true}'),
    described("list-all", annotations='{"readOnlyHint":true}'),
    described("tidy", annotations='{"idempotentHint":true,"destructiveHint":false}'),
    described("write"),
    replace(described("study"), needs_task=True),
    described("burn", annotations='{"destructiveHint":true,"idempotentHint":true}'),
    described("remote", schema=REMOTE),
    described("1st"),
    described("hidden"),
    described("finish", annotations='{"readOnlyHint":true}'),
]


@dataclass(slots=True)
class Shelves:
    """MCP connections: one that is trusted, one that is not, one that is down, one that has too much."""

    tools: dict[str, PinnedTool] = field(default_factory=lambda: {tool.name: tool for tool in SHELF})
    connections: Mapping[str, McpConnection] = field(default_factory=dict[str, McpConnection])

    def names(self) -> tuple[str, ...]:
        return ("shelf", "stranger", "down", "crowd", *self.connections)

    def connection(self, name: str) -> McpConnection | None:
        if name in self.connections:
            return self.connections[name]
        if name not in self.names():
            return None
        allow = frozenset(self.tools) - {"hidden"}
        return McpConnection(
            name=name,
            transport=McpProcess(command=("/bin/false",), environment={}, directory=Path("/")),
            trusted=name == "shelf",
            allow=None if name == "crowd" else allow,
            lock=None,
            start_timeout_ms=1,
            timeout_ms=1,
            concurrency=1,
        )

    def catalog(self, name: str) -> dict[str, PinnedTool] | str:
        if name == "down":
            return "it can't be started"
        return self.tools if name != "crowd" else {f"t{n}": described(f"t{n}") for n in range(130)}


def mcp(entry: str, step: str = "") -> str:
    """An agent `x` with one entry of tools, and one more step."""
    return (
        f"name: a\nmodel: fast\nflow: [x]\nsteps:\n  x: {{kind: agent, steering: s, tools: [{{{entry}}}]}}\n"
        + (f"  {step}\n" if step else "")
    )


@dataclass(frozen=True, slots=True)
class Tills:
    """A gRPC connection, and one that is down."""

    def names(self) -> tuple[str, ...]:
        return ("till", "quiet")

    def connection(self, name: str) -> GrpcConnection | None:
        if name not in self.names():
            return None
        return GrpcConnection(
            name=name,
            target="127.0.0.1:1",
            tls=None,
            metadata={},
            descriptors=None,
            trusted=True,
            allow=None,
            lock=None,
            start_timeout_ms=1,
            timeout_ms=1,
            concurrency=1,
        )

    def catalog(self, name: str) -> dict[str, PinnedTool] | str:
        if name == "quiet":
            return "nobody answers there"
        reads = '{"wire":"1","readOnlyHint":true}'
        made = [
            described("till.v1.Till/Get", annotations=reads),
            described("till.v1.Till/Charge", annotations='{"wire":"2"}'),
            described("till.v1.Till/Watch", annotations='{"wire":"3","streaming":true}'),
            described("till.v1.Till/Plant", annotations='{"wire":"4","refused":"it holds itself"}'),
        ]
        return {one.name: one for one in made}


@dataclass(frozen=True, slots=True)
class Pools:
    """A pool of workers, one that is not believed, and one that nobody serves."""

    def names(self) -> tuple[str, ...]:
        return ("depot", "strange", "empty")

    def connection(self, name: str) -> WorkerConnection | None:
        if name not in self.names():
            return None
        return WorkerConnection(
            name=name,
            allow=frozenset({"track", "send"}),
            principals=None,
            trusted=name != "strange",
            wait_ms=1,
            timeout_ms=1,
            heartbeat_ms=1,
            resume_grace_ms=1,
            most_workers=1,
            concurrency=1,
        )

    def catalog(self, name: str) -> dict[str, PinnedTool] | str:
        if name == "empty":
            return "nobody serves it"
        track = described("track", annotations='{"readOnlyHint":true}')
        return {"track": track, "send": described("send", annotations="{}")}


def worker(tool: str, more: str = "", *, pool: str = "depot") -> str:
    """An agent `x` with one tool `q` of kind worker."""
    return mcp("ref: q", f"q: {{kind: worker, connection: {pool}, tool: {tool}{more}}}")


def till(method: str, more: str = "") -> str:
    """An agent `x` with one tool `q` of kind grpc."""
    return mcp("ref: q", f"q: {{kind: grpc, connection: till, method: till.v1.Till/{method}{more}}}")


def data_source(name: str, *, writes: bool = True) -> DataSource:
    return DataSource(
        name=name,
        database=SqliteFile(file=Path("nowhere.db")),
        writes=writes,
        timeout_ms=1,
        concurrency=1,
        max_rows=1,
        max_bytes=1,
    )


def sql(statement: str, more: str = "") -> str:
    """An agent `x` with one tool `q` of kind sql; the statement in the form of JSON."""
    step = f"q: {{kind: sql, description: d, connection: shop, statement: {statement}{more}}}"
    return mcp("ref: q", step)


def compiler(shelves: Shelves | None = None) -> WorkflowCompiler:
    models = {
        "fast": model("fast", price=Price(input_per_million=150_000, output_per_million=600_000)),
        "unpriced": model("unpriced", price=None, native_schema=False),
        "talker": model("talker", price=Price(input_per_million=0, output_per_million=0), calls_tools=False),
        "free": model("free", price=Price(input_per_million=0, output_per_million=0)),
        "thinker": model("thinker", price=THOUGHTS),
        "dear": model("dear", price=Price(input_per_million=15_000_000, output_per_million=60_000_000)),
    }
    return WorkflowCompiler(
        catalog=Catalog(
            models=models,
            http_connections=frozenset({"orders"}),
            functions=Functions(),
            grpc=Tills(),
            workers=Pools(),
            data_sources={"shop": data_source("shop"), "archive": data_source("archive", writes=False)},
            mcp=shelves or Shelves(),
            hooks=Hooks(),
            policies=frozenset({"guard"}),
            regions=frozenset({"NL"}),
            fallbacks={"dear": ("talker", "fast")},
        ),
        expressions=CelExpressions(),
        schemas=JsonSchemas(),
        encode_plan=StrictEncoder(),
    )


KNOWN: dict[str, Signature | str] = {
    "letters": Signature(
        name="letters",
        input_schema_json=(
            '{"properties":{"text":{"type":"string"},"tone":{"type":"string"}},'
            '"required":["text"],"additionalProperties":false}'
        ),
        runs=(),
    ),
    "open": Signature(name="open", input_schema_json=None, runs=()),
    "back": Signature(name="back", input_schema_json=None, runs=("letters", "forth@live")),
    "forth@live": Signature(name="forth", input_schema_json=None, runs=("back", "family")),
    "lettres": "There is no such workflow. Did you mean letters?",
}
"""The workflows that those of the tests may run; others were not looked up."""


def compile_text(text: str, files: dict[str, bytes] | None = None) -> Compilation:
    files = TONE if files is None else files
    return compiler().compile(Source(yaml=text, files=files, file="refunds.yaml", known=KNOWN))


def changed(*changes: tuple[str, str]) -> str:
    """The right workflow with some of its text replaced; each old text must be there."""
    text = RIGHT
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text

"""A small world to compile in: a catalog, a compiler, and a workflow that is right."""

from dataclasses import dataclass, field

from jackline_server.core.plan import ModelPlan, Plan, Price
from jackline_server.definitions.catalog import Catalog, FunctionDescription
from jackline_server.definitions.compiler import WorkflowCompiler
from jackline_server.expressions.cel import CelExpressions
from jackline_server.expressions.schemas import JsonSchemas
from jackline_server.runtime.ports import Compilation, Source

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
TONE = {"handle/steering/tone.md": b"Be kind."}


def model(name: str, *, price: Price | None) -> ModelPlan:
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
    )


@dataclass(frozen=True, slots=True)
class Functions:
    """One function, `shop.money:convert`."""

    def describe(self, function: str) -> FunctionDescription | str:
        if function != "shop.money:convert":
            return "there is no such function below the configured roots"
        properties = '{"amount":{"type":"number"},"to":{"type":"string"}}'
        schema = f'{{"type":"object","properties":{properties},"required":["amount","to"]}}'
        return FunctionDescription(parameters_json=schema, docstring="Converts an amount.")


@dataclass(slots=True)
class StrictEncoder:
    """Encodes plans; refuses one that is sealed already."""

    seen: list[Plan] = field(default_factory=list[Plan])

    def __call__(self, plan: Plan) -> bytes:
        assert plan.digest == ""
        self.seen.append(plan)
        return repr(plan).encode()


def compiler() -> WorkflowCompiler:
    models = {
        "fast": model("fast", price=Price(input_per_million=150_000, output_per_million=600_000)),
        "unpriced": model("unpriced", price=None),
    }
    return WorkflowCompiler(
        catalog=Catalog(models=models, http_connections=frozenset({"orders"}), functions=Functions()),
        expressions=CelExpressions(),
        schemas=JsonSchemas(),
        encode_plan=StrictEncoder(),
    )


def compile_text(text: str, files: dict[str, bytes] | None = None) -> Compilation:
    return compiler().compile(Source(yaml=text, files=TONE if files is None else files, file="refunds.yaml"))


def changed(*changes: tuple[str, str]) -> str:
    """The right workflow with some of its text replaced; each old text must be there."""
    text = RIGHT
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text

"""Every finding that a compilation can have: what causes it, where it points, how much it weighs."""

# ruff: noqa: E501  # a case of the table is one line

import re
from pathlib import Path

import pytest

import jackline_server.definitions
from jackline_server.definitions.finding_codes import CODES
from jackline_server.runtime.ports.definitions import Severity
from tests.definitions.workflows import RIGHT, TONE, changed, compile_text, mcp, sql, till, worker

E, W, I = Severity.ERROR, Severity.WARNING, Severity.INFO  # noqa: E741  # columns of the table below
HANDLE = "    kind: agent\n"
AGENT = "name: a\nmodel: fast\nflow: [x]\nsteps:\n  x: {kind: agent, steering: s"
FREE = "name: a\nmodel: free\nflow: [x]\nsteps:\n  x: {{kind: agent, steering: s, stop_when: {{cost_usd: {{gte: 1}}}}, {}}}\n"
SECRET = "sk-" + "a1B2" * 8


def stops(condition: str) -> str:
    """The right workflow with a stop condition in its agent."""
    return changed((HANDLE, HANDLE + f"    stop_when: {condition}\n"))


def gates(written: str, *, top: bool = False) -> str:
    """The right workflow with these guardrails in its agent, or at the top."""
    if top:
        return changed(("model: fast\n", f"model: fast\nguardrails: {written}\n"))
    return changed((HANDLE, HANDLE + f"    guardrails: {written}\n"))


def watched(written: str, *, top: bool = False) -> str:
    """The right workflow with this supervisor of its agent, or at the top."""
    if top:
        return changed(("model: fast\n", f"model: fast\nsupervisor: {written}\n"))
    return changed((HANDLE, HANDLE + f"    supervisor: {written}\n"))


def before_call(expression: str) -> str:
    """The right workflow with a rule that is asked about each call."""
    return watched(f'{{rules: [{{when: expression, stage: before_call, expression: "{expression}"}}]}}')


def family(extra: str = "", *, bounds: str = "", helper: str = "") -> str:
    """An agent that has another one and a workflow as its tools."""
    return (
        f"name: family\nmodel: fast\nbounds: {{token_budget: 1000{bounds}}}\nflow: [x]\nsteps:\n"
        "  x: {kind: agent, steering: s, tools: [{ref: helper}, {ref: other}]}\n"
        f"  helper: {{kind: agent, description: d, steering: s, tools: [{{ref: convert}}{helper}]}}\n"
        f"  other: {{kind: workflow, description: d, effect: read, workflow: refunds@live{extra}}}\n"
        '  convert: {kind: function, description: d, effect: read, function: "shop.money:convert"}\n'
    )


def runs(workflow: str, given: str = "") -> str:
    """A flow that runs another workflow."""
    return (
        "name: family\nflow: [other]\nsteps:\n"
        f"  other: {{kind: workflow, effect: read, workflow: {workflow}, input: {{{given}}}}}\n"
    )


def converts(given: str = "") -> str:
    """A flow that visits a function."""
    return (
        "name: money\nflow: [convert]\nsteps:\n"
        f"  convert: {{kind: function, effect: read, function: 'shop.money:convert'{given}}}\n"
    )


def asks(more: str, *, question: str = "Who?") -> str:
    """A flow that asks a person, and then a model."""
    return (
        "name: asks\nmodel: fast\nflow: [ask, x]\nsteps:\n"
        f"  ask: {{kind: human, question: {question}{more and ', ' + more}}}\n"
        "  x: {kind: completion, prompt: p}\n"
    )


def built_in(entry: str) -> str:
    """An agent with such a tool, and another."""
    return (
        "name: asks\nmodel: fast\nflow: [x]\nsteps:\n"
        f"  x: {{kind: agent, steering: s, tools: [{{{entry}}}, {{ref: other}}]}}\n"
        "  other: {kind: human, description: d, question: Who?}\n"
    )


CASES: list[tuple[str, Severity, str, str]] = [
    # runs of their own
    ("child_recursion", E, family().replace("refunds@live", "family"), "steps.other.workflow"),
    ("child_recursion", E, family(helper=", {ref: x}"), "steps.helper.tools[1].ref"),
    ("child_recursion", E, family().replace("refunds@live", "back"), "steps.other.workflow"),
    ("child_unknown", W, family().replace("refunds@live", "lettres"), "steps.other.workflow"),
    ("child_input", W, runs("letters"), "steps.other.workflow"),
    ("child_input", W, runs("letters", "tone: /input/tone"), "steps.other.input"),
    ("child_input", W, runs("letters", "text: /input/a, tune: /input/b"), "steps.other.input.tune"),
    ("function_input", W, converts(), "steps.convert.function"),
    ("function_input", W, converts(", input: {to: /input/to}"), "steps.convert.input"),
    ("function_input", W, converts(", input: {amount: /input/a, tu: /input/b}"), "steps.convert.input.tu"),
    ("child_too_deep", W, family(bounds=", child_depth: 0"), "steps.x"),
    ("child_too_deep", W, family(bounds=", child_depth: 1", helper=", {ref: other}"), "steps.x"),
    ("child_key", E, family(", retry: {times: 1}"), "steps.other.retry"),
    ("child_key", E, family(", timeout: 3s"), "steps.other.timeout"),
    ("share_too_large", E, family(", share: {token_budget: 1001}"), "steps.other.share.token_budget"),
    ("share_unused", W, family().replace("kind: agent, steering: s", "kind: agent, steering: s, share: {run_timeout: 3s}", 1), "steps.x.share"),
    ("bad_name", E, family().replace("refunds@live", "'refunds live'"), "steps.other.workflow"),
    ("cleanup_asks_model", E, family().replace("{ref: other}]", "{ref: other}], routes: {aborted: other}"), "steps.x.routes.aborted"),
    # questions to people
    ("human_key", E, asks("effect: read"), "steps.ask.effect"),
    ("human_key", E, asks("timeout: 3s"), "steps.ask.timeout"),
    ("human_key", E, asks("unknown_expiry: 3h"), "steps.ask.unknown_expiry"),
    ("bad_form", E, asks("options: [yes_please], schema: {type: object, properties: {a: {type: string}}}"), "steps.ask.schema"),
    ("bad_form", E, asks("schema: {type: string}"), "steps.ask.schema"),
    ("bad_form", E, asks("schema: {type: object, properties: {a: {type: string}, b: {type: object}}}"), "steps.ask.schema.properties.b"),
    ("bad_form", E, asks("schema: {type: object, properties: {a: {type: array, items: {type: string}}}}"), "steps.ask.schema.properties.a"),
    ("bad_form", E, asks("schema: {type: object, properties: {a: {type: [string, 'null']}}}"), "steps.ask.schema.properties.a"),
    ("bad_schema", E, asks("schema: {type: object, properties: {a: {type: word}}}"), "steps.ask.schema.properties.a.type"),
    ("bad_default", E, asks("options: [go, stop], default: wait, routes: {'*': end}"), "steps.ask.default"),
    ("bad_default", E, asks("schema: {type: object, properties: {a: {type: integer}}}, default: {a: b}"), "steps.ask.default"),
    ("bad_default", E, asks("default: 7"), "steps.ask.default"),
    ("outcome_unrouted", E, asks("options: [go, stop], routes: {go: end}"), "steps.ask.options"),
    ("outcome_reserved", E, asks("options: [go, error], routes: {'*': end}"), "steps.ask.options[1]"),
    ("outcome_repeated", E, asks("options: [go, {value: go}], routes: {'*': end}"), "steps.ask.options"),
    ("bad_name", E, asks("options: ['go on'], routes: {'*': end}"), "steps.ask.options[0]"),
    ("unknown_signal", E, asks("options: [go], routes: {go: end, goo: end}"), "steps.ask.routes.goo"),
    ("template_unknown", E, asks("input: {a: /input}", question="'{{ b }}?'"), "steps.ask"),
    ("bad_template", E, asks("", question="'{{ b'"), "steps.ask.question"),
    ("unknown_key", E, asks("options: [{value: go, text: t}]"), "steps.ask.options[0].text"),
    ("question_unasked", W, asks("").replace("model: fast", "model: fast\non_question: review"), "steps.ask"),
    ("bad_tool", E, built_in("builtin: ask_person, ref: other"), "steps.x.tools[0]"),
    ("bad_tool", E, built_in("builtin: ask_person, description: d"), "steps.x.tools[0]"),
    ("bad_value", E, built_in("builtin: ask_anybody"), "steps.x.tools[0].builtin"),
    ("reserved_tool", E, asks("").replace("ask:", "ask_person:").replace("[ask,", "[ask_person,"), "steps.ask_person"),
    ("tool_repeated", E, built_in("builtin: ask_person}, {builtin: ask_person"), "steps.x.tools[1].ref"),
    ("bound_idle", W, built_in("builtin: ask_person, max_calls: 9999"), "steps.x.tools[0].max_calls"),
    # methods
    ("unknown_connection", E, mcp("ref: q", "q: {kind: grpc, connection: til, method: a.B/C}"), "steps.q.method"),
    ("grpc_unavailable", E, mcp("ref: q", "q: {kind: grpc, connection: quiet, method: a.B/C}"), "steps.q.method"),
    ("tool_unknown", E, till("Got"), "steps.q.method"),
    ("grpc_streaming", E, till("Watch"), "steps.q.method"),
    ("grpc_request", E, till("Plant"), "steps.q.method"),
    ("effect_undeclared", W, till("Charge"), "steps.q"),
    ("argument_unknown", W, till("Get", ", arguments: {paht: a}"), "steps.q.arguments.paht"),
    ("bad_template", E, till("Get", ", arguments: {path: '{{'}"), "steps.q.arguments.path"),
    # tools of workers
    ("unknown_connection", E, worker("track", pool="depto"), "steps.q.tool"),
    ("unknown_connection", E, worker("track", ", description: d, parameters: {type: object}", pool="depto"), "steps.q.connection"),
    ("worker_unavailable", E, worker("track", pool="empty"), "steps.q.tool"),
    ("tool_unknown", E, worker("trakc"), "steps.q.tool"),
    ("tool_unknown", E, worker("wipe", ", description: d, parameters: {type: object}"), "steps.q.tool"),
    ("effect_undeclared", W, worker("track", pool="strange"), "steps.q"),
    ("effect_undeclared", W, worker("track", ", description: d, parameters: {type: object}"), "steps.q"),
    ("argument_unknown", W, worker("track", ", arguments: {paht: a}"), "steps.q.arguments.paht"),
    ("bad_template", E, worker("track", ", arguments: {path: '{{'}"), "steps.q.arguments.path"),
    # statements
    ("unknown_connection", E, mcp("ref: q", "q: {kind: sql, description: d, connection: shp, statement: SELECT 1}"), "steps.q.connection"),
    ("read_only_source", E, mcp("ref: q", "q: {kind: sql, description: d, connection: archive, effect: write, statement: SELECT 1}"), "steps.q.effect"),
    ("sql_writes", E, sql("DELETE FROM a"), "steps.q.statement"),
    ("sql_writes", E, sql("DELETE FROM a", ", effect: read"), "steps.q.statement"),
    ("bad_statement", E, sql("DROP TABLE a", ", effect: write"), "steps.q.statement"),
    ("bad_statement", E, sql('"SELECT 1; SELECT 2"'), "steps.q.statement"),
    ("bad_statement", E, sql('"SELECT 1 -- {{ a }}"'), "steps.q.statement"),
    ("bad_statement", E, sql("\"SELECT '%{{ a }}%'\""), "steps.q.statement"),
    ("bad_statement", E, sql("\"SELECT :a\""), "steps.q.statement"),
    ("bad_template", E, sql('"SELECT {{ a b }}"'), "steps.q.statement"),
    ("template_unknown", E, sql('"SELECT {{ a }}"', ", parameters: {type: object, properties: {b: {type: string}}}"), "steps.q"),
    # the text
    ("alias", E, "a: &x 1\nb: *x\n", ""),
    ("anchor", E, changed(("model: fast", "model: &m fast")), ""),
    ("tag", E, changed(("model: fast", "model: !!str fast")), ""),
    ("tag", E, "!!python/object/apply:os.system [id]\n", ""),
    ("merge_key", E, changed(("model: fast", "<<: {a: 1}")), ""),
    ("duplicate_key", E, changed(("model: fast", "model: fast\nmodel: fast")), ""),
    ("bad_key", E, changed(("model: fast", "1: fast")), ""),
    ("bad_key", E, changed(("model: fast", "? [a]\n: fast")), ""),
    ("bad_number", E, changed(("steps: 32", "steps: .inf")), ""),
    ("yaml_version", E, "%YAML 1.1\n---\n" + RIGHT, ""),
    ("yaml_syntax", E, "a: [1,\n", ""),
    ("yaml_syntax", E, "a:\n\tb: 1\n", ""),
    ("yaml_syntax", E, "[" * 3000, ""),
    ("too_deep", E, "a: " + "[" * 40 + "]" * 40, ""),
    ("too_many_nodes", E, "a: [" + "1," * 20_001 + "]", ""),
    ("too_large", E, "a: " + "x" * 300_000, ""),
    ("bad_character", E, "a: 1\rb: 2\n", ""),
    ("bad_character", E, "a: \x00\n", ""),
    ("empty_document", E, "", ""),
    ("empty_document", E, "# nothing\n", ""),
    ("not_a_mapping", E, "- a\n", ""),
    ("not_a_mapping", E, "a\n", ""),
    ("several_documents", E, RIGHT + "---\na: 1\n", ""),
    # keys and types
    ("unknown_key", E, changed(("model: fast", "modl: fast")), "modl"),
    ("unknown_key", E, changed((HANDLE, HANDLE + "    goal: x\n")), "steps.handle.goal"),
    ("unknown_key", E, changed(("steps: 32", "stps: 32")), "bounds.stps"),
    ("unknown_key", E, changed(("kind: router", "kind: router\n    tools: []")), "steps.sort.tools"),
    ("not_built", E, changed((HANDLE, HANDLE + "    on_question: wait\n")), "steps.handle.on_question"),
    ("not_built", E, changed(("steps: 32", "deadline: 3m")), "bounds.deadline"),
    ("bad_value", E, changed(("model: fast", "model: fast\npreset: cosy")), "preset"),
    ("missing_key", E, changed(("name: refunds\n", "")), "name"),
    ("missing_key", E, changed((HANDLE, "")), "steps.handle"),
    ("bad_type", E, changed(("token_budget: 40000", 'token_budget: "10"')), "bounds.token_budget"),
    ("bad_type", E, changed(("token_budget: 40000", "token_budget: true")), "bounds.token_budget"),
    ("bad_type", E, changed(("token_budget: 40000", "token_budget: 10.5")), "bounds.token_budget"),
    ("bad_type", E, changed(("token_budget: 40000", "token_budget: 1e3")), "bounds.token_budget"),
    ("bad_type", E, changed(("- {ref: convert}", "- convert")), "steps.handle.tools[2]"),
    ("bad_type", E, changed(("[tone.md]", "[5]")), "steps.handle.steering_files[0]"),
    ("bad_value", E, changed(("answer: text", "answer: prose")), "steps.reply.answer"),
    ("bad_value", E, changed(("kind: router", "kind: routr")), "steps.sort.kind"),
    ("bad_duration", E, changed(("15m", "15")), "bounds.run_timeout"),
    ("bad_duration", E, changed(("15m", "0s")), "bounds.run_timeout"),
    ("bad_money", E, changed(("0.50", "0.0000001")), "bounds.cost_budget_usd"),
    ("bad_money", E, changed(("0.50", "-1")), "bounds.cost_budget_usd"),
    ("blank_text", E, changed(("prompt: Write a short reply.", 'prompt: " \\u00a0\\u200b"')), "steps.reply.prompt"),
    ("blank_text", E, changed(("description: Refunds an order.", 'description: "\\t"')), "steps.issue_refund.description"),
    ("bad_pointer", E, changed(("/input/shop", "input.shop")), "steps.handle.tools[0].bind.shop"),
    ("bad_pointer", E, changed(("/input/shop", "/input/~2")), "steps.handle.tools[0].bind.shop"),
    ("out_of_range", E, changed((HANDLE, HANDLE + "    bounds: {max_iterations: 0}\n")), "steps.handle.bounds.max_iterations"),
    ("out_of_range", E, changed(("flow: [handle, reply]", "flow: []")), "flow"),
    ("bad_name", E, changed(("name: refunds", "name: ../../etc/x")), "name"),
    ("bad_name", E, changed(("name: refunds", "name: con")), "name"),
    ("bad_name", E, changed(("name: refunds", "name: " + "a" * 300)), "name"),
    ("bad_name", E, changed(("name: refunds", "name: Refunds")), "name"),
    ("bad_name", E, changed(("  sort:\n", "  Sort:\n")), "steps.Sort"),
    ("not_all_checked", I, changed(("model: fast", "modl: fast")), ""),
    ("reserved_name", E, changed(("  sort:\n", "  end:\n")), "steps.end"),
    # repetition, reflection, grounding
    ("unknown_key", E, changed(("answer: text", "answer: text\n    repeat: {by: off}")), "steps.reply.repeat"),
    ("unknown_key", E, changed(("answer: text", "answer: text\n    ground: {}")), "steps.reply.ground"),
    ("unknown_key", E, changed((HANDLE, HANDLE + "    repeat: {times: 3}\n")), "steps.handle.repeat.times"),
    ("bad_value", E, changed((HANDLE, HANDLE + "    repeat: {by: result}\n")), "steps.handle.repeat.by"),
    ("bad_type", E, changed((HANDLE, HANDLE + "    repeat: off\n")), "steps.handle.repeat"),
    ("bad_type", E, changed((HANDLE, HANDLE + "    repeat: {nudge: 1}\n")), "steps.handle.repeat.nudge"),
    ("bad_type", E, changed((HANDLE, HANDLE + "    repeat: {count: 2.5}\n")), "steps.handle.repeat.count"),
    ("out_of_range", E, changed((HANDLE, HANDLE + "    repeat: {count: 1}\n")), "steps.handle.repeat.count"),
    ("out_of_range", E, changed(("model: fast", "model: fast\nrepeat: {count: 101}")), "repeat.count"),
    ("missing_key", E, changed((HANDLE, HANDLE + "    reflect: {}\n")), "steps.handle.reflect.every"),
    ("out_of_range", E, changed((HANDLE, HANDLE + "    reflect: {every: 0}\n")), "steps.handle.reflect.every"),
    ("bad_share", E, changed((HANDLE, HANDLE + "    ground: {threshold: 1.5}\n")), "steps.handle.ground.threshold"),
    ("bad_share", E, changed((HANDLE, HANDLE + "    ground: {threshold: -0.1}\n")), "steps.handle.ground.threshold"),
    ("bad_share", E, changed((HANDLE, HANDLE + "    ground: {threshold: 0.6555}\n")), "steps.handle.ground.threshold"),
    ("bad_share", E, changed((HANDLE, HANDLE + '    ground: {threshold: "0.5"}\n')), "steps.handle.ground.threshold"),
    ("bad_share", E, changed((HANDLE, HANDLE + "    ground: {threshold: true}\n")), "steps.handle.ground.threshold"),
    ("out_of_range", E, changed((HANDLE, HANDLE + "    ground: {max_replans: 11}\n")), "steps.handle.ground.max_replans"),
    ("bad_value", E, changed((HANDLE, HANDLE + "    ground: {on_error: pause}\n")), "steps.handle.ground.on_error"),
    ("unknown_model", E, changed((HANDLE, HANDLE + "    ground: {model: fats}\n")), "steps.handle.ground.model"),
    ("price_unknown", E, changed((HANDLE, HANDLE + "    ground: {model: unpriced}\n")), "bounds.cost_budget_usd"),
    ("ground_form", E, changed((HANDLE, HANDLE + "    answer: finish_tool\n    ground: {}\n")), "steps.handle.ground"),
    ("unknown_key", E, changed(("answer: text", "answer: text\n    compaction: none")), "steps.reply.compaction"),
    ("unknown_key", E, changed((HANDLE, HANDLE + "    compaction: {keep: 3}\n")), "steps.handle.compaction.keep"),
    ("bad_share", E, changed((HANDLE, HANDLE + "    compaction: {at: 2}\n")), "steps.handle.compaction.at"),
    ("compaction_order", E, changed((HANDLE, HANDLE + "    compaction: {at: 0.4}\n")), "steps.handle.compaction"),
    ("compaction_order", E, changed(("model: fast", "model: fast\ncompaction: {to: 0.8}")), "compaction"),
    ("compaction_model_unused", W, changed((HANDLE, HANDLE + "    compaction: {model: fast}\n")), "steps.handle.compaction"),
    ("unknown_model", E, changed((HANDLE, HANDLE + "    compaction: {mode: summarise, model: fsat}\n")), "steps.handle.compaction.model"),
    ("ground_without_tools", W, AGENT + ", ground: {}}\n", "steps.x.ground"),
    ("bad_type", E, changed(("max_calls: 1", "poll: often")), "steps.handle.tools[1].poll"),
    # what the names name
    ("model_missing", E, changed(("model: fast\n", "")), "steps.handle"),
    ("unknown_model", E, changed(("model: fast", "model: fats")), "model"),
    ("unknown_model", E, changed(("model: fast", 'model: "a/b\\nc"')), "model"),
    ("unknown_model", E, changed(("model: fast", "model: http://169.254.169.254/x")), "model"),
    ("unknown_connection", E, changed(("connection: orders", "connection: order")), "steps.lookup_order.connection"),
    ("unknown_function", E, changed(("shop.money:convert", "os:system")), "steps.convert.function"),
    ("bad_function", E, changed(("shop.money:convert", "../x")), "steps.convert.function"),
    ("bad_path", E, changed(("path: /refunds", "path: http://evil/x")), "steps.issue_refund.path"),
    ("bad_path", E, changed(("path: /refunds", 'path: "{{ order_id }}/x"')), "steps.issue_refund.path"),
    ("bad_path", E, changed(("path: /refunds", "path: //evil/x")), "steps.issue_refund.path"),
    ("bad_path", E, changed(("path: /refunds", "path: /a/../b")), "steps.issue_refund.path"),
    ("bad_path", E, changed(("path: /refunds", "path: /a/%2e%2e/b")), "steps.issue_refund.path"),
    ("bad_path", E, changed(("path: /refunds", "path: /a?b=c")), "steps.issue_refund.path"),
    ("bad_path", E, changed(("path: /refunds", 'path: ""')), "steps.issue_refund.path"),
    ("bad_header", E, changed(("method: POST", "method: POST\n    headers: {Host: evil}")), "steps.issue_refund.headers.Host"),
    ("bad_header", E, changed(("method: POST", 'method: POST\n    headers: {x-a: "b\\r\\nc"}')), "steps.issue_refund.headers.x-a"),
    ("bad_body", E, changed(("method: POST", "method: GET")), "steps.issue_refund.body"),
    ("bad_template", E, changed(("{{ reason }}", "{{ reason")), "steps.issue_refund.body"),
    ("bad_template", E, changed(("{{ reason }}", "{{ reason | upper }}")), "steps.issue_refund.body"),
    ("template_unknown", E, changed(("method: POST", "method: POST\n    parameters: {type: object, properties: {order_id: {}}}")), "steps.issue_refund"),
    ("template_unknown", E, changed(("large: end", "large: issue_refund")), "steps.issue_refund"),
    ("template_ignored", W, changed(("Write a short reply.", '"Dear {{ name }}"')), "steps.reply.prompt"),
    ("bind_unknown", E, changed(("{shop: /input/shop}", "{sop: /input/shop}")), "steps.handle.tools[0].bind.sop"),
    ("pointer_unknown", W, changed(("{refund: /refund}", "{refund: /refnd}")), "steps.reply.input.refund"),
    ("bad_parameters", E, changed(("method: POST", "method: POST\n    parameters: {type: array}")), "steps.issue_refund.parameters"),
    ("bad_schema", E, changed(("{message: {type: string}}", '{message: {"$ref": "http://x/y"}}')), "input.schema.properties.message.$ref"),
    ("bad_schema", E, changed(("{message: {type: string}}", '{message: {"$ref": "#"}}')), "input.schema.properties.message.$ref"),
    ("bad_schema", E, changed(("{message: {type: string}}", '{message: {pattern: "(?=a)b"}}')), "input.schema.properties.message.pattern"),
    ("bad_schema", E, changed(("{message: {type: string}}", "{message: {maxLength: -1}}")), "input.schema.properties.message.maxLength"),
    ("bad_schema", E, changed(("{message: {type: string}}", "{message: {type: strng}}")), "input.schema.properties.message.type"),
    ("bad_schema", E, changed(("{message: {type: string}}", "{message: {type: [string, nul]}}")), "input.schema.properties.message.type"),
    ("bad_schema", E, changed(("{message: {type: string}}", "{message: {required: x}}")), "input.schema.properties.message.required"),
    ("too_many_patterns", E, changed(("{message: {type: string}}", "{message: {patternProperties: {" + ", ".join(f"a{n}: {{}}" for n in range(101)) + "}}}")), "input.schema.properties.message.patternProperties.a100"),
    ("bad_expression", E, changed(("refund.amount > 100", "refund.amount = 'x'")), "steps.sort.conditions[0].when"),
    ("expression_unknown", W, changed(("refund.amount > 100", "refnd.amount > 100")), "steps.sort.conditions[0].when"),
    ("expression_unknown", W, changed(("required: [message]", "additionalProperties: false, required: [message]"), ("refund.amount > 100", "input.mesage == 'x'")), "steps.sort.conditions[0].when"),
    ("pointer_unknown", W, changed(("required: [message]", "additionalProperties: false, required: [message]")), "steps.handle.tools[0].bind.shop"),
    ("bad_expression", E, changed(("refund.amount > 100", "[1].all(a, [2].all(b, a < b))")), "steps.sort.conditions[0].when"),
    ("bad_expression", E, changed(("refund.amount > 100", "().__class__")), "steps.sort.conditions[0].when"),
    # tools
    ("no_tools", W, AGENT + "}\n", "steps.x"),
    ("no_steering", W, changed(("    steering: Verify the order first.\n    steering_files: [tone.md]\n", "")), "steps.handle"),
    ("tool_unknown", E, changed(("ref: convert", "ref: convrt")), "steps.handle.tools[2].ref"),
    ("tool_is_itself", E, changed(("ref: convert", "ref: handle")), "steps.handle.tools[2].ref"),
    ("tool_not_callable", E, changed(("ref: convert", "ref: reply")), "steps.handle.tools[2].ref"),
    ("tool_repeated", E, changed(("ref: convert", "ref: lookup_order")), "steps.handle.tools[2].ref"),
    ("no_description", E, changed(("    description: Reads one order.\n", "")), "steps.handle.tools[0]"),
    ("retry_of_write", E, changed(("effect: idempotent", "effect: write\n    retry: {times: 1}")), "steps.issue_refund.retry"),
    ("retry_of_write", E, changed(("effect: idempotent", "effect: write"), ("max_calls: 1", "max_calls: 1, retry: {times: 3}")), "steps.handle.tools[1].retry"),
    ("timeout_of_write", E, changed(("effect: idempotent", "effect: write\n    on_timeout: fail")), "steps.issue_refund.on_timeout"),
    ("retry_cap", E, changed(("max_calls: 1", "max_calls: 1, retry: {times: 3, base: 2s, cap: 1s}")), "steps.handle.tools[1].retry.cap"),
    ("missing_key", E, changed(("max_calls: 1", "max_calls: 1, retry: {base: 2s}")), "steps.handle.tools[1].retry.times"),
    ("out_of_range", E, changed(("max_calls: 1", "max_calls: 1, retry: {times: 21}")), "steps.handle.tools[1].retry.times"),
    ("bad_value", E, changed(("max_calls: 1", "max_calls: 1, on_error: ignore")), "steps.handle.tools[1].on_error"),
    ("bad_value", E, changed((HANDLE, HANDLE + "    tool_execution: parallel\n")), "steps.handle.tool_execution"),
    ("tool_choice_unknown", E, changed((HANDLE, HANDLE + "    tool_choice: {name: lookup}\n")), "steps.handle.tool_choice"),
    ("tool_choice_unknown", E, AGENT + ", tool_choice: required}\n", "steps.x.tool_choice"),
    ("effect_undeclared", W, changed(("kind: function, effect: read", "kind: function")), "steps.convert"),
    ("effect_not_allowed", W, changed((HANDLE, HANDLE + "    allow_effects: [read]\n")), "steps.handle.tools[1]"),
    # outcomes and routes
    ("outcome_reserved", E, changed(("[resolved, escalate]", "[resolved, error]")), "steps.handle.outcome.enum[1]"),
    ("outcome_repeated", E, changed(("[resolved, escalate]", "[resolved, resolved]")), "steps.handle.outcome.enum"),
    ("outcome_unrouted", E, changed(("resolved: reply, ", "")), "steps.handle.outcome.enum"),
    ("outcome_unrouted", W, AGENT + ", outcome: {enum: [a, b]}, routes: {a: end}}\n", "steps.x.outcome.enum"),
    ("answer_form", E, changed(("output_key: refund}", "output_key: refund}\n    answer: text")), "steps.handle.answer"),
    ("answer_form", E, AGENT + ", answer: native_schema}\n", "steps.x.answer"),
    ("bad_value", E, AGENT + ", answer: finish}\n", "steps.x.answer"),
    ("bad_value", E, AGENT + ", answer: finish_tool, completion: later}\n", "steps.x.completion"),
    ("bad_value", E, AGENT + ", answer: finish_tool, completion: true}\n", "steps.x.completion"),
    ("unknown_key", E, changed(("answer: text", "completion: auto")), "steps.reply.completion"),
    ("completion_form", E, AGENT + ", completion: explicit}\n", "steps.x.completion"),
    ("completion_form", E, AGENT + ", answer: text, completion: explicit}\n", "steps.x.completion"),
    ("model_lacks", E, AGENT + ", model: unpriced, answer: native_schema, outcome: {enum: [a]}, routes: {a: end}}\n", "steps.x.answer"),
    ("model_lacks", E, changed(("model: fast", "model: unpriced"), ("answer: text", "answer: native_schema\n    outcome: {schema: {type: string}}")), "steps.reply.answer"),
    ("model_lacks", E, changed(("model: fast", "model: talker")), "steps.handle.tools"),
    ("model_lacks", E, AGENT + ", model: talker, answer: finish_tool}\n", "steps.x.answer"),
    ("model_lacks", E, changed((HANDLE, HANDLE + "    fallbacks: [dear, talker]\n")), "steps.handle.fallbacks[1]"),
    ("model_lacks", E, AGENT + ", answer: native_schema, outcome: {enum: [a]}, routes: {a: end}, fallbacks: [unpriced]}\n", "steps.x.fallbacks[0]"),
    ("unknown_model", E, AGENT + ", fallbacks: [fst]}\n", "steps.x.fallbacks[0]"),
    ("fallback_repeated", E, AGENT + ", fallbacks: [fast]}\n", "steps.x.fallbacks[0]"),
    ("fallback_repeated", E, AGENT + ", fallbacks: [dear, dear]}\n", "steps.x.fallbacks[1]"),
    ("fallback_left_out", W, changed(("model: fast", "model: dear")), "steps.handle"),
    ("bad_value", E, AGENT + ", on_model_unavailable: hope}\n", "steps.x.on_model_unavailable"),
    ("wait_unbounded", E, AGENT + ", on_model_unavailable: wait}\n", "steps.x.on_model_unavailable"),
    ("price_unknown", E, AGENT + ", fallbacks: [unpriced], bounds: {cost_budget_usd: 1}}\n", "steps.x.bounds.cost_budget_usd"),
    ("price_unknown", E, AGENT + ", guardrails: {output: [judge: {criteria: c, model: unpriced}]}, bounds: {cost_budget_usd: 1}}\n", "steps.x.bounds.cost_budget_usd"),
    ("price_unknown", E, gates("{input: [topic: {allow: [a], model: unpriced}]}"), "bounds.cost_budget_usd"),
    ("price_unknown", E, gates("{tools: [judge: {criteria: c, model: unpriced}]}"), "bounds.cost_budget_usd"),
    ("finish_clash", E, AGENT + ", answer: finish_tool, tools: [{ref: finish}]}\n  finish: {kind: function, effect: read, function: 'shop.money:convert'}\n", "steps.x.answer"),
    ("finish_clash", E, AGENT + ", answer: finish_tool}\n  finish: {kind: function, effect: read, function: 'shop.money:convert'}\n", "steps.x.answer"),
    ("reserved_tool", E, AGENT + "}\n  read_result: {kind: function, effect: read, function: 'shop.money:convert'}\n", "steps.read_result"),
    ("finish_clash", E, mcp("from: shelf, allow: [finish]").replace("steering: s", "steering: s, answer: finish_tool"), "steps.x.answer"),
    ("tool_choice_unknown", E, AGENT + ", answer: finish_tool, tool_choice: {name: finish}}\n", "steps.x.tool_choice"),
    ("exit_unrouted", W, AGENT + ", answer: finish_tool, routes: {max_iterations: end, budget_exceeded: end, time_exceeded: end}}\n", "steps.x"),
    ("unknown_signal", E, changed(("error: sort", "eror: sort")), "steps.handle.routes.eror"),
    ("unknown_target", E, changed(("error: sort", "error: srt")), "steps.handle.routes.error"),
    ("exit_unrouted", W, changed((", error: sort", "")), "steps.handle"),
    ("cleanup_asks_model", E, changed(("error: sort", "error: sort, aborted: reply")), "steps.handle.routes.aborted"),
    ("cleanup_leads_to_model", W, changed(("error: sort", "error: sort, aborted: sort")), "steps.handle.routes.aborted"),
    ("unknown_step", E, changed(("flow: [handle, reply]", "flow: [handle, reply, finish]")), "flow[2]"),
    ("flow_repeats", E, changed(("flow: [handle, reply]", "flow: [handle, reply, handle]")), "flow[2]"),
    ("step_unreachable", W, changed(("escalate: sort, error: sort", "escalate: reply, error: reply")), "steps.sort"),
    ("cycle", I, changed(("default: reply", "default: handle")), ""),
    ("output_key_clash", E, changed(("effect: read\n", "effect: read\n    output_key: refund\n")), "steps.lookup_order.output_key"),
    ("output_key_clash", E, changed(("output_key: refund", "output_key: input")), "steps.handle.outcome.output_key"),
    ("output_key_private", E, changed(("output_key: refund", "output_key: _refund")), "steps.handle.outcome.output_key"),
    # caps
    ("bound_unreachable", W, changed((HANDLE, HANDLE + "    bounds: {model_requests: 0}\n")), "steps.handle.bounds"),
    ("bound_unreachable", W, changed((HANDLE, HANDLE + "    bounds: {tool_calls: 0}\n")), "steps.handle.bounds"),
    ("bound_unreachable", W, changed((HANDLE, HANDLE + "    bounds: {token_budget: 0}\n")), "steps.handle.bounds.token_budget"),
    ("bound_unreachable", W, changed(("token_budget: 40000", "token_budget: 20")), "bounds.token_budget"),
    ("price_unknown", E, changed(("model: fast", "model: unpriced")), "bounds.cost_budget_usd"),
    ("price_unknown", E, changed(("model: fast", "model: openai/gpt-4o-mini")), "bounds.cost_budget_usd"),
    ("limit_expiry_unused", E, changed((HANDLE, HANDLE + "    limit_expiry: 1h\n")), "steps.handle.limit_expiry"),
    ("bounds_cap_low", E, changed(("flow:", "bounds_cap: {token_budget: 100}\nflow:")), "bounds_cap.token_budget"),
    ("bounds_cap_low", E, changed(("flow:", "bounds_cap: {tool_calls: 1}\nflow:")), "bounds_cap.tool_calls"),
    ("unknown_key", E, changed(("flow:", "bounds_cap: {max_iteration: 1}\nflow:")), "bounds_cap.max_iteration"),
    ("not_built", E, changed(("flow:", "bounds_cap: {child_depth: 1}\nflow:")), "bounds_cap.child_depth"),
    ("worst_case", I, RIGHT, ""),
    # what can never come to pass
    ("bound_unreachable", W, changed((HANDLE, HANDLE + "    tool_choice: {name: issue_refund}\n"), ("max_calls: 1", "max_calls: 0")), "steps.handle.tool_choice"),
    ("bound_unreachable", W, changed((HANDLE, HANDLE + "    tool_choice: required\n    bounds: {max_iterations: 1}\n")), "steps.handle.tool_choice"),
    ("bound_idle", W, changed((HANDLE, HANDLE + "    bounds: {token_budget: 40001}\n")), "steps.handle.bounds.token_budget"),
    ("bound_idle", W, changed((HANDLE, HANDLE + "    bounds: {cost_budget_usd: 0.51}\n")), "steps.handle.bounds.cost_budget_usd"),
    ("bound_idle", W, changed((HANDLE, HANDLE + "    bounds: {timeout: 16m}\n")), "steps.handle.bounds.timeout"),
    ("bound_idle", W, changed((HANDLE, HANDLE + "    bounds: {timeout: 1m, model_timeout: 2m}\n")), "steps.handle.bounds.model_timeout"),
    ("bound_idle", W, changed((HANDLE, HANDLE + "    bounds: {timeout: 1m, tool_timeout: 2m}\n")), "steps.handle.bounds.tool_timeout"),
    ("bound_idle", W, changed((HANDLE, HANDLE + "    bounds: {idle_timeout: 61s}\n")), "steps.handle.bounds.idle_timeout"),
    ("bound_idle", W, changed((HANDLE, HANDLE + "    bounds: {max_iterations: 4, model_requests: 3}\n")), "steps.handle.bounds.max_iterations"),
    ("bound_idle", W, changed((HANDLE, HANDLE + "    bounds: {tool_calls: 2}\n"), ("max_calls: 1", "max_calls: 3")), "steps.handle.tools[1].max_calls"),
    ("bound_idle", W, changed(("answer: text", "answer: text\n    bounds: {token_budget: 50000}")), "steps.reply.bounds.token_budget"),
    ("question_unasked", W, changed(("model: fast", "model: fast\non_question: review"), (HANDLE, HANDLE + "    on_limit: ask\n")), "steps.handle.on_limit"),
    ("question_unasked", W, changed(("model: fast", "model: fast\npreset: strict"), ("effect: idempotent", "effect: idempotent\n    on_unknown: ask")), "steps.issue_refund.on_unknown"),
    ("approval_unasked", W, changed(("model: fast", "model: fast\non_question: review"), ("max_calls: 1", "max_calls: 1, approval: required")), "steps.handle.tools[1]"),
    ("approval_unasked", W, changed(("model: fast", "model: fast\non_question: review"), ("effect: idempotent", "effect: destructive")), "steps.handle.tools[1]"),
    ("approval_always", W, changed(("max_calls: 1", "max_calls: 1, approval: {when: context.nowhere > 1}")), "steps.handle.tools[1].approval.when"),
    ("approval_always", W, changed(("max_calls: 1", "max_calls: 1, approval: {when: arguments.reson == 'x'}")), "steps.handle.tools[1].approval.when"),
    ("expression_text_unknown", W, changed(("max_calls: 1", "max_calls: 1, approval: {when: tool == 'convert'}")), "steps.handle.tools[1].approval.when"),
    ("expression_text_unknown", W, changed((HANDLE, HANDLE + "    approval: {when: \"'convrt' != tool\"}\n")), "steps.handle.approval.when"),
    ("bad_expression", E, changed(("max_calls: 1", "max_calls: 1, approval: {when: argument.sum > 1}")), "steps.handle.tools[1].approval.when"),
    ("bad_expression", E, changed(("max_calls: 1", "max_calls: 1, approval: {when: 'sum >'}")), "steps.handle.tools[1].approval.when"),
    ("bad_expression", E, changed(("effect: idempotent", "effect: idempotent\n    approval: {when: nothing}")), "steps.issue_refund.approval.when"),
    ("approval_expiry_unused", W, changed(("steps: 32", "steps: 32, approval_expiry: 1h")), "bounds.approval_expiry"),
    ("approval_expiry_unused", W, changed((HANDLE, HANDLE + "    bounds: {approval_expiry: {then: approve}}\n")), "steps.handle.bounds.approval_expiry"),
    ("bad_value", E, changed(("max_calls: 1", "max_calls: 1, approval: always")), "steps.handle.tools[1].approval"),
    ("human_key", E, asks("approval: required"), "steps.ask.approval"),
    ("bad_tool", E, built_in("builtin: ask_person, approval: required"), "steps.x.tools[0]"),
    ("cycle_idle", W, changed(("large: end", "large: sort")), "steps.sort"),
    ("exit_unrouted", W, changed((HANDLE, HANDLE + "    ground: {}\n"), ("error: sort", "max_iterations: end, budget_exceeded: end, time_exceeded: end, tool_loop: end, invalid_output: end")), "steps.handle"),
    ("exit_unrouted", W, changed(("flow: [handle, reply]", "flow: [convert, reply]")), "steps.convert"),
    ("bad_schema", E, changed(("{message: {type: string}}", "{message: {type: string, minLength: 5, maxLength: 4}}")), "input.schema.properties.message.minLength"),
    ("bad_schema", E, changed(("{message: {type: string}}, required", "{message: {}}, additionalProperties: false, required"), ("required: [message]", "required: [text]")), "input.schema.required"),
    ("bad_schema", E, changed(("output_key: refund", "output_key: refund, schema: {allOf: [{minimum: 2, maximum: 1}]}")), "steps.handle.outcome.schema.allOf[0].minimum"),
    ("bad_schema", E, changed(("method: POST", "method: POST\n    parameters: {type: object, properties: {order_id: {}, reason: {}}, minProperties: 3, maxProperties: 2}")), "steps.issue_refund.parameters.minProperties"),
    ("bad_schema", E, gates("{tools: [{schema: false}]}"), "steps.handle.guardrails.tools[0].schema"),
    # stop conditions
    ("bad_share", E, stops("{confidence: {gte: 1.5}}"), "steps.handle.stop_when.confidence.gte"),
    ("bad_share", E, stops("{any: [{confidence: {gte: 0.0001}}]}"), "steps.handle.stop_when.any[0].confidence.gte"),
    ("stop_always", W, stops("{confidence: {gte: 0}}"), "steps.handle.stop_when.confidence"),
    ("unknown_key", E, stops("{iteration: {gte: 2}}"), "steps.handle.stop_when.iteration"),
    ("unknown_key", E, stops("{any: [{not: {iterations: {gt: 2}}}]}"), "steps.handle.stop_when.any[0].not.iterations.gt"),
    ("unknown_key", E, changed(("answer: text", "answer: text\n    stop_when: {iterations: {gte: 2}}")), "steps.reply.stop_when"),
    ("bad_condition", E, stops("{}"), "steps.handle.stop_when"),
    ("bad_condition", E, stops("{any: [{iterations: {gte: 2}, tokens: {gte: 5}}]}"), "steps.handle.stop_when.any[0]"),
    ("bad_condition", E, stops("{iterations: null}"), "steps.handle.stop_when"),
    ("out_of_range", E, stops("{any: []}"), "steps.handle.stop_when.any"),
    ("out_of_range", E, stops("{not: {all: []}}"), "steps.handle.stop_when.not.all"),
    ("out_of_range", E, stops("{iterations: {gte: -1}}"), "steps.handle.stop_when.iterations.gte"),
    ("out_of_range", E, stops('{text_mention: {text: ""}}'), "steps.handle.stop_when.text_mention.text"),
    ("missing_key", E, stops("{tool_called: {success: true}}"), "steps.handle.stop_when.tool_called.name"),
    ("bad_type", E, stops("{iterations: 6}"), "steps.handle.stop_when.iterations"),
    ("bad_type", E, stops("{iterations: {gte: 1.5}}"), "steps.handle.stop_when.iterations.gte"),
    ("bad_type", E, stops("{any: {iterations: {gte: 2}}}"), "steps.handle.stop_when.any"),
    ("bad_type", E, stops("{tool_called: {name: convert, success: maybe}}"), "steps.handle.stop_when.tool_called.success"),
    ("bad_value", E, stops("{no_tool_calls: false}"), "steps.handle.stop_when.no_tool_calls"),
    ("bad_duration", E, stops("{elapsed: {gte: 5}}"), "steps.handle.stop_when.elapsed.gte"),
    ("bad_duration", E, stops("{function: {name: 'shop.checks:enough', timeout: 5}}"), "steps.handle.stop_when.function.timeout"),
    ("bad_money", E, stops("{cost_usd: {gte: x}}"), "steps.handle.stop_when.cost_usd.gte"),
    ("stop_too_large", E, stops("{not: " * 8 + "{iterations: {gte: 2}}" + "}" * 8), "steps.handle.stop_when"),
    ("stop_too_large", E, stops("{any: [" + "{iterations: {gte: 2}}, " * 64 + "]}"), "steps.handle.stop_when"),
    ("stop_too_large", E, stops("{any: [" + "{expression: iterations > 2}, " * 9 + "]}"), "steps.handle.stop_when"),
    ("stop_too_large", E, stops("{any: [" + "{function: 'shop.checks:enough'}, " * 5 + "]}"), "steps.handle.stop_when"),
    ("stop_tool_unknown", E, stops("{tool_called: {name: convrt}}"), "steps.handle.stop_when.tool_called.name"),
    ("stop_tool_unknown", E, stops("{all: [{iterations: {gte: 2}}, {not: {tool_called: {name: reply}}}]}"), "steps.handle.stop_when.all[1].not.tool_called.name"),
    ("stop_outcome_unknown", E, stops("{outcome_is: resolve}"), "steps.handle.stop_when.outcome_is"),
    ("stop_outcome_unknown", E, mcp("from: shelf, allow: [read]").replace("steering: s", "steering: s, stop_when: {outcome_is: ok}"), "steps.x.stop_when.outcome_is"),
    ("stop_always", W, stops("{iterations: {gte: 1}}"), "steps.handle.stop_when.iterations"),
    ("stop_always", W, stops("{iterations: {gte: 0}}"), "steps.handle.stop_when.iterations"),
    ("stop_always", W, stops("{tokens: {gte: 0}}"), "steps.handle.stop_when.tokens"),
    ("stop_always", W, stops("{cost_usd: {gte: 0}}"), "steps.handle.stop_when.cost_usd"),
    ("stop_always", W, stops("{expression: 1 < 2}"), "steps.handle.stop_when.expression"),
    ("stop_always", W, stops("{any: [{outcome_is: resolved}, {not: {outcome_is: resolved}}]}"), "steps.handle.stop_when"),
    ("stop_always", W, stops("{not: {iterations: {gte: 9}}}"), "steps.handle.stop_when"),
    ("stop_never", W, stops("{iterations: {gte: 9}}"), "steps.handle.stop_when.iterations"),
    ("stop_never", W, stops("{any: [{iterations: {gte: 6}}, {iterations: {gte: 9}}]}"), "steps.handle.stop_when.any[1].iterations"),
    ("stop_never", W, stops("{tokens: {gte: 40001}}"), "steps.handle.stop_when.tokens"),
    ("stop_never", W, stops("{cost_usd: {gte: 0.6}}"), "steps.handle.stop_when.cost_usd"),
    ("stop_never", W, FREE.format("fallbacks: []"), "steps.x.stop_when.cost_usd"),
    ("stop_never", W, stops("{elapsed: {gte: 15m}}"), "steps.handle.stop_when.elapsed"),
    ("stop_never", W, stops("{expression: 2 < 1}"), "steps.handle.stop_when.expression"),
    ("stop_never", W, stops("{expression: 1 + 1}"), "steps.handle.stop_when.expression"),
    ("stop_never", W, stops("{all: [{iterations: {gte: 2}}, {iterations: {gte: 9}}]}"), "steps.handle.stop_when"),
    ("stop_never", W, stops("{all: [{outcome_is: resolved}, {not: {outcome_is: resolved}}]}"), "steps.handle.stop_when"),
    ("stop_never", W, stops("{tool_called: {name: convert, success: true}}\n    allow_effects: [idempotent]"), "steps.handle.stop_when.tool_called"),
    ("stop_never", W, stops("{tool_called: {name: convert, success: true}}\n    bounds: {tool_calls: 0}"), "steps.handle.stop_when.tool_called"),
    ("exit_unrouted", W, stops("{iterations: {gte: 2}}"), "steps.handle"),
    # a supervisor
    ("bad_rule", E, watched("{}"), "steps.handle.supervisor"),
    ("bad_rule", E, watched("{rules: [{when: tool_repeated}]}"), "steps.handle.supervisor.rules[0]"),
    ("bad_rule", E, watched("{rules: [{when: iteration_reached, gte: 2, gt: 0.5}]}", top=True), "supervisor.rules[0]"),
    ("bad_value", E, watched("{rules: [{when: tool_loop, count: 3}]}"), "steps.handle.supervisor.rules[0].when"),
    ("rule_stage", E, watched("{rules: [{when: iteration_reached, gte: 2, then: deny_call, stage: after_turn}]}"), "steps.handle.supervisor.rules[0].stage"),
    ("rule_stage", E, watched("{rules: [{when: iteration_reached, gte: 2, then: steer, stage: before_call}]}"), "steps.handle.supervisor.rules[0].stage"),
    ("rule_stage", E, watched("{rules: [{when: iteration_reached, gte: 2, then: deny_call, rearm: 1}]}"), "steps.handle.supervisor.rules[0].rearm"),
    ("rule_stage", E, watched("{rules: [{when: expression, expression: 'true', stage: before_call, then: ask, rearm: 1}]}"), "steps.handle.supervisor.rules[0].rearm"),
    ("bad_rule", E, watched("{rules: [{when: error_rate, window: 4, gte: 0.5}]}"), "steps.handle.supervisor.rules[0]"),
    ("rule_stage", E, watched("{judge: {criteria: c, expiry: 1h}}"), "steps.handle.supervisor.judge.expiry"),
    ("rule_tool_unknown", E, watched("{rules: [{when: tool_repeated, tool: convrt, count: 2}]}", top=True), "supervisor.rules[0].tool"),
    ("rule_never", W, watched("{rules: [{when: iteration_reached, gte: 9}]}", top=True), "supervisor.rules[0]"),
    ("rule_never", W, watched("{rules: [{when: budget_fraction, of: tokens, gt: 1}]}"), "steps.handle.supervisor.rules[0]"),
    ("rule_never", W, watched("{rules: [{when: error_rate, window: 100, gt: 0.5}]}"), "steps.handle.supervisor.rules[0]"),
    ("rule_never", W, watched("{rules: [{when: tool_repeated, count: 33}]}"), "steps.handle.supervisor.rules[0]"),
    ("rule_never", W, watched("{judge: {criteria: c, every: 8, blocking: false}}", top=True), "supervisor.judge.every"),
    ("unknown_model", E, watched("{judge: {criteria: c, model: fats}}", top=True), "supervisor.judge.model"),
    ("unknown_model", E, watched("{judge: {criteria: c, model: fats}}"), "steps.handle.supervisor.judge.model"),
    ("bad_expression", E, watched("{rules: [{when: expression, expression: call.tool == 'x'}]}"), "steps.handle.supervisor.rules[0].expression"),
    ("bad_expression", E, watched("{rules: [{when: expression, expression: '1 +'}]}"), "steps.handle.supervisor.rules[0].expression"),
    ("expression_unknown", W, watched("{rules: [{when: expression, expression: call.name == 'x', stage: before_call}]}"), "steps.handle.supervisor.rules[0].expression"),
    ("expression_unknown", W, before_call("call.arguments.amout > 1"), "steps.handle.supervisor.rules[0].expression"),
    ("expression_unknown", W, before_call("calls.exists(call, call.tool == 'convert')"), "steps.handle.supervisor.rules[0].expression"),
    ("expression_text_unknown", W, before_call("call.tool == 'convrt'"), "steps.handle.supervisor.rules[0].expression"),
    ("expression_text_unknown", W, before_call("call.tool in ['convert', 'isue_refund']"), "steps.handle.supervisor.rules[0].expression"),
    ("expression_text_unknown", W, before_call("call.effect == 'writes'"), "steps.handle.supervisor.rules[0].expression"),
    ("question_unasked", W, watched("{rules: [{when: iteration_reached, gte: 2, then: ask}]}", top=True).replace("model: fast", "model: fast\non_question: review", 1), "supervisor.rules[0].then"),
    ("supervisor_idle", W, "name: a\nmodel: fast\nsupervisor: {judge: {criteria: c}}\nflow: [x]\nsteps:\n  x: {kind: completion, prompt: p}\n", "supervisor"),
    ("unknown_key", E, changed(("answer: text", "answer: text\n    supervisor: {}")), "steps.reply.supervisor"),
    # hooks, guardrails, policy
    ("unknown_hook", E, changed(("model: fast\n", "model: fast\nhooks: [audit, audits]\n")), "hooks[1]"),
    ("unknown_hook", E, changed((HANDLE, HANDLE + "    hooks: [broken]\n")), "steps.handle.hooks[0]"),
    ("unknown_policy", E, changed(("model: fast\n", "model: fast\npolicy: gard\n")), "policy"),
    ("unknown_policy", E, changed(("model: fast\n", "model: fast\npolicy: {use: gard}\n")), "policy.use"),
    ("bad_value", E, changed(("model: fast\n", "model: fast\npolicy: {use: guard, fail: ajar}\n")), "policy.fail"),
    ("bad_guardrail", E, gates("{output: [{}]}"), "steps.handle.guardrails.output[0]"),
    ("bad_guardrail", E, gates("{output: [{max_chars: 1, deny: x}]}"), "steps.handle.guardrails.output[0]"),
    ("bad_guardrail", E, gates("{output: [{topic: {}}]}"), "steps.handle.guardrails.output[0].topic"),
    ("bad_pattern", E, gates("{output: [{deny: '(?=x)'}]}"), "steps.handle.guardrails.output[0].deny"),
    ("bad_pattern", E, gates("{input: [{deny: '('}]}", top=True), "guardrails.input[0].deny"),
    ("bad_schema", E, gates("{tools: [{schema: {type: 7}}]}"), "steps.handle.guardrails.tools[0].schema.type"),
    ("bad_value", E, gates("{output: [{pii: [name]}]}"), "steps.handle.guardrails.output[0].pii[0]"),
    ("unknown_model", E, gates("{output: [{judge: {criteria: c, model: fats}}]}"), "steps.handle.guardrails.output[0].judge.model"),
    ("guardrail_judge_place", E, gates("{output: [{judge: {criteria: c}}]}", top=True), "guardrails.output[0].judge"),
    ("guardrail_mode", E, gates("{input: [{max_chars: 1, on_violation: repair}]}"), "steps.handle.guardrails.input[0].on_violation"),
    ("guardrail_mode", E, gates("{output: [{max_chars: 1, on_violation: deny}]}"), "steps.handle.guardrails.output[0].on_violation"),
    ("guardrail_mode", E, gates("{output: [{pii: [email], on_violation: exit}]}"), "steps.handle.guardrails.output[0]"),
    ("guardrail_mode", E, gates("{output: [{pii: {kinds: [email], of: results}}]}"), "steps.handle.guardrails.output[0].pii.of"),
    ("guardrail_mask_place", E, gates("{input: [{pii: [email]}]}"), "steps.handle.guardrails.input[0].pii"),
    ("guardrail_tool_unknown", E, gates("{tools: [{max_chars: 1, tools: [convrt]}]}"), "steps.handle.guardrails.tools[0].tools[0]"),
    ("guardrail_tool_unknown", E, gates("{output: [{max_chars: 1, tools: [convert]}]}"), "steps.handle.guardrails.output[0].tools"),
    ("guardrail_idle", W, changed(("answer: text\n", "answer: text\n    guardrails: {tools: [{max_chars: 1}]}\n")), "steps.reply.guardrails.tools"),
    ("unknown_region", E, gates("{output: [{pii: {kinds: [phone], region: QQ}}]}"), "steps.handle.guardrails.output[0].pii.region"),
    ("exit_unrouted", W, changed((HANDLE, HANDLE + "    guardrails: {output: [{max_chars: 1}]}\n"), (", error: sort}", "}")), "steps.handle"),
    ("bad_expression", E, stops("{expression: refund.amount > 1}"), "steps.handle.stop_when.expression"),
    ("bad_expression", E, stops("{any: [{expression: iterations = 2}]}"), "steps.handle.stop_when.any[0].expression"),
    ("bad_expression", E, stops("{expression: 'calls.all(a, calls.all(b, a == b))'}"), "steps.handle.stop_when.expression"),
    ("expression_unknown", W, stops("{expression: context.refnd.amount > 1}"), "steps.handle.stop_when.expression"),
    ("expression_unknown", W, stops("{expression: run.token > 1}"), "steps.handle.stop_when.expression"),
    ("expression_unknown", W, stops("{expression: 'calls.all(one, one.sucess)'}"), "steps.handle.stop_when.expression"),
    ("expression_unknown", W, stops("{expression: 'calls.exists(one, one.arguments.amout > 1)'}"), "steps.handle.stop_when.expression"),
    ("expression_text_unknown", W, stops("{expression: \"calls.exists(one, one.name == 'convrt')\"}"), "steps.handle.stop_when.expression"),
    ("unknown_function", E, stops("{function: 'os:system'}"), "steps.handle.stop_when.function"),
    ("bad_function", E, stops("{function: 'shop.money:convert'}"), "steps.handle.stop_when.function"),
    # files and secrets
    ("file_missing", W, changed(("[tone.md]", "[tone.md, other.md]")), "steps.handle.steering_files[1]"),
    ("path_escape", E, changed(("[tone.md]", "[../../../etc/passwd]")), "steps.handle.steering_files[0]"),
    ("path_escape", E, changed(("[tone.md]", "[/etc/passwd]")), "steps.handle.steering_files[0]"),
    ("path_escape", E, changed(("[tone.md]", '["C:\\\\x"]')), "steps.handle.steering_files[0]"),
    ("config_reference", E, changed(("Verify the order first.", "${env:PATH}")), "steps.handle.steering"),
    ("config_reference", E, changed(("Verify the order first.", '"\\x24{file:/etc/passwd}"')), "steps.handle.steering"),
    ("secret", E, changed(("Verify the order first.", SECRET)), ""),
    ("secret", E, changed(("model: fast", "model: fast  # AKIAABCDEFGHIJKLMNOP")), ""),
    ("secret", E, changed(("Verify the order first.", "xoxb-123456789012-abcdef")), ""),
    # tools of MCP servers
    ("unknown_connection", E, mcp("from: nowhere"), "steps.x.tools[0].from"),
    ("mcp_unavailable", E, mcp("from: down"), "steps.x.tools[0].from"),
    ("tool_unknown", E, mcp("from: shelf, allow: [reed]"), "steps.x.tools[0].allow[0]"),
    ("tool_unknown", E, mcp("from: shelf, allow: [hidden]"), "steps.x.tools[0].allow[0]"),
    ("tool_clash", E, mcp("from: shelf, allow: [read]", "read: {kind: mcp, connection: shelf, tool: list}"), "steps.x.tools[0]"),
    ("tool_clash", E, mcp("from: shelf, allow: [read, Read]"), "steps.x.tools[0]"),
    ("bad_name", E, mcp('from: shelf, allow: ["1st"]'), "steps.x.tools[0]"),
    ("bad_schema", E, mcp("from: shelf, allow: [remote]"), "steps.x.tools[0]"),
    ("tool_needs_task", E, mcp("from: shelf, allow: [study]"), "steps.x.tools[0]"),
    ("tool_needs_task", E, mcp("ref: y", "y: {kind: mcp, effect: read, connection: shelf, tool: study}"), "steps.y"),
    ("effect_undeclared", W, mcp("from: shelf, allow: [write]"), "steps.x.tools[0]"),
    ("effect_undeclared", W, mcp("from: stranger, allow: [read]"), "steps.x.tools[0]"),
    ("bind_unknown", E, mcp("from: shelf, allow: [read], bind: {paht: /input}"), "steps.x.tools[0].bind.paht"),
    ("bad_tool", E, mcp("from: shelf, ref: x"), "steps.x.tools[0]"),
    ("bad_tool", E, mcp("max_calls: 1"), "steps.x.tools[0]"),
    ("bad_tool", E, mcp("from: shelf, description: x"), "steps.x.tools[0]"),
    ("bad_tool", E, mcp("ref: x, allow: [read]"), "steps.x.tools[0]"),
    ("too_many_tools", E, mcp("from: crowd"), "steps.x.tools"),
    ("argument_unknown", W, mcp("ref: y", "y: {kind: mcp, effect: read, connection: shelf, tool: read, arguments: {paht: a}}"), "steps.y.arguments.paht"),
    ("bad_template", E, mcp("ref: y", 'y: {kind: mcp, effect: read, connection: shelf, tool: read, arguments: {path: "{{"}}'), "steps.y.arguments.path"),
    ("secret", E, changed(("Verify the order first.", "-----BEGIN RSA PRIVATE KEY-----")), ""),
]  # fmt: skip

SHELF = "from: shelf, allow: [read]"

NEAR: dict[str, str] = {
    "child_recursion": family(),
    "child_unknown": family(),
    "child_input": runs("letters", "text: /input/a, tone: /input/b"),
    "function_input": converts(", input: {amount: /input/a, to: /input/b}"),
    "child_too_deep": family(bounds=", child_depth: 2", helper=", {ref: other}"),
    "human_key": asks("expiry: 3h, output_key: who, input: {a: /input}, result_chars: 500"),
    "bad_form": asks("schema: {type: object, properties: {a: {enum: [1, b]}, b: {type: array, items: {enum: [c]}}}}"),
    "bad_default": asks("options: [go, stop], default: stop, routes: {'*': end}"),
    "child_key": family(", on_error: fail, on_timeout: fail, share: {run_timeout: 3s}"),
    "share_too_large": family(", share: {token_budget: 1000}"),
    "share_unused": family().replace("description: d", "description: d, share: {run_timeout: 3s}", 1),
    "tool_needs_task": mcp(SHELF),
    "grpc_unavailable": till("Get"),
    "worker_unavailable": worker("track", ", description: d, effect: read, parameters: {type: object}", pool="empty"),
    "grpc_streaming": till("Get", ", description: streaming"),
    "grpc_request": till("Charge", ", effect: write"),
    "bad_statement": sql("\"SELECT '; -- /*' || {{ a }} /* ; */ ;\""),
    "sql_writes": sql("DELETE FROM a", ", effect: idempotent"),
    "read_only_source": mcp("ref: q", "q: {kind: sql, description: d, connection: archive, statement: SELECT 1}"),
    # the text
    "alias": changed(("Verify the order first.", '"*x is no alias here"')),
    "anchor": changed(("Verify the order first.", "a &m in a text")),
    "tag": changed(("Verify the order first.", "is this !!str?")),
    "merge_key": changed(("Verify the order first.", '"<<: no key"')),
    "duplicate_key": changed(("description: Reads one order.", "description: Reads one order.\n    input: {kind: /input/kind}")),
    "bad_key": changed(("{order: ", '{"1": a, order: ')),
    "bad_number": changed(("{order: ", "{rate: 0.1, order: ")),
    "yaml_version": "%YAML 1.2\n---\n" + RIGHT,
    "yaml_syntax": changed(("flow: [handle, reply]", "flow: [handle, reply,]")),
    "too_deep": changed(("{order: ", "{nested: " + "[" * 20 + "]" * 20 + ", order: ")),
    "too_many_nodes": changed(("{order: ", "{many: [" + "1, " * 10_000 + "], order: ")),
    "too_large": changed(("Verify the order first.", "x" * 50_000)),
    "bad_character": RIGHT.replace("\n", "\r\n"),
    "empty_document": "# a comment first\n" + RIGHT,
    "not_a_mapping": "---\n" + RIGHT,
    "several_documents": "---\n" + RIGHT + "...\n",
    "secret": changed(("Verify the order first.", "Never tell your sk-key.")),
    "config_reference": changed(("Verify the order first.", "$env and {file} are words.")),
    # keys and values
    "unknown_key": changed(("{order: ", "{modl: any key of a body, order: ")),
    "not_built": changed(("{order: ", "{on_question: any key of a body, order: ")),
    "missing_key": changed(("max_calls: 1", "max_calls: 1, retry: {times: 1}")),
    "bad_type": changed(("token_budget: 40000", "token_budget: 0x9c40")),
    "bad_value": changed(("answer: text", "answer: json_text")),
    "out_of_range": changed((HANDLE, HANDLE + "    bounds: {max_iterations: 1}\n")),
    "bad_name": changed(("name: refunds", "name: con-1")),
    "reserved_name": changed(("  sort:\n", "  ending: {kind: router, conditions: [{when: 'true', signal: a}], routes: {a: end}}\n  sort:\n")),
    "bad_duration": changed(("15m", "1ms")),
    "bad_money": changed(("0.50", "0.000001")),
    "bad_share": changed((HANDLE, HANDLE + "    ground: {threshold: 0.655}\n")),
    "blank_text": changed(("prompt: Write a short reply.", 'prompt: " .\u200b"')),
    "bad_pointer": changed(("/input/shop", "/input/~1shop~0")),
    "not_all_checked": changed(("error: sort", "error: nowhere")),
    # models
    "model_missing": changed(("model: fast\n", ""), (HANDLE, HANDLE + "    model: fast\n"), ("    kind: completion\n", "    kind: completion\n    model: dear\n")),
    "unknown_model": changed(("model: fast", "model: dear")),
    "model_lacks": changed(("answer: text", "answer: text\n    model: talker")),
    "fallback_repeated": AGENT + ", fallbacks: [dear]}\n",
    "fallback_left_out": changed((HANDLE, HANDLE + "    model: dear\n    fallbacks: [fast]\n")),
    "wait_unbounded": AGENT + ", on_model_unavailable: wait, bounds: {timeout: 1h}}\n",
    "price_unknown": changed(("model: fast", "model: unpriced"), (", cost_budget_usd: 0.50", "")),
    # tools
    "no_tools": mcp(SHELF),
    "no_steering": changed(("    steering: Verify the order first.\n", "")),
    "no_description": changed(("    description: Reads one order.\n", ""), ("{ref: lookup_order, ", "{ref: lookup_order, description: Reads one., ")),
    "bad_tool": mcp(SHELF + ", max_calls: 1"),
    "tool_unknown": mcp(SHELF),
    "tool_is_itself": changed(("flow: [handle, reply]", "flow: [handle, convert, reply]")),
    "tool_not_callable": changed(("ref: convert", "ref: convert")),
    "tool_repeated": changed(("- {ref: convert}", "- {ref: convert}\n      - {from: shelf, allow: [read]}")),
    "tool_clash": mcp("from: shelf, allow: [list-all]", "read: {kind: mcp, effect: read, connection: shelf, tool: read, arguments: {path: a}}"),
    "reserved_tool": AGENT + "}\n  read_results: {kind: function, effect: read, function: 'shop.money:convert'}\n",
    "too_many_tools": mcp("from: crowd, allow: [t1, t2]"),
    "tool_choice_unknown": changed((HANDLE, HANDLE + "    tool_choice: {name: lookup_order}\n")),
    "effect_undeclared": mcp("from: shelf, allow: [tidy]"),
    "effect_not_allowed": changed((HANDLE, HANDLE + "    allow_effects: [read, idempotent]\n")),
    "retry_of_write": changed(("effect: idempotent", "effect: write\n    retry: {times: 0}")),
    "timeout_of_write": changed(("effect: idempotent", "effect: idempotent\n    on_timeout: fail")),
    "retry_cap": changed(("max_calls: 1", "max_calls: 1, retry: {times: 3, base: 2s, cap: 2s}")),
    "bind_unknown": mcp("from: shelf, allow: [read], bind: {path: /input}"),
    "argument_unknown": mcp("ref: y", "y: {kind: mcp, effect: read, connection: shelf, tool: read, arguments: {path: a}}"),
    "bad_parameters": changed(("method: POST", "method: POST\n    parameters: {type: object, properties: {order_id: {}, reason: {}}}")),
    "unknown_connection": mcp(SHELF),
    "mcp_unavailable": mcp(SHELF),
    "unknown_function": stops("{function: 'shop.checks:enough'}"),
    "bad_function": stops("{function: 'shop.checks:enough'}"),
    "bad_path": changed(("path: /refunds", "path: /a..b/refunds")),
    "bad_header": changed(("method: POST", "method: POST\n    headers: {X-Host: good}")),
    "bad_body": changed(("method: POST", "method: PATCH")),
    "bad_template": changed(("because {{ reason }}", "because {{ reason }} } {")),
    "template_unknown": changed(("large: end", "large: issue_refund"), ("method: POST", "method: POST\n    input: {order_id: /input/message, reason: /input/message}")),
    "template_ignored": changed(("Write a short reply.", '"Dear { name }"')),
    # outcomes and answers
    "outcome_reserved": changed(("[resolved, escalate]", "[resolved, escalate, errors]"), ("escalate: sort", "escalate: sort, errors: end")),
    "outcome_repeated": changed(("[resolved, escalate]", "[resolved, escalate, Resolved]"), ("escalate: sort", "escalate: sort, Resolved: end")),
    "outcome_unrouted": changed(("resolved: reply, ", '"*": reply, ')),
    "answer_form": AGENT + ", answer: native_schema, outcome: {enum: [a]}, routes: {\"*\": end}}\n",
    "completion_form": AGENT + ", answer: finish_tool, completion: explicit}\n",
    "finish_clash": AGENT + ", answer: text}\n  finish: {kind: function, effect: read, function: 'shop.money:convert'}\n",
    "ground_form": changed((HANDLE, HANDLE + "    ground: {}\n")),
    "ground_without_tools": changed((HANDLE, HANDLE + "    ground: {}\n")),
    "bad_schema": changed(("{message: {type: string}}", '{message: {"$ref": "#/$defs/m"}}'), ("required: [message]", '"$defs": {m: {pattern: "^a+$"}}, required: [message]')),
    "too_many_patterns": changed(("{message: {type: string}}", "{message: {patternProperties: {" + ", ".join(f"a{n}: {{}}" for n in range(99)) + "}}}")),
    # routes
    "unknown_step": changed(("flow: [handle, reply]", "flow: [handle, sort, reply]")),
    "flow_repeats": changed(("flow: [handle, reply]", "flow: [handle, sort, reply]")),
    "unknown_signal": changed(("error: sort", "error: sort, tool_loop: end")),
    "unknown_target": changed(("error: sort", "error: end")),
    "exit_unrouted": changed(("error: sort", "max_iterations: end, budget_exceeded: end, time_exceeded: end, tool_loop: end, invalid_output: end, error: end")),
    "step_unreachable": changed(("escalate: sort, error: sort", "escalate: reply, error: sort")),
    "cycle": changed(("escalate: sort, error: sort", "escalate: reply, error: sort")),
    "cycle_idle": changed(("default: reply", "default: handle")),
    "cleanup_asks_model": changed(("error: sort", "error: sort, aborted: convert")),
    "cleanup_leads_to_model": changed(("error: sort", "error: sort, aborted: convert")),
    "output_key_clash": changed(("output_key: refund", "output_key: refund_of_today")),
    "output_key_private": changed(("output_key: refund", "output_key: refund_")),
    "pointer_unknown": changed(("{refund: /refund}", "{refund: /refund/any/thing, why: /_last_error}")),
    # conditions
    "bad_expression": stops("{expression: 'calls.all(a, a.success)'}"),
    "expression_unknown": stops("{expression: context.refund.amount > 1}"),
    "expression_text_unknown": before_call("call.tool == 'conv' + 'ert' || call.effect == 'write' || call.arguments.to == 'EUR' || calls.exists(one, one.name in ['finish', 'convert'])"),
    "bad_condition": stops("{all: [{iterations: {gte: 2}}, {tokens: {gte: 5}}]}"),
    "stop_too_large": stops("{not: " * 7 + "{iterations: {gte: 2}}" + "}" * 7),
    "stop_tool_unknown": stops("{tool_called: {name: convert}}"),
    "stop_outcome_unknown": stops("{outcome_is: resolved}"),
    "stop_always": stops("{iterations: {gte: 2}}"),
    "stop_never": stops("{iterations: {gte: 8}}"),
    # a supervisor
    "bad_rule": watched("{rules: [{when: tool_repeated, count: 2, tool: convert, by: args}]}"),
    "rule_stage": watched("{rules: [{when: iteration_reached, gte: 2, then: deny_call}, {when: iteration_reached, gte: 2, then: ask, stage: before_call, expiry: 1h, rearm: 1}]}"),
    "rule_tool_unknown": watched("{rules: [{when: tool_repeated, tool: convert, count: 2}]}", top=True),
    "rule_never": watched("{rules: [{when: iteration_reached, gte: 8}, {when: budget_fraction, of: tokens, gt: 0.999}, {when: error_rate, window: 32, gt: 0.9}], judge: {criteria: c, every: 7, blocking: false}}"),
    "supervisor_idle": watched("{judge: {criteria: c}}", top=True),
    # bounds
    "bound_unreachable": changed((HANDLE, HANDLE + "    tool_choice: required\n    bounds: {max_iterations: 2, tool_calls: 1}\n")),
    "bound_idle": changed((HANDLE, HANDLE + "    bounds: {token_budget: 40000, cost_budget_usd: 0.5, timeout: 15m, model_timeout: 60s, idle_timeout: 60s, max_iterations: 4, model_requests: 4, tool_calls: 1}\n")),
    "bounds_cap_low": changed(("flow:", "bounds_cap: {token_budget: 40000, tool_calls: 32}\nflow:")),
    "limit_expiry_unused": changed((HANDLE, HANDLE + "    on_limit: ask\n    limit_expiry: 1h\n")),
    "approval_unasked": changed(("model: fast", "model: fast\non_question: review"), ("max_calls: 1", "max_calls: 1, approval: none"), ("effect: idempotent", "effect: destructive")),
    "approval_always": changed(("max_calls: 1", "max_calls: 1, approval: {when: context.refund == 1}")),
    "approval_expiry_unused": changed(("steps: 32", "steps: 32, approval_expiry: 1h"), ("max_calls: 1", "max_calls: 1, approval: required")),
    "question_unasked": changed((HANDLE, HANDLE + "    on_limit: ask\n")),
    "worst_case": changed(("error: sort", "error: nowhere")),
    "compaction_order": changed((HANDLE, HANDLE + "    compaction: {at: 0.51}\n")),
    "compaction_model_unused": changed((HANDLE, HANDLE + "    compaction: {mode: summarise, model: dear}\n")),
    # hooks, guardrails, policy
    "unknown_hook": changed(("model: fast\n", "model: fast\nhooks: [audit, audit]\n")),
    "unknown_policy": changed(("model: fast\n", "model: fast\npolicy: {use: guard, fail: open}\n")),
    "bad_guardrail": gates("{output: [{max_chars: 1}, {topic: {deny: [cats]}}]}"),
    "bad_pattern": gates("{output: [{deny: '(x)'}]}"),
    "guardrail_mode": gates("{output: [{max_chars: 1, on_violation: repair}], tools: [{max_chars: 1, on_violation: deny}]}"),
    "guardrail_judge_place": gates("{output: [{judge: {criteria: c}}]}"),
    "guardrail_mask_place": gates("{input: [{pii: [email]}]}", top=True),
    "guardrail_tool_unknown": gates("{tools: [{max_chars: 1, tools: [convert]}]}"),
    "guardrail_idle": gates("{tools: [{max_chars: 1}]}"),
    "unknown_region": gates("{output: [{pii: {kinds: [phone], region: NL}}]}"),
    # files
    "file_missing": changed(("[tone.md]", "[tone.md, tone.md]")),
    "path_escape": changed(("[tone.md]", "[a..b.md]")),
}  # fmt: skip
"""For each code a file that comes close, and of which it is not said."""

NOT_WHOLE = {"not_all_checked", "worst_case"}
"""Near misses that have another error; every other one becomes a plan."""

CODES_OF_FILES = {"bad_pins", "file_unused", "bad_encoding", "unreadable", "too_many_files"}


def test_the_right_workflow_has_neither_errors_nor_warnings():
    done = compile_text(RIGHT)

    assert done.plan is not None
    assert [(one.severity, one.code) for one in done.findings] == [(Severity.INFO, "worst_case")]


@pytest.mark.parametrize(("code", "severity", "text", "path"), CASES)
def test_a_finding_has_its_code_weight_and_place(code: str, severity: Severity, text: str, path: str):
    done = compile_text(text)

    found = [one for one in done.findings if one.code == code]
    assert [one for one in found if one.severity is severity and one.path == path], done.findings
    assert all(one.file == "refunds.yaml" for one in found)
    assert (done.plan is None) == any(one.severity is Severity.ERROR for one in done.findings)
    if path:
        assert all(one.line > 0 and one.column > 0 for one in found)
    assert not any(one.message.startswith(("Input should", "Value should", "String should")) for one in found)


@pytest.mark.parametrize(
    "text",
    [
        worker("track", pool="empty"),
        mcp("ref: q", "q: {kind: mcp, connection: nowhere, tool: x}"),
        till("No"),
        changed(("shop.money:convert", "os:system"), ("kind: function, effect: read", "kind: function")),
    ],
)
def test_a_tool_that_can_not_be_had_is_one_error_and_not_also_undescribed_and_without_effect(text: str):
    codes = [one.code for one in compile_text(text).findings if one.severity is not Severity.INFO]
    assert len([one for one in codes if one not in ("no_steering", "reserved_exit_unrouted")]) == 1, codes


def test_every_code_in_the_source_has_a_case_and_a_line_in_the_table():
    folder = Path(jackline_server.definitions.__file__).parent
    source = "\n".join(path.read_text("utf-8") for path in folder.glob("*.py"))
    calls = r'(?:\.error|\.warning|\.info|\.error_at|Problem|PydanticCustomError|_problem)\(\s*"([a-z_]+)"'
    codes = set(re.findall(calls, source))

    assert codes - {code for code, *_ in CASES} == CODES_OF_FILES
    assert set(CODES) == codes | {code for code, *_ in CASES} | {"more"}


def test_a_code_weighs_what_the_table_says():
    seen: dict[str, set[Severity]] = {}
    for code, severity, *_ in CASES:
        seen.setdefault(code, set()).add(severity)

    assert seen == {code: set(CODES[code].severities) for code in seen}


def test_every_code_of_the_text_of_a_workflow_has_a_near_miss():
    assert set(NEAR) == {code for code, *_ in CASES}


@pytest.mark.parametrize("code", NEAR)
def test_what_only_comes_close_is_not_found(code: str):
    done = compile_text(NEAR[code])

    assert code not in {one.code for one in done.findings}
    assert (done.plan is None) == (code in NOT_WHOLE), done.findings


@pytest.mark.parametrize(
    "more",
    [
        "fallbacks: [fast]",
        "compaction: {mode: summarise, model: fast}",
        "guardrails: {output: [judge: {criteria: c, model: fast}]}",
    ],
)
def test_money_that_another_model_of_the_step_costs_can_stop_it(more: str):
    done = compile_text(FREE.format(more))

    assert done.plan is not None, done.findings
    assert "stop_never" not in {one.code for one in done.findings}


def test_all_problems_are_reported_at_once_errors_first():
    text = changed(
        ("model: fast", "model: fats\nmodel: fast"), ("15m", "15"), (HANDLE, HANDLE + "    goal: x\n")
    )

    done = compile_text(text)

    *errors, last = done.findings
    assert [one.code for one in errors] == ["duplicate_key", "bad_duration", "unknown_key"]
    assert [one.line for one in errors] == sorted(one.line for one in errors)
    assert last.code == "not_all_checked"


def test_errors_of_names_and_types_say_that_more_may_be_found_and_those_after_them_do_not():
    early = changed(("15m", "15"), ("error: sort", "error: nowhere"))
    late = changed(("error: sort", "error: nowhere"))

    assert [one.code for one in compile_text(early).findings] == ["bad_duration", "not_all_checked"]
    codes = {one.code for one in compile_text(late).findings}
    assert codes
    assert "not_all_checked" not in codes


def test_a_duplicate_key_names_both_lines():
    found, _ = compile_text(changed(("model: fast", "model: fast\nmodel: fast"))).findings

    assert (found.line, found.column) == (3, 1)
    assert "line 2" in found.message
    assert "line 3" in found.message


@pytest.mark.parametrize(
    ("written", "meant"), [("stearing: x", "steering"), ("tols: []", "tools"), ("outcomes: {}", "outcome")]
)
def test_a_near_miss_is_told_what_was_meant(written: str, meant: str):
    done = compile_text(changed((HANDLE, HANDLE + f"    {written}\n")))

    (found,) = [one for one in done.findings if one.code == "unknown_key"]
    assert f"`{meant}`" in found.message


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (changed((HANDLE, HANDLE + "    policy: {name: guard}\n")), "at the top"),
        (changed((HANDLE, HANDLE + "    max_iterations: 3\n")), "in `bounds` of agent steps"),
        (changed((HANDLE, HANDLE + "    bounds: {steps: 3}\n")), "in `bounds` at the top"),
        (changed(("answer: text", "answer: text\n    ground: {}")), "agent steps have it"),
        (changed(("steps: 32", "model_requests: 3")), "in `bounds` of agent and completion steps"),
        (changed(("model: fast", "model: fast\nsteering: x")), "steps have it"),
    ],
)
def test_a_key_that_belongs_elsewhere_is_told_where(text: str, place: str):
    (found,) = [one for one in compile_text(text).findings if one.code == "unknown_key"]
    assert place in found.message
    assert "did you mean" not in found.message


def test_a_deadline_in_a_workflow_is_told_what_takes_one():
    (found, _) = compile_text(changed(("steps: 32", "deadline: 18h"))).findings
    assert found.code == "not_built"
    assert "--deadline" in found.message


@pytest.mark.parametrize(
    "text",
    [
        changed(("Verify the order first.", SECRET)),
        changed(("model: fast", f"model: {SECRET}")),
        changed(("connection: orders", f"connection: {SECRET}")),
        changed(("model: fast", f"{SECRET}: fast")),
        changed(("error: sort", f"error: {SECRET}")),
    ],
)
def test_a_secret_is_refused_and_never_printed(text: str):
    done = compile_text(text)

    assert "secret" in {one.code for one in done.findings}
    assert SECRET not in repr(done.findings)


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("a:\n\tb: 1\n", 2, "tab"),
        ("a:\n  b: 1\n\tc: 2\n", 3, "tab"),
        ("a:\n  b:\n    c: 1\n   d: 2\n", 4, "3 spaces"),
        ("a: b\n  c: d\n", 2, "2 spaces"),
        ("a: b: c\n", 1, "quotes"),
        ("a: [1,\nb: 2\n", 3, "line 1"),
        ("a: {b: 1\n", 2, "line 1"),
        ("a: 'x\nb: 2\n", 3, "line 1"),
        ("a:\n  - x\n  b: 1\n", 3, "`- `"),
        ("a: @x\n", 1, "`@`"),
        ('a: "\\q"\n', 1, "escape"),
        ("a: b\nc\nd: 1\n", 3, "line 2"),
        ("a\nb: 1\n", 2, "`:`"),
    ],
)
def test_a_text_that_is_no_yaml_is_told_in_words_of_its_writer(text: str, line: int, told: str):
    (found,) = compile_text(text, {}).findings

    assert (found.code, found.line) == ("yaml_syntax", line)
    assert told in found.message
    assert "while" not in found.message


def test_a_condition_from_another_language_is_told_the_operator():
    done = compile_text(changed(("refund.amount > 100", "refund.amount = 'x'")))

    (found,) = [one for one in done.findings if one.code == "bad_expression"]
    assert "`==`" in found.message
    assert (found.line, found.column) != (0, 0)


def test_a_misspelt_type_is_told_the_right_one():
    done = compile_text(changed(("{message: {type: string}}", "{message: {type: strng}}")))

    (found,) = [one for one in done.findings if one.code == "bad_schema"]
    assert "`string`" in found.message


def test_a_file_no_step_names_is_worth_knowing():
    done = compile_text(RIGHT, {**TONE, "handle/steering/old.md": b"x"})

    assert [one.code for one in done.findings if one.severity is Severity.INFO] == [
        "file_unused",
        "worst_case",
    ]


def test_a_file_that_is_not_utf_8_is_an_error():
    done = compile_text(RIGHT, {"handle/steering/tone.md": b"\xff\xfe"})

    assert done.plan is None
    assert "bad_encoding" in {one.code for one in done.findings}


def test_a_secret_in_a_file_is_found_there():
    done = compile_text(RIGHT, {"handle/steering/tone.md": f"one\ntwo {SECRET}".encode()})

    (found,) = [one for one in done.findings if one.code == "secret"]
    assert (found.file, found.line, found.column) == ("handle/steering/tone.md", 2, 5)

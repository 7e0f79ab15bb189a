"""Sources made to cost much: compiling them is over in a moment, and what comes of it is bounded."""

import json
import time
from collections.abc import Mapping

import pytest

from jackline_server.definitions import secret_scan
from jackline_server.runtime.ports.definitions import Severity
from tests.definitions.workflows import compile_text

A_MOMENT_S = 5.0
"""Most take a tenth of it; without the bounds they took up to a minute."""


def steps(count: int, step: str) -> str:
    made = "".join(f"  s{number}: {{{step.replace('#', str(number))}}}\n" for number in range(count))
    return f"name: many\nmodel: fast\nflow: [s0]\nsteps:\n{made}"


def http_steps(count: int, path: str) -> str:
    shape = "kind: http, effect: read, description: d, connection: orders"
    return "".join(f"  h{number}: {{{shape}, path: '{path}'}}\n" for number in range(count))


def router(conditions: list[str]) -> str:
    cases = "".join(f"      - {{when: '{when}', signal: s}}\n" for when in conditions)
    return f"name: x\nmodel: fast\nflow: [r]\nsteps:\n  r:\n    kind: router\n    conditions:\n{cases}"


def schema(document: Mapping[str, Mapping[str, object]]) -> str:
    return f"name: x\ninput: {{schema: {json.dumps(document)}}}\n"


MANY_TOOLS = "kind: agent, steering: s, tools: [" + "".join(f"{{ref: h{n}}}, " for n in range(100)) + "]"
POINTERS = ", ".join(f"k{number}: /zzz#x{number}" for number in range(15))
BOMBS = {
    "duplicate keys": "name: x\n" + "a: 1\n" * 19_000,
    "unknown keys": "name: x\n" + "".join(f"{'k' * 60}{n}: 1\n" for n in range(3_000)),
    "bad names": "steps:\n" + "".join(f"  S{n}: {{}}\n" for n in range(6_000)),
    "pointers": steps(490, "kind: completion, prompt: hi, answer: text, input: {" + POINTERS + "}"),
    "templates": steps(45, MANY_TOOLS) + http_steps(100, "/" + "{{ a }}" * 250),
    "parameters": steps(45, MANY_TOOLS)
    + http_steps(100, "/" + "-".join("{{ a" + str(n) + " }}" for n in range(150))),
    "cycles": steps(
        490, "kind: completion, prompt: hi, answer: text, routes: {default: s#, error: s#, aborted: s#}"
    ),
    "patterns": schema({"patternProperties": {f"[\\pL\\pN]{{1,7}}{n}": {} for n in range(1_500)}}),
    "matches": router(['input.matches("(a{1,50}){1,20}")'] * 100 + ["true"]),
    "properties": schema({"properties": {f"p{n}": {"type": "string"} for n in range(4_500)}}),
    "secrets": "x: '" + "a://" * 60_000 + "'",
    "a long name": "name: x\nsteps: {" + "s" * 200_000 + ": {}}\n",
    "a long model": "name: x\nmodel: "
    + "m" * 200_000
    + "\nflow: [a]\nsteps: {a: {kind: completion, prompt: x}}",
    "references": "a: " + "{a: " * 29 + "[" + "'${env:x}', " * 15_000 + "]" + "}" * 29,
    "macros": router(["a.all(x," * 200 + f"{n}" + ")" * 200 for n in range(99)]),
    "nests": router(["(" * 900 + f"{n}" + ")" * 900 for n in range(99)]),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_compile_bomb_is_over_in_a_moment(name: str):
    began = time.thread_time()
    done = compile_text(BOMBS[name], {})

    assert time.thread_time() - began < A_MOMENT_S
    assert done.findings
    assert len(done.findings) <= 101


def test_a_plan_holds_no_more_than_a_million_characters_of_tools():
    small = compile_text(steps(2, MANY_TOOLS) + http_steps(100, "/{{ a }}"), {})
    large = compile_text(BOMBS["parameters"], {})

    assert small.plan is not None
    assert large.plan is None
    assert "too_large" in {one.code for one in large.findings}


def test_at_most_100_findings_are_listed_and_the_last_says_that_there_are_more():
    warnings = compile_text(steps(150, "kind: completion, prompt: hi, answer: text"), {})
    errors = compile_text(steps(150, "kind: completion, prompt: hi, model: m#"), {})

    assert warnings.plan is not None
    assert len(warnings.findings) == len(errors.findings) == 101
    assert {warnings.findings[-1].code, errors.findings[-1].code} == {"more"}
    assert all(one.severity is Severity.ERROR for one in errors.findings[:-1])
    assert "more" in warnings.findings[-1].message


def test_a_secret_is_found_wherever_it_stands_in_a_long_line():
    secret = "sk-" + "a1B2" * 8
    for before in (0, 14_000, 14_330, 16_380, 16_384, 100_000):
        ((_, mark),) = secret_scan.find("x " * (before // 2) + secret + " y" * 20_000)
        assert mark.column == before // 2 * 2 + 1

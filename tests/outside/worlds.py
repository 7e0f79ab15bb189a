"""Small worlds for the tests from outside: configs, workflows and scripts as text.

A world's model is scripted unless it says otherwise: nothing but the start of a process takes time.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

INPUT = "input: {schema: {type: object, properties: {mark: {type: string}}, required: [mark]}}"

PAIR = f"""\
name: pair
model: fast
{INPUT}
bounds: {{run_timeout: 2m, token_budget: 20000}}
flow: [work]
steps:
  work:
    kind: agent
    description: Looks and charges.
    tools: [{{ref: look}}, {{ref: charge}}]
    bounds: {{max_iterations: 4, model_requests: 8, tool_calls: 8}}
    answer: text
  look: {{kind: http, effect: read, description: Looks., connection: shop, method: GET, path: /look}}
  charge:
    kind: http
    effect: write
    description: Charges once.
    connection: shop
    method: POST
    path: /charge
    body: {{amount: 5}}
"""
"""One turn asks for a read and a write at once, the next one answers."""

PAIR_SCRIPT = [
    {"when": {"turn": 1}, "tool_calls": [{"name": "look"}, {"name": "charge"}]},
    {"text": "Looked, and charged."},
]

EFFECTS = {"look": "read", "charge": "write", "poll": "read"}


def scripted(folder: Path, script: Sequence[Mapping[str, Any]], *, shop: str = "", more: str = "") -> str:
    """A config whose profile `fast` plays a script, written beside it. `shop` is a service's address."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "script.yaml").write_text(json.dumps({"turns": list(script)}), encoding="utf-8")
    return (
        f'[models.fast]\nadapter = "scripted"\nscript = "{folder / "script.yaml"}"\n'
        "price = {input_per_million = 1, output_per_million = 2}\n" + connection("shop", shop) + more
    )


def endpoint(base_url: str, *, shop: str = "", more: str = "", adapter: str = "auto") -> str:
    """A config whose profile `fast` is an OpenAI-compatible endpoint."""
    return (
        f'[models.fast]\nmodel = "openai/test-model"\nbase_url = "{base_url}"\napi_key = "sk-test"\n'
        f'adapter = "{adapter}"\n'
        "price = {input_per_million = 1, output_per_million = 2}\n" + connection("shop", shop) + more
    )


def connection(name: str, base_url: str) -> str:
    """A connection of the config; nothing without an address."""
    return f'[connections.{name}]\nkind = "http"\nbase_url = "{base_url}"\n' if base_url else ""

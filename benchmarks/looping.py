"""The workload of the loop: so many turns with one tool call each, then an answer.

Owns its files. The model is the bundled scripted one, the tool an async function that returns at once.
"""

import json

from benchmarks.histories import Expected
from jackline.v1.run_pb2 import RunState

WORKFLOW = "loop"
INPUT = b'{"subject": "berths"}'

_MODULE = '''\
"""The tool of the benchmark."""


async def look_up(berth: str) -> dict[str, str]:
    """Looks a berth up."""
    return {"berth": berth, "state": "free"}
'''

_WORKFLOW = """\
name: loop
model: scripted
input: {{schema: {{type: object, properties: {{subject: {{type: string}}}}, required: [subject]}}}}
bounds: {{run_timeout: 1h, token_budget: 100000000}}
flow: [work]
steps:
  work:
    kind: agent
    description: Looks berths up.
    steering: Look each berth up before you answer.
    tools: [{{ref: look_up}}]
    repeat: {{by: off}}
    bounds:
      max_iterations: {most}
      model_requests: {most}
      tool_calls: {most}
      token_budget: 100000000
      timeout: 1h
    answer: text
  look_up: {{kind: function, effect: read, description: Looks a berth up., function: "harbour:look_up"}}
"""

_CONFIG = """\
[models.scripted]
script = "./script.yaml"
concurrency = 10000

[functions]
roots = ["harbour"]
"""


_USAGE = {"prompt_tokens": 120, "completion_tokens": 12}
"""What the model reports, as providers do."""


def loop_files(turns: int) -> dict[str, str]:
    """A server's files whose workflow `loop` makes `turns` turns with one tool call each, then answers."""
    script = {
        "turns": [
            {
                "when": {"turn": turns + 1},
                "text": "Every berth that was looked up is free.",
                "usage": _USAGE,
            },
            {
                "tool_calls": [{"name": "look_up", "arguments": {"berth": "north quay 12"}}],
                "usage": _USAGE,
            },
        ]
    }
    return {
        "config.toml": _CONFIG,
        "script.yaml": json.dumps(script),
        "workflows/loop.yaml": _WORKFLOW.format(most=2 * turns + 2),
        "modules/harbour.py": _MODULE,
    }


def expected_of(turns: int) -> Expected:
    """How such a run has to end."""
    return Expected(
        state=RunState.RUN_STATE_SUCCEEDED,
        counts={"model_replied": turns + 1, "tool_call_finished": turns, "step_started": 1},
    )

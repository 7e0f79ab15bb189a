"""A judge of what came out of a run: its question as a workflow of one step, and its word.

Owns the workflow and what the judge is shown. The prompt and how the reply is read are those of the judges
inside of runs (`core.deciding.verdicts`). Asks nobody: the workflow is run by `running`, and what it costs is
told apart from what the judged run has cost.
"""

from jackline_server.commands.evaluation.sight import Sight
from jackline_server.core import json_text
from jackline_server.core.deciding import verdicts
from jackline_server.core.frozen import frozen
from jackline_server.core.plan import JsonObject
from jackline_server.runtime.ports.definitions import Source

_STEP = "judge"
_NAME = "eval_judge"


@frozen
class Question:
    """What a judge is asked: the workflow that asks it, and its input."""

    source: Source
    input: JsonObject


@frozen
class Word:
    """What a judge said. `passed` is None if it said nothing usable: `reason` then says why."""

    passed: bool | None
    reason: str


def question(seen: Sight, *, criteria: str, model: str) -> Question | Word:
    """What to ask about a run; a word without an answer if there is too much to ask about."""
    shown: JsonObject = {
        "input": seen.input,
        "exit": seen.exit,
        "result": seen.result,
        "tool_calls": [
            {"tool": one.tool, "status": one.status, "arguments": one.arguments} for one in seen.calls
        ],
    }
    if len(json_text.write(shown)) > verdicts.MOST_CASE_CHARS:
        return Word(passed=None, reason=f"more than {verdicts.MOST_CASE_CHARS:,} characters are not judged")
    workflow: JsonObject = {
        "name": _NAME,
        "description": "Judges what came out of another run.",
        "model": model,
        "on_question": "review",
        "bounds": {"run_timeout": "5m", "steps": 1, "events": 100},
        "flow": [_STEP],
        "steps": {
            _STEP: {
                "kind": "completion",
                "prompt": verdicts.instructions(criteria),
                "input": {"judged": "/input/judged"},
                "answer": "text",
                "bounds": {"model_requests": 5, "timeout": "4m"},
            }
        },
    }
    source = Source(yaml=json_text.write(workflow), files={}, file=f"{_NAME}.yaml")
    return Question(source=source, input={"judged": shown})


def word(seen: Sight) -> Word:
    """The word of a judge's run that has ended."""
    if seen.state != "succeeded" or not isinstance(seen.result, str):
        why = f": {seen.error}" if seen.error else ""
        return Word(passed=None, reason=f"its run {seen.run_id} ended as {seen.state} ({seen.exit}){why}")
    said = verdicts.read(seen.result)
    if isinstance(said, str):
        return Word(passed=None, reason=said)
    return Word(passed=said.passed, reason=said.reason)

"""The three sets of defaults that a workflow file names by `preset`.

Owns what differs between them; what is the same in each is in `defaults`. A plan holds them resolved, so
changing one here changes no run that has started. Times are milliseconds. A further default is a line of
`Preset`, with what `service` has, and one wherever another preset has something else.
"""

from collections.abc import Mapping

from jackline_server.core.frozen import frozen
from jackline_server.core.plan import (
    AnswerForm,
    CompactionMode,
    Effect,
    OnFailure,
    OnLimit,
    OnQuestion,
    OnUnknown,
    TextToolCalls,
    ToolExecution,
)
from jackline_server.definitions.defaults import HOUR_MS, MINUTE_MS, SECOND_MS


@frozen
class Preset:
    """One set of defaults, by the keys of a file. `answer` is `default_form`'s to weigh."""

    name: str
    run_timeout_ms: int = 15 * MINUTE_MS
    steps: int = 128
    events: int = 20_000
    child_depth: int = 3
    pause_max_ms: int | None = None
    on_question: OnQuestion = OnQuestion.WAIT
    max_iterations: int = 8
    model_requests_per_iteration: int = 2
    tool_calls_per_iteration: int | None = 4
    """None where the file's `max_iterations` has no say: then `tool_calls` are what there is."""
    tool_calls: int = 0
    model_timeout_ms: int = 60 * SECOND_MS
    idle_timeout_ms: int = 30 * SECOND_MS
    tool_timeout_ms: int = 300 * SECOND_MS
    tool_execution: ToolExecution = ToolExecution.BY_EFFECT
    allow_effects: frozenset[Effect] = frozenset(Effect)
    invalid_args: int = 3
    text_tool_calls: TextToolCalls = TextToolCalls.OFF
    on_limit: OnLimit = OnLimit.EXIT
    repairs: int = 1
    answer: AnswerForm = AnswerForm.JSON_TEXT
    repeat_count: int = 3
    repeat_nudge: bool = True
    compaction: CompactionMode = CompactionMode.WINDOW
    result_chars: int = 8_000
    on_unknown: OnUnknown = OnUnknown.ASK
    on_error: OnFailure = OnFailure.OBSERVE
    tool_retries: int = 2
    model_retries: int = 3


SERVICE = Preset(name="service")

CODING = Preset(
    name="coding",
    run_timeout_ms=2 * HOUR_MS,
    events=200_000,
    child_depth=5,
    max_iterations=50,
    tool_calls_per_iteration=8,
    model_timeout_ms=120 * SECOND_MS,
    idle_timeout_ms=60 * SECOND_MS,
    invalid_args=5,
    text_tool_calls=TextToolCalls.AUTO,
    on_limit=OnLimit.FINAL_ANSWER,
    repairs=2,
    answer=AnswerForm.TEXT,
    repeat_count=5,
    compaction=CompactionMode.SUMMARISE,
    result_chars=32_000,
)

STRICT = Preset(
    name="strict",
    run_timeout_ms=300 * SECOND_MS,
    steps=32,
    events=5_000,
    child_depth=1,
    pause_max_ms=HOUR_MS,
    on_question=OnQuestion.REVIEW,
    max_iterations=4,
    model_requests_per_iteration=1,
    tool_calls_per_iteration=None,
    tool_calls=3,
    tool_timeout_ms=30 * SECOND_MS,
    tool_execution=ToolExecution.SEQUENTIAL,
    allow_effects=frozenset({Effect.READ}),
    invalid_args=0,
    repairs=0,
    answer=AnswerForm.NATIVE_SCHEMA,
    repeat_count=2,
    repeat_nudge=False,
    compaction=CompactionMode.NONE,
    result_chars=32_000,
    on_unknown=OnUnknown.FAIL,
    on_error=OnFailure.FAIL,
    tool_retries=0,
    model_retries=1,
)

PRESETS: Mapping[str, Preset] = {preset.name: preset for preset in (SERVICE, CODING, STRICT)}


def default_form(preset: Preset, *, has_contract: bool, takes_schema: bool) -> AnswerForm:
    """How an answer is given where the file does not say: as the preset has it, as far as the step can.

    Text has no contract, and a provider is sent a schema only where there is one that its model takes.
    """
    if preset.answer is AnswerForm.TEXT and has_contract:
        return AnswerForm.JSON_TEXT
    if preset.answer is AnswerForm.NATIVE_SCHEMA and not (has_contract and takes_schema):
        return AnswerForm.JSON_TEXT if has_contract else AnswerForm.TEXT
    return preset.answer

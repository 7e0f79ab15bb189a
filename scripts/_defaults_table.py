"""Writes the table of defaults into docs/workflow.md: a row for each, a column for each preset.

`_pages.py` writes or checks it.
"""

from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import cast

from jackline_server.core.plan import Effect
from jackline_server.definitions import defaults
from jackline_server.definitions.presets import PRESETS, Preset

PAGE = Path(__file__).resolve().parent.parent / "docs" / "workflow.md"
BEGIN, END = "<!-- Made by scripts/generate. -->\n", "<!-- The end of what it makes. -->\n"

ROWS: tuple[tuple[str, str], ...] = (
    ("`bounds.run_timeout`", "run_timeout_ms"),
    ("`bounds.steps`", "steps"),
    ("`bounds.events`", "events"),
    ("`bounds.child_depth`", "child_depth"),
    ("`bounds.pause_max`", "pause_max_ms"),
    ("`on_pause_max`", "ON_PAUSE_MAX"),
    ("`on_question`", "on_question"),
    ("agent: `bounds.max_iterations`", "max_iterations"),
    ("agent: `bounds.model_requests`, times `max_iterations`", "model_requests_per_iteration"),
    ("agent: `bounds.tool_calls`", "tool_calls"),
    ("completion: `bounds.model_requests`", "COMPLETION_MODEL_REQUESTS"),
    ("`on_model_unavailable`", "ON_MODEL_UNAVAILABLE"),
    ("`bounds.model_requests`, for each fallback more", "FALLBACK_MODEL_REQUESTS"),
    ("`bounds.model_requests`, for waiting more", "WAIT_MODEL_REQUESTS"),
    ("`bounds.model_timeout`", "model_timeout_ms"),
    ("`bounds.idle_timeout`", "idle_timeout_ms"),
    ("`bounds.tool_timeout`, `timeout` of a tool step", "tool_timeout_ms"),
    ("`timeout` of a function in `stop_when`", "STOP_FUNCTION_TIMEOUT_MS"),
    ("`max_parallel`", "MAX_PARALLEL"),
    ("`tool_execution`", "tool_execution"),
    ("`invalid_args`", "invalid_args"),
    ("`text_tool_calls`", "text_tool_calls"),
    ("`allow_effects`", "allow_effects"),
    ("`on_limit`", "on_limit"),
    ("`limit_expiry`", "LIMIT_EXPIRY_MS"),
    ("`outcome.repairs`", "repairs"),
    ("`answer`", "answer"),
    ("agent: `completion`", "COMPLETION"),
    ("`repeat.by`", "REPEAT_BY"),
    ("`repeat.count`", "repeat_count"),
    ("`repeat.nudge`", "repeat_nudge"),
    ("`reflect.guidance`", "REFLECT_GUIDANCE"),
    ("`ground.threshold`", "GROUND_THRESHOLD_PERMILLE"),
    ("`ground.max_replans`", "GROUND_MAX_REPLANS"),
    ("`ground.on_error`", "GROUND_ON_ERROR"),
    ("`compaction.mode`", "compaction"),
    ("`compaction.at`", "COMPACTION_AT_PERMILLE"),
    ("`compaction.to`", "COMPACTION_TO_PERMILLE"),
    ("`compaction.prune.keep`", "PRUNE_KEEP_TOKENS"),
    ("`compaction.prune.save`", "PRUNE_SAVE_TOKENS"),
    ("`supervisor`: `then` of a rule", "RULE_THEN"),
    ("`supervisor`: `stage` of a rule that does not deny", "RULE_STAGE"),
    ("`supervisor`: `expiry` of a question", "SUPERVISOR_EXPIRY_MS"),
    ("`supervisor.judge.every`", "JUDGE_EVERY"),
    ("`supervisor.judge.on_violation`", "JUDGE_ON_VIOLATION"),
    ("`supervisor.judge.on_error`", "JUDGE_ON_ERROR"),
    ("`supervisor.judge.view`", "JUDGE_VIEW"),
    ("`supervisor.judge.timeout`", "JUDGE_TIMEOUT_MS"),
    ("`supervisor.judge.blocking`", "JUDGE_BLOCKING"),
    ("`policy.view`", "POLICY_VIEW"),
    ("`policy.timeout`", "POLICY_TIMEOUT_MS"),
    ("`policy.fail`", "POLICY_FAILS_OPEN"),
    ("`policy.on_deny`", "ON_DENY"),
    ("`effect`", "EFFECT"),
    ("`result_chars`", "result_chars"),
    ("`on_unknown`", "on_unknown"),
    ("`unknown_expiry`", "UNKNOWN_EXPIRY_MS"),
    ("`approval_expiry.after`", "APPROVAL_EXPIRY_MS"),
    ("`approval_expiry.then`", "ON_APPROVAL_EXPIRY"),
    ("`expiry` of a question", "HUMAN_EXPIRY_MS"),
    ("`on_error`", "on_error"),
    ("`on_timeout`", "ON_TIMEOUT"),
    ("`retry.times` of a read or idempotent tool", "tool_retries"),
    ("`retry.base`", "TOOL_RETRY_BASE_MS"),
    ("`retry.cap`", "TOOL_RETRY_CAP_MS"),
    ("retries of a model call, at most", "model_retries"),
    ("context window of a model named by its provider", "CONTEXT_WINDOW"),
    ("output tokens of a model named by its provider", "MAX_OUTPUT_TOKENS"),
    ("retries of a model named by its provider", "MODEL_RETRIES"),
    ("wait before the first retry of a model, doubling", "MODEL_RETRY_BASE_MS"),
    ("the longest such wait", "MODEL_RETRY_CAP_MS"),
)
"""What a row is called on the page, and its name in the code: a field of `Preset`, or a constant for all."""


def names() -> set[str]:
    """Every default of the code that has a row."""
    return {name for _, name in ROWS} | {"name", "tool_calls_per_iteration"}


def table() -> str:
    """The table."""
    head = f"| key | {' | '.join(PRESETS)} |\n|---|{'---|' * len(PRESETS)}\n"
    return head + "".join(f"| {' | '.join(row)} |\n" for row in _rows())


def _rows() -> Iterator[tuple[str, ...]]:
    for label, name in ROWS:
        yield label, *(_shown(preset, name) for preset in PRESETS.values())
        if name == "events":
            yield "`bounds.token_budget`, `bounds.cost_budget_usd`", *("none" for _ in PRESETS)


def _shown(preset: Preset, name: str) -> str:
    value: object = getattr(defaults, name) if name.isupper() else getattr(preset, name)
    match name:
        case "tool_calls":
            per_turn = preset.tool_calls_per_iteration
            return str(preset.tool_calls) if per_turn is None else f"{per_turn} times max_iterations"
        case "invalid_args":
            return f"observe {value}" if value else "fail"
        case "text_tool_calls":
            return f"`{cast('Enum', value).value}`"
        case "POLICY_FAILS_OPEN":
            return "open" if value else "closed"
        case "allow_effects":
            effects = cast("frozenset[Effect]", value)
            return ", ".join(effect.value for effect in Effect if effect in effects)
        case _:
            return _written(name.lower(), value)


def _written(name: str, value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case Enum():
            return str(value.value)
        case None:
            return "none"
        case int() if name.endswith("_ms"):
            return span(value)
        case int() if name.endswith("_permille"):
            return f"{value / 1_000:g}"
        case int():
            return f"{value:,}"
        case _:
            raise TypeError(f"{name} is a {type(value).__name__}")


def span(milliseconds: int) -> str:
    """A time as a file writes it."""
    for unit, size in (("d", 24 * defaults.HOUR_MS), ("h", defaults.HOUR_MS), ("m", defaults.MINUTE_MS)):
        if milliseconds % size == 0 and (unit != "m" or milliseconds > size):
            return f"{milliseconds // size}{unit}"
    if milliseconds % defaults.SECOND_MS:
        return f"{milliseconds}ms"
    return f"{milliseconds // defaults.SECOND_MS}s"


def with_table(page: str) -> str:
    """The page with its table as it is now. Raises ValueError if a mark is missing."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no lines {BEGIN.strip()!r} and {END.strip()!r}")
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


def page() -> str:
    """The page as it has to be."""
    return with_table(PAGE.read_text(encoding="utf-8"))

"""Every default of a workflow that is the same in each preset, in one table; `presets` has the others.

Owns the numbers. A plan holds them resolved, so changing one here changes no run that has started.
Times are milliseconds.
"""

from jackline_server.core.approval_plans import OnExpiry
from jackline_server.core.gate_plans import ArgumentsView
from jackline_server.core.plan import (
    Completion,
    Effect,
    OnFailure,
    OnJudgeError,
    OnModelUnavailable,
    OnPauseMax,
)
from jackline_server.core.repetition_plans import RepeatBy
from jackline_server.core.supervisor_plans import OnSupervisorError, RuleAction, RuleStage

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS

# A pause that was as long as it may be.
ON_PAUSE_MAX = OnPauseMax.ABORT

# One visit of an agent.
MAX_PARALLEL = 8
LIMIT_EXPIRY_MS = 24 * HOUR_MS

# A completion has one turn; its requests leave room for the retries and one repair.
COMPLETION_MODEL_REQUESTS = 5

# A step whose models can't be reached; each fallback, and waiting, add so many requests to a visit's.
ON_MODEL_UNAVAILABLE = OnModelUnavailable.FAIL
FALLBACK_MODEL_REQUESTS = 4
WAIT_MODEL_REQUESTS = 128

# An answer.
COMPLETION = Completion.AUTO

# A function of a stop condition.
STOP_FUNCTION_TIMEOUT_MS = 5 * SECOND_MS

# The progress of an agent. It reflects and is grounded only where the file says so.
REPEAT_BY = RepeatBy.ARGS_RESULT
REFLECT_GUIDANCE = True
GROUND_THRESHOLD_PERMILLE = 650
GROUND_MAX_REPLANS = 2
GROUND_ON_ERROR = OnJudgeError.EXIT

# The conversation of an agent, in thousandths of its model's context window, and in tokens of results.
COMPACTION_AT_PERMILLE = 800
COMPACTION_TO_PERMILLE = 500
PRUNE_KEEP_TOKENS = 40_000
PRUNE_SAVE_TOKENS = 20_000

# A call that somebody has to let start.
APPROVAL_EXPIRY_MS = 24 * HOUR_MS
ON_APPROVAL_EXPIRY = OnExpiry.REJECT

# A tool.
EFFECT = Effect.WRITE
ON_TIMEOUT = OnFailure.OBSERVE
TOOL_RETRY_BASE_MS = SECOND_MS // 2
TOOL_RETRY_CAP_MS = 5 * SECOND_MS
UNKNOWN_EXPIRY_MS = 24 * HOUR_MS
HUMAN_EXPIRY_MS = 24 * HOUR_MS

# A model that is named by provider instead of by profile.
CONTEXT_WINDOW = 128_000
MAX_OUTPUT_TOKENS = 4_096
MODEL_RETRIES = 3
MODEL_RETRY_BASE_MS = 1_000
MODEL_RETRY_CAP_MS = 30_000

# A supervisor.
RULE_THEN = RuleAction.PAUSE
RULE_STAGE = RuleStage.AFTER_TURN
SUPERVISOR_EXPIRY_MS = 24 * HOUR_MS
JUDGE_EVERY = 1
JUDGE_ON_VIOLATION = RuleAction.PAUSE
JUDGE_ON_ERROR = OnSupervisorError.IGNORE
JUDGE_VIEW = ArgumentsView.METADATA
JUDGE_TIMEOUT_MS = 30 * SECOND_MS
JUDGE_BLOCKING = True

# The policy service that a workflow names.
POLICY_VIEW = ArgumentsView.METADATA
POLICY_TIMEOUT_MS = SECOND_MS
POLICY_FAILS_OPEN = False
ON_DENY = OnFailure.OBSERVE

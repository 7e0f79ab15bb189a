"""Calls that may start only if somebody lets them: what is shown of one, and when its word is given.

Owns the bytes that a decision is bound to: one JSON object of all that the call is given, its arguments, what
the workflow binds, and what the tool's step reads of the context. Their SHA-256 goes with the question and
with the decision. Does not own when somebody is asked (`calling.approvals`) or what a decision does
(`deciding.approving`).
"""

import hashlib
from collections.abc import Mapping

from jackline_server.core import json_text
from jackline_server.core.plan import JsonValue
from jackline_server.core.state import RunState, ToolCall

APPROVE = "approve"
EDIT = "edit_and_approve"
REJECT = "reject"
OPTIONS = (APPROVE, EDIT, REJECT)
"""What can be decided."""

NOBODY_DECIDED = "nobody decided in time"

VARIABLES = ("tool", "arguments", "input", "context")
"""What the condition of an approval may name."""

_BEGINS = "approval-"


def next_id(call: ToolCall) -> str:
    """The id of the question that is asked next about a call."""
    asked = 0 if call.verdict is None else call.verdict.asked
    return f"{_BEGINS}{call.ordinal}-{asked + 1}"


def shown(
    arguments: Mapping[str, JsonValue], bound: Mapping[str, JsonValue], own: Mapping[str, JsonValue]
) -> str:
    """All that a call is given: what is bound comes before what is written, and that before the context."""
    return json_text.write({**own, **arguments, **bound})


def digest_of(shown_json: str) -> str:
    """What a decision about these bytes carries."""
    return hashlib.sha256(shown_json.encode()).hexdigest()


def is_granted(state: RunState, call: ToolCall, digest: str) -> bool:
    """True if the call may start with what has that digest.

    What was let start in the run that this one was forked from was let start there.
    """
    verdict, origin = call.verdict, state.started.forked_from
    if verdict is None or verdict.approved != digest:
        return False
    return origin is None or verdict.sequence > origin.sequence

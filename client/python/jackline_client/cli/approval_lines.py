"""What stands around a question: of a call that waits to be approved all that it is given, and its digest.

Nothing is left out and nothing invisible stays so: what is approved is what is read here. Owns what is about
the question; its words are those of `questions`, the commands those of `wording`.
"""

import json
from collections.abc import Iterator

from jackline.v1.event_pb2 import InterruptRaised
from jackline.v1.run_pb2 import ApprovalExpiry, Interrupt, InterruptKind
from jackline_client.cli.printable import printable_lines
from jackline_client.cli.wording import arguments, enum_word, short, stamp

_MOST_CHARACTERS, _MOST_LINES = 1_000_000, 20_000
MEANS = {
    ApprovalExpiry.APPROVAL_EXPIRY_REJECT: "then it is rejected",
    ApprovalExpiry.APPROVAL_EXPIRY_APPROVE: "then it is made",
    ApprovalExpiry.APPROVAL_EXPIRY_NEEDS_REVIEW: "then the step ends for review",
}
"""What follows if nobody decides about a call in time."""
_OF_A_KIND = {
    InterruptKind.INTERRUPT_KIND_UNKNOWN_OUTCOME: "then the step ends for review",
    InterruptKind.INTERRUPT_KIND_SUPERVISION: "then the step ends for review",
    InterruptKind.INTERRUPT_KIND_LIMIT_REACHED: "then the step ends with what there is",
}


def decided_lines(asked: Interrupt | InterruptRaised, arguments_json: bytes) -> Iterator[str]:
    """What the call is given, a line a value, and its digest; nothing for any other question."""
    if not asked.arguments_digest:
        return
    yield from printable_lines(_spread(arguments_json), limit=_MOST_CHARACTERS, lines=_MOST_LINES)
    yield f"sha256 {asked.arguments_digest}"


def after_expiry(asked: Interrupt | InterruptRaised) -> str:
    """What follows if nobody decides in time, after a comma; empty where only the workflow says."""
    means = MEANS.get(asked.on_expiry) or _OF_A_KIND.get(asked.kind)
    if asked.on_expiry and means is None:
        means = enum_word(ApprovalExpiry.Name, asked.on_expiry, "")
    return f", {means}" if means else ""


def around_lines(asked: Interrupt) -> Iterator[str]:
    """Who started the run, the call it is about, and until when there is time."""
    if asked.started_by:
        yield f"the run was started by {short(asked.started_by)}"
    if asked.tool and not asked.arguments_digest:
        yield f"about {short(asked.tool)}({arguments(asked.arguments_json)})"
    if asked.HasField("expires_at"):
        yield f"until {stamp(asked.expires_at)} UTC{after_expiry(asked)}"


def _spread(arguments_json: bytes) -> str:
    text = arguments_json.decode("utf-8", "replace")
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return text

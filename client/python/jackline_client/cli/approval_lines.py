"""A call that waits to be approved, in lines for whoever decides: all that it is given, and its digest.

Nothing is left out and nothing invisible stays so: what is approved is what is read here.
"""

import json
from collections.abc import Iterator

from jackline.v1.event_pb2 import InterruptRaised
from jackline.v1.run_pb2 import ApprovalExpiry, Interrupt
from jackline_client.cli.printable import printable_lines
from jackline_client.cli.wording import enum_word

_MOST_CHARACTERS, _MOST_LINES = 1_000_000, 20_000
_MEANS = {
    ApprovalExpiry.APPROVAL_EXPIRY_REJECT: "then it is rejected",
    ApprovalExpiry.APPROVAL_EXPIRY_APPROVE: "then it is made",
    ApprovalExpiry.APPROVAL_EXPIRY_NEEDS_REVIEW: "then the step ends for review",
}


def decided_lines(asked: Interrupt | InterruptRaised, arguments_json: bytes) -> Iterator[str]:
    """What the call is given, a line a value, and its digest; nothing for any other question."""
    if not asked.arguments_digest:
        return
    yield from printable_lines(_spread(arguments_json), limit=_MOST_CHARACTERS, lines=_MOST_LINES)
    yield f"sha256 {asked.arguments_digest}"


def after_expiry(asked: Interrupt | InterruptRaised) -> str:
    """What follows if nobody decides in time, after a comma; empty for any other question."""
    if not asked.on_expiry:
        return ""
    return f", {_MEANS.get(asked.on_expiry) or enum_word(ApprovalExpiry.Name, asked.on_expiry, '')}"


def _spread(arguments_json: bytes) -> str:
    text = arguments_json.decode("utf-8", "replace")
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return text

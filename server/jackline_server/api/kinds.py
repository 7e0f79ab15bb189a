"""The kinds of events that a watcher may ask for: the members of `StepEvent.fact`, by name."""

import difflib
from collections.abc import Iterable

from jackline.v1 import event_pb2
from jackline_server.api.checks import Checks

KINDS = frozenset(field.name for field in event_pb2.StepEvent.DESCRIPTOR.oneofs_by_name["fact"].fields)
"""All that this version knows."""

_LONGEST = 64

LAST = "run_finished"
"""The kind that is never left out: a stream ends after it, and its watcher has to see why."""


def check_kinds(checks: Checks, field: str, kinds: Iterable[str]) -> None:
    """Note every kind that this version does not know."""
    for index, kind in enumerate(kinds):
        if kind not in KINDS:
            near = difflib.get_close_matches(kind[:_LONGEST], sorted(KINDS), n=1)
            hint = f"the nearest is `{near[0]}`" if near else f"there are {', '.join(sorted(KINDS))}"
            words = f"no kind of event, which is the name of a member of StepEvent.fact; {hint}"
            checks.fail(f"{field}[{index}]", words, "UNKNOWN_VALUE")


def wanted_kinds(kinds: Iterable[str]) -> frozenset[str] | None:
    """What to send; None for everything."""
    asked = frozenset(kinds)
    return asked | {LAST} if asked else None

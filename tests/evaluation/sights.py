"""Runs as they are seen, and cases as texts, for the tests of evaluation."""

import textwrap
from pathlib import Path

from jackline_server.commands.evaluation.cases import CasesRefused, Suite, parse_cases
from jackline_server.commands.evaluation.sight import Call, Sight, Used
from jackline_server.core.frozen import change

RUN = "run_01hzy3v9q4n8xk2m5t7w6r0abc"
SEEN = Sight(
    run_id=RUN,
    workflow="parcels",
    state="succeeded",
    exit="claim",
    stop_reason="outcome",
    error="",
    steps={"handle": "claim", "confirm": "pay"},
    input={"parcel": "P-1"},
    result={"reply": "It comes Today.", "amount": 25, "items": [1, 2], "open": True},
    calls=(
        Call(tool="lookup", status="completed", arguments={"parcel": "P-1", "deep": {"a": 1, "b": 2}}),
        Call(tool="lookup", status="failed", arguments={"parcel": "P-2"}),
        Call(tool="pay", status="completed", arguments={"amount": 25}),
    ),
    used=Used(tokens=1_000, cost_micros=2_000, iterations=3, tool_calls=3, active_ms=1_500),
)

__all__ = ["RUN", "SEEN", "change", "findings", "suite"]


def suite(text: str, folder: Path = Path()) -> Suite:
    return parse_cases(textwrap.dedent(text), path=folder / "cases.yaml")


def findings(text: str, folder: Path = Path()) -> list[tuple[int, int, str]]:
    """Where each error of a file of cases stands, and its code."""
    try:
        suite(text, folder)
    except CasesRefused as refused:
        return [(one.line, one.column, one.code) for one in refused.findings]
    return []

"""The exits: which exist, where each may lead, and what each means for the run."""

from collections.abc import Mapping

import pytest

from jackline_server.core import exits
from jackline_server.core.facts import Phase, StopReason
from jackline_server.core.plan import END, RESERVED_EXITS, RESERVED_SIGNALS
from jackline_server.testing import plans

PHASES = {
    "resolved": Phase.SUCCEEDED,
    "default": Phase.SUCCEEDED,
    "stopped": Phase.SUCCEEDED,
    "max_iterations": Phase.EXHAUSTED,
    "budget_exceeded": Phase.EXHAUSTED,
    "time_exceeded": Phase.EXHAUSTED,
    "tool_loop": Phase.EXHAUSTED,
    "invalid_output": Phase.FAILED,
    "grounding_failed": Phase.FAILED,
    "guardrail_violation": Phase.FAILED,
    "error": Phase.FAILED,
    "needs_review": Phase.NEEDS_REVIEW,
    "aborted": Phase.ABORTED,
}

REASONS = {
    "stopped": {StopReason.STOP_CONDITION},
    "max_iterations": {StopReason.MAX_ITERATIONS},
    "budget_exceeded": {
        StopReason.TOKEN_BUDGET,
        StopReason.COST_BUDGET,
        StopReason.REQUEST_BUDGET,
        StopReason.TOOL_CALL_BUDGET,
        StopReason.STEP_BUDGET,
    },
    "time_exceeded": {StopReason.TIME_BUDGET, StopReason.DEADLINE},
    "tool_loop": {StopReason.TOOL_LOOP},
    "grounding_failed": {StopReason.GROUNDING_FAILED},
    "guardrail_violation": {StopReason.GUARDRAIL, StopReason.POLICY_DENIED},
    "invalid_output": {StopReason.INVALID_OUTPUT, StopReason.NO_TOOL_SUCCEEDED},
    "needs_review": {StopReason.REVIEW, StopReason.UNKNOWN_OUTCOME},
    "error": {
        StopReason.MODEL_ERROR,
        StopReason.TOOL_ERROR,
        StopReason.HOOK_VETO,
        StopReason.CRASH_LOOP,
        StopReason.DATA_LOSS,
        StopReason.INTERNAL,
    },
    "aborted": {
        StopReason.OPERATOR,
        StopReason.KILL_SWITCH,
        StopReason.PARENT,
        StopReason.REPLACED,
        StopReason.PAUSE_EXPIRED,
        StopReason.CLIENT_GONE,
        StopReason.SUPERVISOR,
        StopReason.JUDGE,
    },
}

EVERYWHERE = {"error": "mender", "*": "anything"}
FALLS_BACK_TO = {
    "stopped": "anything",
    "max_iterations": "mender",
    "budget_exceeded": "mender",
    "time_exceeded": "mender",
    "tool_loop": "mender",
    "invalid_output": "mender",
    "grounding_failed": "mender",
    "guardrail_violation": "mender",
    "error": "mender",
    "needs_review": "anything",
    "aborted": "",
    "default": "anything",
    "resolved": "anything",
}


def target(signal: str, routes: Mapping[str, str], *, next_step: str = "") -> str:
    return exits.next_step(plans.agent(routes=routes, next_step=next_step), signal)


@pytest.mark.parametrize(("signal", "phase"), PHASES.items())
def test_each_exit_ends_a_run_in_its_own_state(signal: str, phase: Phase) -> None:
    assert exits.phase_of(signal) is phase


def test_the_reserved_exits_are_those_of_the_table_and_no_others() -> None:
    assert set(RESERVED_EXITS) == set(PHASES) - {"resolved", "default"}
    assert all(exits.is_reserved(signal) for signal in RESERVED_EXITS)
    assert set(RESERVED_SIGNALS) == {*RESERVED_EXITS, "default", "end", "running"}
    assert not exits.is_reserved("default")
    assert not exits.is_reserved("resolved")


@pytest.mark.parametrize(
    ("signal", "reason"),
    [
        (signal, reason)
        for signal, found in REASONS.items()
        for reason in sorted(found, key=lambda r: r.value)
    ],
)
def test_each_reason_belongs_to_one_exit(signal: str, reason: StopReason) -> None:
    assert exits.abnormal(reason, leaf="", error="").signal == signal


def test_every_reason_but_those_of_an_answer_has_an_exit() -> None:
    listed = {reason for found in REASONS.values() for reason in found}
    assert listed | {StopReason.OUTCOME, StopReason.DEFAULT, StopReason.FINISH_TOOL} == set(StopReason)


@pytest.mark.parametrize("signal", PHASES)
def test_a_route_of_its_own_name_comes_first(signal: str) -> None:
    assert target(signal, {**EVERYWHERE, signal: "own"}, next_step="spine") == "own"


@pytest.mark.parametrize(("signal", "expected"), FALLS_BACK_TO.items())
def test_an_unrouted_exit_falls_back_to_error_for_failures_and_then_to_any(
    signal: str, expected: str
) -> None:
    assert target(signal, EVERYWHERE) == expected


@pytest.mark.parametrize("signal", PHASES)
def test_an_exit_without_any_route_ends_the_run(signal: str) -> None:
    assert target(signal, {}) == ""


@pytest.mark.parametrize("signal", PHASES)
def test_a_route_to_end_ends_the_run(signal: str) -> None:
    assert target(signal, {signal: END, "*": "anything"}, next_step="spine") == ""


def test_an_unrouted_default_goes_along_the_spine_before_any() -> None:
    assert target("default", EVERYWHERE, next_step="spine") == "spine"


@pytest.mark.parametrize("signal", sorted(set(PHASES) - {"default"}))
def test_nothing_but_default_goes_along_the_spine(signal: str) -> None:
    assert target(signal, {}, next_step="spine") == ""

"""A run that was paused or lost its worker is the same run: what it said, did and came to does not tell.

Bounds are wide here, and what differs by design is left out: a call that a crash cut off is charged and made
again, so budgets, attempts and questions about writes see it. Everything else must not.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jackline_server.core.commands import Action, Answer, Pause, Resume
from jackline_server.core.facts import (
    CallStatus,
    CommandApplied,
    CommandRejected,
    Fact,
    InterruptRaised,
    ModelCallFailed,
    ModelCallStarted,
    ModelReplied,
    Paused,
    Resumed,
    RunRecovered,
    ToolCallFinished,
    ToolCallStarted,
)
from jackline_server.core.frozen import change
from jackline_server.core.messages import Message
from jackline_server.core.plan import ModelStep, OnUnknown, Plan, ToolStep
from jackline_server.core.steps import ToolAttempt
from jackline_server.testing import plans
from jackline_server.testing.driving import Driver, Ends, Reply, Says, Scenario, then_for_ever
from jackline_server.testing.instruments import instruments
from tests.core.scripts import ASKS, SAYS, an_answer, tiny_plans

ERASED = (
    RunRecovered,
    Paused,
    Resumed,
    CommandApplied,
    CommandRejected,
    ModelCallStarted,
    ModelCallFailed,
    ToolCallStarted,
)
"""Facts of taking a run over and holding it, and of attempts. Nothing that a run comes to is among them; the
end of an attempt that nobody knows the outcome of is erased too."""

MOST_COMMITS = 25
INSTRUMENTS = instruments()
REPLIES: st.SearchStrategy[list[Reply]] = st.lists(ASKS | ASKS | SAYS, min_size=1, max_size=6)
ENDS = st.lists(
    st.sampled_from(
        [
            Ends(output={"n": 1}),
            Ends(output="x" * 9_000, takes_ms=1),
            Ends(status=CallStatus.FAILED, error="no"),
        ]
    ),
    min_size=1,
    max_size=4,
)
SLOW = [HealthCheck.too_slow]
"""A busy machine draws examples slowly; that is no fault of theirs."""


@dataclass(frozen=True, slots=True)
class SameEndings:
    """A call ends the same way at each attempt, as a service that honours its key does."""

    ends: tuple[Ends, ...]

    def __call__(self, attempt: ToolAttempt) -> Ends:
        ordinal = int(attempt.started.call_key.rsplit(".", 1)[1])
        return self.ends[ordinal % len(self.ends)]


def roomy(plan: Plan) -> Plan:
    """The plan with nothing in it that counts attempts, tokens or time, or asks anew about an attempt."""
    steps = {name: _roomy_step(step) for name, step in plan.steps.items()}
    return replace(plan, steps=steps, bounds=plans.run_bounds())


def _roomy_step(step: object) -> ModelStep | ToolStep:
    if isinstance(step, ModelStep):
        tools = tuple(change(tool, max_calls=None, approval=None) for tool in step.tools)
        bounds = plans.step_bounds(max_iterations=6, model_requests=1_000, tool_calls=1_000)
        return change(step, tools=tools, bounds=bounds, stop_when=None, supervisor=None)
    assert isinstance(step, ToolStep)
    return change(step, on_unknown=OnUnknown.RETRY, approval=None)


def run(
    plan: Plan,
    replies: list[Reply],
    ends: list[Ends],
    *,
    crash_after: frozenset[int] = frozenset(),
    sent: Mapping[int, Action] | None = None,
) -> Driver:
    tools = {name: SameEndings(tuple(ends)) for name in plan.steps}
    driver = Driver(
        Scenario(
            plan=plan,
            replies=then_for_ever(replies, Says(text="done")),
            tools=tools,
            crash_after=crash_after,
            sent=sent or {},
            instruments=INSTRUMENTS,
            consultants=an_answer,
        )
    )
    driver.run()
    while driver.state.finished is None:
        questions = list(driver.state.oversight.interrupts.values())
        if driver.state.oversight.paused:
            driver.send(Resume())
        else:
            asked = questions[0]
            option = asked.options[-1 if driver.state.oversight.decided else 0]
            driver.send(Answer(interrupt_id=asked.interrupt_id, option=option, text=""))
        driver.run()
    return driver


def told(driver: Driver) -> list[Fact]:
    """The log without what is erased, the count that charges for lost attempts, and times of day."""
    return [
        _timeless(fact)
        for fact in driver.facts
        if not isinstance(fact, ERASED) and not _is_attempts_end(fact)
    ]


def _timeless(fact: Fact) -> Fact:
    match fact:
        case ModelReplied():
            return change(fact, tokens_used=0)
        case InterruptRaised():
            return change(fact, expires_unix_ms=None)
        case _:
            return fact


def _is_attempts_end(fact: Fact) -> bool:
    return isinstance(fact, ToolCallFinished) and fact.status is CallStatus.UNKNOWN


def asked(driver: Driver) -> list[tuple[Message, ...]]:
    """What the model was shown; a call that was cut off before it was made is none."""
    return [call.messages for call in driver.model_calls]


def effects(driver: Driver) -> list[tuple[str, str, str, CallStatus, str | None, str]]:
    return [
        (call.call_id, call.name, call.arguments, call.status, call.output_json, call.error)
        for call in driver.state.calls.values()
    ]


def check_same(one: Driver, other: Driver) -> None:
    assert told(other) == told(one)
    assert asked(other) == asked(one)
    assert effects(other) == effects(one)
    assert other.finished == one.finished


@given(tiny_plans().map(roomy), REPLIES, ENDS)
@settings(max_examples=25, deadline=None, suppress_health_check=SLOW)
def test_a_run_that_lost_its_worker_after_any_commit_is_the_same_run(
    plan: Plan, replies: list[Reply], ends: list[Ends]
) -> None:
    whole = run(plan, replies, ends)
    for commit in range(1, min(len(whole.commits), MOST_COMMITS)):
        check_same(whole, run(plan, replies, ends, crash_after=frozenset({commit})))


@given(tiny_plans().map(roomy), REPLIES, ENDS)
@settings(max_examples=25, deadline=None, suppress_health_check=SLOW)
def test_a_run_that_was_paused_at_any_boundary_is_the_same_run(
    plan: Plan, replies: list[Reply], ends: list[Ends]
) -> None:
    whole = run(plan, replies, ends)
    for boundary in range(min(len(whole.commits), MOST_COMMITS)):
        check_same(whole, run(plan, replies, ends, sent={boundary: Pause()}))

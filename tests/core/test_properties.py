"""What holds for every run, whatever the model says, the tools do, people send, and wherever a worker dies.

Proves B1, S1, S2 and C1 in the core.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from random import Random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jackline_server.core.commands import Action, Resume
from jackline_server.core.decide import decide
from jackline_server.core.errors import CorruptLog
from jackline_server.core.evolve import begin, evolve, replay
from jackline_server.core.facts import (
    BoundsAdjusted,
    CallStatus,
    CommandApplied,
    CommandKind,
    CommandRejected,
    InterruptResolved,
    ModelCallFailed,
    ModelCallStarted,
    ModelReplied,
    Purpose,
    RunFinished,
    RunRecovered,
    RunStarted,
    StepFinished,
    StepStarted,
    ToolCallStarted,
)
from jackline_server.core.frozen import change
from jackline_server.core.messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from jackline_server.core.plan import (
    BoundsCap,
    Effect,
    HumanAction,
    ModelStep,
    OnUnknown,
    Plan,
    StepPlan,
    ToolStep,
)
from jackline_server.core.reading import transcript
from jackline_server.core.reading.hygiene import mended
from jackline_server.core.state import RunState, bounds_of
from jackline_server.testing.driving import Driver, Reply, Says, Scenario, ToolScript, then_for_ever
from jackline_server.testing.instruments import instruments
from tests.core import people
from tests.core.scripts import ASKS, REPLIES, SENT, TOOLBOXES, TOOLS, an_answer, tiny_plans

INSTRUMENTS = instruments()
SLOW = [HealthCheck.too_slow]
"""A busy machine draws examples slowly; that is no fault of theirs."""
COMMITS = st.integers(1, 40)
Toolbox = Mapping[str, ToolScript]


def run(
    plan: Plan,
    replies: list[Reply],
    tools: Toolbox,
    *,
    sent: Mapping[int, Action] | None = None,
    crash_after: frozenset[int] = frozenset(),
) -> Driver:
    """Drive to the end: what waits for a person is resumed, answered or left to expire."""
    scenario = Scenario(
        plan=plan,
        replies=then_for_ever(replies, Says(text="done")),
        tools=tools,
        sent=sent or {},
        crash_after=crash_after,
        instruments=INSTRUMENTS,
        consultants=an_answer,
        believes_usage=False,
    )
    driver = Driver(scenario)
    for _ in range(300):
        driver.run()
        if driver.state.finished is not None:
            return driver
        if driver.state.oversight.paused:
            end_pause(driver)
        else:
            decide_question(driver)
    raise AssertionError("the run never ended")


def end_pause(driver: Driver) -> None:
    """Somebody resumes the run, or its pause is over where it has an end."""
    if driver.state.sequence % 2 and driver.state.plan.pause is not None:
        driver.pass_time(unix_ms=10**9)
    else:
        driver.send(Resume())


def decide_question(driver: Driver) -> None:
    """Answer the first open question, each time another way, or let it expire."""
    (interrupt_id, interrupt), *_ = driver.state.oversight.interrupts.items()
    people.decide(driver, interrupt_id, interrupt)


# --- what is checked ---------------------------------------------------------------------------


def check_whole(driver: Driver) -> None:
    """Everything that holds for any run that has ended."""
    check_log(driver)
    people.check_questions(driver)
    check_bounds(driver)
    check_steps(driver)
    check_conversations(driver)
    for call in driver.model_calls:
        check_paired(call.messages)
        assert not mended(call.messages).repairs


def check_log(driver: Driver) -> None:
    ends = [place for place, fact in enumerate(driver.facts) if isinstance(fact, RunFinished)]
    assert ends == [len(driver.facts) - 1]
    assert driver.replayed() == driver.state
    settled = (CallStatus.REQUESTED, CallStatus.STARTED)
    assert all(call.status not in settled for call in driver.state.calls.values())
    commands = [
        fact.command_id for fact in driver.facts if isinstance(fact, CommandApplied | CommandRejected)
    ]
    assert len(commands) == len(set(commands))
    assert driver.state.ledger.reserved_tokens == 0
    assert driver.state.ledger.reserved_cost_micros == 0


def check_conversations(driver: Driver) -> None:
    """What the state keeps of a conversation is what it would be if it were made anew from its opening."""
    (first, active_ms), *later = driver.log
    assert isinstance(first, RunStarted)
    state = begin(driver.state.run_id, driver.state.plan, first, active_ms=active_ms)
    opening = None
    for fact, at in later:
        if isinstance(fact, ModelCallStarted):
            visit, step = state.visit, state.plan.step(fact_step(state))
            assert visit is not None
            assert isinstance(step, ModelStep)
            kept = transcript.prompt(state, visit, step)
            assert kept == transcript.rebuilt(state, visit, step)
            if not (visit.history.kept_from or visit.history.pruned_to):
                assert kept == transcript.prompt(state, change(visit, prompt=opening), step)
        state = evolve(state, fact, active_ms=at)
        if isinstance(fact, StepStarted) and state.visit is not None:
            opening = state.visit.prompt


def fact_step(state: RunState) -> str:
    return "" if state.visit is None else state.visit.step_id


def check_steps(driver: Driver) -> None:
    """Steps open and close in turn."""
    marks = [type(fact) for fact in driver.facts if isinstance(fact, StepStarted | StepFinished)]
    assert marks == [StepStarted, StepFinished] * (len(marks) // 2)


def check_bounds(driver: Driver) -> None:
    """Every call fits at the moment it is announced; only what it really used can go over."""
    plan = driver.state.plan
    check_tools_caps(driver)
    for place, (fact, _) in enumerate(driver.log):
        match fact:
            case ModelCallStarted():
                state = replay_until(driver, place)
                assert state.sequence <= state.bounds.events + 5
                check_reserved(state, plan, fact)
            case ToolCallStarted() if (state := replay_until(driver, place)).visit is not None:
                check_tool_calls(state, plan, fact)
            case StepStarted():
                state = replay_until(driver, place)
                assert state.ledger.steps + 1 <= state.bounds.steps
            case ModelReplied() | ModelCallFailed():
                check_charged(replay_until(driver, place + 1), replay_until(driver, place))
            case BoundsAdjusted():
                check_adjusted(replay_until(driver, place + 1), replay_until(driver, place))
            case _:
                pass


def check_tool_calls(before: RunState, plan: Plan, fact: ToolCallStarted) -> None:
    """Each attempt counts, but that a question which is put into words anew after a crash is one call."""
    visit = before.visit
    assert visit is not None
    step, tool = plan.step(visit.step_id), plan.steps.get(fact.tool)
    again = fact.attempt > 1 and is_question(tool)
    if isinstance(step, ModelStep):
        counted = visit.ledger.tool_calls + (0 if again else 1)
        assert counted <= bounds_of(visit, step).tool_calls


def is_question(tool: StepPlan | None) -> bool:
    return isinstance(tool, ToolStep) and isinstance(tool.action, HumanAction)


def check_charged(after: RunState, before: RunState) -> None:
    """Whatever a provider reports, a budget is passed by no more than the one call that was reserved."""
    visit = before.visit
    assert visit is not None
    assert visit.model_call is not None
    call = visit.model_call.started
    scopes = [(after.ledger, after.bounds.token_budget, after.bounds.cost_budget_micros)]
    step = after.plan.step(visit.step_id)
    if after.visit is not None and isinstance(step, ModelStep):
        own = bounds_of(after.visit, step)
        scopes.append((after.visit.ledger, own.token_budget, own.cost_budget_micros))
    for ledger, tokens, cost in scopes:
        assert tokens is None or ledger.tokens_held <= tokens + call.reserved_tokens
        assert cost is None or ledger.cost_held <= cost + call.reserved_cost_micros


def check_adjusted(after: RunState, before: RunState) -> None:
    """Nothing is above the plan's cap but what was there before, and nothing below what is spent."""
    most = after.plan.bounds_cap or BoundsCap()
    ledger = after.ledger
    for now, old, cap, spent in (
        (after.bounds.token_budget, before.bounds.token_budget, most.token_budget, ledger.tokens_held),
        (after.bounds.steps, before.bounds.steps, most.steps, ledger.steps),
    ):
        if now != old and now is not None:
            assert spent <= now
            assert cap is None or now <= cap
    visit = after.visit
    step = None if visit is None else after.plan.step(visit.step_id)
    if visit is not None and isinstance(step, ModelStep) and visit.adjusted is not None:
        for name in ("max_iterations", "model_requests", "tool_calls"):
            now, cap = getattr(visit.adjusted, name), getattr(most, name)
            assert cap is None or now <= max(cap, getattr(step.bounds, name))


def replay_until(driver: Driver, place: int) -> RunState:
    return replay(driver.state.run_id, driver.state.plan, driver.log[:place])


def check_reserved(before: RunState, plan: Plan, fact: ModelCallStarted) -> None:
    visit = before.visit
    assert visit is not None
    step = plan.step(visit.step_id)
    assert isinstance(step, ModelStep)
    own = bounds_of(visit, step)
    if fact.purpose is Purpose.TURN:
        assert visit.ledger.iterations + 1 <= own.max_iterations
    assert visit.ledger.model_requests + 1 <= own.model_requests
    scopes = (
        (before.ledger, before.bounds.token_budget, before.bounds.cost_budget_micros),
        (visit.ledger, own.token_budget, own.cost_budget_micros),
    )
    for ledger, tokens, cost in scopes:
        assert tokens is None or ledger.tokens_held + fact.reserved_tokens <= tokens
        assert cost is None or ledger.cost_held + fact.reserved_cost_micros <= cost


def check_tools_caps(driver: Driver) -> None:
    for summary in driver.state.summaries:
        step = driver.state.plan.step(summary.step_id)
        if isinstance(step, ModelStep):
            check_own_caps(driver, step, visit=summary.visit)


def check_own_caps(driver: Driver, step: ModelStep, *, visit: int) -> None:
    spent = Counter[str]()
    for call in driver.state.calls.values():
        if call.step_id == step.step_id and call.visit == visit:
            again = is_question(driver.state.plan.steps.get(call.tool))
            spent[call.tool] += min(call.attempts, 1) if again else call.attempts
    for tool in step.tools:
        assert tool.max_calls is None or spent[tool.ref] <= tool.max_calls


def check_paired(messages: Sequence[Message]) -> None:
    """Each assistant message with calls is followed by exactly its results, in order; no result is alone."""
    assert isinstance(messages[0], SystemMessage)
    assert isinstance(messages[1], UserMessage)
    expected: list[tuple[str, str]] = []
    seen: set[str] = set()
    for message in messages[1:]:
        assert not isinstance(message, SystemMessage)
        if isinstance(message, ToolMessage):
            assert expected
            assert (message.call_id, message.name) == expected.pop(0)
            continue
        assert not expected
        if isinstance(message, AssistantMessage):
            assert message.calls or message.text.strip()
            expected = [(call.call_id, call.name) for call in message.calls]
            assert not seen & {call_id for call_id, _ in expected}
            seen |= {call_id for call_id, _ in expected}
    assert not expected


# --- properties --------------------------------------------------------------------------------


@given(tiny_plans(), REPLIES, TOOLBOXES)
@settings(max_examples=150, deadline=None, suppress_health_check=SLOW)
def test_any_script_ends_inside_its_bounds_with_a_whole_conversation(
    plan: Plan, replies: list[Reply], tools: Toolbox
) -> None:
    check_whole(run(plan, replies, tools))


@given(tiny_plans(), REPLIES, TOOLBOXES, SENT)
@settings(max_examples=150, deadline=None, suppress_health_check=SLOW)
def test_commands_at_any_boundary_change_neither_bounds_nor_pairs(
    plan: Plan, replies: list[Reply], tools: Toolbox, sent: Mapping[int, Action]
) -> None:
    driver = run(plan, replies, tools, sent=sent)
    check_whole(driver)
    check_aborted(driver)


def check_aborted(driver: Driver) -> None:
    """After an abort no model is asked, and a tool runs only on the cleanup path."""
    aborts = [
        place
        for place, fact in enumerate(driver.facts)
        if isinstance(fact, CommandApplied) and fact.kind is CommandKind.ABORT
    ]
    if not aborts:
        return
    after = driver.facts[aborts[0] :]
    assert driver.finished.signal == "aborted"
    assert not any(isinstance(fact, ModelCallStarted) for fact in after)
    assert sum(isinstance(fact, StepStarted) for fact in after) <= 4
    assert all(fact.tool == "mend" for fact in after if isinstance(fact, ToolCallStarted))


@given(tiny_plans(), REPLIES, TOOLBOXES, SENT, st.frozensets(COMMITS, max_size=6))
@settings(max_examples=200, deadline=None, suppress_health_check=SLOW)
def test_crashes_at_any_commits_lift_no_bound_and_repeat_no_write_without_leave(
    plan: Plan, replies: list[Reply], tools: Toolbox, sent: Mapping[int, Action], crashes: frozenset[int]
) -> None:
    driver = run(plan, replies, tools, sent=sent, crash_after=crashes)
    check_whole(driver)
    check_writes(driver)


def check_writes(driver: Driver) -> None:
    """A write is started once, but for each leave to retry: by policy, or by a person."""
    started = Counter[str]()
    leaves = Counter[str]()
    for fact in driver.facts:
        match fact:
            case ToolCallStarted() if fact.effect is Effect.WRITE:
                started[fact.call_id] += 1
            case InterruptResolved(option="retry"):
                ordinal = int(fact.interrupt_id.split("-")[1])
                leaves.update(call.call_id for call in driver.state.calls.values() if call.ordinal == ordinal)
            case _:
                pass
    for call_id, times in started.items():
        step = driver.state.plan.step(driver.state.calls[call_id].tool)
        assert isinstance(step, ToolStep)
        if step.on_unknown is not OnUnknown.RETRY:
            assert times <= 1 + leaves[call_id]


@given(tiny_plans(), REPLIES, TOOLBOXES)
@settings(max_examples=25, deadline=None, suppress_health_check=SLOW)
def test_a_run_crashed_at_every_commit_in_turn_ends_each_time(
    plan: Plan, replies: list[Reply], tools: Toolbox
) -> None:
    commits = len(run(plan, replies, tools).commits)
    for commit in range(1, min(commits, 30)):
        driver = run(plan, replies, tools, crash_after=frozenset({commit}))
        check_whole(driver)
        check_writes(driver)
        assert sum(isinstance(fact, RunRecovered) for fact in driver.facts) <= 1


@given(tiny_plans(), REPLIES, TOOLBOXES)
@settings(max_examples=50, deadline=None, suppress_health_check=SLOW)
def test_a_run_that_crashes_after_every_commit_ends(plan: Plan, replies: list[Reply], tools: Toolbox) -> None:
    driver = run(plan, replies, tools, crash_after=frozenset(range(1, 10_000)))
    check_whole(driver)
    check_writes(driver)


@given(tiny_plans(), REPLIES, TOOLBOXES, SENT)
@settings(max_examples=50, deadline=None, suppress_health_check=SLOW)
def test_the_same_state_and_moment_always_give_the_same_step(
    plan: Plan, replies: list[Reply], tools: Toolbox, sent: Mapping[int, Action]
) -> None:
    driver = run(plan, replies, tools, sent=sent)
    others = instruments()
    for place in range(1, len(driver.log)):
        state = replay_until(driver, place)
        now = driver.now
        assert decide(state, now=now, instruments=INSTRUMENTS) == decide(
            replay_until(driver, place), now=now, instruments=others
        )


@given(tiny_plans(), REPLIES, REPLIES, TOOLBOXES, SENT, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None, suppress_health_check=SLOW)
def test_a_fact_of_another_run_is_taken_or_refused_as_corrupt_and_nothing_else(
    plan: Plan,
    replies: list[Reply],
    others: list[Reply],
    tools: Toolbox,
    sent: Mapping[int, Action],
    chance: Random,
) -> None:
    one, other = run(plan, replies, tools, sent=sent), run(plan, others, tools)
    for _ in range(200):
        state = replay_until(one, chance.randrange(1, len(one.log) + 1))
        fact, active_ms = chance.choice(other.log)
        with suppress(CorruptLog):
            assert isinstance(evolve(state, fact, active_ms=active_ms), RunState)


@given(tiny_plans(), REPLIES, TOOLBOXES, SENT)
@settings(max_examples=50, deadline=None, suppress_health_check=SLOW)
def test_the_same_script_gives_the_same_log(
    plan: Plan, replies: list[Reply], tools: Toolbox, sent: Mapping[int, Action]
) -> None:
    assert run(plan, replies, tools, sent=sent).log == run(plan, replies, tools, sent=sent).log


def test_the_people_of_these_scripts_decide_in_every_way() -> None:
    """Else what holds for their answers would say little."""
    found = {step: set[str]() for step in (*people.PEOPLE, *TOOLS)}

    @given(tiny_plans(), st.lists(ASKS, min_size=2, max_size=4), TOOLBOXES)
    @settings(max_examples=500, deadline=None, suppress_health_check=SLOW, derandomize=True, database=None)
    def explore(plan: Plan, replies: list[Reply], tools: Toolbox) -> None:
        for step, options in people.decided(run(people.guarded(plan), replies, tools)).items():
            found.get(step, set[str]()).update(options)

    explore()
    assert {"approve", "reject", ""} <= found[people.PERMIT]
    assert {"accept", "decline"} <= set[str]().union(*(found[name] for name in people.ASKING))
    calls = set[str]().union(*(found[name] for name in TOOLS))
    assert {"approve", "edit_and_approve", "reject", ""} <= calls

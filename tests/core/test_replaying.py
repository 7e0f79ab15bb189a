"""A recorded log is decided again: the same plan decides the same, another one differs where it has to."""

from collections.abc import Iterator

import pytest

from jackline_server.core.commands import Abort, Pause, Resume, Steer
from jackline_server.core.errors import CorruptLog
from jackline_server.core.evolve import evolve
from jackline_server.core.facts import (
    AbortMode,
    Fact,
    FailureClass,
    ForkOrigin,
    ModelCallStarted,
    RecoveryCause,
    RunFinished,
    RunRecovered,
    RunStarted,
    StepFinished,
    StepStarted,
    StopReason,
    ToolCallStarted,
)
from jackline_server.core.frozen import change
from jackline_server.core.plan import (
    ChoiceMode,
    Effect,
    ModelStep,
    Plan,
    PromptSection,
    TextToolCalls,
    ToolChoice,
)
from jackline_server.core.recorded.boundaries import Entry
from jackline_server.core.recorded.replaying import Replayed, replayed
from jackline_server.core.recorded.request_differences import Kind
from jackline_server.testing.driving import (
    STARTED_UNIX_MS,
    Call,
    Driver,
    Ends,
    Fails,
    Says,
    Scenario,
    drive,
)
from jackline_server.testing.instruments import instruments
from jackline_server.testing.plans import (
    AGENT,
    MODEL,
    agent,
    agent_plan,
    entry,
    model,
    outcome,
    plan_of,
    router,
    run_bounds,
    started,
    step_bounds,
    tool,
)

LOOK = tool("look", Effect.READ)
CHANGE = tool("change", Effect.WRITE)


def entries(log: list[tuple[Fact, int]]) -> Iterator[Entry]:
    return (
        Entry(fact=fact, active_ms=active_ms, unix_ms=STARTED_UNIX_MS + active_ms) for fact, active_ms in log
    )


def again(driver: Driver, against: Plan | None = None) -> Replayed:
    return replayed(
        "run-1", entries(driver.log), driver.state.plan, instruments=instruments(), against=against
    )


def met(driver: Driver, against: Plan) -> tuple[str, Kind, str]:
    """The fact at which a log differs under another plan, what differs, and how it is told."""
    found = again(driver, against).difference
    assert found is not None
    assert found.recorded == driver.facts[found.sequence - 1]
    return type(found.recorded).__name__, found.kind, found.detail


def looked() -> Driver:
    """Two turns: a look, then the answer."""
    return drive(
        agent_plan(LOOK, CHANGE),
        Says(calls=(Call("look"),)),
        Says(text='{"result": 1}'),
        look=[Ends(output=1)],
    )


def with_agent(plan: Plan, **fields: object) -> Plan:
    step = plan.steps[AGENT]
    assert isinstance(step, ModelStep)
    return change(plan, digest="2" * 64, steps={**plan.steps, AGENT: change(step, **fields)})


# --- the same plan -----------------------------------------------------------------------------


def test_a_run_decided_again_under_its_own_plan_is_the_same() -> None:
    found = again(looked())
    assert found.difference is None
    assert found.facts == len(looked().log)
    assert found.decisions == 6


def test_an_equal_plan_is_no_difference() -> None:
    driver = looked()
    assert again(driver, change(driver.state.plan, digest="2" * 64)).difference is None


def test_a_run_that_was_cut_off_steered_and_paused_is_the_same() -> None:
    plan = agent_plan(LOOK, CHANGE)
    script = Scenario(
        plan=plan,
        replies=[
            Fails(failure=FailureClass.UNAVAILABLE),
            Says(calls=(Call("look"), Call("look", call_id="b"))),
            Says(text="no json"),
            Says(text='{"result": 1}'),
        ],
        tools={"look": [Ends(output=1), Ends(output=2), Ends(output=2)]},
        crash_after={3, 8},
        sent={2: Steer(text="Be brief."), 5: Pause()},
    )
    driver = Driver(script)
    driver.run()
    driver.send(Resume())
    driver.run()
    assert again(driver).difference is None


def test_a_run_that_was_aborted_is_the_same() -> None:
    script = Scenario(
        plan=agent_plan(LOOK),
        replies=[Says(calls=(Call("look"),))],
        tools={"look": [Ends(output=1)]},
        sent={3: Abort(mode=AbortMode.GRACEFUL, skip_routes=False)},
    )
    assert again(Driver(script).run()).difference is None


def test_a_decision_that_fell_between_two_milliseconds_is_the_same() -> None:
    """The loop asked shortly before the deadline, and what it decided was written shortly after."""
    plan = change(agent_plan(LOOK), bounds=run_bounds(run_timeout_ms=250))
    driver = drive(plan, Says(text='{"result": 1}', takes_ms=249))
    late = [(fact, 250 if isinstance(fact, StepFinished) else at) for fact, at in driver.log]
    late[-1] = (late[-1][0], 250)
    found = replayed("run-1", entries(late), plan, instruments=instruments())
    assert found.difference is None


def test_the_end_by_a_bug_of_the_server_is_taken_as_it_was() -> None:
    driver = looked()
    *before, (finished, at) = [pair for pair in driver.log if not isinstance(pair[0], RunFinished)]
    bug = change(finished, stop_reason=StopReason.INTERNAL, signal="error", next_step="")
    found = replayed("run-1", entries([*before, (bug, at)]), driver.state.plan, instruments=instruments())
    assert found.difference is None


def test_what_a_fork_took_over_is_not_decided_again() -> None:
    driver = looked()
    strange = with_agent(driver.state.plan, bounds=step_bounds(max_iterations=1))
    first, at = driver.log[0]
    assert isinstance(first, RunStarted)
    fork = change(first, forked_from=ForkOrigin(run_id="run-0", sequence=len(driver.log)))
    found = replayed(
        "run-1",
        entries([(fork, at), *driver.log[1:]]),
        driver.state.plan,
        instruments=instruments(),
        against=strange,
    )
    assert (found.difference, found.decisions) == (None, 0)


# --- another plan ------------------------------------------------------------------------------


def test_a_smaller_bound_is_met_where_it_stops_the_run() -> None:
    driver = looked()
    where, kind, detail = met(driver, with_agent(driver.state.plan, bounds=step_bounds(max_iterations=1)))
    assert (where, kind) == ("ModelCallStarted", Kind.DECISION)
    assert detail == "step_finished in place of model_call_started"
    found = again(driver, with_agent(driver.state.plan, bounds=step_bounds(max_iterations=1))).difference
    assert found is not None
    assert isinstance(found.decided, StepFinished)
    assert found.sequence == 8


def test_a_bound_of_the_run_is_the_plans_unless_its_caller_tightened_it() -> None:
    driver = looked()
    tight = change(driver.state.plan, digest="2" * 64, bounds=run_bounds(token_budget=300))
    assert met(driver, tight)[0] == "ModelCallStarted"
    mine = Driver(
        Scenario(
            plan=driver.state.plan,
            started=started(driver.state.plan, bounds=run_bounds(token_budget=100_000)),
            replies=[Says(text='{"result": 1}')],
        )
    ).run_to_end()
    loose = change(driver.state.plan, digest="2" * 64, bounds=run_bounds(token_budget=500_000))
    assert again(mine, loose).difference is None


def test_other_steering_is_another_prompt_whatever_its_length() -> None:
    driver = looked()
    for text in ("You reply!!", "You answer in one short sentence."):
        plan = with_agent(driver.state.plan, system=(PromptSection(title="", text=text),))
        where, kind, detail = met(driver, plan)
        assert (where, kind) == ("ModelCallStarted", Kind.PROMPT)
        assert detail.endswith("(system)")
        found = again(driver, plan).difference
        assert found is not None
        assert found.texts is not None
        assert "You answer." in found.texts[0]
        assert text in found.texts[1]


def test_another_list_of_tools_is_told_by_its_names() -> None:
    driver = looked()
    fewer = with_agent(driver.state.plan, tools=(entry("look"),))
    assert met(driver, fewer) == ("ModelCallStarted", Kind.TOOLS, "-change")
    other = with_agent(driver.state.plan, tools=(entry("look", description="Sees."), entry("change")))
    assert met(driver, other)[1:] == (Kind.TOOLS, "~look")
    must = with_agent(driver.state.plan, tool_choice=ToolChoice(mode=ChoiceMode.REQUIRED))
    assert met(driver, must)[1] is Kind.TOOLS


def test_another_model_of_the_same_profile_is_told_by_its_fields() -> None:
    driver = looked()
    plan = change(driver.state.plan, digest="2" * 64, models={MODEL: model(model="other/large")})
    assert met(driver, plan) == ("ModelCallStarted", Kind.MODEL, "other settings: model")


def test_a_tool_that_would_be_called_otherwise_differs_at_its_call() -> None:
    driver = looked()
    plan = change(
        driver.state.plan,
        digest="2" * 64,
        steps={**driver.state.plan.steps, "look": change(LOOK, timeout_ms=5)},
    )
    where, kind, detail = met(driver, plan)
    assert (where, kind) == ("ToolCallStarted", Kind.TOOL_CALL)
    assert detail == "look with another timeout_ms"


def test_calls_in_text_differ_at_the_reply_where_the_other_plan_does_not_take_them() -> None:
    says = Says(text='<tool_call>{"name": "look", "arguments": {}}</tool_call>')
    answer = Says(text='{"result": 1}')
    auto = agent_plan(LOOK, text_tool_calls=TextToolCalls.AUTO)
    driver = drive(auto, says, answer, look=[Ends(output=1)])
    assert again(driver, change(auto, digest="2" * 64)).difference is None
    off = with_agent(auto, text_tool_calls=TextToolCalls.OFF)
    assert met(driver, off) == ("ModelReplied", Kind.DECISION, "its text would be no call")
    driver = drive(off, says)
    assert again(driver, change(off, digest="1" * 64)).difference is None
    assert met(driver, auto) == ("ModelReplied", Kind.DECISION, "the calls in its text would be carried out")


def test_another_route_differs_where_the_step_ends() -> None:
    plan = plan_of(agent(routes={"*": "end"}), agent(step_id="second"))
    driver = drive(plan, Says(text='{"result": 1}'))
    other = with_agent(plan, routes={"*": "second"})
    where, kind, detail = met(driver, other)
    assert (where, kind, detail) == ("StepFinished", Kind.DECISION, "next_step")


def test_an_input_that_does_not_fit_any_more_differs_at_the_start() -> None:
    driver = looked()
    plan = change(driver.state.plan, digest="2" * 64, input_schema_json='{"type":"object","required":["a"]}')
    assert met(driver, plan)[:2] == ("RunStarted", Kind.INPUT)


def test_another_contract_of_the_answer_differs_where_it_is_judged() -> None:
    driver = looked()
    plan = with_agent(driver.state.plan, outcome=outcome(output_key="other"))
    assert met(driver, plan) == ("StepFinished", Kind.DECISION, "writes, writes_json")


def test_a_step_that_the_other_plan_lacks_differs_where_it_would_begin() -> None:
    plan = plan_of(router("choose", {"true": "a"}, {"a": AGENT, "default": "end"}), agent(), flow=("choose",))
    driver = drive(plan, Says(text='{"result": 1}'))
    other = plan_of(router("choose", {"true": "b"}, {"b": "end", "default": "end"}), digest="2" * 64)
    assert met(driver, other)[0] == "StepFinished"


# --- logs that are none ------------------------------------------------------------------------


@pytest.mark.parametrize("log", [[], [1, 0]], ids=["empty", "no-start"])
def test_a_log_that_does_not_begin_as_one_is_corrupt(log: list[int]) -> None:
    driver = looked()
    hostile = [driver.log[at] for at in log]
    with pytest.raises(CorruptLog):
        replayed("run-1", entries(hostile), driver.state.plan, instruments=instruments())


def test_every_log_with_a_fact_left_out_or_told_twice_is_told_apart_or_corrupt() -> None:
    """Nothing but a difference or CorruptLog comes out of it, and never the word that all is the same."""
    driver = drive(
        agent_plan(LOOK, CHANGE, outcome=outcome(enum=("good", "bad"))),
        Says(calls=(Call("change"), Call("look"))),
        Says(text="no json"),
        Says(text='{"outcome": "good"}'),
        look=[Ends(output=1)],
        change=[Ends(output=1)],
    )
    plan = driver.state.plan
    for at in range(1, len(driver.log) - 1):
        for hostile in (
            [*driver.log[:at], *driver.log[at + 1 :]],
            [*driver.log[: at + 1], *driver.log[at:]],
        ):
            try:
                found = replayed("run-1", entries(hostile), plan, instruments=instruments())
            except CorruptLog:
                continue
            assert found.difference is not None, driver.facts[at]


def test_a_fact_with_another_number_is_found() -> None:
    driver = looked()
    plan = driver.state.plan
    lies: list[tuple[type[Fact], dict[str, object]]] = [
        (StepStarted, {"steps": 7}),
        (ModelCallStarted, {"iteration": 9}),
        (ModelCallStarted, {"max_output_tokens": 17}),
        (ToolCallStarted, {"call_key": "another"}),
        (StepFinished, {"writes_json": "{}"}),
        (RunFinished, {"signal": "stopped"}),
    ]
    for kind, lie in lies:
        at = next(place for place, (fact, _) in enumerate(driver.log) if isinstance(fact, kind))
        log = [*driver.log]
        log[at] = change(log[at][0], **lie), log[at][1]
        found = replayed("run-1", entries(log), plan, instruments=instruments()).difference
        assert found is not None, kind
        assert found.sequence == at + 1
        assert found.detail == ", ".join(lie)


def test_a_takeover_by_another_worker_is_taken_as_it_was() -> None:
    script = Scenario(
        plan=agent_plan(CHANGE),
        replies=[Says(calls=(Call("change"),))],
        tools={"change": [Ends(output=1)]},
        crash_after={5},
    )
    driver = Driver(script).run()
    assert any(isinstance(fact, RunRecovered) for fact in driver.facts)
    assert again(driver).difference is None
    assert again(driver).facts == len(driver.log)


def test_nothing_follows_the_end_of_a_run() -> None:
    state = drive(agent_plan(), Says(text="done")).state
    with pytest.raises(CorruptLog):
        evolve(state, RunRecovered(epoch=2, cause=RecoveryCause.CRASH), active_ms=state.active_ms)

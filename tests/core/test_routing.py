"""The way through a workflow: the spine, routes, routers, tool steps of the flow, and what steps write."""

from dataclasses import replace

import pytest

from jackline_server.core.context import PointerError, public, resolve, step_input
from jackline_server.core.facts import (
    CallStatus,
    NoticeCode,
    Noticed,
    Phase,
    StepFinished,
    StepStarted,
    StopReason,
)
from jackline_server.core.frozen import change
from jackline_server.core.plan import JsonValue
from jackline_server.core.recorded.boundaries import Entry
from jackline_server.core.recorded.replaying import replayed
from jackline_server.testing import plans
from jackline_server.testing.driving import STARTED_UNIX_MS, Driver, Ends, Fails, Says, Scenario, drive
from jackline_server.testing.instruments import instruments

ANSWER = Says(text="done")


def path(driver: Driver) -> list[str]:
    return [fact.step_id for fact in driver.facts if isinstance(fact, StepStarted)]


def run_router(cases: dict[str, str], input_json: str) -> Driver:
    routes = {signal: signal for signal in cases.values()}
    targets = [plans.router(signal, {}, {}) for signal in routes]
    plan = plans.plan_of(plans.router("route", cases, {**routes, "default": "end"}), *targets)
    started = plans.started(plan, input_json=input_json)
    return Driver(Scenario(plan=plan, started=started)).run_to_end()


# --- routers -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("input_json", "visited"),
    [('{"n":1}', ["route"]), ('{"n":15}', ["route", "some"]), ('{"n":150}', ["route", "many"])],
)
def test_a_router_takes_its_first_true_case_or_default(input_json: str, visited: list[str]) -> None:
    driver = run_router({"input.n > 100": "many", "input.n > 10": "some"}, input_json)
    assert path(driver) == visited


def test_a_condition_without_a_value_counts_as_false_and_is_noticed() -> None:
    driver = run_router({"input.missing > 100": "many", "true": "some"}, "{}")
    assert path(driver) == ["route", "some"]
    assert [fact.code for fact in driver.facts if isinstance(fact, Noticed)] == [NoticeCode.CONDITION_FAILED]


def test_a_log_with_other_words_about_a_condition_without_a_value_replays_the_same() -> None:
    driver = run_router({"input.missing > 100": "many", "true": "some"}, "{}")
    log = [
        Entry(
            fact=change(fact, text="said otherwise") if isinstance(fact, Noticed) else fact,
            active_ms=active_ms,
            unix_ms=STARTED_UNIX_MS + active_ms,
        )
        for fact, active_ms in driver.log
    ]
    walked = replayed("run-1", log, driver.state.plan, instruments=instruments())
    assert (walked.difference, walked.facts) == (None, len(log))


def test_a_router_writes_nothing() -> None:
    driver = run_router({"true": "some"}, "{}")
    assert set(driver.state.context) == {"input"}


# --- the spine and routes ----------------------------------------------------------------------


def test_an_unrouted_default_goes_along_the_spine_and_the_last_step_ends_the_run() -> None:
    first = plans.agent(step_id="first", routes={}, next_step="second", outcome=plans.outcome(output_key="a"))
    second = plans.agent(step_id="second", routes={}, outcome=plans.outcome(output_key="b"))
    driver = drive(plans.plan_of(first, second), Says(text="1"), Says(text="2"))
    assert path(driver) == ["first", "second"]
    assert {key: driver.state.context[key] for key in ("a", "b")} == {"a": 1, "b": 2}
    assert (driver.finished.phase, driver.finished.result_json) == (Phase.SUCCEEDED, "2")


def test_an_outcome_leads_along_its_route() -> None:
    first = plans.agent(outcome=plans.outcome(enum=("x", "y")), routes={"x": "one", "y": "two"})
    plan = plans.plan_of(first, plans.router("one", {}, {}), plans.router("two", {}, {}))
    assert path(drive(plan, Says(text='{"outcome":"y"}'))) == [plans.AGENT, "two"]


@pytest.mark.parametrize("routes", [{"error": "mend"}, {"*": "mend"}, {"time_exceeded": "mend", "*": "end"}])
def test_a_limit_of_a_step_may_be_routed_and_the_run_goes_on(routes: dict[str, str]) -> None:
    first = plans.agent(bounds=plans.step_bounds(timeout_ms=0), routes=routes)
    driver = drive(plans.plan_of(first, plans.router("mend", {}, {})))
    assert path(driver) == [plans.AGENT, "mend"]
    assert driver.finished.phase is Phase.SUCCEEDED
    assert driver.state.context["_last_error_type"] == "time_exceeded"


def test_an_unrouted_failure_ends_the_run_with_its_own_exit() -> None:
    driver = drive(plans.plan_of(plans.agent(routes={})), *[Fails()] * 4)
    end = driver.finished
    assert (end.signal, end.phase, end.stop_leaf) == ("error", Phase.FAILED, "MODEL_UNAVAILABLE")


# --- tool steps that the flow visits -----------------------------------------------------------


def test_a_tool_step_of_the_flow_is_called_once_with_its_input_and_writes_its_output() -> None:
    fetch = plans.tool("fetch", input={"order": "/input/id", "none": "/input/none"}, output_key="order")
    plan = plans.plan_of(fetch)
    started = plans.started(plan, input_json='{"id":7}')
    scenario = Scenario(plan=plan, started=started, tools={"fetch": [Ends(output={"ok": True})]})
    driver = Driver(scenario).run_to_end()
    assert driver.attempts[0].arguments == {"order": 7}
    assert driver.state.context["order"] == {"ok": True}
    assert (driver.finished.signal, driver.finished.result_json) == ("default", '{"ok":true}')


def test_a_failed_tool_step_exits_with_error_and_tells_the_next_why() -> None:
    fetch = plans.tool("fetch", routes={"error": "notify"})
    notify = plans.tool("notify", input={"why": "/_last_error", "kind": "/_last_error_type"})
    driver = drive(
        plans.plan_of(fetch, notify),
        fetch=[Ends(status=CallStatus.FAILED, error="no such order")],
        notify=[Ends()],
    )
    left = next(fact for fact in driver.facts if isinstance(fact, StepFinished))
    assert (left.signal, left.stop_reason, left.stop_leaf) == ("error", StopReason.TOOL_ERROR, "fetch")
    assert driver.attempts[1].arguments == {"why": "no such order", "kind": "error"}


def test_a_second_visit_of_a_tool_step_makes_a_call_of_its_own() -> None:
    fetch = plans.tool("fetch", next_step="route")
    route = plans.router("route", {"fetch_result < 3": "again"}, {"again": "fetch"})
    driver = drive(plans.plan_of(fetch, route), fetch=[Ends(output=n) for n in (1, 2, 3)])
    assert path(driver) == ["fetch", "route"] * 3
    assert [attempt.started.call_key for attempt in driver.attempts] == ["run-1.1", "run-1.2", "run-1.3"]


def test_a_missing_file_is_a_notice_each_and_never_an_end() -> None:
    plan = replace(plans.agent_plan(), warnings=("tone.md is missing", "skill.md is missing"))
    driver = drive(plan, ANSWER)
    notices = [fact for fact in driver.facts if isinstance(fact, Noticed)]
    assert [fact.text for fact in notices] == ["tone.md is missing", "skill.md is missing"]
    assert driver.finished.phase is Phase.SUCCEEDED


# --- pointers ----------------------------------------------------------------------------------

CONTEXT: dict[str, JsonValue] = {"input": {"a": [10, {"b/c": 1, "d~e": 2}], "": 3}, "_private": 1, "n": None}


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("", CONTEXT),
        ("/input/a/0", 10),
        ("/input/a/1/b~1c", 1),
        ("/input/a/1/d~0e", 2),
        ("/input/", 3),
        ("/n", None),
        ("/_private", 1),
    ],
)
def test_a_pointer_leads_to_its_value(pointer: str, value: JsonValue) -> None:
    assert resolve(CONTEXT, pointer) == value


@pytest.mark.parametrize(
    "pointer",
    [
        "/input/a/2",
        "/input/a/-1",
        "/input/a/-",
        "/input/a/01",
        "/input/a/\u0660",
        "/input/x",
        "/n/x",
        "/input/a/0/b",
        "/input/a/" + "1" * 5_000,
        "input",
    ],
)
def test_a_pointer_that_leads_nowhere_is_an_error_of_its_own(pointer: str) -> None:
    with pytest.raises(PointerError):
        resolve(CONTEXT, pointer)


def test_a_step_sees_what_its_pointers_select_or_the_whole_public_context() -> None:
    assert step_input(CONTEXT, {"x": "/input/a/0", "y": "/nowhere"}) == {"x": 10}
    assert step_input(CONTEXT, None) == public(CONTEXT)
    assert "_private" not in public(CONTEXT)

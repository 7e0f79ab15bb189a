"""`read_result`: offered once a result was cut, bounded like any tool, and no tool of anybody else's."""

from typing import Unpack

import pytest

from jackline_server.core.facts import CallProblem, CallStatus, ModelCallStarted, StopReason
from jackline_server.core.messages import ToolMessage
from jackline_server.core.plan import READ_RESULT, Effect, OnLimit, Plan, ToolPolicy
from jackline_server.core.reading import result_tool
from jackline_server.testing import plans
from jackline_server.testing.driving import Call, Driver, Ends, Fails, Says, Scenario

LOOK = plans.tool("look", Effect.READ, result_chars=100)
LONG = "0123456789" * 50
READ = Call(READ_RESULT, '{"result":"result-1","offset":40}')


def plan(**fields: Unpack[plans.ModelStepFields]) -> Plan:
    return plans.agent_plan(LOOK, **{"reads_results": True, **fields})


def driven(plan: Plan, *replies: Says | Fails, **tools: list[Ends]) -> Driver:
    return Driver(Scenario(plan=plan, replies=replies, tools=tools)).run_to_end()


def offered(driver: Driver) -> list[tuple[str, ...]]:
    return [tuple(tool.ref for tool in call.tools) for call in driver.model_calls]


def asks(*calls: Call) -> Says:
    return Says(calls=calls)


def test_it_is_offered_from_the_first_result_on_that_is_not_shown_whole() -> None:
    driver = driven(
        plan(),
        asks(Call("look")),
        asks(Call("look")),
        asks(READ),
        Says(text="done"),
        look=[Ends(output="short"), Ends(output=LONG)],
        read_result=[Ends(output={"text": "4567"})],
    )
    assert offered(driver) == [("look",), ("look",), ("look", READ_RESULT), ("look", READ_RESULT)]
    assert driver.replayed() == driver.state
    reserved = [fact for fact in driver.facts if isinstance(fact, ModelCallStarted)]
    assert reserved[2].prompt_tokens - reserved[1].prompt_tokens > result_tool.tokens()


def test_the_mark_says_what_is_left_out_and_how_to_read_on() -> None:
    driver = driven(plan(), asks(Call("look")), Says(text="done"), look=[Ends(output=LONG)])
    message = driver.model_calls[-1].messages[-1]
    assert isinstance(message, ToolMessage)
    head, mark, tail = message.text.split("\n")
    assert (head, tail) == (LONG[:40], LONG[-60:])
    assert "400 of 500 bytes" in mark
    assert '{"result":"result-1","offset":40}' in mark


def test_a_plan_without_it_shows_and_offers_what_it_always_did() -> None:
    driver = driven(plans.agent_plan(LOOK), asks(Call("look")), Says(text="done"), look=[Ends(output=LONG)])
    assert offered(driver) == [("look",), ("look",)]
    message = driver.model_calls[-1].messages[-1]
    assert isinstance(message, ToolMessage)
    assert "\n[cut: 502 in all]\n" in message.text


def test_before_it_is_offered_it_is_a_name_that_the_model_made_up() -> None:
    driver = driven(plan(), asks(READ), Says(text="done"))
    (call,) = driver.state.calls.values()
    assert (call.status, call.problem) == (CallStatus.DENIED, CallProblem.UNKNOWN_TOOL)


@pytest.mark.parametrize(
    "arguments", ["{}", '{"result":1}', '{"result":"r","offset":-1}', '{"result":"r","path":"/etc"}', "["]
)
def test_its_arguments_are_checked_like_those_of_any_tool(arguments: str) -> None:
    driver = driven(
        plan(),
        asks(Call("look")),
        asks(Call(READ_RESULT, arguments)),
        Says(text="done"),
        look=[Ends(output=LONG)],
    )
    assert [call.status for call in driver.state.calls.values()] == [CallStatus.COMPLETED, CallStatus.DENIED]
    assert len(driver.attempts) == 1


def test_it_may_be_called_where_a_step_allows_writes_alone_and_counts_as_a_tool_call() -> None:
    change = plans.tool("change", Effect.WRITE, result_chars=100)
    driver = driven(
        plans.agent_plan(
            change,
            reads_results=True,
            allow_effects=frozenset({Effect.WRITE}),
            bounds=plans.step_bounds(tool_calls=2),
        ),
        asks(Call("change")),
        asks(READ),
        asks(READ),
        change=[Ends(output=LONG)],
        read_result=[Ends(output=1)],
    )
    assert driver.finished.stop_reason is StopReason.TOOL_CALL_BUDGET
    assert [attempt.started.effect for attempt in driver.attempts] == [Effect.WRITE, Effect.READ]


def test_a_closing_answer_is_not_offered_it() -> None:
    driver = driven(
        plan(bounds=plans.step_bounds(max_iterations=1), on_limit=OnLimit.FINAL_ANSWER),
        asks(Call("look")),
        Says(text="done"),
        look=[Ends(output=LONG)],
    )
    assert offered(driver) == [("look",), ()]


def test_only_results_of_the_same_visit_have_a_handle() -> None:
    steps = [
        plans.agent(step_id=name, tools=(plans.entry("look"),), reads_results=True, next_step=then)
        for name, then in (("first", "second"), ("second", ""))
    ]
    driver = Driver(
        Scenario(
            plan=plans.plan_of(*steps, LOOK, flow=("first", "second")),
            replies=[asks(Call("look")), Says(text="1"), asks(Call("look")), Says(text="2")],
            tools={"look": [Ends(output=LONG), Ends(output=LONG)]},
        )
    )
    driver.run(until=lambda driver: len(driver.model_calls) == 4)
    visit = driver.state.visit
    assert visit is not None
    assert [result_tool.handle_of(call) for call in result_tool.readable(driver.state, visit)] == ["result-2"]
    assert result_tool.named(driver.state, visit, "result-1") is None


def test_an_equal_call_that_gets_an_earlier_result_gets_all_of_it_and_it_is_kept_once() -> None:
    driver = driven(
        plan(tools=(plans.entry("look", policy=ToolPolicy(reuse=True)),)),
        asks(Call("look"), Call("look")),
        Says(text="done"),
        look=[Ends(output="begin", cut_from_bytes=9_000_000, tail="end", blob="d" * 64)],
    )
    calls = driver.state.calls.values()
    assert driver.state.stored_bytes == 9_000_000
    assert [(call.blob, call.tail) for call in calls] == [("d" * 64, "end")] * 2


@pytest.mark.parametrize(("blob", "is_kept"), [("d" * 64, True), ("", False)])
def test_a_result_that_is_too_long_for_the_log_shows_its_true_end(blob: str, is_kept: bool) -> None:
    ends = Ends(output="begin" * 20, cut_from_bytes=9_000_000, tail="x" * 80 + "end", blob=blob)
    driver = driven(plan(), asks(Call("look")), Says(text="done"), look=[ends])
    message = driver.model_calls[-1].messages[-1]
    assert isinstance(message, ToolMessage)
    head, mark, tail = message.text.split("\n")
    assert (head, tail) == ("begin" * 8, "x" * 57 + "end")
    assert "8999900 of 9000000 bytes" in mark
    assert ("not kept" not in mark) is is_kept


def test_what_is_behind_it_reads_and_is_in_no_plan() -> None:
    made = plan()
    assert READ_RESULT not in made.steps
    assert result_tool.behind(made, READ_RESULT) is result_tool.STEP
    assert result_tool.behind(made, "nothing") is None
    assert result_tool.behind(made, "look") is made.steps["look"]

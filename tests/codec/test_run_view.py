"""The run as lists show it."""

import pytest

from jackline.v1 import run_pb2
from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.codec.run_view import interrupt_messages, tool_call_messages
from jackline_server.core.evolve import begin, evolve
from jackline_server.core.facts import CallStatus, Phase, RunFinished, StepStarted, StopReason
from jackline_server.core.plan import Effect
from jackline_server.testing import plans
from jackline_server.testing.driving import Call, Driver, Ends, Says, Scenario

CODEC = ProtoCodec()
PLAN = plans.agent_plan()
NOW_MS = 1_790_000_000_123


def test_a_fresh_run_is_queued_and_has_no_outcome() -> None:
    state = begin("run_1", PLAN, plans.started(PLAN, epoch=0, deadline_unix_ms=NOW_MS))
    run = run_pb2.Run.FromString(CODEC.summarize(state, created_unix_ms=NOW_MS, finished_unix_ms=None))
    assert (run.state, run.signal, run.head_sequence) == (run_pb2.RUN_STATE_QUEUED, "running", 1)
    assert (run.created_at.seconds, run.created_at.nanos) == (1_790_000_000, 123_000_000)
    assert run.deadline.seconds == 1_790_000_000
    assert not run.HasField("outcome")
    assert not run.HasField("finished_at")
    assert (run.bounds.steps, run.bounds.HasField("token_budget")) == (128, False)


def test_an_exhausted_run_says_which_limit_ended_it_and_shows_no_content() -> None:
    state = begin("run_1", PLAN, plans.started(PLAN, input_json='"secret"', subject_json='{"a":"secret"}'))
    state = evolve(state, StepStarted(step_id=plans.AGENT, visit=1, steps=1), active_ms=70)
    finished = RunFinished(
        phase=Phase.EXHAUSTED,
        signal="budget_exceeded",
        stop_reason=StopReason.TOKEN_BUDGET,
        stop_leaf="run.token_budget",
        partial=True,
        result_json='"secret"',
        error="secret",
    )
    state = evolve(state, finished, active_ms=90)
    data = CODEC.summarize(state, created_unix_ms=NOW_MS, finished_unix_ms=NOW_MS + 1)
    run = run_pb2.Run.FromString(data)
    assert b"secret" not in data
    assert (run.state, run.stop_leaf) == (run_pb2.RUN_STATE_EXHAUSTED, "run.token_budget")
    assert (run.outcome.signal, run.outcome.partial) == ("budget_exceeded", True)
    assert (run.step_id, run.active_time.nanos) == (plans.AGENT, 90_000_000)
    assert len(run.steps) == 0


@pytest.mark.parametrize("full", [True, False])
def test_a_call_is_shown_with_what_the_workflow_gave_it_where_content_is_shown(full: bool) -> None:
    write = plans.tool("send", Effect.WRITE)
    plan = plans.agent_plan(write, tools=(plans.entry("send", bind={"folder": "/input/folder"}),))
    scenario = Scenario(
        plan=plan,
        replies=[Says(calls=(Call("send", arguments='{"name":"a"}'),))],
        tools={"send": [Ends(status=CallStatus.UNKNOWN, error="cut")]},
        started=plans.started(plan, input_json='{"folder":"harbour/7"}'),
    )
    state = Driver(scenario).run().state
    shown = b'{"name":"a","folder":"harbour/7"}' if full else b""
    (interrupt,), (call,) = interrupt_messages(state, full=full), tool_call_messages(state, full=full)
    assert (interrupt.arguments_json, call.arguments_json) == (shown, shown)

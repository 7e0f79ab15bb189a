"""`jackline adjust`: what is sent, and what is refused before anything is."""

import grpc
import pytest

from jackline.v1 import run_service_pb2 as wire
from jackline.v1.run_pb2 import RunBounds, VisitBounds
from tests.cli.console import Console
from tests.support.scripted_service import RUN_ID, Failure, ScriptedService, receipt


async def test_each_flag_is_a_bound_of_the_command(console: Console, service: ScriptedService) -> None:
    service.script("Control", receipt())
    done = await console.run(
        *("adjust", RUN_ID, "--tokens", "80000", "--cost", "1.5", "--timeout", "30m", "--steps", "9"),
        *("--events", "900", "--visit-iterations", "12", "--visit-requests", "20"),
        *("--visit-tool-calls", "0", "--visit-tokens", "7000", "--visit-cost", "0.25"),
        *("--visit-timeout", "90s", "--reason", "more to read"),
    )
    assert (done.code, done.out) == (0, "adjust: in effect (event 3)\n")
    (request,) = service.requests(wire.ControlRequest)
    run = RunBounds(token_budget=80_000, cost_budget_micros=1_500_000, steps=9, events=900)
    run.run_timeout.FromSeconds(1_800)
    visit = VisitBounds(
        max_iterations=12, model_requests=20, tool_calls=0, token_budget=7_000, cost_budget_micros=250_000
    )
    visit.timeout.FromSeconds(90)
    assert (request.adjust_bounds.run, request.adjust_bounds.visit) == (run, visit)
    assert request.reason == "more to read"


async def test_what_is_left_out_is_not_sent(console: Console, service: ScriptedService) -> None:
    service.script("Control", receipt())
    await console.run("adjust", RUN_ID, "--visit-tool-calls", "5")
    (request,) = service.requests(wire.ControlRequest)
    assert not request.adjust_bounds.run.ListFields()
    assert [field.name for field, _ in request.adjust_bounds.visit.ListFields()] == ["tool_calls"]


@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("--tokens", "0"),
        ("--tokens", "many"),
        ("--cost", "-1"),
        ("--cost", "0.0000001"),
        ("--timeout", "30"),
        ("--visit-iterations", "0"),
        ("--visit-requests", "4294967296"),
    ],
)
async def test_a_bound_that_can_not_be_is_a_mistake_of_the_command_line(
    console: Console, flags: tuple[str, ...]
) -> None:
    assert (await console.run("adjust", RUN_ID, *flags)).code == 2


@pytest.mark.parametrize(
    ("reason", "field", "number", "said"),
    [
        ("BOUND_TOO_HIGH", "visit.max_iterations", "4", "--visit-iterations 4"),
        ("BOUND_TOO_HIGH", "run.run_timeout", "5000", "--timeout 5000ms"),
        ("BOUND_TOO_HIGH", "run.cost_budget_micros", "500000", "--cost 0.500000"),
        ("BOUND_TOO_LOW", "visit.cost_budget_micros", "171", "--visit-cost 0.000171"),
        ("BOUND_TOO_LOW", "run.token_budget", "171", "--tokens 171"),
    ],
)
async def test_a_refused_bound_is_told_by_its_flag_and_in_its_units(
    console: Console, service: ScriptedService, reason: str, field: str, number: str, said: str
) -> None:
    high = reason == "BOUND_TOO_HIGH"
    code = grpc.StatusCode.INVALID_ARGUMENT if high else grpc.StatusCode.FAILED_PRECONDITION
    place = f"adjust_bounds.{field}"
    metadata = {"field": place, "limit" if high else "spent": number}
    service.script(
        "Control", Failure(code=code, reason=reason, metadata=metadata, violations=((place, "no"),))
    )
    done = await console.run("adjust", RUN_ID, "--steps", "9")

    assert done.code == 65
    assert said in done.err
    assert "adjust_bounds" not in done.err
    assert "--bound" not in done.err

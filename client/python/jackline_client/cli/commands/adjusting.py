"""`jackline adjust`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jackline.v1.run_pb2 import RunBounds, VisitBounds
from jackline_client.cli.commands.controlling import WaitOption, control_options, expectation
from jackline_client.cli.exit_codes import ExitCode
from jackline_client.cli.given import read_duration, read_usd
from jackline_client.cli.options import (
    AddressOption,
    ContextOption,
    ExpectSequenceOption,
    ExpectStateOption,
    JsonOption,
    OpenRunArgument,
    ReasonOption,
)
from jackline_client.cli.receipts import Asked, Stage, report
from jackline_client.cli.screen import Screen
from jackline_client.cli.server_choice import Named
from jackline_client.cli.session import carry_out

if TYPE_CHECKING:
    from jackline_client import JacklineClient

_LARGEST = 2**53
_LARGEST_COUNT = 2**32 - 1


def _count(flag: str, words: str, *, least: int, most: int = _LARGEST_COUNT) -> Any:  # noqa: ANN401 - typer says so
    return typer.Option(flag, min=least, max=most, metavar="N", help=words)


def adjust(
    run_id: OpenRunArgument,
    *,
    tokens: Annotated[int | None, _count("--tokens", "Tokens of the run.", least=1, most=_LARGEST)] = None,
    cost: Annotated[str | None, typer.Option("--cost", metavar="USD", help="Price of the run.")] = None,
    timeout: Annotated[
        str | None, typer.Option("--timeout", metavar="TIME", help="Active time of the run, such as 30m.")
    ] = None,
    steps: Annotated[int | None, _count("--steps", "Steps visited by the run.", least=1)] = None,
    events: Annotated[int | None, _count("--events", "Events in the run's log.", least=1)] = None,
    visit_iterations: Annotated[
        int | None, _count("--visit-iterations", "Model turns of the step it is in.", least=1)
    ] = None,
    visit_requests: Annotated[
        int | None, _count("--visit-requests", "Attempts at the model in that step.", least=0)
    ] = None,
    visit_tool_calls: Annotated[
        int | None, _count("--visit-tool-calls", "Tool calls of that step.", least=0)
    ] = None,
    visit_tokens: Annotated[
        int | None, _count("--visit-tokens", "Tokens of that step.", least=1, most=_LARGEST)
    ] = None,
    visit_cost: Annotated[
        str | None, typer.Option("--visit-cost", metavar="USD", help="Price of that step.")
    ] = None,
    visit_timeout: Annotated[
        str | None, typer.Option("--visit-timeout", metavar="TIME", help="Active time of that step.")
    ] = None,
    reason: ReasonOption = "",
    expect_state: ExpectStateOption = None,
    expect_sequence: ExpectSequenceOption = None,
    wait: WaitOption = Stage.EFFECTIVE,
    as_json: JsonOption = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """Change the bounds of a live run, or of the step it is in; what is left out stays as it is."""
    run = RunBounds(
        token_budget=tokens,
        cost_budget_micros=_read(read_usd, cost, "--cost"),
        run_timeout=_read(read_duration, timeout, "--timeout"),
        steps=steps,
        events=events,
    )
    visit = VisitBounds(
        max_iterations=visit_iterations,
        model_requests=visit_requests,
        tool_calls=visit_tool_calls,
        token_budget=visit_tokens,
        cost_budget_micros=_read(read_usd, visit_cost, "--visit-cost"),
        timeout=_read(read_duration, visit_timeout, "--visit-timeout"),
    )
    if not run.ListFields() and not visit.ListFields():
        raise typer.BadParameter("say which bound to change, such as --tokens 80000 or --visit-iterations 12")
    options = control_options(reason, wait, expectation(expect_state, expect_sequence))
    asked = Asked(
        run_id=run_id,
        name="adjust",
        wait=wait,
        as_json=as_json,
        server=Named(address=address, context=context),
    )

    async def work(client: "JacklineClient", screen: Screen) -> ExitCode:
        response = await client.adjust_bounds(run_id, run=run, visit=visit, **options)
        return await report(client, screen, response, asked)

    carry_out(work, server=asked.server)


def _read(read: Callable[..., Any], text: str | None, flag: str) -> Any:  # noqa: ANN401 - whatever `read` gives
    return None if text is None else read(text, flag=flag)

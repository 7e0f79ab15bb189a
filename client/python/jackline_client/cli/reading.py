"""`jackline get` and `jackline ls`."""

import shlex
from collections.abc import Iterator
from contextlib import aclosing
from typing import Annotated

import typer

from jackline.v1.run_pb2 import Run, RunState, StopReason, View
from jackline_client import JacklineClient, RunFilter
from jackline_client.cli.event_lines import Line, answer_commands, enum_word, summary
from jackline_client.cli.exit_codes import ExitCode
from jackline_client.cli.given import read_labels
from jackline_client.cli.json_lines import json_line
from jackline_client.cli.options import AddressOption, JsonOption, RunArgument
from jackline_client.cli.printable import printable, printable_lines
from jackline_client.cli.screen import Screen
from jackline_client.cli.session import carry_out

_PAGE = 50
_LARGEST_PAGE = 500
_COLUMN = 40


def get(run_id: RunArgument, *, as_json: JsonOption = False, address: AddressOption = None) -> None:
    """Show where a run stands, its steps, its open questions and what it came to."""

    async def work(client: JacklineClient, screen: Screen) -> ExitCode:
        run = await client.get_run(run_id, view=View.VIEW_FULL)
        if as_json:
            screen.raw(json_line(run))
            return ExitCode.OK
        for line in _details(run, f" --address {shlex.quote(address)}" if address else ""):
            screen.line(line.text, style=line.style)
        return ExitCode.OK

    carry_out(work, address=address)


def ls(
    state: Annotated[
        list[str] | None, typer.Option("--state", metavar="STATE", help="Such as running.")
    ] = None,
    workflow: Annotated[
        str, typer.Option("--workflow", metavar="NAME", help="Only runs of this workflow.")
    ] = "",
    label: Annotated[
        list[str] | None, typer.Option("--label", metavar="KEY=VALUE", help="Only with these.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, metavar="N", help="At most this many.")] = _PAGE,
    *,
    as_json: JsonOption = False,
    address: AddressOption = None,
) -> None:
    """List runs, newest first."""
    wanted = RunFilter(states=_states(state or []), workflow=workflow, labels=read_labels(label or ()))

    async def work(client: JacklineClient, screen: Screen) -> ExitCode:
        if not as_json:
            screen.line(_row("RUN", "STATE", "SIGNAL", "CREATED (UTC)", "TOKENS", "WORKFLOW"), style="head")
        shown = 0
        runs = client.list_runs(wanted, page_size=min(limit, _LARGEST_PAGE))
        async with aclosing(runs):
            async for run in runs:
                screen.raw(json_line(run)) if as_json else screen.line(_run_row(run))
                shown += 1
                if shown == limit:
                    break
        return ExitCode.OK

    carry_out(work, address=address)


def _states(names: list[str]) -> tuple[RunState.ValueType, ...]:
    known = {name.removeprefix("RUN_STATE_").lower(): value for name, value in RunState.items() if value}
    for name in names:
        if name not in known:
            raise typer.BadParameter(f"--state {name!r}: write one of {', '.join(known)}")
    return tuple(known[name] for name in names)


def _run_row(run: Run) -> str:
    return _row(
        run.run_id,
        enum_word(RunState.Name, run.state, "RUN_STATE_"),
        run.signal,
        f"{run.created_at.ToDatetime():%Y-%m-%d %H:%M:%S}",
        f"{run.ledger.tokens:,}",
        run.workflow,
    )


def _row(*cells: str) -> str:
    run, state, signal, created, tokens, workflow = (printable(cell, limit=_COLUMN) for cell in cells)
    return f"{run:<30}  {state:<12}  {signal:<16}  {created:<19}  {tokens:>10}  {workflow}"


def _details(run: Run, address_flag: str) -> Iterator[Line]:
    yield Line(text=f"run {run.run_id} of {printable(run.workflow, limit=_COLUMN)}", style="head")
    yield from _standing(run)
    yield summary(run)
    for step in run.steps:
        tokens = f"{step.ledger.tokens:,} tokens"
        yield Line(text=f"  step {step.step_id} (visit {step.visit}): {step.signal}, {tokens}")
    for interrupt in run.interrupts:
        yield Line(text=f"  ? {interrupt.question or interrupt.interrupt_id}", style="ask")
        for command in answer_commands(run.run_id, interrupt.interrupt_id, interrupt.options, address_flag):
            yield Line(text=f"    {command}", style="ask")
    if run.outcome.error:
        yield Line(text=f"  error: {run.outcome.error}", style="bad")
    if run.outcome.result_json:
        yield Line(text="  result:")
        for text in printable_lines(run.outcome.result_json.decode("utf-8", "replace")):
            yield Line(text=f"    {text}")


def _standing(run: Run) -> Iterator[Line]:
    state = enum_word(RunState.Name, run.state, "RUN_STATE_")
    step = f", step {run.step_id}" if run.step_id else ""
    yield Line(text=f"  {state}: {run.signal}{step}, event {run.head_sequence}")
    if run.stop_reason:
        reason = enum_word(StopReason.Name, run.stop_reason, "STOP_REASON_")
        yield Line(text=f"  stopped by {reason}" + (f" ({run.stop_leaf})" if run.stop_leaf else ""))
    yield Line(text=f"  created {run.created_at.ToDatetime():%Y-%m-%d %H:%M:%S} UTC")
    for key in sorted(run.labels):
        yield Line(text=f"  label {key}={run.labels[key]}")

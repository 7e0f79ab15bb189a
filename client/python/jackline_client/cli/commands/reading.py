"""`jackline get`, `ls` and `inbox`."""

from collections.abc import Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated

import typer

import jackline_client
from jackline.v1.run_pb2 import ChildRun, Interrupt, InterruptKind, Run, RunState, StopReason, View
from jackline_client.cli import completing
from jackline_client.cli.approval_lines import around_lines, decided_lines
from jackline_client.cli.below import asked_below, asked_lines, below_lines, has_living_children
from jackline_client.cli.budgets import budget_lines
from jackline_client.cli.exit_codes import ExitCode
from jackline_client.cli.forms import Output, chosen_form
from jackline_client.cli.given import read_labels, read_states
from jackline_client.cli.holding import held_lines
from jackline_client.cli.listings import INTERRUPTS, NO_SIGNAL_YET, RUNS
from jackline_client.cli.options import AddressOption, ContextOption, JsonOption, OutputOption, RunArgument
from jackline_client.cli.printable import printable, printable_lines
from jackline_client.cli.screen import Screen
from jackline_client.cli.server_choice import Named
from jackline_client.cli.session import carry_out
from jackline_client.cli.waits import waiting_lines
from jackline_client.cli.wording import (
    Line,
    answer_commands,
    count,
    enum_word,
    short,
    stamp,
    summary,
)

if TYPE_CHECKING:
    from jackline_client import JacklineClient

_PAGE = 50
_LARGEST_PAGE = 500
_NAME = 40
_ORDINARY = frozenset(
    {StopReason.STOP_REASON_UNSPECIFIED, StopReason.STOP_REASON_OUTCOME, StopReason.STOP_REASON_DEFAULT}
)


def get(
    run_id: RunArgument,
    *,
    output: OutputOption = None,
    as_json: JsonOption = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """Show where a run stands, its steps, its open questions and what it came to."""
    form = chosen_form(output, as_json)
    server = Named(address=address, context=context)

    async def work(client: "JacklineClient", screen: Screen) -> ExitCode:
        run = await client.get_run(run_id, view=View.VIEW_FULL)
        below = await asked_below(client, run_id) if form is None and has_living_children(run) else []
        held = await held_lines(client, run, server.flag) if form is None else []
        shown = Output(
            screen=screen, listing=RUNS, form=form, lines=lambda run: _details(run, held, below, server.flag)
        )
        shown.item(run)
        return ExitCode.OK

    carry_out(work, server=server)


def ls(
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state", metavar="STATE", help="Such as running.", autocompletion=completing.run_states
        ),
    ] = None,
    workflow: Annotated[
        str,
        typer.Option(
            "--workflow",
            metavar="NAME",
            help="Only runs of this workflow.",
            autocompletion=completing.workflows,
        ),
    ] = "",
    label: Annotated[
        list[str] | None, typer.Option("--label", metavar="KEY=VALUE", help="Only with these.")
    ] = None,
    thread: Annotated[
        str,
        typer.Option(
            "--thread",
            metavar="ID",
            help="Only runs of this thread.",
            autocompletion=completing.threads,
        ),
    ] = "",
    parent: Annotated[
        str,
        typer.Option(
            "--parent",
            metavar="RUN",
            help="Only runs that this one has started.",
            autocompletion=completing.runs,
        ),
    ] = "",
    limit: Annotated[int, typer.Option("--limit", min=1, metavar="N", help="At most this many.")] = _PAGE,
    *,
    output: OutputOption = None,
    as_json: JsonOption = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """List runs, newest first."""
    form = chosen_form(output, as_json)
    wanted = jackline_client.RunFilter(
        states=read_states(state or []),
        workflow=workflow,
        labels=read_labels(label or ()),
        thread_id=thread,
        parent_run_id=parent,
    )

    async def work(client: "JacklineClient", screen: Screen) -> ExitCode:
        shown = Output(screen=screen, listing=RUNS, form=form)
        left = limit
        async with aclosing(client.list_runs(wanted, page_size=min(limit, _LARGEST_PAGE))) as runs:
            async for run in runs:
                shown.item(run)
                left -= 1
                if not left:
                    break
        shown.end()
        return ExitCode.OK

    carry_out(work, server=Named(address=address, context=context))


def inbox(
    run_id: Annotated[
        str,
        typer.Argument(metavar="[RUN]", help="Only those of this run.", autocompletion=completing.runs),
    ] = "",
    parent: Annotated[
        str,
        typer.Option(
            "--parent",
            metavar="RUN",
            help="Only those of runs that this one started, and of all below.",
            autocompletion=completing.runs,
        ),
    ] = "",
    *,
    kind: Annotated[
        str, typer.Option("--kind", metavar="KIND", help="Only questions of this kind, such as approval.")
    ] = "",
    output: OutputOption = None,
    as_json: JsonOption = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """List the open questions of all runs, oldest first, with the commands that answer them."""
    if run_id and parent:
        raise typer.BadParameter("give RUN for its own questions, or --parent for those below it")
    form, of_kind = chosen_form(output, as_json), _kind(kind)
    server = Named(address=address, context=context)

    async def work(client: "JacklineClient", screen: Screen) -> ExitCode:
        shown = Output(
            screen=screen, listing=INTERRUPTS, form=form, lines=lambda one: _question(one, server.flag)
        )
        asked = client.list_interrupts(
            run_id or parent, children=bool(parent), kind=of_kind, view=View.VIEW_FULL
        )
        async with aclosing(asked) as interrupts:
            async for interrupt in interrupts:
                if interrupt.run_id != parent:
                    shown.item(interrupt)
        shown.end(await _below_words(client, run_id, server.flag) if run_id and shown.is_empty else "")
        return ExitCode.OK

    carry_out(work, server=server)


async def _below_words(client: "JacklineClient", run_id: str, flag: str) -> str:
    """Where the questions of the runs below are listed; empty without any."""
    below = await asked_below(client, run_id, view=View.VIEW_METADATA)
    if not below:
        return ""
    command = f"jackline inbox --parent {printable(run_id, limit=_NAME)}{flag}"
    return f"no open questions of its own, {count(len(below), 'question')} below it: {command}"


def _question(interrupt: Interrupt, flag: str) -> Iterator[Line]:
    raised = f"{interrupt.raised_at.ToDatetime():%Y-%m-%d %H:%M} UTC"
    kind = enum_word(InterruptKind.Name, interrupt.kind, "INTERRUPT_KIND_").replace("_", " ")
    yield Line(
        text=f"{interrupt.run_id}  {kind}, step {short(interrupt.step_id)}, since {raised}", style="head"
    )
    if interrupt.parent_run_id:
        yield Line(text=f"  started by {interrupt.parent_run_id}")
    yield from _asked(interrupt)
    for command in answer_commands(interrupt.run_id, interrupt, flag):
        yield Line(text=f"    {command}", style="ask")


def _asked(interrupt: Interrupt) -> Iterator[Line]:
    for number, text in enumerate(asked_lines(interrupt)):
        yield Line(text=f"  {'' if number else '? '}{text}", style="ask")
    for text in decided_lines(interrupt, interrupt.arguments_json):
        yield Line(text=f"    | {text}")
    for text in around_lines(interrupt):
        yield Line(text=f"    {text}")


def _kind(name: str) -> InterruptKind.ValueType:
    if not name:
        return InterruptKind.INTERRUPT_KIND_UNSPECIFIED
    known = {
        key.removeprefix("INTERRUPT_KIND_").lower(): value for key, value in InterruptKind.items() if value
    }
    if name not in known:
        raise typer.BadParameter(f"--kind {name!r}: write one of {', '.join(known)}")
    return known[name]


def _details(run: Run, held: list[Line], below: list[Interrupt], address_flag: str) -> Iterator[Line]:
    yield Line(text=f"run {run.run_id} of {printable(run.workflow, limit=_NAME)}", style="head")
    yield from _standing(run)
    yield from held
    yield summary(run)
    yield from budget_lines(run)
    for step in run.steps:
        tokens = count(step.ledger.tokens, "token")
        yield Line(text=f"  step {step.step_id} (visit {step.visit}): {step.signal}, {tokens}")
    for interrupt in run.interrupts:
        yield from _asked(interrupt)
        for command in answer_commands(run.run_id, interrupt, address_flag):
            yield Line(text=f"    {command}", style="ask")
    yield from below_lines(below, address_flag)
    if run.outcome.error:
        word = "why" if run.stop_reason == StopReason.STOP_REASON_OPERATOR else "error"
        yield Line(text=f"  {word}: {run.outcome.error}", style="bad")
    if run.outcome.result_json:
        yield Line(text="  result:")
        for text in printable_lines(run.outcome.result_json.decode("utf-8", "replace")):
            yield Line(text=f"    {text}")


def _living(child: ChildRun) -> str:
    given = f", given {count(child.token_share, 'token')}" if child.HasField("token_share") else ""
    return f"lives{given}"


def _standing(run: Run) -> Iterator[Line]:
    state = enum_word(RunState.Name, run.state, "RUN_STATE_")
    step = f", step {run.step_id}" if run.step_id else ""
    signal = "" if run.signal in {"", NO_SIGNAL_YET, state} else f": {run.signal}"
    yield Line(text=f"  {state}{signal}{step}, event {run.head_sequence}")
    if run.stop_reason == StopReason.STOP_REASON_OPERATOR:
        yield Line(text="  stopped by a command")
    elif run.stop_reason not in _ORDINARY:
        reason = enum_word(StopReason.Name, run.stop_reason, "STOP_REASON_")
        yield Line(text=f"  stopped by {reason}" + (f" ({run.stop_leaf})" if run.stop_leaf else ""))
    yield Line(text=f"  created {run.created_at.ToDatetime():%Y-%m-%d %H:%M:%S} UTC")
    if run.HasField("start_time"):
        yield Line(text=f"  begins {stamp(run.start_time)} UTC")
    if run.thread_id:
        yield Line(text=f"  thread {run.thread_id}")
    if run.parent_run_id:
        yield Line(text=f"  started by {run.parent_run_id}")
    for child in run.children:
        how = f"{child.signal}, {count(child.tokens, 'token')}" if child.signal else _living(child)
        yield Line(text=f"  child {child.run_id} of {short(child.workflow)}: {how}")
    yield from waiting_lines(run)
    for key in sorted(run.labels):
        yield Line(text=f"  label {key}={run.labels[key]}")

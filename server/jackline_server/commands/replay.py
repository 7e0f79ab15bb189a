"""`jackline replay`: recorded runs decided again, offline, and the first step of each that differs.

Owns the words and the exit code. What is read and compared is `replaying`'s.
"""

import asyncio
import difflib
import json
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jackline_server.commands.given import (
    ConfigFile,
    DataFolder,
    Output,
    OutputForm,
    config_for,
    fail,
    flags_given,
    say,
    say_json,
)
from jackline_server.config import Config
from jackline_server.core.facts import Phase
from jackline_server.core.recorded.request_differences import Kind
from jackline_server.exit_codes import EXIT_DATA, EXIT_FOUND, EXIT_USAGE, store_code
from jackline_server.runtime.ports.store_errors import StoreError

if TYPE_CHECKING:
    from jackline_server.commands.replaying import Judged, Which

_COMMAND = "replay"
_SHOWN = 400
_SAID_BY_THE_FACTS = (Kind.DECISION, Kind.RESERVATION)
"""Kinds of differences that two facts show; the others are between what a log does not hold."""


def replay(  # noqa: PLR0913 - one parameter a flag
    run: Annotated[str, typer.Argument(metavar="[RUN]", help="One run, by its id.")] = "",
    *,
    against: Annotated[
        str,
        typer.Option(
            "--against",
            metavar="REVISION|FILE",
            help="A revision (name, name@alias, name@digest) or a file; else each run's own plan.",
        ),
    ] = "",
    workflow: Annotated[
        str, typer.Option("--workflow", metavar="NAME", help="Without RUN: runs of this workflow.")
    ] = "",
    state: Annotated[
        list[str] | None,
        typer.Option("--state", metavar="STATE", help="Without RUN: only these, such as succeeded."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, metavar="N", help="Without RUN: so many of the newest.")
    ] = 50,
    full: Annotated[bool, typer.Option("--full", help="Show what was said and given, too.")] = False,
    config: ConfigFile = None,
    data: DataFolder = None,
    output: OutputForm = Output.TEXT,
) -> None:
    """Decide recorded runs again, and show the first step of each that differs.

    Reads the data folder, whose server may run, and asks no model and no tool: what they answered is taken
    from the log, and so are commands and timers. The exit code is 1 if a run differs, or can't be read.
    """
    if bool(run) == bool(workflow) and (run or not against):
        raise typer.BadParameter("name one run, or the runs of a --workflow")
    if run and state:
        raise typer.BadParameter("--state goes with --workflow")
    phases = _phases(state or ())
    loaded = config_for(_COMMAND, config, flags_given({"data": data}), code=EXIT_USAGE)
    from jackline_server.commands.replaying import CannotReplay, Which  # noqa: PLC0415 - help needs none of it

    logging.getLogger().addHandler(logging.NullHandler())  # what is worth saying is said here
    which = Which(run_id=run, workflow=workflow, phases=phases, limit=limit)
    try:
        found = asyncio.run(_judged(loaded, which, against, output, full=full))
    except CannotReplay as refused:
        fail(_COMMAND, EXIT_DATA, *refused.lines)
    except StoreError as error:
        fail(_COMMAND, store_code(error), str(error))
    if output is Output.JSON:
        say_json(_document(found, full=full))
    else:
        _sum_up(found)
    if not all(one.same for one in found):
        raise typer.Exit(EXIT_FOUND)


def _phases(states: Sequence[str]) -> frozenset[Phase]:
    known = {phase.value for phase in Phase}
    for state in states:
        if state not in known:
            raise typer.BadParameter(f"--state {state!r}: one of {', '.join(sorted(known))}")
    return frozenset(Phase(state) for state in states)


async def _judged(
    config: Config, which: "Which", against: str, output: Output, *, full: bool
) -> "list[Judged]":
    """Each run, shown as soon as it is known."""
    from jackline_server.commands import replaying  # noqa: PLC0415 - help needs none of it
    from jackline_server.storage.sqlite.aside import reading_aside  # noqa: PLC0415 - see above

    found: list[Judged] = []
    async with reading_aside(config.server.data) as store:
        plan = await replaying.plan_against(store, config, against) if against else None
        if plan is not None and not which.run_id:
            if which.workflow and which.workflow != plan.name:
                raise replaying.CannotReplay(
                    f"--workflow is {which.workflow}, and --against names {plan.name}"
                )
            which = which.of_workflow(plan.name)
        tools = replaying.instruments()
        async with aclosing(replaying.rows(store, which)) as rows:
            async for row in rows:
                if plan is not None and plan.name != row.workflow:
                    raise replaying.CannotReplay(
                        f"{row.run_id} is a run of {row.workflow}, and --against names {plan.name}"
                    )
                one = await replaying.judged(store, row, plan, tools)
                found.append(one)
                if output is Output.TEXT:
                    say(*_lines(one, full=full))
        if not found and plan is None:
            await replaying.check_workflow(store, which)
    return found


# --- for people --------------------------------------------------------------------------------


def _lines(one: "Judged", *, full: bool) -> Iterator[str]:
    head = f"{one.row.run_id} {one.row.workflow}"
    if one.outcome is None:
        yield f"{head}: can't be replayed; {one.trouble}"
        return
    difference = one.outcome.difference
    if difference is None:
        yield f"{head}: the same, {one.outcome.decisions} decisions in {one.outcome.facts} events"
        return
    yield f"{head}: differs at event {difference.sequence}{_place(one)}"
    yield f"  {difference.kind.value}: {difference.detail}"
    if difference.kind in _SAID_BY_THE_FACTS:
        shown = _difference(one, full=full)
        yield from (f"  {name}: {_short(shown[name])}" for name in ("recorded", "now") if shown[name])
    if full and difference.texts is not None:
        then, now = (text.splitlines() for text in difference.texts)
        for line in difflib.unified_diff(then, now, fromfile="recorded", tofile="now", lineterm="", n=0):
            yield f"    {line}"


def _place(one: "Judged") -> str:
    if one.at is None or not one.at.envelope.step_id:
        return ""
    turn = f", turn {one.at.envelope.iteration}" if one.at.envelope.iteration else ""
    return f" (step {one.at.envelope.step_id}{turn})"


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _sum_up(found: "Sequence[Judged]") -> None:
    counts = _counts(found)
    if len(found) != 1:
        say(f"{len(found)} runs: " + ", ".join(f"{count} {word}" for word, count in counts.items()))


def _counts(found: "Sequence[Judged]") -> dict[str, int]:
    counted = Counter(
        "same" if one.same else "different" if one.outcome is not None else "unreadable" for one in found
    )
    return {word: counted[word] for word in ("same", "different", "unreadable")}


# --- for programs ------------------------------------------------------------------------------


def _document(found: "Sequence[Judged]", *, full: bool) -> dict[str, Any]:
    return {"runs": [_run(one, full=full) for one in found], **_counts(found)}


def _run(one: "Judged", *, full: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "run_id": one.row.run_id,
        "workflow": one.row.workflow,
        "state": one.row.phase.value,
        "verdict": "same" if one.same else "different" if one.outcome is not None else "unreadable",
    }
    if one.outcome is None:
        return {**shown, "trouble": one.trouble}
    shown |= {"events": one.outcome.facts, "decisions": one.outcome.decisions}
    if one.outcome.difference is not None:
        shown["difference"] = _difference(one, full=full)
    return shown


def _difference(one: "Judged", *, full: bool) -> dict[str, Any]:
    from jackline_server.codec.shown_facts import shown_fact  # noqa: PLC0415 - help needs none of it

    difference = one.outcome.difference if one.outcome is not None else None
    if difference is None:
        return {}
    shown: dict[str, Any] = {
        "sequence": difference.sequence,
        "kind": difference.kind.value,
        "detail": difference.detail,
        "step_id": one.at.envelope.step_id if one.at is not None else "",
        "iteration": one.at.envelope.iteration if one.at is not None else 0,
        "recorded": None if difference.recorded is None else shown_fact(difference.recorded, full=full),
        "now": None if difference.decided is None else shown_fact(difference.decided, full=full),
    }
    if full and difference.texts is not None:
        shown["texts"] = {"recorded": difference.texts[0], "now": difference.texts[1]}
    return shown

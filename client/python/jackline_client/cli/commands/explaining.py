"""`jackline explain`: why a run ended, from its log.

Owns reading the events and the lines for a person. The explanation is `jackline_client.explaining`'s.
"""

from collections.abc import Iterator, Mapping
from contextlib import aclosing
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer

from jackline.v1.event_pb2 import StepEvent
from jackline.v1.run_pb2 import View
from jackline_client.cli.below import asked_below, below_lines
from jackline_client.cli.exit_codes import ExitCode
from jackline_client.cli.forms import Column, Listing, Output, chosen_form
from jackline_client.cli.options import AddressOption, ContextOption, JsonOption, OutputOption, RunArgument
from jackline_client.cli.printable import printable
from jackline_client.cli.screen import Screen
from jackline_client.cli.server_choice import Named
from jackline_client.cli.session import carry_out
from jackline_client.cli.waits import waiting_words
from jackline_client.cli.wording import LONG, Line, count
from jackline_client.errors import PermissionDenied
from jackline_client.explaining import Cause, Explanation, Finding, Share, explain

if TYPE_CHECKING:
    from jackline_client import JacklineClient

_MOST_LINES = 200


def explain_run(
    run_id: RunArgument,
    *,
    metadata: Annotated[
        bool, typer.Option("--metadata", help="Without content: no arguments, results or words.")
    ] = False,
    output: OutputOption = None,
    as_json: JsonOption = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """Show why a run ended: the chain of causes from its log, what does not fit together, what it spent."""
    form = chosen_form(output, as_json)
    server = Named(address=address, context=context)

    async def work(client: "JacklineClient", screen: Screen) -> ExitCode:
        shown = Output(screen=screen, listing=_LISTING, form=form, lines=explanation_lines)
        found = explain(await _events(client, run_id, metadata=metadata))
        if not found.ended:
            found = replace(found, waiting=tuple(waiting_words(await client.get_run(run_id))))
        shown.item(found)
        if form is None and found.waits_for:
            view = View.VIEW_FULL if found.with_content else View.VIEW_METADATA
            for line in below_lines(await asked_below(client, run_id, view=view), server.flag):
                screen.line(line.text, style=line.style)
        return ExitCode.OK

    carry_out(work, server=server)


async def _events(client: "JacklineClient", run_id: str, *, metadata: bool) -> list[StepEvent]:
    """The run's events up to now; without content where the token may not see it."""
    if not metadata:
        try:
            return await _read(client, run_id, View.VIEW_FULL)
        except PermissionDenied:
            pass
    return await _read(client, run_id, View.VIEW_METADATA)


async def _read(client: "JacklineClient", run_id: str, view: View.ValueType) -> list[StepEvent]:
    head = (await client.get_run(run_id)).head_sequence
    events: list[StepEvent] = []
    if not head:
        return events
    async with aclosing(client.watch(run_id, view=view)) as frames:
        async for frame in frames:
            events.extend(event for event in frame.events if event.sequence <= head)
            if frame.sent_through >= head:
                break
    return events


# --- for programs ------------------------------------------------------------------------------


def _document(explanation: Explanation) -> Mapping[str, object]:
    return asdict(explanation)


_LISTING: Listing[Explanation] = Listing(
    columns=(
        Column(head="RUN", width=30, cell=lambda found: found.run_id),
        Column(head="WORKFLOW", width=20, cell=lambda found: found.workflow),
        Column(head="WHY", limit=LONG, cell=lambda found: found.summary),
    ),
    name=lambda found: found.run_id,
    document=_document,
)


# --- for a person ------------------------------------------------------------------------------


def explanation_lines(found: Explanation) -> Iterator[Line]:
    """The explanation in lines: the end, what led to it further in, then what else there is."""
    of = f" of {_safe(found.workflow)}" if found.workflow else ""
    yield Line(text=f"run {_safe(found.run_id)}{of}", style="head")
    yield Line(text=f"  {_safe(found.summary)}")
    yield from _section("now", list(found.waiting))
    if found.why is not None and found.ended:
        yield Line(text="why", style="head")
        yield from _cause_lines(found.why, depth=1)
    yield from _section("on the way", [_numbered(cause.sequence, cause.text) for cause in found.on_the_way])
    yield from _section("contradictions", [_finding(one) for one in found.contradictions], style="ask")
    yield from _section("cycles", [_finding(one) for one in found.cycles], style="ask")
    yield from _section("spent", [_share(share) for share in found.shares])
    yield from _section("not seen", list(_not_seen(found)), style="dim")


def _cause_lines(cause: Cause, *, depth: int) -> Iterator[Line]:
    yield Line(text="  " * depth + _numbered(cause.sequence, cause.text))
    for inner in cause.causes:
        yield from _cause_lines(inner, depth=depth + 1)


def _section(head: str, lines: list[str], *, style: str = "") -> Iterator[Line]:
    if not lines:
        return
    yield Line(text=head, style="head")
    for text in lines[:_MOST_LINES]:
        yield Line(text=f"  {text}", style=style)
    if len(lines) > _MOST_LINES:
        yield Line(text=f"  ... ({count(len(lines), 'line')})")


def _numbered(sequence: int, text: str) -> str:
    return f"#{sequence} {_safe(text)}" if sequence else _safe(text)


def _finding(found: Finding) -> str:
    return f"{_safe(found.text)} ({', '.join(f'#{sequence}' for sequence in found.sequences)})"


def _share(share: Share) -> str:
    used = _amount(share.used, share.unit)
    if share.held:
        used += f" used, {_amount(share.held, share.unit)} held"
    if share.limit is None:
        return f"{share.what}: {used}"
    part = 100 * (share.used + share.held) // share.limit
    return f"{share.what}: {used} of {_amount(share.limit, share.unit)} ({part} %)"


def _amount(number: int, unit: str) -> str:
    match unit:
        case "micros":
            return f"${number / 1_000_000:.6f}"
        case "ms":
            return f"{number / 1000:,.1f} s"
        case _:
            return f"{number:,}"


def _not_seen(found: Explanation) -> Iterator[str]:
    if not found.with_content:
        yield "arguments, results and words: the events were read without content"
    for first, last in found.missing:
        yield f"event {first}" if first == last else f"events {first} to {last}"
    if found.unknown_facts:
        yield f"{count(found.unknown_facts, 'event')} of a newer version"


def _safe(text: str) -> str:
    return printable(text, limit=LONG)

"""`jackline workers`: the pools of a server, and who serves them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from jackline.v1.tool_worker_pb2 import ToolWorker, WorkerPool
from jackline_client.cli import completing
from jackline_client.cli.exit_codes import ExitCode
from jackline_client.cli.forms import Column, Form, Listing, Output, chosen_form
from jackline_client.cli.options import AddressOption, ContextOption, JsonOption, OutputOption
from jackline_client.cli.screen import Screen
from jackline_client.cli.server_choice import Named
from jackline_client.cli.session import carry_out
from jackline_client.cli.wording import stamp

if TYPE_CHECKING:
    from jackline_client import JacklineClient

_NONE = "no pools; a connection of kind `worker` in the server's config makes one"
_LONG = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A row of the table: a worker of a pool, or that the pool has none."""

    pool: WorkerPool
    worker: ToolWorker | None


def _state(place: _Place) -> str:
    worker = place.worker
    if worker is None:
        return "no worker"
    if not worker.connected:
        return "away"
    return "leaving" if worker.draining else "connected"


_PLACES: Listing[_Place] = Listing(
    columns=(
        Column(head="POOL", width=16, cell=lambda place: place.pool.name),
        Column(head="WORKER", width=24, cell=lambda place: place.worker.worker if place.worker else ""),
        Column(head="STATE", width=9, cell=_state),
        Column(
            head="PLACES",
            width=7,
            is_number=True,
            cell=lambda place: (
                f"{place.worker.in_flight_count}/{place.worker.max_parallel}" if place.worker else ""
            ),
        ),
        Column(head="WAITING", width=7, is_number=True, cell=lambda place: f"{place.pool.waiting_count:,}"),
        Column(
            head="DROPPED",
            width=7,
            is_wide=True,
            is_number=True,
            cell=lambda place: f"{place.pool.dropped_results_count:,}",
        ),
        Column(
            head="PRINCIPAL",
            width=16,
            is_wide=True,
            cell=lambda place: place.worker.principal if place.worker else "",
        ),
        Column(
            head="SINCE (UTC)",
            width=19,
            is_wide=True,
            cell=lambda place: stamp(place.worker.started_at) if place.worker else "",
        ),
        Column(
            head="TOOLS",
            limit=_LONG,
            cell=lambda place: ",".join(place.worker.tools) if place.worker else "",
        ),
    ),
    name=None,
    none=_NONE,
)

_POOLS: Listing[WorkerPool] = Listing(columns=(), name=lambda pool: pool.name, none=_NONE)


def workers(
    pool: Annotated[
        str,
        typer.Argument(
            metavar="[POOL]",
            help="Only this pool; all of the server's config if left out.",
            autocompletion=completing.pools,
        ),
    ] = "",
    *,
    output: OutputOption = None,
    as_json: JsonOption = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """List the pools of tool workers: who serves which tools, and how many of its places are taken.

    A worker that is `away` has lost its stream and may come back; one that is `leaving` is called no more.
    WAITING counts the calls of the pool that wait for a worker, or for a place of one. -o json and yaml write
    one document a pool, with the tools as its workers describe them.
    """
    form = chosen_form(output, as_json)

    async def work(client: "JacklineClient", screen: Screen) -> ExitCode:
        pools = await client.list_tool_workers(pool)
        if form in {None, Form.TABLE, Form.WIDE}:
            table = Output(screen=screen, listing=_PLACES, form=form)
            for found in pools:
                for place in _places(found):
                    table.item(place)
            table.end()
            return ExitCode.OK
        shown = Output(screen=screen, listing=_POOLS, form=form)
        for found in pools:
            shown.item(found)
        return ExitCode.OK

    carry_out(work, server=Named(address=address, context=context))


def _places(pool: WorkerPool) -> Iterator[_Place]:
    for worker in pool.workers:
        yield _Place(pool=pool, worker=worker)
    if not pool.workers:
        yield _Place(pool=pool, worker=None)

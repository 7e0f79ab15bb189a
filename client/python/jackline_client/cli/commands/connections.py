"""`jackline connections`: what a server reaches, and how that goes just now."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from jackline.v1.connection_pb2 import Connection, ConnectionKind, ConnectionState
from jackline_client.cli.exit_codes import ExitCode
from jackline_client.cli.forms import Column, Listing, Output, chosen_form
from jackline_client.cli.options import AddressOption, ContextOption, JsonOption, OutputOption
from jackline_client.cli.printable import printable
from jackline_client.cli.screen import Screen
from jackline_client.cli.server_choice import Named
from jackline_client.cli.session import carry_out
from jackline_client.cli.wording import count, enum_word

if TYPE_CHECKING:
    from jackline_client import JacklineClient

_LONG = 160
_NONE = "no connections and no models; the server's config names them"


def _state(one: Connection) -> str:
    return enum_word(ConnectionState.Name, one.state, "CONNECTION_STATE_").replace("_", " ")


def _rate(one: Connection) -> str:
    return f"{one.calls_left:,}/{one.calls_per_minute:,}" if one.HasField("calls_per_minute") else ""


def _about(one: Connection) -> Iterator[str]:
    """What there is to say beyond the numbers."""
    if one.HasField("left_alone"):
        yield f"for {one.left_alone.ToMilliseconds() / 1000:,.0f} s more"
    elif one.state == ConnectionState.CONNECTION_STATE_LEFT_ALONE:
        yield "the next call finds out"
    if one.failure_count:
        often = f" of {one.breaker_failures:,}" if one.breaker_failures else ""
        yield f"{one.failure_count:,}{often} failures in a row"
    if one.HasField("pool"):
        pool = one.pool
        yield count(pool.connected_count, "worker")
        yield f"{pool.taken_count:,} of {count(pool.places_count, 'place')} taken"
        if pool.draining_count:
            yield f"{pool.draining_count:,} leaving"
        if pool.away_count:
            yield f"{pool.away_count:,} away"
    if one.problem:
        yield one.problem


CONNECTIONS: Listing[Connection] = Listing(
    columns=(
        Column(head="NAME", width=20, cell=lambda one: one.name),
        Column(
            head="KIND",
            width=6,
            cell=lambda one: enum_word(ConnectionKind.Name, one.kind, "CONNECTION_KIND_"),
        ),
        Column(head="STATE", width=10, cell=_state),
        Column(
            head="CALLS",
            width=7,
            is_number=True,
            cell=lambda one: f"{one.in_flight_count:,}/{one.concurrency:,}",
        ),
        Column(head="WAITING", width=7, is_number=True, cell=lambda one: f"{one.waiting_count:,}"),
        Column(head="RATE LEFT", width=9, is_number=True, cell=_rate),
        Column(
            head="FAILURES",
            width=8,
            is_wide=True,
            is_number=True,
            cell=lambda one: f"{one.failure_count:,}/{one.breaker_failures:,}",
        ),
        Column(head="ABOUT", limit=_LONG, cell=lambda one: printable(", ".join(_about(one)), limit=_LONG)),
    ),
    name=lambda one: one.name,
    none=_NONE,
)


def connections(
    *,
    output: OutputOption = None,
    as_json: JsonOption = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """List the connections, data sources, pools of workers and models of a server, and how each does.

    CALLS are those in flight of as many as may be, WAITING those that wait for a place, a rate or a worker.
    One that is `unused` was asked nothing yet; one that `failed` is tried again by the next call; one that is
    `left alone` has failed so often in a row that calls fail at once for a while.
    """
    form = chosen_form(output, as_json)

    async def work(client: "JacklineClient", screen: Screen) -> ExitCode:
        shown = Output(screen=screen, listing=CONNECTIONS, form=form)
        for one in await client.list_connections():
            shown.item(one)
        shown.end()
        return ExitCode.OK

    carry_out(work, server=Named(address=address, context=context))

"""`jackline webhooks`: whom a server tells things, what became of each message, and sending one again."""

from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated

import typer

from jackline.v1 import webhook_service_pb2 as wire
from jackline_client.cli.exit_codes import ExitCode
from jackline_client.cli.forms import Column, Listing, Output, chosen_form
from jackline_client.cli.json_lines import json_line
from jackline_client.cli.options import AddressOption, ContextOption, JsonOption, OutputOption
from jackline_client.cli.screen import Screen
from jackline_client.cli.server_choice import Named
from jackline_client.cli.session import carry_out
from jackline_client.cli.wording import enum_word, stamp

if TYPE_CHECKING:
    from jackline_client import JacklineClient

_PAGE = 50
_LARGEST_PAGE = 500
_LONG = 120
STATES = ("pending", "delivered", "dead")

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="List webhooks and deliveries, send one again, try one out.",
)


def _state(delivery: wire.WebhookDelivery) -> str:
    return enum_word(wire.WebhookDeliveryState.Name, delivery.state, "WEBHOOK_DELIVERY_STATE_")


def _outcome(outcome: wire.WebhookAttemptOutcome.ValueType, status: int) -> str:
    word = enum_word(wire.WebhookAttemptOutcome.Name, outcome, "WEBHOOK_ATTEMPT_OUTCOME_")
    return f"{word} ({status})" if status else word


def _last(delivery: wire.WebhookDelivery) -> str:
    if not delivery.attempts:
        return ""
    return _outcome(delivery.attempts[-1].outcome, delivery.attempts[-1].status)


_WEBHOOKS: Listing[wire.Webhook] = Listing(
    columns=(
        Column(head="NAME", width=16, cell=lambda one: one.name),
        Column(head="TO", width=36, cell=lambda one: one.origin),
        Column(
            head="STATE",
            width=8,
            cell=lambda one: "stopped" if one.HasField("stopped_at") else "open",
        ),
        Column(head="PENDING", width=8, is_number=True, cell=lambda one: f"{one.pending_count:,}"),
        Column(head="DEAD", width=6, is_number=True, cell=lambda one: f"{one.dead_count:,}"),
        Column(
            head="DELIVERED",
            width=9,
            is_wide=True,
            is_number=True,
            cell=lambda one: f"{one.delivered_count:,}",
        ),
        Column(head="VIEW", width=8, is_wide=True, cell=lambda one: "full" if one.full else "metadata"),
        Column(head="EVENTS", limit=_LONG, cell=lambda one: ",".join(one.events)),
    ),
    name=lambda one: one.name,
    none="no webhooks; a section [webhooks.NAME] in the server's config makes one",
)

_DELIVERIES: Listing[wire.WebhookDelivery] = Listing(
    columns=(
        Column(head="DELIVERY", width=36, cell=lambda one: one.delivery_id),
        Column(head="WEBHOOK", width=12, cell=lambda one: one.webhook),
        Column(head="EVENT", width=18, cell=lambda one: one.event),
        Column(head="STATE", width=9, cell=_state),
        Column(head="TRIES", width=5, is_number=True, cell=lambda one: f"{one.attempts_count}"),
        Column(head="LAST", width=20, cell=_last),
        Column(head="RUN", width=30, is_wide=True, cell=lambda one: one.run_id),
        Column(head="CREATED (UTC)", width=19, is_wide=True, cell=lambda one: stamp(one.created_at)),
        Column(
            head="NEXT (UTC)",
            cell=lambda one: stamp(one.due_at) if one.HasField("due_at") else "",
        ),
    ),
    name=lambda one: one.delivery_id,
    none="no deliveries",
)


@app.command("ls")
def ls(
    *,
    output: OutputOption = None,
    as_json: JsonOption = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """List the webhooks of the server's config. One that is `stopped` has answered that it is gone."""
    form = chosen_form(output, as_json)

    async def work(client: "JacklineClient", screen: Screen) -> ExitCode:
        shown = Output(screen=screen, listing=_WEBHOOKS, form=form)
        for webhook in await client.webhooks.list_all():
            shown.item(webhook)
        shown.end()
        return ExitCode.OK

    carry_out(work, server=Named(address=address, context=context))


@app.command("deliveries")
def deliveries(
    webhook: Annotated[
        str, typer.Argument(metavar="[WEBHOOK]", help="Only those to this webhook; all if left out.")
    ] = "",
    *,
    state: Annotated[
        str, typer.Option("--state", metavar="STATE", help="Only pending, delivered or dead ones.")
    ] = "",
    run: Annotated[str, typer.Option("--run", metavar="RUN", help="Only those of this run.")] = "",
    limit: Annotated[int, typer.Option("--limit", min=1, metavar="N", help="At most this many.")] = _PAGE,
    output: OutputOption = None,
    as_json: JsonOption = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """List deliveries, newest first: where each stands, and what came of its attempts."""
    if state and state not in STATES:
        raise typer.BadParameter(f"--state {state!r}: write one of {', '.join(STATES)}")
    form = chosen_form(output, as_json)
    wanted = wire.WebhookDeliveryState.Value(f"WEBHOOK_DELIVERY_STATE_{state.upper() or 'UNSPECIFIED'}")

    async def work(client: "JacklineClient", screen: Screen) -> ExitCode:
        shown = Output(screen=screen, listing=_DELIVERIES, form=form)
        found = client.webhooks.deliveries(
            webhook, run_id=run, state=wanted, page_size=min(limit, _LARGEST_PAGE)
        )
        left = limit
        async with aclosing(found) as rows:
            async for row in rows:
                shown.item(row)
                left -= 1
                if not left:
                    break
        shown.end()
        return ExitCode.OK

    carry_out(work, server=Named(address=address, context=context))


@app.command("resend")
def resend(
    delivery_id: Annotated[str, typer.Argument(metavar="DELIVERY", help="The delivery, as msg_...")],
    *,
    as_json: JsonOption = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """Have a delivery sent again at once, under its id, whatever became of it."""

    async def work(client: "JacklineClient", screen: Screen) -> ExitCode:
        delivery = await client.webhooks.resend(delivery_id)
        if as_json:
            screen.raw(json_line(delivery))
        else:
            screen.line(f"{delivery.delivery_id} is sent to {delivery.webhook} again", style="dim")
        return ExitCode.OK

    carry_out(work, server=Named(address=address, context=context))


@app.command("test")
def try_out(
    webhook: Annotated[str, typer.Argument(metavar="WEBHOOK", help="The webhook.")],
    *,
    as_json: JsonOption = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """Send a webhook a message that tells of nothing, and say what came of it.

    The exit code is 1 unless it answers with a status of 2xx.
    """

    async def work(client: "JacklineClient", screen: Screen) -> ExitCode:
        tried = await client.webhooks.test(webhook)
        delivered = tried.outcome == wire.WEBHOOK_ATTEMPT_OUTCOME_DELIVERED
        if as_json:
            screen.raw(json_line(tried))
        else:
            took = f"{tried.duration.ToMilliseconds()} ms"
            style = "dim" if delivered else "bad"
            screen.line(f"{webhook}: {_outcome(tried.outcome, tried.status)}, {took}", style=style)
        return ExitCode.OK if delivered else ExitCode.RUN_FAILED

    carry_out(work, server=Named(address=address, context=context))

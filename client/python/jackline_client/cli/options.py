"""Flags that several commands share, once."""

from typing import Annotated

import typer

RECONNECT_FOR = "60s"


def _chosen_address(context: typer.Context, given: str | None) -> str | None:
    """The address after the command, else the one before it."""
    before: object = context.find_root().params.get("address")
    return given if given is not None else before if isinstance(before, str) else None


RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.")]
AddressOption = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="HOST:PORT",
        callback=_chosen_address,
        help="The server. Default: JACKLINE_ADDRESS, else 127.0.0.1:50051.",
    ),
]
ReconnectOption = Annotated[
    str,
    typer.Option(
        "--reconnect-for", metavar="TIME", help="How long to look for a server that went away, such as 10m."
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="One JSON object a line, with the field names of the API.")
]
ReasonOption = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why, for the record.")]
NoDeltasOption = Annotated[bool, typer.Option("--no-deltas", help="Show no text before it is final.")]

"""Flags that several commands share, once."""

from typing import Annotated

import typer

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.")]
AddressOption = Annotated[
    str | None,
    typer.Option(
        "--address", metavar="HOST:PORT", help="The server. Default: JACKLINE_ADDRESS, else 127.0.0.1:50051."
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="One JSON object a line, with the field names of the API.")
]
ReasonOption = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why, for the record.")]
NoDeltasOption = Annotated[bool, typer.Option("--no-deltas", help="Show no text before it is final.")]

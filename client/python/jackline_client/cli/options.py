"""Flags that several commands share, once."""

from typing import Annotated

import typer

from jackline_client.cli import completing
from jackline_client.cli.forms import Form

RECONNECT_FOR = "60s"

MOST_SEQUENCE = 2**63 - 1
"""The largest number of an event, or of a message in a thread."""

MOST_SMALL = 2**32 - 1
"""The largest number of what the contract counts in 32 bits."""


def _before(context: typer.Context, name: str) -> str | None:
    """A flag as it stands before the command."""
    value: object = context.find_root().params.get(name)
    return value if isinstance(value, str) else None


def _chosen_address(context: typer.Context, given: str | None) -> str | None:
    """The address after the command, else the one before it."""
    return given if given is not None else _before(context, "address")


def _chosen_context(context: typer.Context, given: str | None) -> str | None:
    return given if given is not None else _before(context, "context")


RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="The run's id.", autocompletion=completing.runs)
]
OpenRunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="The run's id.", autocompletion=completing.open_runs)
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="HOST:PORT",
        callback=_chosen_address,
        help="The server. Default: JACKLINE_ADDRESS, else the context's, else 127.0.0.1:50051.",
    ),
]
ContextOption = Annotated[
    str | None,
    typer.Option(
        "--context",
        metavar="NAME",
        callback=_chosen_context,
        autocompletion=completing.contexts,
        help="The server by its name; `jackline context` names servers. Default: JACKLINE_CONTEXT.",
    ),
]
OutputOption = Annotated[
    Form | None,
    typer.Option("--output", "-o", metavar="FORM", help="table, wide, json, yaml or name."),
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
ExpectStateOption = Annotated[
    str | None,
    typer.Option(
        "--expect-state",
        metavar="STATE",
        help="Only if the run is in this state, such as paused.",
        autocompletion=completing.run_states,
    ),
]
ExpectSequenceOption = Annotated[
    int | None,
    typer.Option(
        "--expect-sequence",
        min=0,
        max=MOST_SEQUENCE,
        metavar="N",
        help="Only if this is the run's newest event; `jackline get` shows it.",
    ),
]
KindOption = Annotated[
    list[str] | None,
    typer.Option(
        "--kind",
        metavar="KIND",
        help="Only events of this kind, such as tool_call_finished.",
        autocompletion=completing.event_kinds,
    ),
]
NumbersOption = Annotated[
    bool,
    typer.Option("--numbers", help="Put its number before each event; `fork --at` and `--after` take one."),
]
OwnerOption = Annotated[
    str,
    typer.Option(
        "--owner",
        metavar="TIME",
        help="Own the run: it is aborted once nobody does for so long, such as 10s. Ctrl-C is going away; "
        "a machine that froze or lost its network is noticed up to 40s later.",
    ),
]
NoDeltasOption = Annotated[bool, typer.Option("--no-deltas", help="Show no text before it is final.")]

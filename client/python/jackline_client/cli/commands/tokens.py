"""`jackline token`."""

from typing import Annotated

import typer

from jackline_client.cli.exit_codes import exit_code_of_error
from jackline_client.cli.options import AddressOption, ContextOption
from jackline_client.cli.screen import make_screen
from jackline_client.cli.server_choice import Named
from jackline_client.errors import CredentialError, JacklineError

app = typer.Typer(
    no_args_is_help=True, add_completion=False, rich_markup_mode=None, help="The token for a server."
)


@app.callback()
def token() -> None:
    """The token for a server."""


@app.command("print")
def print_token(
    *,
    header: Annotated[bool, typer.Option("--header", help="As `authorization: Bearer …`.")] = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """Print the token, for `grpcurl -H "authorization: Bearer $(jackline token print)"`."""
    screen = make_screen()
    try:
        server = Named(address=address, context=context).choose()
        found = server.token()
        if found is None:
            raise CredentialError(f"no token for {server.address}: looked at {server.token_sources()}")
    except JacklineError as error:
        screen.problem(f"jackline: {error}")
        raise typer.Exit(exit_code_of_error(error)) from error
    screen.raw(f"authorization: Bearer {found}" if header else found)

"""One command's conversation with the server: connect, do, close; errors become a line and an exit code.

Owns the frame of every command. Does not own what a command does.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterator

import typer

from jackline_client import JacklineClient
from jackline_client.cli.exit_codes import ExitCode, exit_code_of_error
from jackline_client.cli.screen import Screen, make_screen
from jackline_client.credentials import find_address, find_token, is_loopback, token_path
from jackline_client.errors import (
    CallError,
    Internal,
    JacklineError,
    ScopeMissing,
    StreamCut,
    Unauthenticated,
    Unavailable,
)

Work = Callable[[JacklineClient, Screen], Awaitable[ExitCode]]


def carry_out(
    work: Work, *, address: str | None, when_interrupted: Callable[[], Iterator[str]] | None = None
) -> None:
    """Does the work with a client and exits with its code; never returns normally."""
    screen = make_screen()
    server = ""
    try:
        server = find_address(address)
        code = asyncio.run(_with_client(work, server, screen))
    except KeyboardInterrupt:
        screen.end_live()
        for line in when_interrupted() if when_interrupted else ():
            screen.problem(line)
        code = ExitCode.INTERRUPTED
    except BrokenPipeError:
        # Python would complain again when it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = ExitCode.PIPE_CLOSED
    except JacklineError as error:
        for line in explain(error, server):
            screen.problem(line)
        code = exit_code_of_error(error)
    raise typer.Exit(code)


async def _with_client(work: Work, server: str, screen: Screen) -> ExitCode:
    token = find_token(server)
    if token is not None and not is_loopback(server):
        screen.problem(f"jackline: warning: the token goes to {server} without encryption")
    async with JacklineClient(server, token=token) as client:
        return await work(client, screen)


def explain(error: JacklineError, server: str) -> Iterator[str]:
    """Yields what is wrong, where, and what to do, one line each."""
    reason = f" [{error.reason}]" if isinstance(error, CallError) and error.reason else ""
    match error:
        case Unavailable() if not error.reason:
            yield f"jackline: the server at {server} can't be reached: {error}"
            yield "  start one with `jackline serve`, or name another with --address or JACKLINE_ADDRESS"
        case Unauthenticated():
            yield f"jackline: the server at {server} refused the credential: {error}{reason}"
            yield f"  looked at JACKLINE_TOKEN, JACKLINE_TOKEN_FILE and {token_path(server)}"
        case ScopeMissing():
            yield f"jackline: {error}{reason}"
            yield f"  the token lacks the scope {error.metadata.get('scope', 'for it')}"
        case StreamCut():
            yield f"jackline: {error}"
            yield f"  go on with `jackline watch {error.run_id} --after {error.sent_through}`"
        case Internal() if error.metadata.get("incident_id"):
            yield f"jackline: {error}{reason}"
            yield f"  tell the operator the incident id {error.metadata['incident_id']}"
        case _:
            yield f"jackline: {error}{reason}"
    if isinstance(error, CallError):
        yield from _details(error)


def _details(error: CallError) -> Iterator[str]:
    for violation in error.field_violations:
        yield f"  {violation.field}: {violation.description}"
    if error.retry_after_s is not None:
        yield f"  try again in {error.retry_after_s:g} s"

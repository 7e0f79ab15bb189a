"""One command's conversation with the server: connect, do, close; errors become a line and an exit code.

Owns the frame of every command. Does not own what a command does.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterator

import typer

from jackline_client import JacklineClient, WatchPolicy
from jackline_client.cli.exit_codes import ExitCode, exit_code_of_error
from jackline_client.cli.given import WorkflowFiles
from jackline_client.cli.screen import Screen, make_screen
from jackline_client.cli.wording import count
from jackline_client.credentials import find_address, find_token, is_loopback, token_path
from jackline_client.errors import (
    CallError,
    FieldViolation,
    Internal,
    InvalidWorkflow,
    JacklineError,
    ScopeMissing,
    StreamCut,
    Unauthenticated,
    Unavailable,
    WorkflowNotFound,
)

Work = Callable[[JacklineClient, Screen], Awaitable[ExitCode]]


def carry_out(
    work: Work,
    *,
    address: str | None,
    when_interrupted: Callable[[], Iterator[str]] | None = None,
    given: WorkflowFiles | None = None,
    watch_policy: WatchPolicy | None = None,
) -> None:
    """Does the work with a client and exits with its code; never returns normally.

    `given` is the workflow that the work sends: findings in it are shown with the paths of its files.
    """
    screen = make_screen()
    server = ""
    try:
        server = find_address(address)
        code = asyncio.run(_with_client(work, server, screen, watch_policy))
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
        lines = (
            _findings(error, given)
            if isinstance(error, InvalidWorkflow) and given is not None
            else explain(error, server)
        )
        for line in lines:
            screen.problem(line)
        code = exit_code_of_error(error)
    raise typer.Exit(code)


async def _with_client(work: Work, server: str, screen: Screen, watch_policy: WatchPolicy | None) -> ExitCode:
    token = find_token(server)
    if token is not None and not is_loopback(server):
        screen.problem(f"jackline: warning: the token goes to {server} without encryption")
    async with JacklineClient(server, token=token, watch_policy=watch_policy) as client:
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
        case WorkflowNotFound():
            yield f"jackline: there is no workflow {error.metadata.get('workflow', '')!r} here{reason}"
            yield "  `jackline workflow ls` lists them; `jackline workflow put FILE` adds one"
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


def _findings(error: InvalidWorkflow, given: WorkflowFiles) -> Iterator[str]:
    yield f"jackline: {given.path} has {count(len(error.field_violations), 'error')} [{error.reason}]"
    for violation in error.field_violations:
        yield f"  {_placed(violation, given)}"


def _placed(violation: FieldViolation, given: WorkflowFiles) -> str:
    """The finding with the path of the file that was given, where the server has a name of its own for it."""
    file, separator, rest = violation.description.partition(":")
    path = given.path_of(file)
    code = f" [{violation.reason}]" if violation.reason else ""
    return f"{path}:{rest}{code}" if separator else f"{path}: {file}{code}"


def _details(error: CallError) -> Iterator[str]:
    for violation in error.field_violations:
        yield f"  {violation.field}: {violation.description}"
    if error.retry_after_s is not None:
        yield f"  try again in {error.retry_after_s:g} s"

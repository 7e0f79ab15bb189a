"""One command's conversation with the server: connect, do, close; errors become a line and an exit code.

Owns the frame of every command. Does not own what a command does.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import typer

import jackline_client
from jackline_client.cli.bound_words import as_typed, too_high, too_low
from jackline_client.cli.exit_codes import ExitCode, exit_code_of_error
from jackline_client.cli.given import WorkflowFiles
from jackline_client.cli.progress import FRAME_S, Progress
from jackline_client.cli.screen import Screen, make_screen
from jackline_client.cli.server_choice import Chosen, Named
from jackline_client.cli.streams import OutputLost, heed_lost_output
from jackline_client.cli.wording import count
from jackline_client.credentials import is_loopback
from jackline_client.errors import (
    BoundTooHigh,
    BoundTooLow,
    CallError,
    ExpectationFailed,
    FieldViolation,
    Internal,
    InvalidWorkflow,
    JacklineError,
    KillSwitchEngaged,
    ScopeMissing,
    StreamCut,
    ThreadBusy,
    Unauthenticated,
    Unavailable,
    WorkflowNotFound,
)

if TYPE_CHECKING:
    from jackline_client import JacklineClient, WatchPolicy

Work = Callable[["JacklineClient", Screen], Awaitable[ExitCode]]


def carry_out(
    work: Work,
    *,
    server: Named,
    when_interrupted: Callable[[], Iterator[str]] | None = None,
    given: WorkflowFiles | None = None,
    watch_policy: "WatchPolicy | None" = None,
) -> None:
    """Does the work with a client of the server and exits with its code; never returns normally.

    `given` is the workflow that the work sends: findings in it are shown with the paths of its files.
    """
    screen = make_screen()
    chosen: Chosen | None = None
    try:
        chosen = server.choose()
        code = asyncio.run(_with_client(work, chosen, screen, given, watch_policy))
    except KeyboardInterrupt:
        screen.end_live()
        for line in when_interrupted() if when_interrupted else ():
            screen.problem(line)
        code = ExitCode.INTERRUPTED
    except OutputLost as lost:
        heed_lost_output()
        if not lost.has_no_reader:
            for line in (*lost.lines(), *(when_interrupted() if when_interrupted else ())):
                screen.problem(line)
        code = lost.code
    except JacklineError as error:
        lines = (
            _findings(error, given)
            if isinstance(error, InvalidWorkflow) and given is not None
            else explain(error, chosen)
        )
        for line in lines:
            screen.problem(line)
        code = exit_code_of_error(error)
    raise typer.Exit(code)


async def _with_client(
    work: Work,
    server: Chosen,
    screen: Screen,
    given: WorkflowFiles | None,
    watch_policy: "WatchPolicy | None",
) -> ExitCode:
    token = server.token()
    if token is not None and not is_loopback(server.address):
        screen.problem(f"jackline: warning: the token goes to {server.address} without encryption")
    what = f"sending {given.path} to" if given is not None else "waiting for"
    screen.progress.about(f"{what} the server at {server.address}")
    client = jackline_client.JacklineClient(server.address, token=token, watch_policy=watch_policy)
    async with client, _progress(screen):
        return await work(client, screen)


async def _keep_shown(progress: Progress) -> None:
    """Until cancelled, or nobody sees it any more."""
    with suppress(OSError):
        while True:
            await asyncio.sleep(FRAME_S)
            progress.tick()


@asynccontextmanager
async def _progress(screen: Screen) -> AsyncGenerator[None]:
    task = asyncio.create_task(_keep_shown(screen.progress))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait((task,))
        screen.progress.about("")


def explain(error: JacklineError, server: Chosen | None) -> Iterator[str]:
    """Yields what is wrong, where, and what to do, one line each; without a server if none was found."""
    reason = f" [{error.reason}]" if isinstance(error, CallError) and error.reason else ""
    match error:
        case Unavailable() if not error.reason:
            yield f"jackline: {_place(server)} can't be reached: {error}"
        case Unauthenticated():
            yield f"jackline: {_place(server)} refused the credential: {error}{reason}"
        case WorkflowNotFound():
            yield f"jackline: {error.metadata.get('workflow', '')!r}: {error}{reason}"
        case BoundTooHigh():
            yield f"jackline: {too_high(error)}{reason}"
        case BoundTooLow():
            yield f"jackline: {too_low(error)}{reason}"
        case ThreadBusy():
            yield f"jackline: {str(error).replace('by on_busy', 'by --on-busy')}{reason}"
        case _:
            yield f"jackline: {as_typed(str(error))}{reason}"
    yield from (f"  {hint}" for hint in _hints(error, server))
    if isinstance(error, CallError):
        yield from _details(error)
    yield from (f"  {note}" for note in getattr(error, "__notes__", ()))


def _place(server: Chosen | None) -> str:
    if server is None:
        return "the server"
    named_by = f" (the context {server.context.name!r})" if server.context is not None else ""
    return f"the server at {server.address}{named_by}"


def _hints(  # noqa: C901 - one case a hint
    error: JacklineError, server: Chosen | None
) -> Iterator[str]:
    match error:
        case Unavailable() if not error.reason:
            yield "start one with `jackline serve`, or name another with --address or --context"
        case Unauthenticated() if server is not None:
            source = server.token_source()
            yield (
                f"the token came from {source}" if source else f"no token: looked at {server.token_sources()}"
            )
        case ScopeMissing():
            yield f"the token lacks the scope {error.metadata.get('scope', 'for it')}"
        case ExpectationFailed() if "sequence" in error.metadata:
            yield f"it is {error.metadata.get('state', '')}, event {error.metadata['sequence']}"
        case WorkflowNotFound() if "file" not in error.metadata:
            yield "`jackline workflow ls` lists them; `jackline workflow put FILE` adds one"
        case ThreadBusy() if error.metadata.get("run_id"):
            yield f"the active run is {error.metadata['run_id']}"
        case KillSwitchEngaged():
            yield "`jackline kill` says who engaged it and why; with --release it lets runs begin again"
        case StreamCut():
            yield f"go on with `jackline watch {error.run_id} --after {error.sent_through}`"
        case Internal() if error.metadata.get("incident_id"):
            yield f"tell the operator the incident id {error.metadata['incident_id']}"
        case _:
            pass


def _findings(error: InvalidWorkflow, given: WorkflowFiles) -> Iterator[str]:
    yield f"jackline: {given.path} has {count(len(error.field_violations), 'error')} [{error.reason}]"
    for violation in error.field_violations:
        yield f"  {_placed(violation, given)}"
    if given.hint:
        yield f"  {given.hint}"


def _placed(violation: FieldViolation, given: WorkflowFiles) -> str:
    """The finding with the path of the file that was given, where the server has a name of its own for it."""
    file, separator, rest = violation.description.partition(":")
    path = given.path_of(file)
    code = f" [{violation.reason}]" if violation.reason else ""
    return f"{path}:{rest}{code}" if separator else f"{path}: {file}{code}"


def _details(error: CallError) -> Iterator[str]:
    for violation in () if isinstance(error, BoundTooHigh | BoundTooLow) else error.field_violations:
        if violation.description not in error.message:
            yield f"  {as_typed(violation.field) or 'the request'}: {violation.description}"
    if error.metadata.get("truncated"):
        yield "  and more, which the server left out"
    if error.retry_after_s is not None:
        yield f"  try again in {error.retry_after_s:g} s"

"""`jackline threads`: list, read and append."""

from collections.abc import Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated

import typer

from jackline.v1.run_pb2 import MessageRole, View
from jackline.v1.thread_pb2 import NewThreadMessage, Thread, ThreadMessage
from jackline_client.cli import completing
from jackline_client.cli.exit_codes import ExitCode
from jackline_client.cli.forms import Output, chosen_form
from jackline_client.cli.json_lines import json_line
from jackline_client.cli.listings import THREAD_MESSAGES, THREADS
from jackline_client.cli.options import MOST_SEQUENCE, AddressOption, ContextOption, JsonOption, OutputOption
from jackline_client.cli.printable import printable_lines
from jackline_client.cli.prompting import read_prompt
from jackline_client.cli.screen import Screen
from jackline_client.cli.server_choice import Named
from jackline_client.cli.session import carry_out
from jackline_client.cli.wording import Line, count, enum_word, stamp

if TYPE_CHECKING:
    from jackline_client import JacklineClient

_PAGE = 50
_LARGEST_PAGE = 500

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="List, read and append to conversations.",
)

ThreadArgument = Annotated[
    str, typer.Argument(metavar="THREAD", help="The conversation.", autocompletion=completing.threads)
]


@app.command("ls")
def ls(
    limit: Annotated[int, typer.Option("--limit", min=1, metavar="N", help="At most this many.")] = _PAGE,
    *,
    output: OutputOption = None,
    as_json: JsonOption = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """List threads, newest first."""
    form = chosen_form(output, as_json)

    async def work(client: "JacklineClient", screen: Screen) -> ExitCode:
        shown = Output(screen=screen, listing=THREADS, form=form)
        left = limit
        async with aclosing(client.list_threads(page_size=min(limit, _LARGEST_PAGE))) as threads:
            async for thread in threads:
                shown.item(thread)
                left -= 1
                if not left:
                    break
        shown.end()
        return ExitCode.OK

    carry_out(work, server=Named(address=address, context=context))


@app.command("get")
def get(
    thread_id: ThreadArgument,
    *,
    after: Annotated[
        int,
        typer.Option(
            "--after", min=0, max=MOST_SEQUENCE, metavar="N", help="Only messages after this position."
        ),
    ] = 0,
    output: OutputOption = None,
    as_json: JsonOption = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """Show the messages of a thread, oldest first."""
    form = chosen_form(output, as_json)
    server = Named(address=address, context=context)

    async def work(client: "JacklineClient", screen: Screen) -> ExitCode:
        thread = await client.get_thread(thread_id)
        shown = Output(screen=screen, listing=THREAD_MESSAGES, form=form, lines=_said)
        if form is None:
            for line in _standing(thread):
                screen.line(line.text, style=line.style)
        found = client.thread_messages(thread_id, view=View.VIEW_FULL, after_position=after)
        async with aclosing(found) as messages:
            async for message in messages:
                shown.item(message)
        shown.end()
        return ExitCode.OK

    carry_out(work, server=server)


@app.command("append")
def append(
    thread_id: ThreadArgument,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What was said; - reads it.")],
    *,
    role: Annotated[
        str,
        typer.Option(
            "--role", metavar="ROLE", help="user or assistant.", autocompletion=completing.message_roles
        ),
    ] = "user",
    request_id: Annotated[
        str | None,
        typer.Option("--request-id", metavar="ID", help="A repeat with the same id adds nothing."),
    ] = None,
    as_json: JsonOption = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """Add a message to a thread, which is made if there is none; it follows those of an active run."""
    if role not in completing.MESSAGE_ROLES:
        raise typer.BadParameter(f"--role {role!r}: write one of {', '.join(completing.MESSAGE_ROLES)}")
    message = NewThreadMessage(
        role=MessageRole.Value(f"MESSAGE_ROLE_{role.upper()}"), text=read_prompt(text, None, name="TEXT")
    )

    async def work(client: "JacklineClient", screen: Screen) -> ExitCode:
        answer = await client.append_messages(thread_id, message, request_id=request_id)
        if as_json:
            screen.raw(json_line(answer))
        elif answer.pending:
            screen.line(f"kept until run {answer.thread.active_run_id} ends", style="dim")
        else:
            screen.line(count(answer.thread.message_count, "message"), style="dim")
        return ExitCode.OK

    carry_out(work, server=Named(address=address, context=context))


def _standing(thread: Thread) -> Iterator[Line]:
    yield Line(text=f"thread {thread.thread_id}", style="head")
    runs = count(thread.ended_runs, "run")
    tokens = count(thread.usage.prompt_tokens + thread.usage.completion_tokens, "token")
    yield Line(text=f"  {count(thread.message_count, 'message')}, {runs}, {tokens}")
    if thread.active_run_id:
        waiting = f", {thread.waiting_runs} waiting" if thread.waiting_runs else ""
        yield Line(text=f"  run {thread.active_run_id} is active{waiting}")
    if thread.pending_messages:
        yield Line(text=f"  {count(thread.pending_messages, 'message')} kept until it ends")


def _said(message: ThreadMessage) -> Iterator[Line]:
    role = enum_word(MessageRole.Name, message.role, "MESSAGE_ROLE_")
    whose = f"run {message.run_id}" if message.run_id else f"from {message.principal}"
    head = f"{message.position}  {role}, {whose}, {stamp(message.added_at)} UTC"
    yield Line(text=head, style="head")
    for call in message.message.tool_calls:
        yield Line(text=f"    calls {call.tool}({call.arguments_json.decode('utf-8', 'replace')})")
    for text in printable_lines(message.message.text):
        yield Line(text=f"    {text}")

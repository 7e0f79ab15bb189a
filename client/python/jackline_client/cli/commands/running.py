"""`jackline run` and `jackline watch`."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

import jackline_client
from jackline.v1.run_service_pb2 import StartDisposition, StartRunResponse
from jackline.v1.thread_pb2 import OnBusy
from jackline_client.cli import completing
from jackline_client.cli.deadlines import read_deadline
from jackline_client.cli.exit_codes import ExitCode
from jackline_client.cli.following import Following, ResultView, follow, how_to_go_on
from jackline_client.cli.given import (
    WorkflowFiles,
    input_hints,
    read_bounds,
    read_input,
    read_kinds,
    read_labels,
    read_seconds,
    read_workflow,
)
from jackline_client.cli.json_lines import json_line
from jackline_client.cli.options import (
    MOST_SEQUENCE,
    RECONNECT_FOR,
    AddressOption,
    ContextOption,
    JsonOption,
    KindOption,
    NoDeltasOption,
    NumbersOption,
    OwnerOption,
    ReconnectOption,
    RunArgument,
)
from jackline_client.cli.prompting import Prompt, read_prompt, read_tools
from jackline_client.cli.screen import Screen, make_screen
from jackline_client.cli.server_choice import Named
from jackline_client.cli.session import carry_out
from jackline_client.cli.wording import stamp
from jackline_client.errors import InvalidInput

if TYPE_CHECKING:
    from jackline_client import JacklineClient, StartOptions


WorkflowOrNone = Annotated[
    str | None,
    typer.Argument(
        metavar="[WORKFLOW]",
        help="name, name@alias or name@digest; or use --file or --prompt.",
        autocompletion=completing.workflows,
    ),
]
PromptOption = Annotated[
    str | None,
    typer.Option("--prompt", metavar="TEXT", help="Let one agent do this, in place of WORKFLOW; - reads it."),
]
SystemOption = Annotated[
    str | None,
    typer.Option("--system", metavar="TEXT", help="With --prompt: what goes before it, such as a role."),
]
ModelOption = Annotated[
    str,
    typer.Option(
        "--model",
        metavar="PROFILE",
        help="With --prompt: the model. Default: the server's, if it has one only.",
        autocompletion=completing.models,
    ),
]
ToolsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--tools",
        metavar="CONNECTION[/TOOL],...",
        help="With --prompt: MCP connections of the server that the agent may use, or single tools of them.",
    ),
]


def run(
    workflow: WorkflowOrNone = None,
    *,
    input_text: Annotated[
        str | None, typer.Option("--input", metavar="JSON", help="The input; - reads it.")
    ] = None,
    input_file: Annotated[
        str | None, typer.Option("--input-file", metavar="FILE", help="The input as a file.")
    ] = None,
    pairs: Annotated[
        list[str] | None,
        typer.Option("-i", metavar="KEY=TEXT", help="One key of the input; key:=JSON for other than text."),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option(
            "--file", metavar="FILE", help="A workflow file in place of WORKFLOW, with its steps' files."
        ),
    ] = None,
    prompt: PromptOption = None,
    prompt_file: Annotated[
        str | None, typer.Option("--prompt-file", metavar="FILE", help="The prompt as a file.")
    ] = None,
    system: SystemOption = None,
    model: ModelOption = "",
    tools: ToolsOption = None,
    show_workflow: Annotated[
        bool,
        typer.Option("--show-workflow", help="With --prompt: print the workflow it makes and start nothing."),
    ] = False,
    request_id: Annotated[
        str | None,
        typer.Option("--request-id", metavar="ID", help="A repeat with the same id starts nothing new."),
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option("--label", metavar="KEY=VALUE", help="To find it again.")
    ] = None,
    bound: Annotated[
        list[str] | None,
        typer.Option(
            "--bound",
            metavar="NAME=VALUE",
            help="token_budget, cost_budget_usd, steps, events, child_depth, run_timeout.",
        ),
    ] = None,
    thread: Annotated[
        str,
        typer.Option(
            "--thread",
            metavar="ID",
            help="Continue this conversation, or begin it.",
            autocompletion=completing.threads,
        ),
    ] = "",
    on_busy: Annotated[
        str,
        typer.Option(
            "--on-busy",
            metavar="WHAT",
            help="With --thread, if a run of it is active: reject, enqueue, steer or replace.",
            autocompletion=completing.on_busy,
        ),
    ] = "",
    deadline: Annotated[
        str,
        typer.Option(
            "--deadline",
            metavar="WHEN",
            help="When the run ends at the latest: a span such as 15m, or a time, with a date or without.",
        ),
    ] = "",
    owner: OwnerOption = "",
    start_delay: Annotated[
        str,
        typer.Option(
            "--start-delay",
            metavar="SPAN",
            help="Begin so much later, such as 10m; until then the run is queued. Not with --thread.",
        ),
    ] = "",
    detach: Annotated[bool, typer.Option("--detach", help="Print the run's id and leave.")] = False,
    result_only: Annotated[
        bool, typer.Option("--result-only", help="Print what came out and nothing else.")
    ] = False,
    as_json: JsonOption = False,
    no_deltas: NoDeltasOption = False,
    reconnect_for: ReconnectOption = RECONNECT_FOR,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """Start a run and show it until it ends.

    With --json the first line is the answer to the start and each further one an event. With --prompt the
    input is data for the agent, which is told to follow no instructions in it.
    """
    has_prompt = prompt is not None or prompt_file is not None
    _refuse_what_does_not_go_together(
        sources=(workflow is not None, file is not None, has_prompt),
        of_a_prompt=(bool(model), bool(tools), system is not None, show_workflow),
        views=(result_only, detach, as_json),
        readable=(prompt, prompt_file, input_text, input_file, file),
    )
    if owner and detach:
        raise typer.BadParameter("--owner is for whoever stays; leave out --detach")
    value = read_input(input_text, input_file, pairs or ())
    if thread and has_prompt and value is None:
        raise typer.BadParameter(
            "--thread with --prompt needs an input: what the user says, such as -i message=..."
        )
    asked = None
    if has_prompt:
        asked = Prompt(
            text=read_prompt(prompt, prompt_file),
            system=read_prompt(system, None, name="--system") if system is not None else "",
            model=model,
            tools=read_tools(tools or ()),
            has_input=value is not None,
        )
    start = _Start(
        workflow=workflow,
        given=asked.composed() if asked is not None else read_workflow(file) if file is not None else None,
        prompt=asked,
        value=value,
        pairs=pairs or (),
        request_id=request_id,
        options=_start_options(
            label or (),
            bound or (),
            thread=thread,
            on_busy=on_busy,
            deadline=deadline,
            start_delay=start_delay,
        ),
    )
    server = Named(address=address, context=context)
    if show_workflow:
        _show_workflow(start, server)
    how = Following(
        as_json=as_json,
        deltas=not no_deltas,
        server=server,
        result=_shown_result(result_only=result_only, has_prompt=has_prompt),
        owner=_checked_owner(owner),
    )
    _run(start, how, detach=detach, reconnect_for=reconnect_for)


def _refuse_what_does_not_go_together(
    *,
    sources: tuple[bool, bool, bool],
    of_a_prompt: Sequence[bool],
    views: Sequence[bool],
    readable: Sequence[str | None],
) -> None:
    """Raises typer.BadParameter. `sources` are a name, a file and a prompt; the rest are flags as given."""
    if sum(sources) != 1:
        raise typer.BadParameter("give one of these: a workflow's name, --file FILE, --prompt TEXT")
    if any(of_a_prompt) and not sources[-1]:
        raise typer.BadParameter("--model, --tools, --system and --show-workflow go with --prompt")
    if sum(views) > 1:
        raise typer.BadParameter("--result-only, --detach and --json show three things; give one of them")
    if readable.count("-") > 1:
        raise typer.BadParameter("standard input can be read once: `-` stands twice")


def _checked_owner(text: str) -> str:
    """Returns the grace of an owner as it was typed. Raises BadParameter if it is no time."""
    if text:
        read_seconds(text, flag="--owner")
    return text


def _shown_result(*, result_only: bool, has_prompt: bool) -> ResultView:
    if result_only:
        return ResultView.ONLY
    return ResultView.AT_END if has_prompt else ResultView.AS_EVENT


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """What is started. Exactly one of a name and a given workflow; a prompt has its workflow given."""

    workflow: str | None
    given: WorkflowFiles | None
    prompt: Prompt | None
    value: bytes | None
    pairs: Sequence[str]
    """The pairs of the command line that are in the value, as they were typed."""
    request_id: str | None
    options: "StartOptions"

    async def composed(self, client: "JacklineClient") -> WorkflowFiles | None:
        """The workflow to send, with its model: asks the server which there is, if none was named."""
        if self.prompt is None or self.prompt.model:
            return self.given
        return self.prompt.with_model((await client.get_server_info()).models).composed()

    async def send(self, client: "JacklineClient") -> StartRunResponse:
        given = await self.composed(client)
        options = self.options.copy()
        if given is not None:
            options["inline_yaml"] = given.yaml
            options["files"] = given.files
        try:
            return await client.start_run(
                self.workflow, input=self.value, request_id=self.request_id, **options
            )
        except InvalidInput as error:
            for hint in input_hints(error.field_violations, self.pairs):
                error.add_note(hint)
            raise


def _start_options(
    labels: Iterable[str],
    bounds: Iterable[str],
    *,
    thread: str,
    on_busy: str,
    deadline: str,
    start_delay: str,
) -> "StartOptions":
    options = jackline_client.StartOptions(labels=read_labels(labels), thread_id=thread)
    if on_busy:
        if on_busy not in completing.ON_BUSY:
            raise typer.BadParameter(f"--on-busy {on_busy!r}: write one of {', '.join(completing.ON_BUSY)}")
        if not thread:
            raise typer.BadParameter("--on-busy goes with --thread")
        options["on_busy"] = OnBusy.Value(f"ON_BUSY_{on_busy.upper()}")
    if (read := read_bounds(bounds)) is not None:
        options["bounds"] = read
    if deadline:
        options["deadline"] = read_deadline(deadline, now=datetime.now().astimezone())
    if start_delay:
        if thread:
            raise typer.BadParameter("--start-delay does not go with --thread: start the run when it is time")
        options["start_delay"] = timedelta(seconds=read_seconds(start_delay, flag="--start-delay"))
    return options


def _show_workflow(start: _Start, server: Named) -> None:
    def show(screen: Screen, given: WorkflowFiles | None) -> None:
        for line in given.yaml.splitlines() if given is not None else ():
            screen.raw(line)

    if start.prompt is not None and start.prompt.model:
        show(make_screen(), start.given)
        raise typer.Exit(ExitCode.OK)

    async def work(client: "JacklineClient", screen: Screen) -> ExitCode:
        show(screen, await start.composed(client))
        return ExitCode.OK

    carry_out(work, server=server)


def _run(start: _Start, how: Following, *, detach: bool, reconnect_for: str) -> None:
    policy = jackline_client.WatchPolicy(reconnect_for_s=read_seconds(reconnect_for, flag="--reconnect-for"))
    started: list[str] = []

    async def work(client: "JacklineClient", screen: Screen) -> ExitCode:
        answer = await start.send(client)
        started.append(answer.run.run_id)
        if how.result is not ResultView.ONLY:
            _say_started(screen, answer, detach=detach, as_json=how.as_json)
        return ExitCode.OK if detach else await follow(client, screen, answer.run.run_id, how)

    def when_interrupted() -> Iterator[str]:
        if started:
            return how_to_go_on(started[0], how)
        return iter(
            ("jackline: interrupted before the server answered; look whether it started: `jackline ls`",)
        )

    carry_out(
        work,
        server=how.server,
        when_interrupted=when_interrupted,
        given=start.given,
        watch_policy=policy,
    )


def _say_started(screen: Screen, answer: StartRunResponse, *, detach: bool, as_json: bool) -> None:
    if as_json:
        screen.raw(json_line(answer))
    elif detach:
        screen.line(answer.run.run_id)
    elif answer.disposition == StartDisposition.START_DISPOSITION_QUEUED:
        screen.line(f"run {answer.run.run_id} {_what_it_waits_for(answer)}", style="dim")
    elif answer.disposition == StartDisposition.START_DISPOSITION_STEERED:
        screen.line(f"guidance for run {answer.run.run_id}, the active one of the thread", style="dim")
    elif answer.disposition == StartDisposition.START_DISPOSITION_REPLACED:
        screen.line(f"run {answer.run.run_id} follows the one it replaces", style="dim")
    elif answer.disposition == StartDisposition.START_DISPOSITION_DEDUPLICATED:
        screen.line(f"this request was made before: run {answer.run.run_id}", style="dim")


def _what_it_waits_for(answer: StartRunResponse) -> str:
    if answer.run.HasField("start_time"):
        return f"begins at {stamp(answer.run.start_time)} UTC"
    return f"waits for {'its turn in the thread' if answer.run.thread_id else 'a free place'}"


def watch(
    run_id: RunArgument,
    after: Annotated[
        int, typer.Option("--after", min=0, max=MOST_SEQUENCE, metavar="N", help="Start after this event.")
    ] = 0,
    *,
    kind: KindOption = None,
    children: Annotated[
        bool,
        typer.Option("--children", help="Show the runs that it starts too, each after a part of its id."),
    ] = False,
    numbers: NumbersOption = False,
    owner: OwnerOption = "",
    as_json: JsonOption = False,
    no_deltas: NoDeltasOption = False,
    reconnect_for: ReconnectOption = RECONNECT_FOR,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """Show a run from its first event until it ends; a finished one is shown again."""
    server = Named(address=address, context=context)
    how = Following(
        as_json=as_json,
        deltas=not no_deltas,
        after_sequence=after,
        kinds=read_kinds(kind or ()),
        children=children,
        numbers=numbers,
        server=server,
        owner=_checked_owner(owner),
    )
    policy = jackline_client.WatchPolicy(reconnect_for_s=read_seconds(reconnect_for, flag="--reconnect-for"))

    async def work(client: "JacklineClient", screen: Screen) -> ExitCode:
        return await follow(client, screen, run_id, how)

    carry_out(
        work,
        server=server,
        when_interrupted=lambda: how_to_go_on(run_id, how),
        watch_policy=policy,
    )

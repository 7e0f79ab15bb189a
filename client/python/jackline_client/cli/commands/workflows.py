"""`jackline workflow ls`, `get`, `put` and `describe`."""

from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jackline.v1.workflow_service_pb2 import GetWorkflowResponse, Severity
from jackline_client.cli import completing
from jackline_client.cli.commands.checking import finding_line
from jackline_client.cli.describing import described
from jackline_client.cli.exit_codes import ExitCode
from jackline_client.cli.forms import Output, chosen_form
from jackline_client.cli.given import read_workflow
from jackline_client.cli.json_lines import json_line
from jackline_client.cli.listings import DESCRIPTION, DIGEST, WORKFLOW, WORKFLOWS
from jackline_client.cli.options import AddressOption, ContextOption, JsonOption, OutputOption
from jackline_client.cli.printable import printable, printable_lines
from jackline_client.cli.screen import Screen
from jackline_client.cli.server_choice import Named
from jackline_client.cli.session import carry_out
from jackline_client.cli.wording import Line, short

if TYPE_CHECKING:
    from jackline_client import JacklineClient

_ALL_LINES = 100_000

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    help="List, read, put and describe workflows.",
)

WorkflowArgument = Annotated[
    str,
    typer.Argument(
        metavar="WORKFLOW",
        help="name, name@alias or name@digest; 8 digits of a digest will do.",
        autocompletion=completing.workflows,
    ),
]


@app.command("ls")
def list_workflows(
    *,
    output: OutputOption = None,
    as_json: JsonOption = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """List the workflows by name, each with its latest revision."""
    form = chosen_form(output, as_json)

    async def work(client: "JacklineClient", screen: Screen) -> ExitCode:
        shown = Output(screen=screen, listing=WORKFLOWS, form=form)
        async with aclosing(client.list_workflows()) as revisions:
            async for revision in revisions:
                shown.item(revision)
        shown.end()
        return ExitCode.OK

    carry_out(work, server=Named(address=address, context=context))


@app.command("get")
def get_workflow(
    workflow: WorkflowArgument,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FOLDER", help="Write the workflow and its files into this new folder."
        ),
    ] = None,
    *,
    output: OutputOption = None,
    as_json: JsonOption = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """Print a workflow's YAML as it was put, or write it with its files into a folder."""
    form = chosen_form(output, as_json)
    if out is not None and form is not None:
        raise typer.BadParameter("--out writes files and -o prints; give one of them")

    async def work(client: "JacklineClient", screen: Screen) -> ExitCode:
        found = await client.get_workflow(workflow)
        if out is not None:
            for path in _written(found, out):
                screen.line(str(path))
            return ExitCode.OK
        shown = Output(screen=screen, listing=WORKFLOW, form=form, lines=_yaml_lines)
        shown.item(found)
        for name in sorted(found.workflow.files) if form is None else ():
            screen.problem(f"jackline: it has the file {name} too; --out FOLDER writes it")
        return ExitCode.OK

    carry_out(work, server=Named(address=address, context=context))


def _yaml_lines(found: GetWorkflowResponse) -> Iterator[Line]:
    for text in printable_lines(found.workflow.yaml.removesuffix("\n"), lines=_ALL_LINES):
        yield Line(text=text)


def _written(found: GetWorkflowResponse, folder: Path) -> Iterator[Path]:
    """Writes a revision into a folder that must not exist yet: nothing is ever overwritten."""
    names = {f"{found.revision.name}.yaml": found.workflow.yaml.encode(), **found.workflow.files}
    for name in names:
        # What the server says is not trusted to stay inside of the folder.
        parts = name.split("/")
        if any(part in ("", ".", "..") for part in parts) or "\\" in name or "\0" in name:
            raise typer.BadParameter(f"the server names a file {printable(name)}, which is not written")
    try:
        folder.mkdir(parents=True)
        for name, content in names.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            yield path
    except OSError as error:
        raise typer.BadParameter(f"--out {folder}: {error.strerror}") from error


@app.command("put")
def put_workflow(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A workflow file; its `name` names it.")],
    *,
    alias: Annotated[
        str, typer.Option("--alias", metavar="ALIAS", help="The alias to move; latest if left out.")
    ] = "",
    expect_digest: Annotated[
        str,
        typer.Option(
            "--expect-digest", metavar="DIGEST", help="Only if the alias is there; `none`: nowhere."
        ),
    ] = "",
    as_json: JsonOption = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """Store a workflow file with the files it names, and move an alias to it."""
    given = read_workflow(file)

    async def work(client: "JacklineClient", screen: Screen) -> ExitCode:
        answer = await client.put_workflow(given.yaml, given.files, alias=alias, expect_digest=expect_digest)
        if as_json:
            screen.raw(json_line(answer))
            return ExitCode.OK
        for finding in answer.findings:
            if finding.severity == Severity.SEVERITY_WARNING:
                screen.problem(finding_line(finding, given))
        what = "stored" if answer.created else "was stored before"
        screen.line(f"{short(answer.revision.name)}@{answer.revision.digest[:DIGEST]} {what}", style="good")
        return ExitCode.OK

    carry_out(work, server=Named(address=address, context=context), given=given)


@app.command("describe")
def describe_workflow(
    workflow: WorkflowArgument,
    *,
    output: OutputOption = None,
    as_json: JsonOption = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """Show what a workflow can do and spend: its steps, its tools, its worst case.

    With --json the compiled plan too, every default resolved.
    """
    form = chosen_form(output, as_json)

    async def work(client: "JacklineClient", screen: Screen) -> ExitCode:
        shown = Output(screen=screen, listing=DESCRIPTION, form=form, lines=described)
        shown.item(await client.describe_workflow(workflow))
        return ExitCode.OK

    carry_out(work, server=Named(address=address, context=context))

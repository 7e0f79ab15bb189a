"""`jackline validate`."""

from typing import TYPE_CHECKING, Annotated

import typer

from jackline.v1.workflow_service_pb2 import Finding, Severity, ValidateWorkflowResponse
from jackline_client.cli.exit_codes import ExitCode
from jackline_client.cli.given import WorkflowFiles, read_workflow
from jackline_client.cli.json_lines import json_line
from jackline_client.cli.options import AddressOption, ContextOption, JsonOption
from jackline_client.cli.screen import Screen
from jackline_client.cli.server_choice import Named
from jackline_client.cli.session import carry_out
from jackline_client.cli.wording import enum_word

if TYPE_CHECKING:
    from jackline_client import JacklineClient

_MOST_FILES = 64
_MOST_BYTES = 240 * 1024
"""Each is sent with the others, of which a request takes so many, and no more."""


def validate(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Workflow files; - reads one from standard input.")
    ],
    *,
    strict: Annotated[
        bool, typer.Option("--strict", help="Warnings fail too, for a gate: the exit code is 1.")
    ] = False,
    as_json: JsonOption = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """Check workflow files with the files they name. Stores nothing.

    A step that runs another workflow finds it among the files given, else among those of the server.
    Needs a server: the models, connections and functions that a file names are those of that server.
    Prints each finding as file:line:column: severity: message [code].
    """
    if len(files) > _MOST_FILES:
        raise typer.BadParameter(f"at most {_MOST_FILES} files at once")
    if files.count("-") > 1:
        raise typer.BadParameter("- reads standard input, which can be read once")
    every = [read_workflow(file) for file in files]
    if len(every) > 1 and sum(len(given.yaml.encode()) for given in every) > _MOST_BYTES:
        raise typer.BadParameter(
            f"the files have more than {_MOST_BYTES} bytes together; check fewer at once"
        )

    async def work(client: "JacklineClient", screen: Screen) -> ExitCode:
        valid = True
        for given in every:
            beside = [other.yaml for other in every if other is not given]
            answer = await client.validate_workflow(given.yaml, given.files, beside=beside)
            _show(answer, given, screen, as_json=as_json)
            valid = valid and answer.valid and not (strict and _warns(answer))
        return ExitCode.OK if valid else ExitCode.RUN_FAILED

    carry_out(work, server=Named(address=address, context=context), given=every[0])


def _warns(answer: ValidateWorkflowResponse) -> bool:
    return any(finding.severity == Severity.SEVERITY_WARNING for finding in answer.findings)


def _show(answer: ValidateWorkflowResponse, given: WorkflowFiles, screen: Screen, *, as_json: bool) -> None:
    for finding in answer.findings:
        if as_json:
            finding.file = given.path_of(finding.file)
            screen.raw(json_line(finding))
        else:
            is_error = finding.severity == Severity.SEVERITY_ERROR
            screen.line(finding_line(finding, given), style="bad" if is_error else "")
    if answer.valid and not as_json and not answer.findings:
        screen.line(f"{given.path}: no findings", style="good")


def finding_line(finding: Finding, given: WorkflowFiles) -> str:
    """One finding as file:line:column: severity: message [code]."""
    path = given.path_of(finding.file)
    place = f"{path}:{finding.line}:{finding.column}" if finding.line else path
    severity = enum_word(Severity.Name, finding.severity, "SEVERITY_")
    return f"{place}: {severity}: {finding.message} [{finding.code}]"

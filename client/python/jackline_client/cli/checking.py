"""`jackline validate`."""

from typing import TYPE_CHECKING, Annotated

import typer

from jackline.v1.workflow_service_pb2 import Finding, Severity
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


def validate(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A workflow file; - reads it from standard input.")
    ],
    *,
    as_json: JsonOption = False,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """Check a workflow file with the files it names. Stores nothing.

    Needs a server: the models, connections and functions that the file names are those of that server.
    Prints each finding as file:line:column: severity: message [code].
    """
    given = read_workflow(file)

    async def work(client: "JacklineClient", screen: Screen) -> ExitCode:
        answer = await client.validate_workflow(given.yaml, given.files)
        for finding in answer.findings:
            if as_json:
                finding.file = given.path_of(finding.file)
                screen.raw(json_line(finding))
            else:
                is_error = finding.severity == Severity.SEVERITY_ERROR
                screen.line(finding_line(finding, given), style="bad" if is_error else "")
        if answer.valid and not as_json and not answer.findings:
            screen.line(f"{given.path}: no findings", style="good")
        return ExitCode.OK if answer.valid else ExitCode.RUN_FAILED

    carry_out(work, server=Named(address=address, context=context), given=given)


def finding_line(finding: Finding, given: WorkflowFiles) -> str:
    """One finding as file:line:column: severity: message [code]."""
    path = given.path_of(finding.file)
    place = f"{path}:{finding.line}:{finding.column}" if finding.line else path
    severity = enum_word(Severity.Name, finding.severity, "SEVERITY_")
    return f"{place}: {severity}: {finding.message} [{finding.code}]"

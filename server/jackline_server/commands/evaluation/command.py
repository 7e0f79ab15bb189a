"""`jackline eval`: cases run against a server, two evaluations compared, a run recorded as a case.

Owns the flags, and which of the three is done. Does not own what any of them does.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jackline_client.cli.exit_codes import ExitCode
from jackline_client.cli.options import AddressOption, ContextOption
from jackline_client.cli.server_choice import Named
from jackline_server.commands.given import Output, OutputForm, fail, say, say_json

if TYPE_CHECKING:
    from jackline_server.commands.evaluation.cases import Suite

_EVAL = "eval"
_MOST_AT_ONCE = 64


def evaluate(  # noqa: PLR0913 - one parameter a flag
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="Files of cases; with --compare two results.", metavar="FILE..."),
    ] = None,
    *,
    case: Annotated[list[str] | None, typer.Option("--case", help="Only this case.", metavar="NAME")] = None,
    at_once: Annotated[
        int, typer.Option(help="So many tries at once.", min=1, max=_MOST_AT_ONCE, metavar="N")
    ] = 4,
    check: Annotated[bool, typer.Option("--check", help="Read the files and start nothing.")] = False,
    save: Annotated[
        Path | None, typer.Option(help="Write the results there, for --compare.", metavar="FILE")
    ] = None,
    junit: Annotated[
        Path | None, typer.Option(help="Write JUnit's XML there, for a build server.", metavar="FILE")
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Compare two results, the older first; asks no server.")
    ] = False,
    record: Annotated[
        str | None,
        typer.Option(help="Write a script and the draft of a case from this run.", metavar="RUN"),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="With --record: the name of the case.", metavar="NAME")
    ] = None,
    into: Annotated[
        Path | None, typer.Option(help="With --record: the folder; this one if left out.", metavar="FOLDER")
    ] = None,
    output: OutputForm = Output.TEXT,
    address: AddressOption = None,
    context: ContextOption = None,
) -> None:
    """Run cases against a server and say which came out as expected.

    A case is a run with what is expected of it: its end, its outcome, the tools it called, what it used, a
    judge's word. The exit code is 0 if all passed, 1 if not, 2 if a file is wrong. Ctrl-C, SIGTERM
    or SIGHUP ends the runs that were started and writes what there is by then; another one changes nothing
    about that. --compare shows what passes no longer first, and its exit code is 1 then.
    """
    of_a_record = name is not None or into is not None
    of_running = bool(case or check or save or junit)
    _refuse_what_does_not_go_together(
        compare=compare, record=record is not None, of_a_record=of_a_record, of_running=of_running
    )
    server = Named(address=address, context=context)
    if record is not None:
        from jackline_server.commands.evaluation.keeping import record_run  # noqa: PLC0415 - help needs none

        record_run(record, name=name, into=into or Path(), server=server)
    elif compare:
        _compare(files or [], output)
    else:
        suites = _suites(files or [], case or [])
        if check:
            number = sum(len(suite.cases) for suite in suites)
            say(f"{number} {'case is' if number == 1 else 'cases are'} as they should be")
            return
        from jackline_server.commands.evaluation.carrying_out import (  # noqa: PLC0415 - help needs none
            Files,
            carry_out_cases,
        )

        kept = Files(save=save, junit=junit)
        carry_out_cases(suites, kept, output=output, at_once=at_once, server=server)


def _refuse_what_does_not_go_together(
    *, compare: bool, record: bool, of_a_record: bool, of_running: bool
) -> None:
    if compare and record:
        raise typer.BadParameter("give --compare or --record, not both")
    if of_running and (compare or record):
        raise typer.BadParameter("--case, --check, --save and --junit belong to running cases")
    if of_a_record and not record:
        raise typer.BadParameter("--name and --into belong to --record")


# --- running -----------------------------------------------------------------------------------


def _suites(files: Sequence[Path], only: Sequence[str]) -> list["Suite"]:
    """The cases of the files, those of these names; ends the command with every finding of all files."""
    from jackline_server.commands.evaluation.cases import (  # noqa: PLC0415 - help needs none of it
        CasesRefused,
        line_of,
        load_cases,
        only_cases,
    )

    if not files:
        raise typer.BadParameter("name a file of cases")
    suites: list[Suite] = []
    problems: list[str] = []
    for file in files:
        try:
            suites.append(load_cases(file))
        except CasesRefused as refused:
            problems += [line_of(finding) for finding in refused.findings]
    if problems:
        fail(_EVAL, ExitCode.USAGE, *problems)
    names = [suite.name for suite in suites]
    if twice := next((one for one in names if names.count(one) > 1), None):
        fail(_EVAL, ExitCode.USAGE, f"two files are named {twice}: give one of them another `name`")
    unknown = set(only) - {case.name for suite in suites for case in suite.cases}
    if unknown:
        fail(_EVAL, ExitCode.USAGE, f"there is no case {', '.join(sorted(unknown))}")
    return only_cases(suites, only)


def _compare(files: Sequence[Path], output: Output) -> None:
    from jackline_client.cli.screen import make_screen  # noqa: PLC0415 - help needs none of it
    from jackline_server.commands.evaluation.carrying_out import show_lines  # noqa: PLC0415 - see above
    from jackline_server.commands.evaluation.comparing import (  # noqa: PLC0415 - see above
        compared,
        comparison_lines,
    )
    from jackline_server.commands.evaluation.results import (  # noqa: PLC0415 - see above
        ResultsRefused,
        load_results,
    )

    if len(files) != 2:  # noqa: PLR2004 - before and after
        raise typer.BadParameter("--compare takes two files of results, the older first")
    try:
        before, after = (load_results(file) for file in files)
    except ResultsRefused as refused:
        fail(_EVAL, ExitCode.USAGE, str(refused))
    found = compared(before, after)
    if output is Output.JSON:
        say_json(found.document())
    else:
        show_lines(make_screen(), comparison_lines(before, after))
    raise typer.Exit(ExitCode.OK if found.is_sound else ExitCode.RUN_FAILED)

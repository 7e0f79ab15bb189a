"""`jackline eval`: cases run against a server, two evaluations compared, a run recorded as a case.

Owns the flags, which of the three is done, and where files go. Does not own what any of them does.
"""

import asyncio
import signal
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jackline_client.cli.exit_codes import ExitCode
from jackline_client.cli.options import AddressOption, ContextOption
from jackline_client.cli.output import OutputLost, let_go
from jackline_client.cli.server_choice import Named
from jackline_client.cli.session import carry_out
from jackline_server.commands.given import Output, OutputForm, fail, say, say_json

if TYPE_CHECKING:
    from jackline_client import JacklineClient
    from jackline_client.cli.screen import Screen
    from jackline_server.commands.evaluation.cases import Suite
    from jackline_server.commands.evaluation.reporting import Line
    from jackline_server.commands.evaluation.results import CaseResult, Results
    from jackline_server.commands.evaluation.running import Evaluation

_EVAL = "eval"
_MOST_AT_ONCE = 64
_TICK_S = 0.2


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
    judge's word. The exit code is 0 if all passed, 1 if not, 2 if a file is wrong. Ctrl-C, or SIGTERM, ends
    the runs that were started and writes what has come of them. --compare shows what passes no longer first,
    and its exit code is 1 then.
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
        _run(suites, _Writing(save=save, junit=junit, output=output), at_once=at_once, server=server)


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


class _Writing:
    """Where what comes of an evaluation goes."""

    def __init__(self, *, save: Path | None, junit: Path | None, output: Output) -> None:
        self._save = save
        self._junit = junit
        self.output = output

    @property
    def has_files(self) -> bool:
        """True if there is something to write whoever reads the output."""
        return self._save is not None or self._junit is not None

    def check(self) -> None:
        """Ends the command if a file could not be written: better before than after the runs."""
        from jackline_server.commands.writing import may_be_written  # noqa: PLC0415 - help needs none of it

        for path in (self._save, self._junit):
            if path is not None and not may_be_written(path):
                fail(_EVAL, ExitCode.USAGE, f"{path} can't be written: its folder is not there, or not yours")

    def write(self, results: "Results") -> None:
        """Write the files. A file that can't be written ends the command."""
        from jackline_server.commands.evaluation.reporting import junit  # noqa: PLC0415 - help needs none
        from jackline_server.commands.writing import write_whole  # noqa: PLC0415 - see above

        for path, text in ((self._save, results.text), (self._junit, lambda: junit(results))):
            if path is None:
                continue
            try:
                write_whole(path, text())
            except OSError as error:
                fail(_EVAL, ExitCode.OUTPUT_FAILED, f"{path} can't be written: {error.strerror}")


def _run(suites: Sequence["Suite"], writing: _Writing, *, at_once: int, server: Named) -> None:
    from jackline_server.commands.evaluation.door import Door  # noqa: PLC0415 - help needs none of it
    from jackline_server.commands.evaluation.reporting import case_lines  # noqa: PLC0415 - see above
    from jackline_server.commands.evaluation.running import Evaluation  # noqa: PLC0415 - see above
    from jackline_server.expressions.cel import CelExpressions  # noqa: PLC0415 - see above

    writing.check()

    async def work(client: "JacklineClient", screen: "Screen") -> ExitCode:
        ending = _Ending(screen, has_files=writing.has_files)

        def show(suite: str, case: "CaseResult") -> None:
            if writing.output is Output.TEXT:
                with ending.at_a_loss():
                    show_lines(screen, case_lines(suite, case, several=len(suites) > 1, flag=server.flag))

        evaluation = Evaluation(
            door=Door(client), suites=suites, expressions=CelExpressions(), at_once=at_once, on_case=show
        )
        progress = asyncio.create_task(_tell(screen, evaluation.told))
        try:
            results = await ending.run(evaluation)
            ended = None if results else await evaluation.stop("jackline eval was interrupted")
        finally:
            progress.cancel()
            await asyncio.wait((progress,))
        if results is not None:
            with ending.at_a_loss():
                _conclude(screen, results, writing.output)
        writing.write(results or evaluation.results(complete=False))
        if ended is not None:
            screen.problem(ended)
        if ending.lost is not None:
            raise ending.lost
        if results is None:
            return ExitCode.INTERRUPTED
        return ExitCode.OK if results.passed else ExitCode.RUN_FAILED

    carry_out(work, server=server)


class _Ending:
    """What ends an evaluation before its time: Ctrl-C, SIGTERM, or that nobody sees what comes of it.

    By SIGTERM a build server ends a step. Only the first of them counts: after it the runs are being ended,
    which takes no longer than it has to, and what has come of them is being written.
    """

    def __init__(self, screen: "Screen", *, has_files: bool) -> None:
        """With `has_files` a lost output is no end: what comes of it all is written elsewhere too."""
        self.lost: OutputLost | None = None
        self._screen = screen
        self._has_files = has_files
        self._running: asyncio.Task[Results] | None = None
        self._has_begun = False
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._told)

    async def run(self, evaluation: "Evaluation") -> "Results | None":
        """What comes of it all; None if it is ended before its time."""
        self._running = asyncio.create_task(evaluation.run())
        await asyncio.wait((self._running,))
        return None if self._running.cancelled() else self._running.result()

    @contextmanager
    def at_a_loss(self) -> Generator[None]:
        """For the time of showing something."""
        try:
            yield
        except OutputLost as lost:
            let_go()
            self.lost = self.lost or lost
            if not self._has_files:
                self._begin()

    def _told(self) -> None:
        if self._has_begun:
            self._screen.problem("the runs that were started are being ended")
        self._begin()

    def _begin(self) -> None:
        if self._running is not None and not self._running.done():
            self._running.cancel()
            self._has_begun = True


def _conclude(screen: "Screen", results: "Results", output: Output) -> None:
    """Say what came of it all. Raises OutputLost."""
    from jackline_server.commands.evaluation.reporting import summary  # noqa: PLC0415 - help needs none

    screen.end_live()
    if output is Output.JSON:
        for line in results.text().splitlines():
            screen.raw(line)
    else:
        show_lines(screen, summary(results))


async def _tell(screen: "Screen", told: Callable[[], str]) -> None:
    """Say what is under way, until cancelled."""
    while True:
        screen.progress.about(told())
        await asyncio.sleep(_TICK_S)


def show_lines(screen: "Screen", lines: Iterable["Line"]) -> None:
    """Write lines for a person."""
    for line in lines:
        screen.line(line.text, style=line.style)


def _compare(files: Sequence[Path], output: Output) -> None:
    from jackline_client.cli.screen import make_screen  # noqa: PLC0415 - help needs none of it
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

"""Cases run from the command line: shown as they end, kept in files, and ended in good order.

Owns that nothing is lost: whatever ends an evaluation early, its runs are ended and its files are written.
Does not own how a case is tried (`running`), nor what is shown of it (`reporting`).
"""

import asyncio
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jackline_client.cli.exit_codes import ExitCode
from jackline_client.cli.server_choice import Named
from jackline_client.cli.session import carry_out
from jackline_client.cli.streams import OutputLost, heed_lost_output
from jackline_client.errors import JacklineError
from jackline_server.commands.evaluation.cases import Suite
from jackline_server.commands.evaluation.door import Door
from jackline_server.commands.evaluation.reporting import Line, case_lines, junit, summary
from jackline_server.commands.evaluation.results import CaseResult, Results
from jackline_server.commands.evaluation.running import Evaluation
from jackline_server.commands.given import Output, fail, printable_json
from jackline_server.commands.writing import what_keeps_from_writing, write_named
from jackline_server.expressions.cel import CelExpressions

if TYPE_CHECKING:
    from jackline_client import JacklineClient
    from jackline_client.cli.screen import Screen

_EVAL = "eval"
_TICK_S = 0.2
_ENDING = "jackline eval: ending the runs that were started, then writing what there is: 30 s at most"
_IS_ENDING = "jackline eval: it is being ended; if it is killed before that is done, its runs go on"


class Files:
    """Where what comes of an evaluation is kept."""

    def __init__(self, *, save: Path | None, junit: Path | None) -> None:
        """None for what nobody wants."""
        self._save = save
        self._junit = junit

    def __bool__(self) -> bool:
        """True if there is a file to write."""
        return self._save is not None or self._junit is not None

    def check(self) -> None:
        """Ends the command if a file could not be written: better before than after the runs."""
        for path in (self._save, self._junit):
            if path is not None and (why := what_keeps_from_writing(path)):
                fail(_EVAL, ExitCode.USAGE, f"{path} can't be written: {why}")

    def write(self, results: Results) -> Iterator[str]:
        """Write each, whatever becomes of the other; yields what could not be written, and why."""
        for path, text in ((self._save, results.text), (self._junit, lambda: junit(results))):
            if path is None:
                continue
            try:
                write_named(path, text())
            except OSError as error:
                yield f"jackline {_EVAL}: {path} can't be written: {error.strerror}"


class _Shown:
    """What is shown, for as long as somebody can see it."""

    def __init__(self, screen: "Screen", *, output: Output, several: bool, flag: str) -> None:
        self._screen = screen
        self._output = output
        self._several = several
        self._flag = flag
        self.lost: OutputLost | None = None
        self.when_lost: Callable[[], object] = lambda: None

    def case(self, suite: str, case: CaseResult) -> None:
        if self._output is Output.TEXT:
            self._lines(case_lines(suite, case, several=self._several, flag=self._flag))

    def results(self, results: Results) -> None:
        if self._output is Output.TEXT:
            self._lines(summary(results))
        else:
            self._shown(
                lambda: [self._screen.raw(line) for line in printable_json(results.text()).split("\n")[:-1]]
            )

    def _lines(self, lines: Iterable[Line]) -> None:
        self._shown(lambda: show_lines(self._screen, lines))

    def _shown(self, show: Callable[[], object]) -> None:
        if self.lost is not None:
            return
        try:
            show()
        except OutputLost as lost:
            self.lost = lost
            heed_lost_output()
            self.when_lost()


def show_lines(screen: "Screen", lines: Iterable[Line]) -> None:
    """Write lines for a person."""
    for line in lines:
        screen.line(line.text, style=line.style)


def carry_out_cases(
    suites: Sequence[Suite], files: Files, *, output: Output, at_once: int, server: Named
) -> None:
    """Run the cases and exit with what came of them; never returns normally."""
    files.check()

    async def work(client: "JacklineClient", screen: "Screen") -> ExitCode:
        shown = _Shown(screen, output=output, several=len(suites) > 1, flag=server.flag)
        evaluation = Evaluation(
            door=Door(client),
            suites=suites,
            expressions=CelExpressions(),
            at_once=at_once,
            on_case=shown.case,
        )
        running = asyncio.create_task(evaluation.run())
        told = _told_to_end(running, screen)
        if not files:  # nobody would ever see what is to come
            shown.when_lost = running.cancel
        progress = asyncio.create_task(_tell(screen, evaluation.told))
        await asyncio.wait((running,))
        try:
            early = await _ended_early(running, evaluation)
        finally:
            progress.cancel()
            await asyncio.wait((progress,))
        results = evaluation.results(complete=not early)
        problems = list(files.write(results))
        screen.end_live()
        shown.results(results)
        for line in (*problems, *(shown.lost.lines() if shown.lost else ()), *early):
            screen.problem(line)
        _raise_a_bug(running)
        return _code(results, told=told.is_set() and bool(early), lost=shown.lost, problems=problems)

    carry_out(work, server=server)


async def _ended_early(running: asyncio.Task[Results], evaluation: Evaluation) -> list[str]:
    """End what is left of an evaluation that was cut off, and say what that came to; else nothing.

    Raises JacklineError if nothing was begun: the server can't be reached.
    """
    error = None if running.cancelled() else running.exception()
    if isinstance(error, JacklineError):
        raise error
    if error is None and not running.cancelled():
        return []
    return [await evaluation.stop("jackline eval was interrupted")]


def _raise_a_bug(running: asyncio.Task[Results]) -> None:
    if not running.cancelled() and (error := running.exception()) is not None:
        raise error


def _code(results: Results, *, told: bool, lost: OutputLost | None, problems: Sequence[str]) -> ExitCode:
    if told:
        return ExitCode.INTERRUPTED
    if lost is not None:
        return lost.code
    if problems:
        return ExitCode.OUTPUT_FAILED
    return ExitCode.OK if results.passed else ExitCode.RUN_FAILED


def _told_to_end(running: asyncio.Task[Results], screen: "Screen") -> asyncio.Event:
    """From now on Ctrl-C, SIGTERM and the end of the terminal end what runs, once, and set the event.

    For as long as the loop lives: another signal must not cut off what ends the runs and writes the files.
    """
    told = asyncio.Event()

    def end() -> None:
        is_first = not told.is_set() and running.cancel()
        told.set()
        screen.problem(_ENDING if is_first else _IS_ENDING)

    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(one) is not signal.SIG_IGN:  # such as under nohup
            asyncio.get_running_loop().add_signal_handler(one, end)
    return told


async def _tell(screen: "Screen", told: Callable[[], str]) -> None:
    """Say what is under way, until cancelled."""
    while True:
        screen.progress.about(told())
        await asyncio.sleep(_TICK_S)

"""Following a run to its end, for a person or as JSON lines.

Owns the live view shared by `run` and `watch`. Does not own the wording (`event_lines`) nor resuming (the
library).
"""

import asyncio
import json
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from jackline.v1.event_pb2 import Delta, StepEvent
from jackline.v1.run_pb2 import Run, RunState, View
from jackline_client.cli.event_lines import EventLines, delta_text
from jackline_client.cli.exit_codes import ExitCode, exit_code_of_state
from jackline_client.cli.given import read_seconds
from jackline_client.cli.json_lines import json_line
from jackline_client.cli.printable import printable_lines
from jackline_client.cli.questions_below import QuestionsBelow
from jackline_client.cli.screen import Screen
from jackline_client.cli.server_choice import Named
from jackline_client.cli.waits import LiveWaits
from jackline_client.cli.wording import Line, far, short, summary
from jackline_client.errors import JacklineError

if TYPE_CHECKING:
    from jackline_client import Cut, Frame, JacklineClient

_ID_SHOWN = 6
"""So many characters of its id stand before the lines of a child."""
_LIVE_TEXT = 2_000
_WHOLE = 1_000_000
_QUIET_S = 2.0
"""A cut that is mended sooner is not worth a line."""


class ResultView(Enum):
    """How what came out is shown to a person."""

    AS_EVENT = auto()
    """On one line, as part of the last event."""
    AT_END = auto()
    """In full below everything, a text as it is."""
    ONLY = auto()
    """In full, and on standard output nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """How to follow."""

    as_json: bool
    deltas: bool
    after_sequence: int = 0
    kinds: tuple[str, ...] = ()
    children: bool = False
    """Whether the runs that it starts are shown too."""
    numbers: bool = False
    """Whether lines for a person begin with the number of their event."""
    view: View.ValueType = View.VIEW_FULL
    server: Named
    """As it was given on the command line: it goes into the commands that are shown."""
    result: ResultView = ResultView.AS_EVENT
    owner: str = ""
    """For how long the run may be without its owner; empty: it has none."""


async def follow(client: "JacklineClient", screen: Screen, run_id: str, how: Following) -> ExitCode:
    """Shows a run until it ends and returns the exit code of its state.

    Raises StreamCut rather than end early.
    """
    show = _view(screen, run_id, how)
    state: RunState.ValueType | None = None
    deltas = how.deltas and screen.is_live and not how.as_json and how.result is not ResultView.ONLY
    screen.progress.about("waiting for the run's events")
    connection = _ConnectionNotices(screen)
    frames = client.watch(
        run_id,
        after_sequence=how.after_sequence,
        view=how.view,
        deltas=deltas,
        kinds=how.kinds,
        children=how.children,
        owner_grace_s=read_seconds(how.owner, flag="--owner") if how.owner else None,
        on_cut=connection.cut,
    )
    below = QuestionsBelow(client, run_id, view=how.view, show=show.frame)
    async with aclosing(frames), aclosing(connection), aclosing(below):
        async for frame in frames:
            connection.mended()
            show.frame(frame)
            if not how.as_json and not how.children:
                below.heed(frame)
            for event in frame.events:
                screen.progress.about(_waited_for(event))
                if event.HasField("run_finished") and event.run_id == run_id:
                    state = event.run_finished.state
    screen.end_live()
    if state is None or not how.as_json:
        run = await _read_ended(client, run_id, how, must=state is None)
        state = run.state if run is not None else state
        if run is not None and not how.as_json:
            _show_end(screen, run, how.result)
    return exit_code_of_state(_state_name(state))


def _view(screen: Screen, run_id: str, how: Following) -> "_JsonView | _ResultOnlyView | _LiveView":
    if how.as_json:
        return _JsonView(screen)
    return _ResultOnlyView(screen, how) if how.result is ResultView.ONLY else _LiveView(screen, run_id, how)


def _show_end(screen: Screen, run: Run, result: ResultView) -> None:
    if result is not ResultView.ONLY:
        line = summary(run)
        screen.line(line.text, style=line.style)
    if result is not ResultView.AS_EVENT:
        for text in _result_lines(run.outcome.result_json):
            screen.line(text, limit=_WHOLE)


def _result_lines(value: bytes) -> list[str]:
    """What came out, in full: a text as it is, anything else as its JSON."""
    if not value:
        return []
    text = value.decode("utf-8", "replace")
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        found = text
    lines = found if isinstance(found, str) else text
    return printable_lines(lines, limit=_WHOLE, lines=_WHOLE)


def _waited_for(event: StepEvent) -> str:
    """What a run does after an event, as far as it says."""
    match event.WhichOneof("fact"):
        case "model_call_started":
            return f"the model {short(event.model_call_started.model)} is at work"
        case "tool_call_started":
            return f"{short(event.tool_call_started.tool)} is at work"
        case "interrupt_raised":
            return "the run waits for an answer"
        case "paused":
            return "the run is paused"
        case _:
            return "waiting for the run's next event"


async def _read_ended(client: "JacklineClient", run_id: str, how: Following, *, must: bool) -> Run | None:
    """Reads what a run came to.

    Once its last event was seen, the run has ended whether this can be read or not.
    """
    must = must or how.result is not ResultView.AS_EVENT
    view = View.VIEW_METADATA if how.result is ResultView.AS_EVENT else View.VIEW_FULL
    try:
        return await client.get_run(run_id, view=view)
    except JacklineError:
        if must:
            raise
        return None


def how_to_go_on(run_id: str, how: Following) -> Iterator[str]:
    """Says what became of a run whose watcher was interrupted, and what can be typed."""
    if how.owner:
        yield f"jackline: the run {run_id} is aborted in {how.owner}, unless somebody owns it again"
        yield f"  jackline watch {run_id} --owner {how.owner}{how.server.flag}"
        return
    yield f"jackline: the run {run_id} goes on"
    yield f"  jackline watch {run_id}{how.server.flag}"
    yield f"  jackline abort {run_id}{how.server.flag}"


def _state_name(state: RunState.ValueType | None) -> str:
    try:
        return RunState.Name(state) if state is not None else ""
    except ValueError:
        return ""


class _ConnectionNotices:
    """Says on standard error that the server is gone, once that has lasted, and that it is back."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._timer: asyncio.TimerHandle | None = None
        self._said = False

    def cut(self, cut: "Cut") -> None:
        """The stream was cut and is being resumed."""
        if self._timer is None:
            why = f": {cut.cause.message}" if cut.cause is not None else ""
            self._timer = asyncio.get_running_loop().call_later(_QUIET_S, self._say, why)

    def mended(self) -> None:
        """A frame has come."""
        if self._said:
            self._screen.problem("jackline: connected again; nothing was missed")
        self._stop()

    async def aclose(self) -> None:
        """Says nothing from here on."""
        self._stop()

    def _say(self, why: str) -> None:
        self._said = True
        self._screen.problem(f"jackline: reconnecting{why}")

    def _stop(self) -> None:
        self._said = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _JsonView:
    """One event a line."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def frame(self, frame: "Frame") -> None:
        for event in frame.events:
            self._screen.raw(json_line(event))


class _ResultOnlyView:
    """Nothing but what a person has to act on, and why there is no result; on standard error."""

    _TOLD = frozenset({"interrupt_raised", "paused"})

    def __init__(self, screen: Screen, how: Following) -> None:
        self._screen = screen
        self._lines = EventLines(address_flag=how.server.flag)

    def frame(self, frame: "Frame") -> None:
        for event in frame.events:
            lines = list(self._lines.of(event))
            fact = event.WhichOneof("fact") or ""
            failed = fact == "run_finished" and event.run_finished.state != RunState.RUN_STATE_SUCCEEDED
            for line in lines if failed or fact in self._TOLD else ():
                self._screen.problem(line.text)


class _LiveView:
    """One line an event, and below them the text that is being made."""

    def __init__(self, screen: Screen, run_id: str, how: Following) -> None:
        self._screen = screen
        self._run_id = run_id
        self._address_flag = how.server.flag
        self._lines: dict[str, EventLines] = {}
        self._numbers = how.numbers
        self._kinds = frozenset(how.kinds)
        self._text = ""
        self._waits = LiveWaits()
        self._calls: dict[str, str] = {}
        """How far each call under way is, as it said last."""
        self._degraded = False

    def frame(self, frame: "Frame") -> None:
        if frame.resumed:
            self._calls.clear()  # their ends may have been missed; who is still at it will say so
        if frame.reset is not None or frame.resumed:
            self._show_live("")
        if frame.resumed:
            self._waits.forget()
        for event in frame.events:
            self._show(event)
        if frame.store_degraded and not self._degraded:
            self._screen.problem("jackline: the server can't reach its store just now; nothing is lost")
        self._degraded = frame.store_degraded
        for delta in frame.deltas:
            self._waits.delta(delta)
        if frame.deltas or self._waits.text or (frame.events and self._calls):
            self._show_live(self._text + "".join(self._added(delta) for delta in frame.deltas))

    def _added(self, delta: Delta) -> str:
        """What a delta adds to the text; how far a call is stands beside it."""
        if delta.HasField("tool_progress"):
            self._calls[delta.tool_progress.call_id] = far(delta.tool_progress)
        return delta_text(delta)

    def _show(self, event: StepEvent) -> None:
        self._text = ""
        self._waits.event(event)
        if event.HasField("tool_call_finished"):
            self._calls.pop(event.tool_call_finished.call_id, None)
        number = f"{event.sequence:>5}  " if self._numbers else ""
        if event.run_id != self._run_id:
            number = f"[{event.run_id[-_ID_SHOWN:]}] {number}"
        for line in self._lines_of(event):
            self._screen.line(number + line.text, style=line.style)
            number = " " * len(number)

    def _lines_of(self, event: StepEvent) -> Iterator[Line]:
        """The lines of an event; a silent one is shown all the same where its kind was asked for."""
        silent = True
        lines = self._lines.setdefault(event.run_id, EventLines(address_flag=self._address_flag))
        for line in lines.of(event):
            silent = False
            yield line
        kind = event.WhichOneof("fact") or ""
        if silent and kind in self._kinds:
            yield lines.plain(event)

    def _show_live(self, text: str) -> None:
        self._text = text[-_LIVE_TEXT:]
        self._screen.live("  ".join(filter(None, (self._text, *self._calls.values(), self._waits.text))))

"""A driven run's commands: loaded from the command table, settled at boundaries.

Owns the waiting commands of one run. The table is the truth; a nudge says only that it is worth a look.
"""

from collections.abc import Awaitable, Callable

from jackline_server.core.commands import Abort, AdjustBounds, Command, Steer
from jackline_server.core.deciding import control
from jackline_server.core.facts import AbortMode
from jackline_server.runtime.driving.live_run import LiveRun
from jackline_server.runtime.ports.codec import Codec
from jackline_server.runtime.ports.command_table import Commands


def _nobody() -> None:
    """The waker while nobody waits."""


class Inbox:
    """The commands that wait for one run. `arriving` says as what each is kept."""

    def __init__(
        self,
        run_id: str,
        *,
        commands: Commands,
        codec: Codec,
        arriving: Callable[[Command], Awaitable[Command]],
    ) -> None:
        self._run_id = run_id
        self._commands = commands
        self._codec = codec
        self._arriving = arriving
        self._waiting: list[Command] = []
        self._seen = 0
        self._nudged = True
        self._waker: Callable[[], None] = _nobody

    def nudge(self) -> None:
        """Say that a command may have come; wakes whoever waits for one."""
        self._nudged = True
        self._waker()

    def on_nudge(self, waker: Callable[[], None]) -> None:
        """Call `waker` at each nudge from now on."""
        self._waker = waker

    @property
    def nudged(self) -> bool:
        """True if the table has to be looked at."""
        return self._nudged

    @property
    def heard(self) -> int:
        """The ordinal up to which every command has been looked at."""
        return self._seen

    @property
    def waiting(self) -> int:
        """How many commands wait."""
        return len(self._waiting)

    async def refresh(self, *, force: bool = False) -> None:
        """Load what has come since the last look, if there was a nudge."""
        if not self._nudged and not force:
            return
        self._nudged = False
        for row in await self._commands.pending(self._run_id):
            if row.ordinal > self._seen:
                command = self._codec.decode_command(row.payload, ordinal=row.ordinal)
                self._waiting.append(await self._arriving(command))
                self._seen = row.ordinal

    def start_over(self) -> None:
        """Take every command for one that was never looked at: what was noted of them is dropped."""
        self._waiting, self._seen, self._nudged = [], 0, True

    def settle(self, run: LiveRun, *, aborts_only: bool = False) -> None:
        """Note the facts of every command that can be settled now, in the order they were accepted.

        Between boundaries only aborts can be.
        """
        if not self._waiting:
            return
        held: list[Command] = []
        for command in self._waiting:
            if (aborts_only and not isinstance(command.action, Abort)) or not _settled(run, command):
                held.append(command)
            elif held and not aborts_only:
                # It may have settled the fate of those that came before it, and they come before the next.
                held = [earlier for earlier in held if not _settled(run, earlier)]
        self._waiting = held

    def settle_bounds(self, run: LiveRun) -> bool:
        """Note the facts of new bounds that came while a call is under way; true if there were any.

        Nothing overtakes a command but guidance, which waits for its place.
        """
        held: list[Command] = []
        adjusted = False
        while self._waiting and isinstance(self._waiting[0].action, AdjustBounds | Steer):
            command = self._waiting.pop(0)
            if isinstance(command.action, Steer) or not _settled(run, command):
                held.append(command)
                continue
            adjusted = True
        self._waiting = [*held, *self._waiting]
        return adjusted

    def reject_rest(self, run: LiveRun) -> None:
        """Note that the end of the run rejects what still waits."""
        rest, self._waiting = self._waiting, []
        for command in rest:
            run.note(control.leftover(run.state, command))

    def abort_mode(self) -> AbortMode | None:
        """How the waiting abort wants to stop what is under way; None if no abort waits."""
        modes = [command.action.mode for command in self._waiting if isinstance(command.action, Abort)]
        if not modes:
            return None
        return AbortMode.NOW if AbortMode.NOW in modes else AbortMode.GRACEFUL


def _settled(run: LiveRun, command: Command) -> bool:
    """Note the facts of a command; False if it has to wait."""
    facts = control.settle(run.state, command, run.moment())
    if facts is None:
        return False
    run.note(*facts)
    return True

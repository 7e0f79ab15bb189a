"""A tool call that waits before anything is called, as its run sees it.

Owns the note of one attempt: who watches the run is shown that it waits and that it does no more, who reads
it is told so, and the attempt knows how long it waited. Nothing of it is a fact until the call has ended.
"""

from jackline_server.core.steps import ToolAttempt
from jackline_server.runtime.driving.live_run import LiveRun
from jackline_server.runtime.ports.machine import Clock
from jackline_server.runtime.ports.tool_waits import ToolWait, WaitingCall
from jackline_server.runtime.use_cases import wait_shown


class AttemptWaits:
    """The waits of one attempt. An `OnWait`. `end` it in any case."""

    __slots__ = ("_attempt", "_began_ms", "_clock", "_run", "_since_unix_ms", "waited_ms")

    def __init__(self, attempt: ToolAttempt, run: LiveRun, clock: Clock) -> None:
        """Notes nothing, and costs nothing, until there is a wait."""
        self._attempt = attempt
        self._run = run
        self._clock = clock
        self._began_ms: int | None = None
        self._since_unix_ms = 0
        self.waited_ms = 0

    def __call__(self, wait: ToolWait | None) -> None:
        """See `OnWait`."""
        if wait is None:
            self.end()
            return
        if self._began_ms is None:
            self._began_ms = self._clock.monotonic_ms()
            self._since_unix_ms = self._clock.unix_ms()
        call = self._waiting(wait)
        self._run.channel.waits[call.call_id] = call
        self._run.show(wait_shown(call))

    def end(self) -> None:
        """It waits no more."""
        if self._began_ms is None:
            return
        self.waited_ms += self._clock.monotonic_ms() - self._began_ms
        self._began_ms = None
        call = self._run.channel.waits.pop(self._attempt.started.call_id, None)
        if call is not None:
            self._run.show(wait_shown(call, is_over=True))

    def _waiting(self, wait: ToolWait) -> WaitingCall:
        started = self._attempt.started
        call = self._run.state.calls[started.call_id]
        return WaitingCall(
            call_id=started.call_id,
            tool=started.tool,
            step_id=call.step_id,
            iteration=call.iteration,
            since_unix_ms=self._since_unix_ms,
            wait=wait,
        )

"""An event loop in virtual time whose order of callbacks is drawn from a seed.

Owns time, the order of what is ready, and processes: groups of callbacks that can be frozen, thawed or
ended together, told apart by their context. Does no I/O and starts no thread. When nothing is ready, the
clock jumps to the next timer.
"""

import asyncio
import contextvars
import heapq
import itertools
import random
import sys
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Process:
    """What a group of callbacks belongs to. Frozen, they wait; dead, they wait for `unwind`."""

    name: str
    frozen: bool = False
    dead: bool = False
    held: list["Due"] = field(default_factory=list["Due"])


PROCESS: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)
"""The process that code runs in; None for the world outside of all."""


class Deadlock(Exception):
    """Nothing is ready and no timer is set: whoever waits would wait for ever."""


class Livelock(Exception):
    """The simulation took more callbacks than any honest one needs."""


class Due(asyncio.TimerHandle):
    """A callback that is to be run, now or at a time."""

    __slots__ = ("_gone", "_time", "arguments", "call", "process", "within")

    def __init__(
        self,
        when: float,
        call: Callable[..., object],
        arguments: tuple[object, ...],
        within: contextvars.Context,
    ) -> None:
        # Nothing of the base class but its type is used: it would call back into a loop of asyncio's own.
        self._time = when
        self._gone = False
        self.call = call
        self.arguments = arguments
        self.within = within
        self.process = within.get(PROCESS)

    def cancel(self) -> None:
        """Never run it."""
        self._gone = True

    def cancelled(self) -> bool:
        """True if it will not be run."""
        return self._gone

    def when(self) -> float:
        """The virtual time at which it is due."""
        return self._time

    def __repr__(self) -> str:
        return f"<Due {self._time:.3f} {self.call}>"


class NumberedTask(asyncio.Task[T]):
    """A task whose place in a set does not depend on where it lies in memory."""

    process: Process | None = None

    def __init__(
        self,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        *,
        number: int,
        loop: asyncio.AbstractEventLoop,
        name: str | None,
        context: contextvars.Context,
    ) -> None:
        self.number = number  # before asyncio puts it into a set of its own
        super().__init__(coro, loop=loop, name=name, context=context)

    def __hash__(self) -> int:
        return self.number


class VirtualLoop(asyncio.AbstractEventLoop):
    """See the module. Use `run` once; then `close_down`."""

    def __init__(self, chance: random.Random, *, most_callbacks: int = 200_000) -> None:
        self._chance = chance
        self._most = most_callbacks
        self._now = 0.0
        self._ready: list[Due] = []
        self._timers: list[tuple[float, int, Due]] = []
        self._numbers = itertools.count()
        self._running = False
        self.tasks: list[NumberedTask[Any]] = []
        self.problems: list[str] = []
        self.callbacks = 0

    # --- what asyncio asks of a loop -----------------------------------------------------------

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._now

    def call_soon(
        self, callback: Callable[..., object], *args: object, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """Run it soon, in no promised order."""
        due = Due(self._now, callback, args, contextvars.copy_context() if context is None else context)
        self._ready.append(due)
        return due

    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: object,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run it after so many virtual seconds."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: object,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Run it at that virtual time."""
        due = Due(when, callback, args, contextvars.copy_context() if context is None else context)
        heapq.heappush(self._timers, (when, next(self._numbers), due))
        return due

    def create_future(self) -> asyncio.Future[Any]:
        """A future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[T]:
        """A task of this loop, kept until `close_down`."""
        within = contextvars.copy_context() if context is None else context
        number = next(self._numbers)
        task: NumberedTask[T] = NumberedTask(coro, number=number, loop=self, name=name, context=within)
        task.process = within.get(PROCESS)
        self.tasks.append(task)
        return task

    def run_in_executor(self, executor: object, func: Callable[..., T], *args: object) -> asyncio.Future[T]:
        """Run it at once: there are no threads here."""
        future: asyncio.Future[T] = asyncio.Future(loop=self)
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - it belongs to whoever awaits
            future.set_exception(error)
        return future

    def get_debug(self) -> bool:
        """Never."""
        return False

    def is_running(self) -> bool:
        """True inside `run`."""
        return self._running

    def is_closed(self) -> bool:
        """A loop without resources is never closed."""
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep what a callback raised; what the collector finds later is no news."""
        if "exception" in context and "future" not in context and "task" not in context:
            self.problems.append(repr(context["exception"]))

    # --- running -------------------------------------------------------------------------------

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run until `main` has ended, and return what it returns.

        Raises:
            Deadlock, Livelock: it never would.
        """
        hooks = sys.get_asyncgen_hooks()
        # A generator that nobody closed dies with its process: its cleanup must not run anywhere.
        sys.set_asyncgen_hooks(firstiter=_ignore, finalizer=_ignore)
        asyncio._set_running_loop(self)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - for loops to call
        self._running = True
        try:
            task = self.create_task(main)
            self._until(task.done)
            return task.result()
        finally:
            self._running = False
            asyncio._set_running_loop(None)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - as above
            sys.set_asyncgen_hooks(*hooks)

    def thaw(self, process: Process) -> None:
        """Let a frozen process go on; everything it missed is ready at once."""
        process.frozen = False
        self._ready.extend(process.held)
        process.held.clear()

    async def unwind(self) -> None:
        """Cancel every other task until all have ended, so that no coroutine is left to the collector."""
        own = asyncio.current_task()
        while left := [task for task in self.tasks if not task.done() and task is not own]:
            for task in left:
                if task.process is not None:
                    task.process.dead = False
                    self.thaw(task.process)
                task.cancel()
            await asyncio.wait(left, timeout=60)

    def _until(self, done: Callable[[], bool]) -> None:
        while not done():
            if not self._ready:
                self._jump()
            due = self._draw()
            process = due.process
            if due.cancelled():
                continue
            if process is not None and (process.frozen or process.dead):
                process.held.append(due)
                continue
            self.callbacks += 1
            if self.callbacks > self._most:
                raise Livelock(f"more than {self._most} callbacks by {self._now:.3f} s, now {due}")
            self._call(due)

    def _draw(self) -> Due:
        ready = self._ready
        last = ready.pop()
        if not ready:
            return last
        index = int(self._chance.random() * (len(ready) + 1))
        if index == len(ready):
            return last
        ready[index], last = last, ready[index]
        return last

    def _jump(self) -> None:
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
        if not timers:
            raise Deadlock("nothing will ever happen")
        self._now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= self._now:
            self._ready.append(heapq.heappop(timers)[2])

    def _call(self, due: Due) -> None:
        try:
            due.within.run(due.call, *due.arguments)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - a callback ends here, as in any loop
            self.problems.append(repr(error))


def _ignore(_: object) -> None:
    """Leave an asynchronous generator to its fate."""

"""Places at a model: how many attempts of a profile run at once, and how many begin in a minute.

Owns the lines in which runs wait for their turn, one for each profile, first come first served. An attempt
takes its place before it is announced, so that a run that waits holds nothing: no reservation, no connection,
no time of its own. Where there is room and nobody waits, a place costs no more than a look.

The limits are those of the operator's profile and of this process; they are no part of a plan. Does not own
the time and size of an attempt (`limits`), nor what a minute allows (`allowances`).
"""

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from jackline_server.core.plan import ModelPlan
from jackline_server.models.profile import ModelProfile
from jackline_server.runtime.allowances import MinuteAllowance, Spent
from jackline_server.runtime.ports.connection_views import ConnectionKind, ConnectionState, ConnectionView

_USUAL = ModelProfile()


class Places:
    """Implements ModelPlaces. Use it in one event loop. `profiles` is by `ModelPlan.profile`."""

    def __init__(self, profiles: Mapping[str, ModelProfile]) -> None:
        self._profiles = profiles
        self._lines: dict[str, _Line] = {}

    def take(self, plan: ModelPlan, *, tokens: int) -> "_Place | None":
        """See ModelPlaces."""
        return self._line(plan).take(tokens)

    async def wait(self, plan: ModelPlan, *, tokens: int) -> "_Place":
        """See ModelPlaces."""
        return await self._line(plan).wait(tokens)

    def views(self) -> list[ConnectionView]:
        """See `ConnectionSource`."""
        return [
            _Line(profile).view(name, used=False)
            if (line := self._lines.get(name)) is None
            else line.view(name, used=True)
            for name, profile in self._profiles.items()
        ]

    def _line(self, plan: ModelPlan) -> "_Line":
        line = self._lines.get(plan.profile)
        if line is None:
            line = self._lines[plan.profile] = _Line(self._profiles.get(plan.profile, _USUAL))
        return line


@dataclass(slots=True, eq=False)
class _Place:
    """See ModelPlace."""

    _line: "_Line"
    _spent: Spent | None
    _held: bool = True

    def release(self, used_tokens: int | None) -> None:
        """See ModelPlace."""
        if self._held:
            self._held = False
            self._line.release(self._spent, used_tokens)


@dataclass(slots=True, eq=False)
class _Waiter:
    tokens: int
    given: "asyncio.Future[_Place]"


class _Line:
    """Who waits for a place at one profile."""

    def __init__(self, profile: ModelProfile) -> None:
        self._places = self._free = profile.concurrency
        self._per_minute = profile.requests_per_minute
        self._requests = (
            None if profile.requests_per_minute is None else MinuteAllowance(profile.requests_per_minute)
        )
        self._tokens = (
            None if profile.tokens_per_minute is None else MinuteAllowance(profile.tokens_per_minute)
        )
        self._waiting: deque[_Waiter] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def take(self, tokens: int) -> _Place | None:
        if self._waiting or self._free <= 0 or self._wait_s(tokens) > 0:
            return None
        return self._given(tokens)

    async def wait(self, tokens: int) -> _Place:
        waiter = _Waiter(tokens, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        self._serve()
        try:
            return await waiter.given
        except asyncio.CancelledError:
            if waiter.given.done() and not waiter.given.cancelled():
                waiter.given.result().release(0)  # it came at the moment at which nobody wanted it any more
            else:
                self._waiting.remove(waiter)
                self._serve()
            raise

    def release(self, spent: Spent | None, used_tokens: int | None) -> None:
        self._free += 1
        if self._tokens is not None and spent is not None and used_tokens is not None:
            self._tokens.correct(spent, used_tokens)
        self._serve()

    def view(self, name: str, *, used: bool) -> ConnectionView:
        requests = self._requests
        return ConnectionView(
            name=name,
            kind=ConnectionKind.MODEL,
            state=ConnectionState.READY if used else ConnectionState.UNUSED,
            concurrency=self._places,
            in_flight=self._places - self._free,
            waiting=len(self._waiting),
            calls_per_minute=self._per_minute,
            calls_left=None if requests is None else requests.left(asyncio.get_running_loop().time()),
        )

    def _serve(self) -> None:
        """Give places to those who wait, in their order, as far as there are any."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiting and self._free > 0:
            first = self._waiting[0]
            if first.given.cancelled():
                return  # it takes itself out of the line, and serves the next
            wait_s = self._wait_s(first.tokens)
            if wait_s > 0:
                self._timer = asyncio.get_running_loop().call_later(wait_s, self._serve)
                return
            self._waiting.popleft()
            first.given.set_result(self._given(first.tokens))

    def _wait_s(self, tokens: int) -> float:
        if self._requests is None and self._tokens is None:
            return 0
        now_s = asyncio.get_running_loop().time()
        requests = 0 if self._requests is None else self._requests.wait_s(1, now_s)
        return requests if self._tokens is None else max(requests, self._tokens.wait_s(tokens, now_s))

    def _given(self, tokens: int) -> _Place:
        self._free -= 1
        if self._requests is None and self._tokens is None:
            return _Place(self, None)
        now_s = asyncio.get_running_loop().time()
        if self._requests is not None:
            self._requests.spend(1, now_s)
        return _Place(self, None if self._tokens is None else self._tokens.spend(tokens, now_s))

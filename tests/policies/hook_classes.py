"""Hook classes for tests: what an operator might write, and what one should not."""

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

from jackline_server.hooks import Answer, Event, Proceed, Retry, Veto


class Audit:
    """Answers at two points and remembers what it was shown."""

    def __init__(self, *, most: int = 10) -> None:
        self.most = most
        self.seen: list[Event] = []
        self.closed = False

    def before_run(self, event: Event) -> Answer:
        self.seen.append(event)
        return Proceed(metadata={"who": str(event.subject.get("name", "nobody"))})

    async def before_tool_call(self, event: Event) -> Answer | None:
        self.seen.append(event)
        amount = event.values["arguments"].get("amount", 0)
        return Veto(f"{amount} is too much") if amount > self.most else None

    def after_tool_call(self, event: Event) -> Answer | None:
        return Retry(metadata={"again": "yes"}) if event.values.get("output") == () else None

    async def close(self) -> None:
        self.closed = True


class Changes:
    """Tries to change what it is shown."""

    def before_run(self, event: Event) -> None:
        given: Any = event.values["input"]
        given["text"] = "changed"


class Odd:
    """Answers what is no answer, by what it is asked for."""

    def before_run(self, event: Event) -> Any:
        match event.values["kind"]:
            case "number":
                return 7
            case "retry":
                return Retry()
            case "metadata":
                return Proceed(metadata={"n": 1})  # pyright: ignore[reportArgumentType]  # what a hook gets wrong
            case "not a mapping":
                return Proceed(metadata=[("a", "b")])  # pyright: ignore[reportArgumentType]  # the same
            case "raises":
                raise ValueError("secret detail")
            case _:
                raise SystemExit(3)

    def after_run(self, event: Event) -> Answer:
        del event
        return Veto("too late")


class Slow:
    """Never returns: in a thread, on the loop, or deaf to being cancelled."""

    released = threading.Event()

    def before_run(self, event: Event) -> None:
        del event
        self.released.wait(30)

    async def before_turn(self, event: Event) -> None:
        del event
        await asyncio.Event().wait()

    async def after_turn(self, event: Event) -> None:
        del event
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.Event().wait()


class Nothing:
    """Has no point of a run."""


class TooMany:
    """Takes more than the event."""

    def before_run(self, event: Event, more: Mapping[str, str]) -> None:
        """Never called."""


class Refuses:
    """Can't be made."""

    def __init__(self) -> None:
        raise RuntimeError("no database")


not_a_class = 7

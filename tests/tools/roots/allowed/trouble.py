"""Functions that misbehave, each in its own way."""

import asyncio
import sys
import threading
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

STARTED = threading.Event()
RELEASE = threading.Event()
CANCELLED: list[str] = []


class Hostile(str):
    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError("hostile")

    def __repr__(self) -> str:
        raise RuntimeError("hostile")


class HostileError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("hostile")


class HostileKind(BaseException):
    pass


def _cycle() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def _deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


async def _coroutine() -> None: ...


def _generator() -> Generator[int]:
    while True:
        yield 1


def returns(what: str) -> Any:
    """Returns something that is no JSON."""
    made: dict[str, Any] = {
        "object": object,
        "cycle": _cycle,
        "deep": lambda: _deep(500),
        "very_deep": lambda: _deep(100_000),
        "nan": lambda: float("nan"),
        "infinity": lambda: float("inf"),
        "huge_int": lambda: 10**400,
        "set": lambda: {1},
        "bytes": lambda: b"x",
        "generator": _generator,
        "coroutine": _coroutine,
        "hostile": lambda: Hostile("x"),
        "int_key": lambda: {1: 2},
        "wide": lambda: [0] * 300_000,
        "huge": lambda: "x" * 9_000_000,
        "type": lambda: int,
        "file": lambda: sys.stdin,
    }
    return made[what]()


def raises(what: str) -> None:
    """Raises what it is told to."""
    if what == "recursion":
        raises(what)
    kinds: dict[str, type[BaseException]] = {
        "value": ValueError,
        "exit": SystemExit,
        "interrupt": KeyboardInterrupt,
        "memory": MemoryError,
        "generator_exit": GeneratorExit,
        "cancelled": asyncio.CancelledError,
        "hostile": HostileError,
        "kind": HostileKind,
        "stop": StopIteration,
    }
    raise kinds[what]("said")


async def raises_async(what: str) -> None:
    """Raises what it is told to, on the event loop."""
    raises(what)


def blocks() -> str:
    """Blocks its thread until it is released."""
    STARTED.set()
    RELEASE.wait(30)
    return "late"


async def hangs() -> None:
    """Waits for ever, and leaves when it is cancelled."""
    STARTED.set()
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        CANCELLED.append("hangs")
        raise


async def swallows(until: int) -> str:
    """Waits on though it was cancelled, that many times."""
    for _ in range(until):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            CANCELLED.append("swallows")
    return "late"


def dirty() -> dict[str, Any]:
    """Returns text that nobody wants to keep."""
    return {"a\x00b": "x\x1b[31m\ud800y\x00\tz\n", "ok": ["\x9b", "é"]}


def large(size: int) -> str:
    """Returns so many characters."""
    return "é" * size


@dataclass
class Leaver:
    """Ends whoever looks at it."""

    name: str = "x"

    def __getattribute__(self, name: str) -> object:
        raise SystemExit


def leaver() -> Leaver:
    return Leaver.__new__(Leaver)


async def leaver_async() -> Leaver:
    return Leaver.__new__(Leaver)

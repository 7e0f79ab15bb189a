"""Places in the code where a test can make the process die, fail, wait or lose something.

Owns the registry of names, the parser of a specification and what each action does. Does not own when
failpoints may be switched on: that is the configuration's business. Off unless configured, and then a
call costs one look at a variable.

A specification is `name=action`, several joined by `;`. Actions: `kill` (SIGKILL to this process),
`err(ENOSPC)` (OSError of that errno), `sleep(100)` (milliseconds), `hang` (for ever), `drop` (raises
Dropped). `action@3` acts at the third hit only. Without a number `kill` acts at the first hit, every
other action at each.
"""

import asyncio
import errno
import os
import re
import signal
import threading
import time
from dataclasses import dataclass

NAMES = frozenset(
    {
        "backup.before",
        "backup.before_publish",
        "backup.mid",
        "claim.after",
        "control.after_apply",
        "control.after_commit_before_apply",
        "drain.after_release",
        "drain.begin",
        "event.after_commit_before_publish",
        "finish.after_commit",
        "finish.before_commit",
        "lease.renew",
        "loop.model.after_call_before_commit",
        "loop.model.after_commit",
        "loop.model.after_reserve",
        "loop.model.before_reserve",
        "loop.model.mid_stream",
        "loop.step.begin",
        "migrate.after",
        "migrate.before",
        "migrate.before_commit",
        "migrate.mid",
        "restore.after",
        "restore.before_place",
        "restore.mid",
        "restore.prepared",
        "result.after_put_before_commit",
        "start.after_commit_before_reply",
        "start.before_commit",
        "store.after_send_before_reply",
        "store.sync",
        "store.write",
        "tool.after_call_before_commit",
        "tool.after_commit",
        "tool.after_intent_before_call",
        "tool.before_intent",
        "tool.mid",
        "webhook.after_claim_before_send",
        "webhook.settle",
    }
)
"""Every name that may stand in a specification."""

_FORM = re.compile(
    r"(?P<name>[a-z_.]+)=(?P<action>kill|err|sleep|hang|drop)(\((?P<argument>\w+)\))?(@(?P<at>[1-9]\d*))?"
)


class BadSpecification(ValueError):
    """A specification that can't be read, or that names what does not exist."""


class Dropped(Exception):
    """What `drop` raises: the thing in hand is to be treated as lost on its way."""


@dataclass(slots=True, kw_only=True)
class _Point:
    """One configured failpoint. `at` None acts at every hit."""

    name: str
    action: str
    number: int
    at: int | None
    hits: int = 0


_points: dict[str, _Point] = {}
_counting = threading.Lock()


def configure(specification: str) -> None:
    """Switch on the failpoints of a specification, and off all others; empty switches all off.

    Raises:
        BadSpecification: it can't be read; nothing was changed.
    """
    points = [_parse(part.strip()) for part in specification.split(";") if part.strip()]
    _points.clear()
    _points.update({point.name: point for point in points})


def hit(name: str) -> None:
    """Pass a failpoint, blocking the thread where the action waits.

    Raises:
        OSError: the action is `err`.
        Dropped: the action is `drop`.
    """
    if not _points:
        return
    point = _due(name)
    if point is None:
        return
    if point.action == "sleep":
        time.sleep(point.number / 1000)
    elif point.action == "hang":
        threading.Event().wait()
    else:
        _strike(point)


async def hit_async(name: str) -> None:
    """Pass a failpoint in a coroutine: as `hit`, but waiting holds up this task alone."""
    if not _points:
        return
    point = _due(name)
    if point is None:
        return
    if point.action == "sleep":
        await asyncio.sleep(point.number / 1000)
    elif point.action == "hang":
        await asyncio.Event().wait()
    else:
        _strike(point)


def _due(name: str) -> _Point | None:
    """Count a hit; the point if it acts now."""
    point = _points.get(name)
    if point is None:
        return None
    with _counting:
        point.hits += 1
        return point if point.at is None or point.at == point.hits else None


def _strike(point: _Point) -> None:
    """Carry out an action that does not wait."""
    if point.action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if point.action == "err":
        raise OSError(point.number, f"failpoint {point.name}: {os.strerror(point.number)}")
    raise Dropped(point.name)


def _parse(part: str) -> _Point:
    found = _FORM.fullmatch(part)
    if found is None:
        raise BadSpecification(
            f"failpoint {part!r} can't be read: write name=action, with an action of kill, err(ENOSPC), "
            "sleep(100), hang or drop, and @3 behind it for the third hit"
        )
    name, action, argument = found["name"], found["action"], found["argument"]
    if name not in NAMES:
        raise BadSpecification(f"there is no failpoint {name!r}; known are: {', '.join(sorted(NAMES))}")
    at = int(found["at"]) if found["at"] else None
    if at is None and action == "kill":
        at = 1
    return _Point(name=name, action=action, number=_number(part, action, argument), at=at)


def _number(part: str, action: str, argument: str | None) -> int:
    """The argument of an action: an errno, or milliseconds."""
    if action == "err" and argument is not None and isinstance(getattr(errno, argument, None), int):
        return int(getattr(errno, argument))
    if action == "sleep" and argument is not None and argument.isdecimal():
        return int(argument)
    if action not in ("err", "sleep") and argument is None:
        return 0
    raise BadSpecification(
        f"failpoint {part!r}: err needs the name of an errno, sleep needs milliseconds, others need nothing"
    )

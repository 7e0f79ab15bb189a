"""The runs that clients of a simulated deployment want, and the requests for them.

Owns the dice of wishes. Does not own how often a client asks.
"""

import zlib
from dataclasses import dataclass

from jackline_server.core import json_text
from jackline_server.runtime.ports.definitions import Source
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.use_cases import Caller, StartRun, ThreadRequest, TighterBounds
from jackline_server.testing.simulation.conversing import fingerprint
from jackline_server.testing.simulation.families import LEAF
from jackline_server.testing.simulation.weather import START_UNIX_MS
from jackline_server.testing.simulation.workers import Deployment

DELAYED, DELAY_MS = 6, 1_500
"""One start in so many is delayed, and by so much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A run that somebody wants: its plan, the mark in its input, and perhaps bounds and a deadline."""

    mark: str
    plan: str
    request_id: str
    deadline_unix_ms: int | None
    steps: int | None


def draw_wish(deployment: Deployment, number: int) -> Wish:
    """A run to want. Small pools of ids and contents make repeats and conflicts likely."""
    dice = deployment.weather
    request_id = "" if dice.happens(0.2) else f"req-{dice.chance.randrange(2)}"
    mark = f"m-{number}" if not request_id else f"{request_id}-{int(dice.happens(0.15))}"
    names = sorted(set(deployment.plans) - {LEAF})
    plan = names[len(mark + request_id) % len(names)] if request_id else dice.chance.choice(names)
    deadline = (
        START_UNIX_MS + dice.chance.randint(1_000, 20_000) if not request_id and dice.happens(0.15) else None
    )
    return Wish(mark=mark, plan=plan, request_id=request_id, deadline_unix_ms=deadline, steps=None)


def wished(wish: Wish, thread: ThreadRequest | None) -> StartRun:
    """The request for a wish."""
    return StartRun(
        caller=caller("starter"),
        workflow="",
        inline=Source(yaml=wish.plan, files={}),
        input_json=json_text.write({"mark": wish.mark}),
        request_id=wish.request_id,
        fingerprint=fingerprint(wish.plan, wish.mark, thread),
        subject_json="{}",
        labels={},
        bounds=TighterBounds(steps=wish.steps),
        deadline_unix_ms=wish.deadline_unix_ms,
        on_question=None,
        thread=thread,
        start_delay_ms=_delay_ms(wish, thread),
    )


def _delay_ms(wish: Wish, thread: ThreadRequest | None) -> int | None:
    """How long a start is delayed: one in a few, by its content, so that a repeat asks for the same."""
    if thread is not None or wish.deadline_unix_ms is not None:
        return None
    return None if zlib.crc32(f"{wish.plan} {wish.mark}".encode()) % DELAYED else DELAY_MS


def caller(name: str) -> Caller:
    """Somebody of that name."""
    return Caller(tenant=DEFAULT_TENANT, principal=name)

"""Conversations in a simulated world: which runs continue which, and what is said to them from outside.

Owns the dice of threads, which are their own, so that all others fall as they fell.
"""

import hashlib
import random
from collections.abc import Mapping, Sequence

from jackline_server.core import json_text
from jackline_server.core.plan import ModelStep, Plan
from jackline_server.runtime.ports.codec import Codec
from jackline_server.runtime.ports.store import Store
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.reading.histories import Histories
from jackline_server.runtime.use_cases import AppendMessages, Caller, OnBusy, TextMessage, ThreadRequest
from jackline_server.testing.validators.history import Said, Thread

_SHARE = 0.4
"""So many of the worlds have threads."""
_ALONE = 0.2
_AGAIN = 0.5
_ASSISTANT = 0.3
_NAMES = ("t-0", "t-0", "t-1")
_MOST = 10_000


class Conversations:
    """Who talks where, in one world."""

    def __init__(self, plans: Mapping[str, Plan]) -> None:
        digests = "".join(plan.digest for plan in plans.values())
        self._seed = f"threads {digests}"
        self._chance = chance = random.Random(self._seed)  # noqa: S311 - chance of a simulation
        has_any = any(
            isinstance(step, ModelStep) and step.thread
            for plan in plans.values()
            for step in plan.steps.values()
        )
        self.are_there = has_any and chance.random() < _SHARE
        self._said = 0

    def joined(self, mark: str) -> ThreadRequest | None:
        """The thread that a run with this mark continues: always the same, so that a repeat is one."""
        chance = random.Random(f"{self._seed} {mark}")  # noqa: S311 - chance of a simulation
        if not self.are_there or chance.random() < _ALONE:
            return None
        return ThreadRequest(thread_id=chance.choice(_NAMES), on_busy=chance.choice(list(OnBusy)))

    def happens(self, probability: float) -> bool:
        """True that often; never where there are no threads."""
        return self.are_there and self._chance.random() < probability

    def message(self, client: str) -> AppendMessages:
        """A message to a thread, unlike all others; half of them can be sent again."""
        self._said += 1
        text, again = f"note {self._said}", self._chance.random() < _AGAIN
        return AppendMessages(
            caller=Caller(tenant=DEFAULT_TENANT, principal=client),
            thread_id=self._chance.choice(_NAMES),
            messages=[TextMessage(assistant=self._chance.random() < _ASSISTANT, text=text)],
            request_id=f"say-{self._said}" if again else "",
            fingerprint=hashlib.sha256(text.encode()).digest(),
        )


async def threads_of(store: Store, codec: Codec) -> Sequence[Thread]:
    """All threads as the store has them."""
    found: list[Thread] = []
    histories = Histories(blobs=store.blobs, codec=codec)
    for row in await store.threads.page(DEFAULT_TENANT, before=None, limit=100):
        view = await store.threads.after(DEFAULT_TENANT, row.thread_id, 0, limit=_MOST, size=_MOST * _MOST)
        rows = () if view is None else view.messages
        read = await histories.of_rows(DEFAULT_TENANT, rows)
        found.append(
            Thread(
                thread=row.thread_id,
                active=row.active_run,
                waiting=row.waiting,
                pending=row.pending,
                messages=tuple(
                    Said(
                        position=one.position,
                        run=one.run_id,
                        text="" if one.run_id or said.message is None else said.message.text,
                    )
                    for one, said in zip(rows, read, strict=True)
                ),
            )
        )
    return found


def fingerprint(plan: str, mark: str, thread: ThreadRequest | None) -> bytes:
    """What tells one request to start from another, as a door makes it."""
    where = [] if thread is None else [thread.thread_id, thread.on_busy.value]
    return hashlib.sha256(json_text.write([plan, mark, *where]).encode()).digest()

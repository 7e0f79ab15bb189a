"""Starting a run in a thread: now, behind others, in place of the active one, or as guidance for it.

Owns what `on_busy` means. The store decides each race: whatever it answers MOVED to is read and tried again.
"""

from collections.abc import Awaitable, Callable

from jackline_server.core import json_text
from jackline_server.core.blank_text import is_blank
from jackline_server.core.commands import Abort, Action, Command, Steer
from jackline_server.core.facts import AbortMode, StopReason
from jackline_server.core.thread_facts import ThreadStart
from jackline_server.runtime.ports.codec import Codec
from jackline_server.runtime.ports.machine import Chance, Clock
from jackline_server.runtime.ports.signals import Signals
from jackline_server.runtime.ports.store import Store
from jackline_server.runtime.ports.thread_turns import AbortOrder, Joining, Turn
from jackline_server.runtime.ports.threads import Steering, SteerOutcome, ThreadView
from jackline_server.runtime.reading.histories import MOST_BYTES, MOST_MESSAGES, Histories
from jackline_server.runtime.reading.watching import not_found
from jackline_server.runtime.refusals import Reason, Refused, Violation
from jackline_server.runtime.service.controlling import COMMAND_LIMIT
from jackline_server.runtime.service.creating import Birth, Creating, Draft, Order
from jackline_server.runtime.service.written_words import WrittenWords
from jackline_server.runtime.use_cases import Disposition, OnBusy, Started, ThreadRequest

MOST_WAITING = 100
"""Runs that may wait for their turn in one thread."""
MOST_STEER_BYTES = 64 * 1024

_TRIES = 32

Drafting = Callable[[Birth, ThreadStart], Awaitable[Draft]]


class JoiningThreads:
    """Makes runs that continue a thread."""

    def __init__(  # noqa: PLR0913 - one for each thing that a start in a thread touches
        self,
        *,
        store: Store,
        creating: Creating,
        histories: Histories,
        signals: Signals,
        codec: Codec,
        clock: Clock,
        chance: Chance,
        words: WrittenWords,
    ) -> None:
        self._store = store
        self._creating = creating
        self._histories = histories
        self._signals = signals
        self._codec = codec
        self._clock = clock
        self._chance = chance
        self._words = words

    async def start(
        self, order: Order, thread: ThreadRequest, *, input_json: str, draft: Drafting
    ) -> Started:
        """Start the run, or whatever `on_busy` says. Raises Refused."""
        await self._creating.refuse_halted(order.caller.tenant)
        for _ in range(_TRIES):
            view = await self._store.threads.newest(
                order.caller.tenant, thread.thread_id, limit=MOST_MESSAGES, size=MOST_BYTES
            )
            active = "" if view is None else view.row.active_run
            if view is None or not active:
                started = await self._now(order, thread, view, draft)
            elif thread.on_busy is OnBusy.REJECT:
                raise _busy(thread.thread_id, active)
            elif thread.on_busy is OnBusy.STEER:
                started = await self._steer(order, thread, active, input_json)
            else:
                started = await self._wait(order, thread, view, draft)
            if started is not None:
                return started
        raise _busy(thread.thread_id, "")

    async def _now(
        self, order: Order, thread: ThreadRequest, view: ThreadView | None, draft: Drafting
    ) -> Started | None:
        rows = () if view is None else view.messages
        position = 0 if view is None else view.row.messages
        messages = await self._histories.of_rows(order.caller.tenant, rows)
        begun = ThreadStart(thread_id=thread.thread_id, position=position, messages=messages)
        joining = Joining(thread_id=thread.thread_id, turn=Turn.NOW, position=position)
        return await self._creating.create_in(order, lambda birth: draft(birth, begun), joining)

    async def _wait(
        self, order: Order, thread: ThreadRequest, view: ThreadView, draft: Drafting
    ) -> Started | None:
        """Create a run that waits, and say what it replaces. None if the thread has moved on."""
        replaces = thread.on_busy is OnBusy.REPLACE
        if view.row.waiting >= MOST_WAITING:
            raise _too_many(thread.thread_id)
        position = view.row.messages
        begun = ThreadStart(thread_id=thread.thread_id, position=position, waits=True)
        joining = Joining(
            thread_id=thread.thread_id,
            turn=Turn.NEXT if replaces else Turn.LAST,
            position=position,
            abort=self._abort(order) if replaces else None,
        )
        started = await self._creating.create_in(order, lambda birth: draft(birth, begun), joining)
        if started is None or not replaces or started.disposition is not Disposition.QUEUED:
            return started
        self._signals.nudge(view.row.active_run)
        return Started(row=started.row, disposition=Disposition.REPLACED)

    async def _steer(
        self, order: Order, thread: ThreadRequest, active: str, input_json: str
    ) -> Started | None:
        """Give the input to the active run, masked as its plan says. None if its turn is over by now."""
        tenant = order.caller.tenant
        steered = await self._store.runs.get(tenant, active)
        if steered is None:
            return None
        command = self._command(order, Steer(text=_words(input_json)), reason="")
        command = await self._words.kept(steered, command, None)
        done = await self._store.threads.steer(
            Steering(
                tenant=tenant,
                thread_id=thread.thread_id,
                run_id=active,
                request_id=order.request_id,
                fingerprint=order.fingerprint,
                command_id=command.command_id,
                payload=self._codec.encode_command(command),
                limit=COMMAND_LIMIT // 2,
                unix_ms=self._clock.unix_ms(),
            )
        )
        match done.outcome:
            case SteerOutcome.MOVED:
                return None
            case SteerOutcome.CONFLICT:
                raise _reused(done.run_id)
            case SteerOutcome.FULL:
                raise _full()
            case SteerOutcome.ACCEPTED | SteerOutcome.DUPLICATE:
                self._signals.nudge(done.run_id)
                row = await self._store.runs.get(tenant, done.run_id)
                if row is None:
                    raise not_found(done.run_id)
                accepted = done.outcome is SteerOutcome.ACCEPTED
                return Started(
                    row=row, disposition=Disposition.STEERED if accepted else Disposition.DEDUPLICATED
                )

    def _abort(self, order: Order) -> AbortOrder:
        action = Abort(mode=AbortMode.NOW, skip_routes=False, cause=StopReason.REPLACED)
        command = self._command(order, action, reason="replaced by a newer run of the thread")
        return AbortOrder(command_id=command.command_id, payload=self._codec.encode_command(command))

    def _command(self, order: Order, action: Action, *, reason: str) -> Command:
        return Command(
            command_id=self._chance.new_id("cmd_"),
            ordinal=0,
            principal=order.caller.principal,
            reason=reason,
            expect_phase=None,
            expect_sequence=None,
            action=action,
        )


def _words(input_json: str) -> str:
    """An input as guidance: its only text, else all of it as JSON. Raises Refused if it is none."""
    value = json_text.parse(input_json)
    if isinstance(value, dict) and len(value) == 1:
        (value,) = value.values()
    if value == {} or (isinstance(value, str) and is_blank(value)):
        raise Refused(
            Reason.INVALID_INPUT,
            "The input says nothing that the active run could be told. Give it some text, or enqueue.",
            metadata={"path": "input"},
            violations=(Violation(field="input", description="says nothing", reason="REQUIRED"),),
        )
    words = value if isinstance(value, str) else input_json
    size = len(words.encode())
    if size > MOST_STEER_BYTES:
        raise Refused(
            Reason.FIELD_TOO_LARGE,
            f"The input has {size} bytes, and guidance may have {MOST_STEER_BYTES}. Send less, or enqueue.",
            metadata={"field": "input", "size": str(size), "limit": str(MOST_STEER_BYTES)},
        )
    return words


def _busy(thread_id: str, run_id: str) -> Refused:
    return Refused(
        Reason.THREAD_BUSY,
        "The thread has an active run. Wait for its end, or say what to do by on_busy.",
        metadata={"thread_id": thread_id, "run_id": run_id},
    )


def _too_many(thread_id: str) -> Refused:
    return Refused(
        Reason.RUN_LIMIT,
        f"{MOST_WAITING} runs wait for their turn in this thread. Try again later.",
        metadata={"limit": str(MOST_WAITING), "thread_id": thread_id},
        retry_after_ms=5_000,
    )


def _full() -> Refused:
    return Refused(
        Reason.COMMAND_LIMIT,
        f"{COMMAND_LIMIT // 2} commands wait for the active run already. Wait for them to be applied.",
        metadata={"limit": str(COMMAND_LIMIT // 2)},
        retry_after_ms=1_000,
    )


def _reused(run_id: str) -> Refused:
    return Refused(
        Reason.REQUEST_ID_REUSED,
        "The request id was used with another content. Use a fresh one.",
        metadata={"run_id": run_id},
    )

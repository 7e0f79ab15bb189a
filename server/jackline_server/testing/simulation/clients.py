"""Clients of a simulated deployment: they start, watch, control and wait, badly and over again.

Owns what a client does and the record of what it saw. Calls go to either worker; what was lost is repeated.
"""

import asyncio
import hashlib
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from jackline_server.core.commands import (
    Abort,
    Action,
    AdjustBounds,
    Answer,
    Decision,
    Pause,
    Resume,
    Steer,
    SubmitToolResult,
    kind_of,
)
from jackline_server.core.facts import AbortMode, InterruptKind
from jackline_server.core.new_bounds import NewRunBounds, NewVisitBounds
from jackline_server.core.state import Interrupt
from jackline_server.runtime.assembly import Runtime
from jackline_server.runtime.ports.definitions import Source
from jackline_server.runtime.ports.tenants import DEFAULT_TENANT
from jackline_server.runtime.refusals import Refused
from jackline_server.runtime.use_cases import (
    ControlRun,
    Frame,
    Receipt,
    Snapshot,
    Stage,
    Started,
    StartRun,
)
from jackline_server.testing.simulation.approving import decided, thought_ms
from jackline_server.testing.simulation.asking import answered
from jackline_server.testing.simulation.owning import ALWAYS, Stay
from jackline_server.testing.simulation.weather import START_UNIX_MS
from jackline_server.testing.simulation.wishes import Wish, caller, wished
from jackline_server.testing.simulation.workers import ConnectionLost, Deployment, Worker
from jackline_server.testing.validators.acts import BulkPage, Switching
from jackline_server.testing.validators.history import (
    CLOSED,
    LOST,
    OK,
    REFUSED,
    Append,
    Control,
    Delivery,
    Start,
    Stream,
)
from jackline_server.testing.validators.recording import digest_of

T = TypeVar("T")

_AGAIN = 0.4
"""How often somebody answers a question that they have answered, or that is over."""


@dataclass(slots=True, kw_only=True)
class Notebook:
    """What all clients saw."""

    starts: list[Start] = field(default_factory=list[Start])
    controls: list[Control] = field(default_factory=list[Control])
    streams: list[Stream] = field(default_factory=list[Stream])
    appends: list[Append] = field(default_factory=list[Append])
    switchings: list[Switching] = field(default_factory=list[Switching])
    bulk: list[BulkPage] = field(default_factory=list[BulkPage])
    bugs: list[str] = field(default_factory=list[str])


class Client:
    """One client. Every method is one thing that a client does."""

    def __init__(self, name: str, deployment: Deployment, notebook: Notebook) -> None:
        self.name = name
        self._deployment = deployment
        self._dice = deployment.weather
        self._notebook = notebook
        self._seen: dict[str, Interrupt] = {}

    # --- starting ------------------------------------------------------------------------------

    async def start(self, wish: Wish, *, tries: int) -> str | None:
        """Start a run; its id, or None if no answer came or it was refused."""
        for _ in range(tries):
            if not wish.request_id:
                # Nothing tells a repeat from another run.
                wish = replace(wish, mark=self._deployment.ids.new_id("m-"))
            begin = self._deployment.now_ms()
            thread = self._deployment.conversations.joined(wish.mark)
            request = wished(wish, thread)
            ending, answer, reason = await self.call(partial(_start, request), timeout_ms=4_000)
            record = Start(
                client=self.name,
                request_id=wish.request_id,
                mark=wish.mark,
                begin_ms=begin,
                end_ms=self._deployment.now_ms(),
                ending=ending,
                reason=reason,
                thread="" if thread is None else thread.thread_id,
                on_busy="" if thread is None else thread.on_busy.value,
            )
            if answer is not None:
                run_id = answer.row.run_id
                disposition = answer.disposition.value
                self._notebook.starts.append(replace(record, run=run_id, disposition=disposition))
                return run_id
            self._notebook.starts.append(record)
            if reason == "REQUEST_ID_REUSED":
                return None
            await asyncio.sleep(self._dice.chance.random() * 0.5)
        return None

    async def say(self, *, tries: int) -> None:
        """Add a message to a thread; again if no answer came and it can be told from another one."""
        request = self._deployment.conversations.message(self.name)
        for _ in range(tries if request.request_id else 1):
            begin = self._deployment.now_ms()
            ending, _, reason = await self.call(
                lambda runtime: runtime.threads.append(request), timeout_ms=4_000
            )
            self._notebook.appends.append(
                Append(
                    client=self.name,
                    thread=request.thread_id,
                    text=request.messages[0].text,
                    begin_ms=begin,
                    end_ms=self._deployment.now_ms(),
                    ending=ending,
                    reason=reason,
                )
            )
            if ending == OK:
                return
            await asyncio.sleep(self._dice.chance.random() * 0.5)

    async def put_workflows(self) -> None:
        """Store the workflows of the world, so that they can be named."""
        for name in sorted(self._deployment.plans):
            await self._put(Source(yaml=name, files={}))

    async def _put(self, source: Source) -> None:
        ending = ""
        while ending != OK:
            ending, _, _ = await self.call(
                lambda runtime: runtime.workflows.put(caller(self.name), source, alias="", expect_digest=""),
                timeout_ms=4_000,
            )

    # --- watching ------------------------------------------------------------------------------

    async def follow(self, run_id: str, *, patience: int, hurry: bool = False) -> None:
        """Watch a run to its end, through cuts, from where it was or anywhere before."""
        position = 0 if hurry else self._dice.chance.choice((0, 0, 1, 3, 500))
        for _ in range(patience):
            position, ended = await self._stream(run_id, position, hurry=hurry)
            if ended:
                return
            if not hurry and self._dice.happens(0.3):
                position = self._dice.chance.randint(0, position)
            await asyncio.sleep(self._dice.chance.random() * 0.5)

    async def own(self, run_id: str, stays: Sequence[Stay]) -> None:
        """Be an owner of a run for these times, or until it has ended."""
        position = 0
        for stay in stays:
            position, ended = await self._stream(run_id, position, hurry=True, stay=stay)
            if ended:
                return
            await asyncio.sleep(stay.away_ms / 1000)

    async def _stream(
        self, run_id: str, after: int, *, hurry: bool, stay: Stay | None = None
    ) -> tuple[int, bool]:
        """One stream. Where it came to, and whether the run had ended."""
        deliveries: list[Delivery] = []
        begin = self._deployment.now_ms()

        async def take(frame: Frame) -> bool:
            events = tuple((event.sequence, digest_of(event)) for event in frame.events)
            at = self._deployment.now_ms()
            deliveries.append(Delivery(at_ms=at, events=events, sent_through=frame.sent_through))
            if not hurry and self._dice.happens(0.1):
                return False
            if not hurry and self._dice.happens(0.1):
                await asyncio.sleep(self._dice.chance.random() * 2)
            return True

        ending, reason, metadata = CLOSED, "", dict[str, str]()
        try:
            ended = await self._worker().watch(run_id, after, take, stay=stay or ALWAYS)
            ending = OK if ended else CLOSED
        except Refused as refused:
            ending, reason, metadata = REFUSED, refused.reason.value, refused.metadata
        except ConnectionLost:
            ending = LOST
        except TimeoutError:
            pass
        except Exception as error:  # noqa: BLE001 - what a door would call an internal error
            ending, reason = REFUSED, "INTERNAL"
            self._notebook.bugs.append(f"a stream ended with {error!r}")
        self._notebook.streams.append(
            Stream(
                client=self.name,
                run=run_id,
                after=after,
                begin_ms=begin,
                end_ms=self._deployment.now_ms(),
                deliveries=tuple(deliveries),
                ending=ending,
                reason=reason,
                metadata=metadata,
                grace_ms=None if stay is None else stay.grace_ms,
            )
        )
        position = deliveries[-1].sent_through if deliveries else after
        return (0 if reason == "SEQUENCE_IN_FUTURE" else position), ending == OK

    # --- control -------------------------------------------------------------------------------

    async def control(self, run_id: str, action: Action, command_id: str, *, tries: int = 1) -> None:
        """Send a command, again if its answer was lost."""
        for _ in range(tries):
            if await self._control(run_id, action, command_id):
                return
            await asyncio.sleep(self._dice.chance.random() * 0.5)

    async def _control(self, run_id: str, action: Action, command_id: str) -> bool:
        wait = self._dice.chance.choice((Stage.ACCEPTED, Stage.ACCEPTED, Stage.EFFECTIVE, Stage.SETTLED))
        begin = self._deployment.now_ms()
        request = ControlRun(
            caller=caller(self.name),
            run_id=run_id,
            command_id=command_id,
            reason="",
            expect_phase=None,
            expect_sequence=None,
            action=action,
            wait=wait,
            wait_ms=self._dice.chance.choice((0, 500, 3_000)),
        )
        ending, receipt, reason = await self.call(
            lambda runtime: runtime.runs.control(request), timeout_ms=5_000
        )
        record = Control(
            client=self.name,
            run=run_id,
            command_id=command_id,
            kind=kind_of(action).value,
            content=hashlib.sha256(repr(action).encode()).hexdigest()[:12],
            abort_mode=action.mode.value if isinstance(action, Abort) else "",
            begin_ms=begin,
            end_ms=self._deployment.now_ms(),
            ending=ending,
            reason=reason,
        )
        self._notebook.controls.append(record if receipt is None else with_receipt(record, receipt))
        return ending == OK or reason not in ("", "STORE_UNAVAILABLE", "STORE_FULL", "COMMAND_LIMIT")

    async def meddle(self, run_id: str, number: int) -> None:
        """Send whatever comes to mind; command ids come from a small pool, so that some are used twice."""
        action = await self._idea(run_id)
        command_id = f"{self.name}-{self._dice.chance.randrange(3)}-{kind_of(action).value}"
        if self._dice.happens(0.6):
            command_id = f"{self.name}-{number}"
        await self.control(run_id, action, command_id, tries=self._dice.chance.choice((1, 3)))
        await self.answer_again(run_id, f"{command_id}-again")

    async def _idea(self, run_id: str) -> Action:
        dice = self._dice.chance
        match self._dice.pick(pause=18, resume=22, steer=18, abort=12, answer=18, adjust=12):
            case "pause":
                return Pause()
            case "steer":
                return Steer(text=f"guidance {dice.randrange(3)}")
            case "abort":
                return Abort(mode=dice.choice(list(AbortMode)), skip_routes=self._dice.happens(0.3))
            case "adjust":
                return self._new_bounds()
            case "answer":
                return await self.an_answer(run_id) or Resume()
            case _:
                return Resume()

    def _new_bounds(self) -> Action:
        """Bounds that are tiny or generous, of the run or of the visit."""
        dice = self._dice.chance
        if self._dice.happens(0.5):
            run = NewRunBounds(
                token_budget=dice.choice((None, 300, 2_000, 9_000)),
                run_timeout_ms=dice.choice((None, 1_500, 20_000)),
                steps=dice.choice((1, 3, 9)),
            )
            return AdjustBounds(run=run)
        visit = NewVisitBounds(
            max_iterations=dice.choice((None, 1, 3, 6)),
            model_requests=dice.choice((None, 2, 9)),
            tool_calls=dice.choice((1, 4, 9)),
            timeout_ms=dice.choice((None, 1_000, 9_000)),
        )
        return AdjustBounds(visit=visit)

    async def an_answer(self, run_id: str) -> Action | None:
        """An answer to a question that is open; None if there is none, or nobody says."""
        snapshot = await self.look(run_id)
        open_ones = [] if snapshot is None else list(snapshot.state.oversight.interrupts.values())
        if not open_ones:
            return None
        interrupt = self._dice.chance.choice(open_ones)
        if interrupt.kind is InterruptKind.QUESTION:
            self._seen[run_id] = interrupt
            return answered(interrupt, self._own(run_id))
        if interrupt.kind is InterruptKind.APPROVAL:
            return await self._a_decision(run_id, interrupt)
        if self._dice.happens(0.2):
            return SubmitToolResult(call_id=interrupt.call_id, output_json='{"ok":1}', error="")
        option = self._dice.chance.choice(interrupt.options)
        return Answer(interrupt_id=interrupt.interrupt_id, option=option, text="")

    async def _a_decision(self, run_id: str, interrupt: Interrupt) -> Decision:
        """What this client decides about a call, once it has thought about it."""
        self._seen[run_id] = interrupt
        own = self._own(run_id)
        unix_ms = START_UNIX_MS + self._deployment.now_ms()
        await asyncio.sleep(thought_ms(interrupt, own, unix_ms=unix_ms) / 1000)
        return decided(interrupt, own)

    async def answer_again(self, run_id: str, command_id: str) -> None:
        """Answer a question that was seen before, whatever has become of it since; nothing without one."""
        interrupt, own = self._seen.get(run_id), self._own(run_id)
        if interrupt is not None and own.random() < _AGAIN:
            asked = interrupt.kind is InterruptKind.QUESTION
            said = answered(interrupt, own) if asked else decided(interrupt, own)
            await self.control(run_id, said, command_id)

    def _own(self, run_id: str) -> random.Random:
        """Dice of this moment, so that all others fall as they fell where nobody is asked."""
        return random.Random(f"{self.name} {run_id} {self._deployment.now_ms()}")  # noqa: S311 - of a simulation

    async def look(self, run_id: str) -> Snapshot | None:
        """The run, if the deployment answers."""
        _, snapshot, _ = await self.call(
            lambda runtime: runtime.runs.get(DEFAULT_TENANT, run_id), timeout_ms=3_000
        )
        return snapshot

    async def wait(self, run_id: str) -> None:
        """Wait a while for the end of a run; what comes is not looked at."""
        await self.call(
            lambda runtime: runtime.runs.wait(DEFAULT_TENANT, run_id, timeout_ms=2_000), timeout_ms=4_000
        )

    # --- the wire ------------------------------------------------------------------------------

    def _worker(self) -> Worker:
        return self._dice.chance.choice(self._deployment.workers)

    async def call(
        self, call: Callable[[Runtime], Awaitable[T]], *, timeout_ms: int
    ) -> tuple[str, T | None, str]:
        """Call either worker: how the call ended, its answer, and the reason of a refusal."""
        try:
            return OK, await self._worker().ask(call, timeout_ms=timeout_ms), ""
        except Refused as refused:
            return REFUSED, None, refused.reason.value
        except (ConnectionLost, TimeoutError):
            return LOST, None, ""
        except Exception as error:  # noqa: BLE001 - what a door would call an internal error
            self._notebook.bugs.append(f"a call ended with {error!r}")
            return LOST, None, ""


def _start(request: StartRun, runtime: Runtime) -> Awaitable[Started]:
    return runtime.runs.start(request)


def with_receipt(record: Control, receipt: Receipt) -> Control:
    """What a client saw of a command that was answered."""
    return replace(
        record,
        stage=receipt.stage.value,
        applied=receipt.applied,
        rejection=receipt.rejection,
        sequence=receipt.sequence,
        already_terminal=receipt.already_terminal,
    )

"""The seeded simulator: two real runtimes over one store, in virtual time, in a world that does its worst.

Owns one simulation from its seed to its verdict. Crashes, frozen workers that wake as zombies, lost replies,
a full store, mad clocks, stubborn tools and impatient clients are all drawn from the seed, so that any
outcome can be had again: `python -m jackline_server.testing.simulator --seed N`.

At the end everything is healed, every run is led to its end, and the validators judge what was seen.
"""

import argparse
import asyncio
import hashlib
import random
import sys
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from functools import cache

from jackline_server.core.commands import Abort, Resume
from jackline_server.core.facts import AbortMode, Phase
from jackline_server.core.instruments import Instruments
from jackline_server.runtime.ports.run_rows import RunRow
from jackline_server.storage.clocks import StoreClock
from jackline_server.storage.memory.store import memory_store
from jackline_server.testing.instruments import instruments
from jackline_server.testing.simulation.approving import approves, with_approvals
from jackline_server.testing.simulation.asking import asks, with_people
from jackline_server.testing.simulation.chaos import Chaos
from jackline_server.testing.simulation.clients import Client, Notebook
from jackline_server.testing.simulation.commanding import Commanding
from jackline_server.testing.simulation.conversing import Conversations
from jackline_server.testing.simulation.families import with_families
from jackline_server.testing.simulation.gathering import all_runs, gather, miscounted
from jackline_server.testing.simulation.killing import Killing
from jackline_server.testing.simulation.listening import listening
from jackline_server.testing.simulation.loop import Deadlock, Livelock, VirtualLoop
from jackline_server.testing.simulation.owning import Ownership
from jackline_server.testing.simulation.scenery import draw_plans
from jackline_server.testing.simulation.surroundings import Books
from jackline_server.testing.simulation.weather import START_UNIX_MS, Kind, SimulatedChance, Weather
from jackline_server.testing.simulation.wishes import draw_wish
from jackline_server.testing.simulation.workers import LEASE_MS, LONG_LEASE_MS, Deployment, Worker
from jackline_server.testing.validators import judge
from jackline_server.testing.validators.history import History, Limits, Violation, to_json

HEALED_S = 120.0
PEOPLE_S = 10.0
CALM_GONE_MS = 2_000
"""How much later than its grace a run without owners is told to end: a look, a nudge and a slow store."""

GONE_MS = 30_000
"""The same once all is healed: after a process that died, and a nudge that was lost."""

BUG = "bug"
"""The guarantee that a violation names if the server met a bug of its own, or never came to rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a seed."""

    seed: int
    history: History
    violations: tuple[Violation, ...]

    @property
    def digest(self) -> str:
        """Stands for the whole history: equal for every simulation of a seed."""
        return hashlib.sha256(to_json(self.history)).hexdigest()


def simulate(seed: int, *, fencing: bool = True) -> Outcome:
    """Run one world to its end. `fencing=False` lets a stale writer write, to show what that breaks.

    Takes no real time but that of the computation, and does no I/O. Not from within a running event loop.
    """
    simulation = _Simulation(seed, fencing=fencing)
    with listening() as bugs:
        violations = simulation.run()
    history = simulation.history
    violations += [_bug(words) for words in (*bugs, *simulation.notebook.bugs, *simulation.loop.problems)]
    violations += judge(history)
    return Outcome(seed=seed, history=history, violations=tuple(violations))


def _bug(words: str) -> Violation:
    return Violation(guarantee=BUG, run="", sentence=words)


class _Simulation:
    """One world."""

    def __init__(self, seed: int, *, fencing: bool) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - a simulation has to be had again
        self.loop = VirtualLoop(self.chance)
        kind = self.chance.choice((Kind.CALM, Kind.GUSTS, Kind.CHAOS, Kind.CHAOS, Kind.CHAOS))
        weather = Weather(chance=self.chance, kind=kind)
        clock = StoreClock(unix_ms=self._now_ms, monotonic_ms=self._now_ms)
        lease_ms = LEASE_MS if kind is Kind.CHAOS else LONG_LEASE_MS
        self.books = Books(now_ms=self._now_ms)
        plans = with_approvals(with_people(with_families(draw_plans(self.chance, 2))))
        self.deployment = Deployment(
            loop=self.loop,
            weather=weather,
            store=memory_store(clock=clock, lease_ms=lease_ms, fencing=fencing),
            books=self.books,
            plans=plans,
            conversations=Conversations(plans),
            ownership=Ownership(plans),
            instruments=_instruments(),
            ids=SimulatedChance(chance=self.chance),
            lease_ms=lease_ms,
        )
        self.chaos = Chaos(self.deployment)
        self.notebook = Notebook()
        self.weather = weather
        self.history = History()
        self._healed_ms = 0

    def _now_ms(self) -> int:
        return int(self.loop.time() * 1000)

    def run(self) -> list[Violation]:
        """Live through it; what can't be judged from the history alone."""
        try:
            return self.loop.run(self._main())
        except (Deadlock, Livelock) as error:
            return [_bug(repr(error))]

    # --- the course of events ------------------------------------------------------------------

    async def _main(self) -> list[Violation]:
        await self._open()
        chaos = asyncio.create_task(self.chaos.rage())
        clients = [
            asyncio.create_task(self._client(number)) for number in range(self.chance.choice((1, 2, 3)))
        ]
        if any(asks(plan) or approves(plan) for plan in self.deployment.plans.values()):
            clients.append(asyncio.create_task(self._person()))
        clients += [asyncio.create_task(one) for one in self._operators()]
        done, _ = await asyncio.wait(clients, timeout=60)
        chaos.cancel()
        await self.chaos.heal()
        self._healed_ms = self._now_ms()
        found = await self._come_to_rest()
        late = [task for task in clients if task not in done]
        if late:
            await asyncio.wait(late, timeout=60)
            found += await self._come_to_rest()
        for run in await self._rows():
            await self._watcher(run)
        for task in clients:
            if task.done() and task.exception() is not None:
                found.append(_bug(f"a client failed: {task.exception()!r}"))
        self.history = await gather(self.deployment, self.notebook, self._limits())
        if self.weather.kind is not Kind.CHAOS:
            found.extend(_bug(words) for words in miscounted(self.history))
        for worker in self.deployment.workers:
            worker.crash()
        await self.loop.unwind()
        return found

    async def _open(self) -> None:
        """Have it all run, before anything happens to it."""
        self.deployment.workers = [Worker(slot, self.deployment) for slot in ("w1", "w2")]
        for worker in self.deployment.workers:
            await worker.boot()
        if self.deployment.has_families:
            await Client("author", self.deployment, self.notebook).put_workflows()
        if not self.weather.calm:
            self.weather.fault = self.chance.choice((0.0, 0.02, 0.1))

    def _operators(self) -> list[Coroutine[None, None, None]]:
        """Who does something to many runs at once, in some worlds."""
        killing = Killing(self.deployment, self.notebook)
        commanding = Commanding(self.deployment, self.notebook)
        return [one.act() for one in (killing, commanding) if one.happens]

    async def _client(self, number: int) -> None:
        client = Client(f"c{number}", self.deployment, self.notebook)
        dice = self.chance
        await asyncio.sleep(dice.random() * 0.5)
        wish = draw_wish(self.deployment, number)
        run_id = await client.start(wish, tries=4)
        if run_id is None:
            return
        watching = [asyncio.create_task(client.follow(run_id, patience=8))]
        for place, stays in enumerate(self.deployment.ownership.of_a_run()):
            owner = Client(f"{client.name}-owner-{place}", self.deployment, self.notebook)
            watching.append(asyncio.create_task(owner.own(run_id, stays)))
        for step in range(dice.randint(0, 4)):
            await asyncio.sleep(dice.random() * 1.5)
            match self.weather.pick(start=15, wait=10, meddle=75):
                case "start":
                    await client.start(wish, tries=1)
                case "wait":
                    await client.wait(run_id)
                case _:
                    await client.meddle(await self._one_of(run_id), step)
            await self._talk(client, number, step)
        for task in watching:
            await task

    async def _person(self) -> None:
        """Answer what is asked, for a while."""
        person = Client("person", self.deployment, self.notebook)
        until = self.loop.time() + PEOPLE_S
        number = 0
        while self.loop.time() < until:
            await asyncio.sleep(self.chance.random())
            for row in await self._rows():
                if row.phase is Phase.WAITING and self.weather.happens(0.5):
                    number += 1
                    answer = await person.an_answer(row.run_id)
                    if answer is not None:
                        await person.control(row.run_id, answer, f"person-{number}")
                    await person.answer_again(row.run_id, f"person-{number}-again")

    async def _one_of(self, run_id: str) -> str:
        """The run, or one that is below it."""
        found = run_id
        while self.deployment.has_families and self.weather.happens(0.5):
            below = [row.run_id for row in await self._rows() if row.parent_run_id == found]
            if not below:
                break
            found = self.chance.choice(sorted(below))
        return found

    async def _talk(self, client: Client, number: int, step: int) -> None:
        """Say something to a thread, or have another run continue one."""
        talk = self.deployment.conversations
        if talk.happens(0.4):
            await client.say(tries=3)
        if talk.happens(0.5):
            wish = replace(draw_wish(self.deployment, number), mark=f"m-{number}-{step}", request_id="")
            await client.start(wish, tries=1)

    async def _come_to_rest(self) -> list[Violation]:
        """Lead every run to its end: resume what is paused, answer what is asked, abort what is too late.

        That is a run whose start was put off by a clock that was hours ahead.
        """
        operator = Client("operator", self.deployment, self.notebook)
        until = self.loop.time() + HEALED_S
        number = 0
        while self.loop.time() < until:
            left = [row for row in await self._rows() if not row.phase.terminal]
            if not left:
                return []
            for row in left:
                number += 1
                if not self._ends_by_itself(row):
                    await self._lead(row, operator, f"operator-{number}", until)
            await asyncio.sleep(0.5)
        return [
            Violation(guarantee=BUG, run=row.run_id, sentence=f"the run is {row.phase.value} and stays so")
            for row in await self._rows()
            if not row.phase.terminal
        ]

    async def _lead(self, row: RunRow, operator: Client, command_id: str, until_s: float) -> None:
        """Bring the run nearer to its end, if it needs somebody for that."""
        if row.phase is Phase.QUEUED and await self._starts_too_late(row, operator, until_s):
            abort = Abort(mode=AbortMode.NOW, skip_routes=False)
            await operator.control(row.run_id, abort, command_id)
        elif row.phase is Phase.PAUSED:
            await operator.control(row.run_id, Resume(), command_id)
        elif row.phase is Phase.WAITING and self.weather.happens(0.3):
            answer = await operator.an_answer(row.run_id)
            if answer is not None:
                await operator.control(row.run_id, answer, command_id)
                await operator.answer_again(row.run_id, f"{command_id}-again")

    def _ends_by_itself(self, row: RunRow) -> bool:
        """True for a run whose owners have gone, where the clocks that say so are right."""
        return not self.weather.clocks_jumped and any(
            stream.run == row.run_id and stream.grace_ms is not None and stream.deliveries
            for stream in self.notebook.streams
        )

    async def _starts_too_late(self, row: RunRow, operator: Client, until_s: float) -> bool:
        """True if a clock that had jumped put its start off beyond that moment."""
        if not self.weather.clocks_jumped:
            return False
        found = await operator.look(row.run_id)
        starts = None if found is None else found.state.oversight.starts_unix_ms
        return starts is not None and starts > START_UNIX_MS + until_s * 1000

    async def _watcher(self, row: RunRow) -> None:
        if row.phase.terminal:
            await Client("late", self.deployment, self.notebook).follow(row.run_id, patience=2, hurry=True)

    def _limits(self) -> Limits:
        """What can be judged of a world like this."""
        calm, jumped = self.weather.calm, self.weather.clocks_jumped
        return Limits(
            abort_within_ms=2_000 if calm else None,
            call_after_abort_ms=100 if calm else None,
            heartbeat_within_ms=None,
            quiescent=True,
            zero_unix_ms=None if jumped else START_UNIX_MS,
            gone_within_ms=None if jumped else CALM_GONE_MS if calm else GONE_MS,
            healed_ms=0 if calm else self._healed_ms,
        )

    async def _rows(self) -> Sequence[RunRow]:
        return await all_runs(self.deployment)


@cache
def _instruments() -> Instruments:
    """One for all worlds: they hold no state but caches of what is pure."""
    return instruments()


# --- from the command line ---------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Replay seeds and say what they show. 1 if a seed violates a promise."""
    parser = argparse.ArgumentParser(prog="python -m jackline_server.testing.simulator", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=1, help="how many seeds")
    parser.add_argument("--no-fencing", action="store_true", help="let stale writers write")
    parser.add_argument("--history", action="store_true", help="print the whole history as JSON")
    chosen = parser.parse_args(arguments)
    broken = False
    for seed in range(chosen.seed, chosen.seed + chosen.count):
        outcome = simulate(seed, fencing=not chosen.no_fencing)
        broken = broken or bool(outcome.violations)
        if outcome.violations or chosen.count == 1:
            sys.stdout.write(f"seed {seed}: {outcome.digest}\n")
        for violation in outcome.violations:
            sys.stdout.write(f"  {violation.guarantee} {violation.run}: {violation.sentence}\n")
        if chosen.history:
            sys.stdout.write(to_json(outcome.history, indent=1).decode() + "\n")
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())

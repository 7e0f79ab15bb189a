"""Reading a run back from the store: its plan, its facts, and the state they add up to.

Owns the small cache of decoded plans; runs of one workflow share one plan object.
"""

from collections import OrderedDict
from collections.abc import Callable

from jackline_server.core.evolve import begin, evolve
from jackline_server.core.facts import Fact, RunStarted
from jackline_server.core.plan import Plan
from jackline_server.core.state import RunState
from jackline_server.runtime.ports.codec import Codec, Record
from jackline_server.runtime.ports.journal import Journal, StoredEvent
from jackline_server.runtime.ports.run_rows import RunRow
from jackline_server.runtime.ports.store_errors import StoreDamaged
from jackline_server.runtime.reading.histories import NAMING, Histories

PAGE_EVENTS = 256
CACHED_PLANS = 256


class Loading:
    """Replays runs."""

    def __init__(self, *, journal: Journal, codec: Codec, histories: Histories) -> None:
        self._journal = journal
        self._histories = histories
        self._codec = codec
        self._plans: OrderedDict[str, Plan] = OrderedDict()

    async def plan(self, digest: str) -> Plan:
        """The plan of that digest. Raises StoreDamaged."""
        plan = self._plans.get(digest)
        if plan is None:
            plan = self._codec.decode_plan(await self._journal.plan(digest))
            self.keep(plan)
        self._plans.move_to_end(digest)
        return plan

    def keep(self, plan: Plan) -> None:
        """Remember a plan that is about to be used."""
        self._plans[plan.digest] = plan
        if len(self._plans) > CACHED_PLANS:
            self._plans.popitem(last=False)

    async def state(self, row: RunRow) -> RunState:
        """The run as its durable facts have it. Raises UnknownFact, StoreDamaged."""
        return await self.state_until(row, _never)

    async def state_until(self, row: RunRow, ends: Callable[[RunState, Fact], bool]) -> RunState:
        """The state before the first fact for which `ends` is true, or the last state.

        Folds page by page, so that a long log lets others have the loop between. Raises UnknownFact,
        StoreDamaged.
        """
        plan = await self.plan(row.plan_digest)
        state: RunState | None = None
        while records := await self._page(row, after=0 if state is None else state.sequence):
            for record in records:
                if state is None:
                    state = _begun(row, plan, record)
                elif ends(state, record.fact):
                    return state
                else:
                    state = evolve(state, record.fact, active_ms=record.envelope.active_ms)
        if state is None:
            raise StoreDamaged(f"run {row.run_id} has no events")
        return state

    async def _page(self, row: RunRow, *, after: int) -> list[Record]:
        events = await self._journal.read(row.run_id, after_sequence=after, limit=PAGE_EVENTS)
        return [await self.record(row, event) for event in events]

    async def record(self, row: RunRow, event: StoredEvent) -> Record:
        """A record of the run, with the messages of its thread that the fact names.

        Raises UnknownFact, StoreDamaged.
        """
        record = self._codec.decode(event)
        if type(record.fact) not in NAMING:
            return record
        return await self._histories.resolved(row.tenant, record)


def _begun(row: RunRow, plan: Plan, record: Record) -> RunState:
    if not isinstance(record.fact, RunStarted):
        raise StoreDamaged(f"run {row.run_id} does not begin with its start")
    return begin(row.run_id, plan, record.fact, active_ms=record.envelope.active_ms)


def _never(_state: RunState, _fact: Fact) -> bool:
    return False

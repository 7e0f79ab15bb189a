"""Reading a run back from the store: its plan, its facts, and the state they add up to.

Owns the small cache of decoded plans; runs of one workflow share one plan object.
"""

from collections import OrderedDict
from collections.abc import Callable

from jackline_server.core.evolve import begin, evolve, replay
from jackline_server.core.facts import Fact, RunStarted
from jackline_server.core.plan import Plan
from jackline_server.core.state import RunState
from jackline_server.runtime.ports import Codec, Record
from jackline_server.runtime.store_ports import Journal, RunRow, StoreDamaged

PAGE_EVENTS = 512
CACHED_PLANS = 256


class Loading:
    """Replays runs."""

    def __init__(self, *, journal: Journal, codec: Codec) -> None:
        self._journal = journal
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

    async def records(self, run_id: str, *, through: int | None = None) -> list[Record]:
        """The facts of a run, decoded, up to that sequence. Raises UnknownFact."""
        records: list[Record] = []
        while through is None or len(records) < through:
            events = await self._journal.read(run_id, after_sequence=len(records), limit=PAGE_EVENTS)
            if not events:
                break
            records.extend(self._codec.decode(event) for event in events)
        return records if through is None else records[:through]

    async def state(self, row: RunRow) -> RunState:
        """The run as its durable facts have it. Raises UnknownFact, StoreDamaged."""
        plan = await self.plan(row.plan_digest)
        records = await self.records(row.run_id)
        if not records:
            raise StoreDamaged(f"run {row.run_id} has no events")
        return replay(row.run_id, plan, ((r.fact, r.envelope.active_ms) for r in records))

    async def state_until(self, row: RunRow, ends: Callable[[RunState, Fact], bool]) -> RunState:
        """The state before the first fact for which `ends` is true, or the last state."""
        plan = await self.plan(row.plan_digest)
        records = await self.records(row.run_id)
        first = records[0].fact
        if not isinstance(first, RunStarted):
            raise StoreDamaged(f"run {row.run_id} does not begin with its start")
        state = begin(row.run_id, plan, first)
        for record in records[1:]:
            if ends(state, record.fact):
                break
            state = evolve(state, record.fact, active_ms=record.envelope.active_ms)
        return state

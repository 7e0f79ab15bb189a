"""Re-deciding a recorded log: what the loop would do now at each boundary, against what it did.

Owns the walk and what counts as the same. What came from outside the loop (replies of models, results of
tools, commands, timers, takeovers, the end by a bug of the server) is taken as it was recorded, and so is all
that a fork took over. A decision is asked for at the moment of the fact that follows it; where it differs, at
that of the fact before: the loop asked somewhere between the two.

Against another plan two states are folded from the same facts, each under its plan; their requests to models,
which a log does not hold, are compared whole. The walk ends at the first difference: what follows it belongs
to another run. Pure, and as deep into a log as its reader hands out.
"""

from collections import deque
from collections.abc import Iterable, Iterator

from jackline_server.core import json_text
from jackline_server.core.calling import calls
from jackline_server.core.decide import decide
from jackline_server.core.errors import CorruptLog
from jackline_server.core.evolve import begin, evolve
from jackline_server.core.fact_names import fact_name
from jackline_server.core.facts import (
    CommandRejected,
    Consulted,
    Fact,
    InterruptRaised,
    ModelCallFailed,
    ModelCallStarted,
    ModelReplied,
    NoticeCode,
    Noticed,
    Paused,
    RunFinished,
    RunStarted,
    ToolCallFinished,
)
from jackline_server.core.frozen import change, frozen
from jackline_server.core.instruments import Instruments
from jackline_server.core.plan import Plan
from jackline_server.core.recorded.boundaries import Entry, comes_from_outside, completes, in_flight
from jackline_server.core.recorded.forking import carried
from jackline_server.core.recorded.request_differences import Kind, Unlike, models_differ, tools_differ
from jackline_server.core.state import RunState
from jackline_server.core.steps import (
    CallModel,
    CallTools,
    Consult,
    Finish,
    Moment,
    Question,
    Record,
    Step,
    Wait,
)

_CLOCK_STEP_MS = 1_000
"""An expiry that is off by no more than this is the same: wall clocks are set."""


@frozen
class Difference:
    """The first step that differs.

    `recorded` is the fact of the log, None at its end. `decided` is what the loop would record now in its
    place, None if that is nothing. `detail` says in a few words what differs, without content. `texts` are
    the two messages that differ first in a prompt; they are content.
    """

    sequence: int
    kind: Kind
    recorded: Fact | None
    decided: Fact | None
    detail: str
    texts: tuple[str, str] | None = None


@frozen
class Replayed:
    """What a walk came to: how many facts it went through, how many decisions were asked for, what it met."""

    facts: int
    decisions: int
    difference: Difference | None


def replayed(
    run_id: str,
    log: Iterable[Entry],
    plan: Plan,
    *,
    instruments: Instruments,
    against: Plan | None = None,
) -> Replayed:
    """Walk a log from its first fact to its first difference, or to its end. Raises CorruptLog."""
    ahead = _Ahead(iter(log))
    first = ahead.peek(0)
    if first is None or not isinstance(first.fact, RunStarted):
        raise CorruptLog("a log begins with RunStarted")
    ahead.take()
    walk = _Walk(run_id, first, plan, against=against, instruments=instruments)
    difference = walk.first_difference(first.fact, ahead)
    return Replayed(facts=walk.own.sequence, decisions=walk.decisions, difference=difference)


class _Ahead:
    """A log that can be looked into ahead of where it is read."""

    def __init__(self, entries: Iterator[Entry]) -> None:
        self._entries = entries
        self._buffer: deque[Entry] = deque()

    def peek(self, distance: int) -> Entry | None:
        while len(self._buffer) <= distance:
            entry = next(self._entries, None)
            if entry is None:
                return None
            self._buffer.append(entry)
        return self._buffer[distance]

    def take(self) -> Entry:
        return self._buffer.popleft()


class _Walk:
    """Where a walk stands: the state under the log's plan, and the one under the plan it is held against."""

    def __init__(
        self, run_id: str, first: Entry, plan: Plan, *, against: Plan | None, instruments: Instruments
    ) -> None:
        started = first.fact
        if not isinstance(started, RunStarted):
            raise CorruptLog("a log begins with RunStarted")
        self._instruments = instruments
        self._last = first
        self.own = begin(run_id, plan, started, active_ms=first.active_ms)
        self.other: RunState | None = None
        if against is not None:
            self.other = begin(run_id, against, under(started, plan, against), active_ms=first.active_ms)
        self.decisions = 0

    @property
    def _judge(self) -> RunState:
        return self.own if self.other is None else self.other

    def first_difference(self, started: RunStarted, ahead: _Ahead) -> Difference | None:
        found = self._input(started)
        copied = 0 if started.forked_from is None else started.forked_from.sequence
        while found is None and (entry := ahead.peek(0)) is not None:
            if self.own.sequence < copied or self._given(entry.fact):
                found = self._fold(ahead.take())
                continue
            if in_flight(self.own):
                found = self._differs(0, ahead, None, "a call is under way")
            else:
                found = self._decision(ahead)
        return found

    def _input(self, started: RunStarted) -> Difference | None:
        schema = self._judge.plan.input_schema_json
        if self.other is None or schema is None:
            return None
        if self._instruments.schemas.problem(schema, json_text.parse(started.input_json)) is None:
            return None
        detail = "the input does not fit the workflow's schema"
        return Difference(sequence=1, kind=Kind.INPUT, recorded=started, decided=None, detail=detail)

    def _given(self, fact: Fact) -> bool:
        if comes_from_outside(fact) or completes(self._last.fact, fact):
            return True
        return in_flight(self.own) and isinstance(fact, ModelReplied | ModelCallFailed | ToolCallFinished)

    def _fold(self, entry: Entry) -> Difference | None:
        otherwise = self._heard_otherwise(entry.fact)
        self.own = evolve(self.own, entry.fact, active_ms=entry.active_ms)
        self._last = entry
        if self.other is None:
            return None
        if otherwise:
            return Difference(
                sequence=self.own.sequence,
                kind=Kind.DECISION,
                recorded=entry.fact,
                decided=None,
                detail=otherwise,
            )
        try:
            self.other = evolve(self.other, entry.fact, active_ms=entry.active_ms)
        except (CorruptLog, KeyError, TypeError):
            detail = "the workflow can't take what came from outside there"
            return Difference(
                sequence=self.own.sequence, kind=Kind.FOLD, recorded=entry.fact, decided=None, detail=detail
            )
        return None

    def _heard_otherwise(self, fact: Fact) -> str:
        """What the other plan makes of calls that stand in a reply's text, if that is not what was made."""
        if self.other is None or not isinstance(fact, ModelReplied):
            return ""
        if fact.tool_calls and not fact.calls_in_text:
            return ""
        ours, theirs = (calls.heard(state, fact.text, ()) for state in (self.other, self.own))
        if ours.asked == theirs.asked:
            return ""
        return "the calls in its text would be carried out" if ours.asked else "its text would be no call"

    # --- one decision --------------------------------------------------------------------------

    def _decision(self, ahead: _Ahead) -> Difference | None:
        """Compare what is decided with what follows, and fold as much of it as it accounts for."""
        entry = ahead.peek(0)
        if entry is None:
            raise AssertionError("a decision is compared with a fact that follows")
        self.decisions += 1
        first: Difference | None = None
        for moment in self._moments(entry):
            try:
                step = self._decided(self._judge, moment)
            except (KeyError, TypeError):
                if self.other is None:
                    raise
                return self._differs(0, ahead, None, "the workflow does not know where the run is", Kind.FOLD)
            taken, difference = self._compared(step, moment, ahead)
            if difference is None:
                for _ in range(taken):
                    found = self._fold(ahead.take())
                    if found is not None:
                        return found
                return None
            first = first or difference
        return first

    def _moments(self, entry: Entry) -> list[Moment]:
        """The moments between which the loop asked, the later first."""
        late = Moment(active_ms=max(entry.active_ms, self.own.active_ms), unix_ms=entry.unix_ms)
        early = Moment(active_ms=self.own.active_ms, unix_ms=self._last.unix_ms)
        return [late] if early.active_ms == late.active_ms else [late, early]

    def _decided(self, state: RunState, moment: Moment) -> Step:
        return decide(state, now=moment, instruments=self._instruments)

    def _compared(self, step: Step, moment: Moment, ahead: _Ahead) -> tuple[int, Difference | None]:
        match step:
            case Record(facts=facts):
                return self._record(facts, ahead)
            case CallModel():
                taken, difference = self._record((step.started,), ahead)
                return taken, difference or self._unlike(step, moment)
            case CallTools(attempts=attempts):
                taken, difference = self._record(tuple(one.started for one in attempts), ahead)
                return taken, difference or self._unlike(step, moment)
            case Consult(questions=questions):
                return self._asked(questions, ahead)
            case Wait():
                return 0, self._differs(0, ahead, None, "the run would wait")
            case Finish():
                return 0, self._differs(0, ahead, None, "the run has ended")

    def _asked(self, questions: tuple[Question, ...], ahead: _Ahead) -> tuple[int, Difference | None]:
        """Whether the same questions were asked; their answers came from outside."""
        for at, question in enumerate(questions):
            entry = ahead.peek(at)
            fact = None if entry is None else entry.fact
            if not isinstance(fact, Consulted) or (fact.who, fact.subject) != (
                question.who,
                question.subject,
            ):
                return at, self._differs(at, ahead, None, f"{question.who} would be asked")
        return len(questions), None

    def _record(self, facts: tuple[Fact, ...], ahead: _Ahead) -> tuple[int, Difference | None]:
        """How many facts of the log are those, or where they are not."""
        at = 0
        for fact in facts:
            while isinstance(fact, RunFinished) and _is(ahead.peek(at), CommandRejected):
                at += 1  # the end of a run rejects what still waits
            found = ahead.peek(at)
            if found is None or not _same(found.fact, fact):
                return at, self._differs(
                    at, ahead, fact, _detail(None if found is None else found.fact, fact)
                )
            at += 1
        return at, None

    def _differs(
        self, at: int, ahead: _Ahead, decided: Fact | None, detail: str, kind: Kind = Kind.DECISION
    ) -> Difference:
        entry = ahead.peek(at)
        recorded = None if entry is None else entry.fact
        sequence = self.own.sequence + at + 1
        if entry is not None and isinstance(decided, ModelCallStarted) and _asks_the_same(recorded, decided):
            unlike = self._why_reserved(decided, entry)
            if unlike is not None:
                return _difference(sequence, unlike, entry.fact, decided)
            kind = Kind.RESERVATION
        return Difference(sequence=sequence, kind=kind, recorded=recorded, decided=decided, detail=detail)

    # --- what a log does not hold --------------------------------------------------------------

    def _why_reserved(self, decided: ModelCallStarted, entry: Entry) -> Unlike | None:
        """What makes a call hold more or less than was recorded, as far as the two plans show it."""
        if self.other is None:
            return None
        for moment in self._moments(entry):
            ours, theirs = self._decided(self.other, moment), self._decided(self.own, moment)
            if isinstance(ours, CallModel) and isinstance(theirs, CallModel) and ours.started == decided:
                return models_differ(theirs, ours)
        return None

    def _unlike(self, step: CallModel | CallTools, moment: Moment) -> Difference | None:
        """The difference between the two plans' calls, whose announcements are the same."""
        theirs = None if self.other is None else self._decided(self.own, moment)
        match step, theirs:
            case CallModel(started=started), CallModel():
                unlike, facts = models_differ(theirs, step), (started,)
            case CallTools(attempts=attempts), CallTools() if len(attempts) == len(theirs.attempts):
                unlike, facts = tools_differ(theirs, step), tuple(one.started for one in attempts)
            case _:
                return None
        if unlike is None:
            return None
        fact = facts[unlike.at]
        return _difference(self.own.sequence + unlike.at + 1, unlike, fact, fact)


def _difference(sequence: int, unlike: Unlike, recorded: Fact, decided: Fact) -> Difference:
    return Difference(
        sequence=sequence,
        kind=unlike.kind,
        recorded=recorded,
        decided=decided,
        detail=unlike.detail,
        texts=unlike.texts,
    )


def under(started: RunStarted, own: Plan, other: Plan) -> RunStarted:
    """The start of a run as another plan would have had it: what its caller had asked for stays."""
    question = started.on_question
    return change(
        started,
        workflow=other.name,
        plan_digest=other.digest,
        bounds=carried(started.bounds, own.bounds, other.bounds),
        on_question=other.on_question if question is own.on_question else question,
    )


def _is(entry: Entry | None, kind: type[Fact]) -> bool:
    return entry is not None and isinstance(entry.fact, kind)


def _same(recorded: Fact, decided: Fact) -> bool:
    """True if the two are one decision. An expiry is a time of day, which no two walks share.

    The words of a question are none, nor those of why a condition can't be evaluated. A notice that names no
    budget is one of before, when that was told of all of them in one.
    """
    if isinstance(recorded, Noticed) and isinstance(decided, Noticed):
        if recorded.code is NoticeCode.CONDITION_FAILED:
            return recorded == change(decided, text=recorded.text)
        of_before = recorded.code is NoticeCode.BUDGET_NEARLY_USED and not recorded.subject
        return recorded.code is decided.code if of_before else recorded == decided
    if isinstance(recorded, Consulted) and isinstance(decided, Consulted) and decided.error:
        return bool(recorded.error) and recorded == change(decided, error=recorded.error)
    if isinstance(recorded, InterruptRaised) and isinstance(decided, InterruptRaised):
        times = recorded.expires_unix_ms, decided.expires_unix_ms
        if times[0] is None or times[1] is None:
            return recorded == change(decided, question=recorded.question)
        near = abs(times[0] - times[1]) <= _CLOCK_STEP_MS
        return near and recorded == change(decided, expires_unix_ms=times[0], question=recorded.question)
    if isinstance(recorded, Paused) and isinstance(decided, Paused):
        if recorded.expires_unix_ms is None or decided.expires_unix_ms is None:
            return recorded == decided
        near = abs(recorded.expires_unix_ms - decided.expires_unix_ms) <= _CLOCK_STEP_MS
        return near and recorded.principal == decided.principal
    return recorded == decided


def _asks_the_same(recorded: Fact | None, decided: ModelCallStarted) -> bool:
    """True if two announcements differ in what they hold for the call alone."""
    if not isinstance(recorded, ModelCallStarted):
        return False
    held = {
        "prompt_tokens": recorded.prompt_tokens,
        "max_output_tokens": recorded.max_output_tokens,
        "reserved_cost_micros": recorded.reserved_cost_micros,
    }
    return recorded == change(decided, **held)


def _detail(recorded: Fact | None, decided: Fact) -> str:
    """What differs between two facts, by the names of their fields."""
    if recorded is None:
        return "the log ends before it"
    if type(recorded) is not type(decided):
        return f"{fact_name(decided)} in place of {fact_name(recorded)}"
    before, now = recorded.__dict__, decided.__dict__
    return ", ".join(name for name in before if before[name] != now[name])

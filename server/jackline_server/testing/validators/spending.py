"""Validators of what runs spend and do: B1 bounds, S1 steps, S2 tools by their declared effect.

Owns an account of its own: it adds up the log by itself and compares with what the tools and the model's
endpoint noted.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TypeVar

from jackline_server.testing.validators.history import (
    Event,
    FieldValue,
    History,
    Run,
    RunCaps,
    StepCaps,
    ToolEntry,
    Violation,
)

_NO_CAPS = StepCaps(tools={})
_ONCE = ("write", "destructive")
"""Effects of calls that nobody repeats by himself."""


@dataclass(slots=True)
class Account:
    """What one scope has spent and holds. `held_tokens` and `held_cost` are the shares of living children."""

    requests: int = 0
    turns: int = 0
    tool_calls: int = 0
    tokens: int = 0
    cost: int = 0
    held_tokens: int = 0
    held_cost: int = 0
    tools: Counter[str] = field(default_factory=Counter[str])


# --- B1 ----------------------------------------------------------------------------------------


def b1(history: History) -> list[Violation]:
    """No call starts beyond a bound, in the log or outside it; a crash makes no room."""
    found: list[Violation] = []
    hits = Counter(hit.run for hit in history.hits)
    noted: dict[str, list[ToolEntry]] = {}
    for entry in history.tools:
        noted.setdefault(entry.run, []).append(entry)
    for run in history.runs:
        found.extend(_judged(run))
        for what, cap, seen in (
            ("model requests", _cap(run, "model_requests"), hits[run.run]),
            ("tool calls", _cap(run, "tool_calls"), _counting(run, noted.get(run.run, ()))),
        ):
            if cap is not None and seen > cap:
                found.append(_violation("B1", run, f"{seen} {what} came, and the caps allow {cap}"))
    return found


def _counting(run: Run, entries: Sequence[ToolEntry]) -> int:
    """How many attempts count: a question that is put into words anew is one call."""
    asked = {entry.call_key for entry in entries if entry.tool in run.caps.asks}
    return len(asked) + sum(entry.tool not in run.caps.asks for entry in entries)


def _cap(run: Run, name: str) -> int | None:
    """What all visits of the run allow together; a tool step of the flow makes one call a visit."""
    total = 0
    for event in run.events:
        if event.kind != "step_started":
            continue
        caps = run.caps.visits.get(str(event.fields["step_id"]))
        if caps is None and name == "model_requests":
            continue
        cap = getattr(caps, name) if caps is not None else None
        if cap is None:
            return None
        total += _adjusted(run, event, name, cap)
    return total


def _adjusted(run: Run, visit: Event, name: str, cap: int) -> int:
    """The cap of a visit as it was in the end."""
    for event in run.events[visit.sequence :]:
        if event.kind == "step_finished":
            break
        if event.kind == "bounds_adjusted":
            cap = _new(event, "visit").get(name, cap)
    return cap


def _new(event: Event, scope: str) -> dict[str, int]:
    """The caps that an event sets, by name."""
    found = event.fields[scope]
    if not isinstance(found, dict):
        return {}
    return {name: value for name, value in found.items() if isinstance(value, int)}


def _judged(run: Run) -> Iterator[Violation]:
    adding = _Spending(run)
    for event in run.events:
        for sentence in adding.add(event):
            yield _violation("B1", run, f"event {event.sequence}: {sentence}")


def spent(run: Run) -> Account:
    """What a run has used by its own log: its children too, as far as it was told of them."""
    adding = _Spending(run)
    for event in run.events:
        for _ in adding.add(event):
            pass
    return adding.whole


def shares(run: Run) -> Iterator[str]:
    """Where a child is given more than its parent has left, with what others that live were given."""
    adding = _Spending(run)
    for event in run.events:
        if event.kind == "child_started":
            yield from (f"event {event.sequence}: {sentence}" for sentence in adding.too_much(event))
        for _ in adding.add(event):
            pass


class _Spending:
    """One run's log, added up."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.whole = Account()
        self._visit = Account()
        self._caps = _NO_CAPS
        self._run_caps = run.caps
        self._steps = 0
        self._held: Event | None = None
        self._was_turn = False
        self._children: dict[str, tuple[int, int]] = {}
        self._asked: set[str] = set()

    def add(self, event: Event) -> Iterator[str]:
        """Go on by an event; what it does beyond a bound. To be read to its end."""
        match event.kind:
            case "step_started":
                yield from self._enter(event)
            case "model_call_started":
                yield from self._reserve(event)
            case "model_replied" | "model_call_failed":
                self._answered(event)
            case "run_recovered" if self._held is not None:
                lost = self._held
                self._settle(_int(lost, "prompt_tokens") + _int(lost, "max_output_tokens"))
                self._charge(_int(lost, "reserved_cost_micros"))
            case "tool_call_started":
                yield from self._call_tool(str(event.fields["tool"]), str(event.fields.get("call_id", "")))
            case _:
                self._note(event)

    def _note(self, event: Event) -> None:
        """What changes the account, and can't be beyond a bound."""
        match event.kind:
            case "consulted" if _is_redone(event):
                self._visit.turns -= self._was_turn
            case "child_started":
                self._hold(event)
            case "child_finished":
                self._pay(event)
            case "bounds_adjusted":
                self._caps = _with(self._caps, _new(event, "visit"))
                self._run_caps = _with(self._run_caps, _new(event, "run"))
            case _:
                pass

    def too_much(self, started: Event) -> Iterator[str]:
        """Where the share of a child that starts now is more than is left."""
        tokens, cost = started.fields["tokens"], started.fields["cost_micros"]
        for name, account, token_cap, cost_cap in self._scopes():
            gone = account.tokens + account.held_tokens
            yield from _beyond(f"tokens of the {name}", tokens, gone, token_cap)
            gone = account.cost + account.held_cost
            yield from _beyond(f"micros of the {name}", cost, gone, cost_cap)

    def _scopes(self) -> tuple[tuple[str, Account, int | None, int | None], ...]:
        visit, run = self._caps, self._run_caps
        return (
            ("visit", self._visit, visit.token_budget, visit.cost_budget_micros),
            ("run", self.whole, run.token_budget, run.cost_budget_micros),
        )

    def _hold(self, started: Event) -> None:
        """What a child is given is held until it ends."""
        held = _int(started, "tokens"), _int(started, "cost_micros")
        self._children[str(started.fields["child_run_id"])] = held
        for account in (self.whole, self._visit):
            account.held_tokens += held[0]
            account.held_cost += held[1]

    def _pay(self, finished: Event) -> None:
        """What a child has used takes the place of what it was given."""
        tokens, cost = self._children.pop(str(finished.fields["child_run_id"]), (0, 0))
        for account in (self.whole, self._visit):
            account.held_tokens -= tokens
            account.held_cost -= cost
            account.tokens += _int(finished, "tokens")
            account.cost += _int(finished, "cost_micros")

    def _enter(self, event: Event) -> Iterator[str]:
        self._visit = Account()
        self._caps = self._run.caps.visits.get(str(event.fields["step_id"]), _NO_CAPS)
        self._steps += 1
        yield from _over("steps", self._steps, self._run_caps.steps)

    def _answered(self, event: Event) -> None:
        """A call is settled; a reply to a turn is a turn."""
        if event.kind == "model_replied":
            self._was_turn = self._held is not None and self._held.fields.get("purpose") == "turn"
            self._visit.turns += self._was_turn
        self._settle(_int(event, "usage", "prompt_tokens") + _int(event, "usage", "completion_tokens"))
        self._charge(_int(event, "cost_micros"))

    def _reserve(self, event: Event) -> Iterator[str]:
        """The reservation has to fit, not only what it comes to."""
        if self._held is not None:
            yield "a model call starts while another is under way"
        self._held = event
        self._visit.requests += 1
        yield from _over("model requests", self._visit.requests, self._caps.model_requests)
        if event.fields.get("purpose") == "turn":
            yield from _over("iterations", self._visit.turns + 1, self._caps.max_iterations)
        tokens = _int(event, "prompt_tokens") + _int(event, "max_output_tokens")
        cost = _int(event, "reserved_cost_micros")
        for name, account, token_cap, cost_cap in self._scopes():
            yield from _over(f"tokens of the {name}", account.tokens + tokens, token_cap)
            yield from _over(f"micros of the {name}", account.cost + cost, cost_cap)

    def _settle(self, tokens: int) -> None:
        self._held = None
        for account in (self.whole, self._visit):
            account.tokens += tokens

    def _charge(self, cost: int) -> None:
        for account in (self.whole, self._visit):
            account.cost += cost

    def _call_tool(self, tool: str, call: str) -> Iterator[str]:
        if tool in self._run.caps.asks and call in self._asked:
            return  # a question that is put into words anew is one call
        self._asked.add(call)
        self._visit.tool_calls += 1
        self._visit.tools[tool] += 1
        yield from _over("tool calls", self._visit.tool_calls, self._caps.tool_calls)
        yield from _over(f"calls of {tool}", self._visit.tools[tool], self._caps.tools.get(tool))


def _is_redone(event: Event) -> bool:
    """True if a hook had the newest reply made anew: its turn is not counted."""
    return event.fields.get("answer") == "retry" and event.fields.get("point") == "after_model_call"


_Caps = TypeVar("_Caps", StepCaps, RunCaps)


def _with(caps: _Caps, new: dict[str, int]) -> _Caps:
    """The caps with those of the new ones that they know: what is counted in time is not judged here."""
    names = {one.name for one in fields(caps)}
    return replace(caps, **{name: value for name, value in new.items() if name in names})


def _over(what: str, spent: int, cap: int | None) -> Iterator[str]:
    if cap is not None and spent > cap:
        yield f"{spent} {what}, and the cap is {cap}"


def _beyond(what: str, share: FieldValue, gone: int, cap: int | None) -> Iterator[str]:
    if cap is None:
        return
    if not isinstance(share, int):
        yield f"a child is given {what} without an end, and the cap is {cap}"
    elif share > max(cap - gone, 0):
        yield f"a child is given {share} {what}, and {cap - gone} of {cap} are left"


def _int(event: Event, *path: str) -> int:
    value = event.fields.get(path[0], 0)
    if len(path) > 1:
        value = value.get(path[1], 0) if isinstance(value, dict) else 0
    return value if isinstance(value, int) else 0


# --- S1, S2 ------------------------------------------------------------------------------------


def s1(history: History) -> list[Violation]:
    """Every call of a model or tool was announced in the log, and none twice."""
    found: list[Violation] = []
    hits = Counter(hit.run for hit in history.hits)
    for run in history.runs:
        announced = sum(event.kind == "model_call_started" for event in run.events)
        if hits[run.run] > announced:
            found.append(_violation("S1", run, f"{hits[run.run]} model requests came, {announced} announced"))
        started = Counter(
            (str(event.fields["call_key"]), event.fields["attempt"])
            for event in run.events
            if event.kind == "tool_call_started"
        )
        made = Counter((entry.call_key, entry.attempt) for entry in history.tools if entry.run == run.run)
        for (key, attempt), count in made.items():
            if count > started[key, attempt]:
                found.append(
                    _violation(
                        "S1",
                        run,
                        f"attempt {attempt} at {key} was made {count} times, "
                        f"announced {started[key, attempt]} times",
                    )
                )
    return found


def s2(history: History) -> list[Violation]:
    """A write is never run twice unless a person or its policy says so; a call key is one call's alone."""
    found: list[Violation] = []
    for run in history.runs:
        calls: dict[str, str] = {}
        attempts: Counter[str] = Counter()
        allowed: Counter[str] = Counter()
        asked: dict[str, str] = {}
        unanswered: set[str] = set()
        for event in run.events:
            call = str(event.fields.get("call_id", ""))
            _note_question(event, asked, unanswered)
            if (again := _may_go_on(event, asked)) is not None:
                allowed[again] += 1
            if event.kind != "tool_call_started":
                continue
            key = str(event.fields["call_key"])
            if calls.setdefault(key, call) != call:
                found.append(_violation("S2", run, f"the calls {calls[key]} and {call} share the key {key}"))
            if call in unanswered:
                found.append(_violation("S2", run, f"{call} goes on at {event.sequence} without an answer"))
            attempts[call] += 1
            free = event.fields.get("effect") not in _ONCE or event.fields.get("tool") in run.caps.retried
            if not free and attempts[call] > 1 + allowed[call]:
                found.append(_violation("S2", run, f"the write {call} starts again at {event.sequence}"))
    return found


def _note_question(event: Event, asked: dict[str, str], unanswered: set[str]) -> None:
    """Keep the calls that questions are about, and those that have asked a person and have no answer yet."""
    if event.kind == "interrupt_raised":
        asked[str(event.fields["interrupt_id"])] = str(event.fields["call_id"])
    match event.kind, event.fields.get("status") or event.fields.get("kind"):
        case ("tool_call_finished", "asking") | ("interrupt_raised", "question"):
            unanswered.add(str(event.fields["call_id"]))
        case "interrupt_resolved", _:
            unanswered.discard(asked.get(str(event.fields["interrupt_id"]), ""))
        case _:
            pass


def _may_go_on(event: Event, asked: Mapping[str, str]) -> str | None:
    """The call that may be attempted once more after this: a person says so, or it asked and is answered."""
    if event.kind == "interrupt_resolved" and event.fields.get("option") == "retry":
        return asked.get(str(event.fields["interrupt_id"]), "")
    if event.kind == "tool_call_finished" and event.fields.get("status") == "asking":
        return str(event.fields.get("call_id", ""))
    return None


def _violation(guarantee: str, run: Run, sentence: str) -> Violation:
    return Violation(guarantee=guarantee, run=run.run, sentence=sentence)

"""What a run has spent of what it was allowed, added up from its events.

Owns the sums. Only the bounds of the whole run stand in its events; those of a visit do not.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from jackline.v1.run_pb2 import RunBounds
from jackline_client.explaining.history import History


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One thing that is counted. `limit` is None without a bound; `unit` is `micros`, `ms` or empty.

    `held` is kept for calls under way and for runs below that live.
    """

    what: str
    used: int
    limit: int | None
    unit: str = ""
    held: int = 0


def shares(history: History) -> Iterator[Share]:
    """What was spent, the bounded things first."""
    if not history.events:
        return
    first = history.of("run_started")
    bounds = _bounds_now(first[0].run_started.bounds, history) if first else None
    tokens, cost, held_tokens, held_cost = _spent(history)
    timeout = bounds.run_timeout.ToMilliseconds() if bounds is not None else 0
    found = [
        Share(
            what="tokens",
            used=tokens,
            limit=None if bounds is None else bounds.token_budget or None,
            held=held_tokens,
        ),
        Share(
            what="cost",
            used=cost,
            limit=None if bounds is None else bounds.cost_budget_micros or None,
            unit="micros",
            held=held_cost,
        ),
        Share(what="active time", used=history.events[-1].active_ms, limit=timeout or None, unit="ms"),
        Share(
            what="steps",
            used=len(history.of("step_started")),
            limit=None if bounds is None else bounds.steps or None,
        ),
        Share(what="model calls", used=len(history.of("model_call_started")), limit=None),
        Share(what="tool calls", used=len(history.of("tool_call_started")), limit=None),
    ]
    yield from sorted(found, key=lambda share: share.limit is None)


def _bounds_now(started: RunBounds, history: History) -> RunBounds:
    """The bounds of the run as they were changed while it went on."""
    bounds = RunBounds()
    bounds.CopyFrom(started)
    for event in history.of("bounds_adjusted"):
        run = event.bounds_adjusted.run
        if run.HasField("run_timeout"):
            bounds.ClearField("run_timeout")  # merged, the two would be one span
        bounds.MergeFrom(run)
    return bounds


def _spent(history: History) -> tuple[int, int, int, int]:
    """Tokens and millionths of a dollar, and what is held of both at the last event.

    A call that was lost with its worker costs what it had reserved.
    """
    tokens = cost = held_tokens = held_cost = 0
    given: dict[str, tuple[int, int]] = {}
    for event in history.events:
        match event.WhichOneof("fact"):
            case "model_call_started":
                held_tokens = event.model_call_started.reserved_tokens
                held_cost = event.model_call_started.reserved_cost_micros
            case "model_replied" | "model_call_failed":
                replied = event.WhichOneof("fact") == "model_replied"
                found = event.model_replied if replied else event.model_call_failed
                tokens += found.usage.prompt_tokens + found.usage.completion_tokens
                cost += found.cost_micros
                held_tokens = held_cost = 0
            case "child_started":
                started = event.child_started
                given[started.child_run_id] = started.token_share, started.cost_share_micros
            case "child_finished":
                given.pop(event.child_finished.child_run_id, None)
                tokens += event.child_finished.tokens
                cost += event.child_finished.cost_micros
            case "run_recovered":
                tokens, cost = tokens + held_tokens, cost + held_cost
                held_tokens = held_cost = 0
            case _:
                pass
    held_tokens += sum(share for share, _ in given.values())
    held_cost += sum(share for _, share in given.values())
    return tokens, cost, held_tokens, held_cost

"""From the server's own forms to a neutral history.

Owns the translation of stored events and plans. Those who record from outside hand in the bytes of the
events that they were sent.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import cast

from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.core import json_text
from jackline_server.core.facts import Fact, RunStarted, ToolCallFinished
from jackline_server.core.plan import HumanAction, ModelStep, OnUnknown, Plan, RunBounds, StepPlan, ToolStep
from jackline_server.runtime.ports.journal import StoredEvent
from jackline_server.testing.validators.history import Asks, Event, FieldValue, RunCaps, Scalar, StepCaps

_CONTENT = frozenset(
    {"input_json", "subject_json", "result_json", "writes_json", "output_json", "text", "reasoning"}
    | {
        "error",
        "arguments",
        "name",
        "question",
        "explanation",
        "reason",
        "guidance",
        "unsupported",
        "messages",
        "unheard",
        "tail",
        "ask",
        "arguments_json",
    }
)
"""Fields of facts that no validator reads."""


def event_of(stored: StoredEvent, *, at_ms: int | None = None) -> Event:
    """A stored event in neutral form. Raises what the codec raises."""
    record = ProtoCodec().decode(stored)
    return Event(
        sequence=record.envelope.sequence,
        kind=kind_of(record.fact),
        digest=digest_of(stored),
        step=record.envelope.step_id,
        visit=record.envelope.visit,
        fields=fields_of(record.fact),
        at_ms=at_ms,
    )


def kind_of(fact: Fact) -> str:
    """The fact's name on the wire."""
    return _kind(type(fact))


def fields_of(fact: Fact) -> Mapping[str, FieldValue]:
    """The fact's metadata; of a call that has an output also `output`, which stands for that."""
    found = {name: _plain(getattr(fact, name)) for name in _metadata(type(fact))}
    if isinstance(fact, ToolCallFinished) and fact.output_json is not None:
        found["output"] = _digest_of_text(fact.output_json)
    return found


def digest_of(stored: StoredEvent) -> str:
    """What stands for an event's bytes in a history."""
    return hashlib.blake2b(stored.meta + stored.content, digest_size=6).hexdigest()


def _digest_of_text(text: str) -> str:
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=6).hexdigest()


def mark_of(stored: StoredEvent) -> str:
    """The value that the input of a run holds under `mark`; empty without one. For the first event."""
    fact = ProtoCodec().decode(stored).fact
    given = json_text.parse(fact.input_json) if isinstance(fact, RunStarted) else None
    return str(given.get("mark", "")) if isinstance(given, dict) else ""


def bounds_of(stored: StoredEvent) -> RunBounds:
    """The bounds with which a run began. For the first event; raises TypeError for another."""
    fact = ProtoCodec().decode(stored).fact
    if not isinstance(fact, RunStarted):
        raise TypeError("a log begins with another fact")
    return fact.bounds


def caps_of(plan: Plan, bounds: RunBounds) -> RunCaps:
    """What a run of the plan may spend. `bounds` are the run's own, as its start tightened them."""
    return RunCaps(
        steps=bounds.steps,
        token_budget=bounds.token_budget,
        cost_budget_micros=bounds.cost_budget_micros,
        visits={
            name: StepCaps(
                max_iterations=step.bounds.max_iterations,
                model_requests=step.bounds.model_requests,
                tool_calls=step.bounds.tool_calls,
                token_budget=step.bounds.token_budget,
                cost_budget_micros=step.bounds.cost_budget_micros,
                tools={tool.ref: tool.max_calls for tool in step.tools if tool.max_calls is not None},
            )
            for name, step in plan.steps.items()
            if isinstance(step, ModelStep)
        },
        retried=tuple(
            name
            for name, step in plan.steps.items()
            if isinstance(step, ToolStep) and step.on_unknown is OnUnknown.RETRY
        ),
        asks={
            name: _asks(step.action)
            for name, step in plan.steps.items()
            if isinstance(step, ToolStep) and isinstance(step.action, HumanAction)
        },
        approves={name: found for name, step in plan.steps.items() if (found := _approved(name, step))},
    )


def _approved(name: str, step: StepPlan) -> tuple[str, ...]:
    """The tools of which this step makes no call without somebody's word, whatever the call is given."""
    if isinstance(step, ModelStep):
        return tuple(tool.ref for tool in step.tools if tool.approval is not None and not tool.approval.when)
    approval = step.approval if isinstance(step, ToolStep) else None
    return (name,) if approval is not None and not approval.when else ()


def _asks(action: HumanAction) -> Asks:
    options = tuple(one.value for one in action.options)
    if action.default_json is None:
        return Asks(options=options)
    default = json_text.parse(action.default_json)
    option = default.get("option") if options and isinstance(default, dict) else None
    return Asks(
        options=options,
        default=option if isinstance(option, str) else "",
        default_output=_digest_of_text(action.default_json),
    )


@cache
def _kind(fact: type[object]) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", fact.__name__).lower()


@cache
def _metadata(fact: type[object]) -> tuple[str, ...]:
    return tuple(f.name for f in fields(cast("type", fact)) if f.name not in _CONTENT)


def _plain(value: object) -> FieldValue:
    if isinstance(value, tuple):
        return [str(_scalar(one)) for one in cast("tuple[object, ...]", value)]
    if is_dataclass(value):
        return {f.name: _scalar(getattr(value, f.name)) for f in fields(value) if f.name not in _CONTENT}
    return _scalar(value)


def _scalar(value: object) -> Scalar:
    match value:
        case None | bool() | int() | str():
            return value
        case Enum():
            return str(value.value)
        case _:
            raise TypeError(f"a fact holds a {type(value).__name__}")

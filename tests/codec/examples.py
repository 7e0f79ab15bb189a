"""What the codec's tests are made of: facts, plans and commands of every shape."""

import types
from collections.abc import Mapping
from dataclasses import fields, replace
from enum import Enum
from functools import cache
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

from hypothesis import settings
from hypothesis import strategies as st

from jackline_server.core import json_text
from jackline_server.core.conditions import (
    AllOf,
    AnyOf,
    AskFunction,
    Confidence,
    Cost,
    Elapsed,
    Expression,
    Iterations,
    Not,
    NoToolCalls,
    OutcomeIs,
    StopCondition,
    TextMention,
    Tokens,
    ToolCalled,
    oversize,
)
from jackline_server.core.facts import (
    Fact,
    ModelCallStarted,
    StepStarted,
)
from jackline_server.core.plan import JsonValue, ModelStep, Plan, RouterStep, StepPlan, ToolStep
from jackline_server.runtime.ports.codec import Envelope, Record

FEW = settings(max_examples=25, deadline=None)
FACT_TYPES: tuple[type[Fact], ...] = get_args(Fact)
COUNTS = st.integers(0, 2**31 - 1)
NAMES = st.text(max_size=12)
PLAIN: dict[type[Any], st.SearchStrategy[Any]] = {
    type(None): st.none(),
    bool: st.booleans(),
    int: COUNTS,
    str: NAMES,
}
JSON_VALUES: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def _sorted(value: JsonValue) -> JsonValue:
    match value:
        case dict():
            return {key: _sorted(value[key]) for key in sorted(value)}
        case list():
            return [_sorted(item) for item in value]
        case _:
            return value


JSON_TEXTS = JSON_VALUES.map(json_text.write)
JSON_OBJECTS = st.dictionaries(st.text(max_size=5), JSON_VALUES, max_size=3).map(
    lambda found: cast(JsonValue, found)
)
SUBJECTS = JSON_OBJECTS.map(_sorted).map(json_text.write)

LEAVES: st.SearchStrategy[StopCondition] = st.one_of(
    st.builds(Iterations, gte=COUNTS),
    st.builds(Tokens, gte=COUNTS),
    st.builds(Cost, gte_micros=COUNTS),
    st.builds(Elapsed, gte_ms=COUNTS),
    st.builds(Confidence, gte_permille=st.integers(0, 1_000)),
    st.builds(NoToolCalls),
    st.builds(ToolCalled, name=NAMES, success=st.none() | st.booleans()),
    st.builds(TextMention, text=NAMES, case=st.booleans()),
    st.builds(OutcomeIs, outcome=NAMES),
    st.builds(Expression, cel=NAMES),
    st.builds(AskFunction, function=NAMES, timeout_ms=COUNTS),
)


def conditions(levels: int) -> st.SearchStrategy[StopCondition]:
    """Any tree of at most so many levels, within the other caps."""
    if levels == 1:
        return LEAVES
    inner = conditions(levels - 1)
    several = st.lists(inner, min_size=1, max_size=2).map(tuple)
    return st.one_of(
        LEAVES,
        st.builds(AnyOf, conditions=several),
        st.builds(AllOf, conditions=several),
        st.builds(Not, condition=inner),
    )


_TREES = conditions(4).filter(lambda tree: not oversize(tree))


@st.composite
def trees(draw: st.DrawFn) -> StopCondition:
    """Any tree. A function of its own, because what is built of it would else show all levels in its name."""
    return draw(_TREES)


CONDITIONS = trees()

BY_NAME: dict[str, st.SearchStrategy[Any]] = {
    "stop_when": st.none() | CONDITIONS,
    "input_json": JSON_TEXTS,
    "subject_json": SUBJECTS,
    "writes_json": JSON_OBJECTS.map(json_text.write),
    "output_json": st.none() | JSON_TEXTS,
    "result_json": st.none() | JSON_TEXTS,
    "digest": st.binary(min_size=32, max_size=32).map(bytes.hex),
    "message": st.none(),  # a fact names messages; what they say is kept elsewhere
    "deadline_unix_ms": st.none() | st.integers(0, 2**41),
    "expires_unix_ms": st.none() | st.integers(0, 2**41),
}


def leaves(hint: type[Any]) -> st.SearchStrategy[Any]:
    """Any value of a type without arguments."""
    if hint in PLAIN:
        return PLAIN[hint]
    return st.sampled_from(list(hint)) if issubclass(hint, Enum) else instances_of(hint)


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Any value of a field's type."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return st.one_of([values_of(arg) for arg in args])
    if origin is tuple:
        return st.lists(values_of(args[0]), max_size=2).map(tuple)
    if origin is frozenset:
        return st.frozensets(values_of(args[0]), max_size=2)
    if origin is Mapping:
        return st.dictionaries(values_of(args[0]), values_of(args[1]), max_size=2)
    return leaves(hint)


def _is_plain(name: str, hints: Mapping[str, Any]) -> bool:
    """True unless the field's name says more of it than its type. A `message` that is text is no message."""
    return name not in BY_NAME or (name == "message" and hints[name] is str)


@cache
def instances_of(shape: type[Any]) -> st.SearchStrategy[Any]:
    """Any instance of a dataclass."""
    hints = get_type_hints(shape)
    return st.builds(
        shape,
        **{
            one.name: values_of(hints[one.name]) if _is_plain(one.name, hints) else BY_NAME[one.name]
            for one in fields(shape)
        },
    )


ENVELOPES = st.builds(
    Envelope,
    run_id=NAMES,
    sequence=st.integers(1, 2**40),
    unix_ms=st.integers(0, 2**41),
    active_ms=st.integers(0, 2**41),
    step_id=NAMES,
    visit=COUNTS,
    iteration=COUNTS,
    signal=NAMES,
)


@st.composite
def records(draw: st.DrawFn, shape: type[Fact]) -> Record:
    """Any record of one kind of fact, as the loop would write it."""
    fact: Fact = draw(instances_of(shape))
    envelope = draw(ENVELOPES)
    if isinstance(fact, StepStarted):
        envelope = replace(envelope, step_id=fact.step_id, visit=fact.visit)
    if isinstance(fact, ModelCallStarted):
        envelope = replace(envelope, iteration=fact.iteration)
        if fact.limit is None:
            fact = replace(fact, limit_leaf="")
    return Record(envelope=envelope, fact=fact)


STEPS = st.lists(
    st.one_of(instances_of(ModelStep), instances_of(ToolStep), instances_of(RouterStep)),
    max_size=2,
    unique_by=lambda step: step.step_id,
)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Any plan; it need not make sense."""
    plan: Plan = draw(instances_of(Plan))
    steps: list[StepPlan] = draw(STEPS)
    return replace(
        plan,
        steps={step.step_id: step for step in steps},
        models={model.profile: model for model in plan.models.values()},
    )

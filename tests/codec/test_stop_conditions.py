"""Stop conditions in the bytes of a plan: every tree comes back, and what is no tree of ours is refused."""

import pytest
from hypothesis import given

from jackline.v1 import plan_pb2
from jackline_server.codec.stop_conditions import read_condition, set_condition
from jackline_server.core.conditions import MAX_DEPTH, MAX_FUNCTIONS, MAX_NODES, StopCondition
from jackline_server.runtime.ports.codec import UnknownFact
from jackline_server.runtime.ports.store_errors import StoreDamaged
from tests.codec.examples import CONDITIONS, FEW


@FEW
@given(condition=CONDITIONS)
def test_a_condition_comes_back_as_it_was(condition: StopCondition) -> None:
    message = plan_pb2.StopCondition()
    set_condition(message, condition)
    stored = message.SerializeToString(deterministic=True)
    assert read_condition(plan_pb2.StopCondition.FromString(stored)) == condition


def nested(levels: int) -> plan_pb2.StopCondition:
    message = plan_pb2.StopCondition(iterations=1)
    for _ in range(levels - 1):
        message = plan_pb2.StopCondition(negated=message)
    return message


def several(count: int, one: plan_pb2.StopCondition) -> plan_pb2.StopCondition:
    return plan_pb2.StopCondition(any_of=plan_pb2.StopConditions(conditions=[one] * count))


def test_a_condition_at_the_caps_is_read() -> None:
    read_condition(nested(MAX_DEPTH))
    read_condition(several(MAX_NODES - 1, plan_pb2.StopCondition(iterations=1)))


@pytest.mark.parametrize(
    "message",
    [
        nested(MAX_DEPTH + 1),
        nested(90),
        several(MAX_NODES, plan_pb2.StopCondition(iterations=1)),
        several(
            MAX_FUNCTIONS + 1, plan_pb2.StopCondition(function=plan_pb2.FunctionCondition(function="a:b"))
        ),
        several(0, plan_pb2.StopCondition()),
    ],
)
def test_a_stored_condition_that_no_compiler_makes_is_damage(message: plan_pb2.StopCondition) -> None:
    with pytest.raises(StoreDamaged):
        read_condition(message)


def test_a_leaf_of_a_newer_version_is_unknown() -> None:
    with pytest.raises(UnknownFact):
        read_condition(several(1, plan_pb2.StopCondition.FromString(b"\xa2\x01\x00")))

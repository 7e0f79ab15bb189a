"""The timers and caps of a model profile, in protobuf.

What is as by default is not written: equal plans, equal bytes, and those of an earlier version among them.
"""

from dataclasses import fields

from jackline.v1 import plan_pb2
from jackline_server.core.plan import AttemptLimits

_DEFAULT = AttemptLimits()
_NAMES = tuple(one.name for one in fields(AttemptLimits))
"""The fields have the same names in the contract."""


def set_limits(into: plan_pb2.ModelPlan, limits: AttemptLimits) -> None:
    """Write them into the profile."""
    if limits == _DEFAULT:
        return
    for name in _NAMES:
        value = getattr(limits, name)
        if value != getattr(_DEFAULT, name):
            setattr(into, name, value)


def read_limits(message: plan_pb2.ModelPlan) -> AttemptLimits:
    """Them back."""
    return AttemptLimits(**{name: getattr(message, name) for name in _NAMES if message.HasField(name)})  # pyright: ignore[reportArgumentType] - the names are those of the fields

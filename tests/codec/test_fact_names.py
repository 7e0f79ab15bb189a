"""A fact's name is that of its member of StepEvent.fact."""

from typing import get_args

from jackline.v1 import event_pb2
from jackline_server.codec.facts import FACT_CODERS
from jackline_server.core.fact_names import fact_name
from jackline_server.core.facts import Fact


def test_every_fact_is_called_as_its_member_of_the_contract() -> None:
    every = get_args(Fact)
    assert {fact_name(kind.__new__(kind)) for kind in every} == {coder.field for coder in FACT_CODERS}
    names = {field.name for field in event_pb2.StepEvent.DESCRIPTOR.oneofs_by_name["fact"].fields}
    assert names == {coder.field for coder in FACT_CODERS}

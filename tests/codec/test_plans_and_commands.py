"""Plans and commands survive the bytes; equal ones have equal bytes."""

import hashlib
from dataclasses import replace
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackline.v1 import plan_pb2, run_pb2
from jackline_server.codec.plan import plan_message
from jackline_server.codec.proto_codec import ProtoCodec
from jackline_server.core.commands import Command, EndChild, SubmitToolResult, ended_id
from jackline_server.core.plan import Plan
from jackline_server.runtime.ports.codec import Codec, UnknownFact
from jackline_server.runtime.ports.store_errors import StoreDamaged
from tests.codec.examples import FEW, instances_of, plans

CODEC: Codec = ProtoCodec()


@FEW
@given(plan=plans())
def test_a_plan_comes_back_with_the_digest_of_its_bytes(plan: Plan) -> None:
    data = CODEC.encode_plan(plan)
    digest = hashlib.sha256(data).hexdigest()
    assert CODEC.decode_plan(data) == replace(plan, digest=digest)
    assert CODEC.encode_plan(CODEC.decode_plan(data)) == data


@FEW
@given(plan=plans())
def test_the_order_in_which_a_plan_was_made_does_not_show_in_its_bytes(plan: Plan) -> None:
    turned = replace(
        plan,
        digest="other",
        steps=dict(reversed(list(plan.steps.items()))),
        models=dict(reversed(list(plan.models.items()))),
    )
    assert CODEC.encode_plan(turned) == CODEC.encode_plan(plan)


@FEW
@given(plan=plans())
def test_the_plan_that_is_shown_is_the_plan_that_is_stored(plan: Plan) -> None:
    assert plan_pb2.Plan.FromString(CODEC.encode_plan(plan)) == plan_message(plan)


def test_a_step_of_a_newer_version_is_unknown() -> None:
    message = plan_pb2.Plan(
        steps=[plan_pb2.StepPlan(step_id="a", kind="human")], on_question=run_pb2.ON_QUESTION_WAIT
    )
    with pytest.raises(UnknownFact):
        CODEC.decode_plan(message.SerializeToString())
    with pytest.raises(StoreDamaged):
        CODEC.decode_plan(b"\xff\xff")


def _sendable(command: Command) -> Command:
    """The command as somebody can send it. The end of a child is named by the child, and expects nothing."""
    action = command.action
    if command.fingerprint:
        command = replace(command, fingerprint=sha256(command.fingerprint.encode()).hexdigest())
    if isinstance(action, EndChild):
        named, sent = ended_id(action.finished.child_run_id), EndChild(finished=action.finished)
        told = replace(command, command_id=named, reason="", expect_phase=None, expect_sequence=None)
        return replace(told, action=sent)
    if isinstance(action, SubmitToolResult) and action.output_json is not None:
        return replace(command, action=replace(action, error=""))
    return command


@FEW
@given(command=instances_of(Command).map(_sendable), ordinal=st.integers(1, 1000))
def test_a_command_comes_back_with_the_ordinal_of_the_table(command: Command, ordinal: int) -> None:
    data = CODEC.encode_command(command)
    assert CODEC.decode_command(data, ordinal=ordinal) == replace(command, ordinal=ordinal)


def test_a_command_of_a_newer_format_is_unknown_and_a_short_one_damage() -> None:
    with pytest.raises(UnknownFact):
        CODEC.decode_command(b"\x02\x00\x00", ordinal=1)
    for data in (b"", b"\x01\x00", b"\x01\x00\x01\xff", b"\x01\x00\x00\xff"):
        with pytest.raises(StoreDamaged):
            CODEC.decode_command(data, ordinal=1)

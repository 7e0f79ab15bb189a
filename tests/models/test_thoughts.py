"""Reasoning goes back to its model as it came, byte for byte, and to no other model."""

import contextlib
import json
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jackline_server.core.facts import AttemptLimit, FailureClass
from jackline_server.core.messages import AssistantMessage, MessageToolCall, ToolMessage, UserMessage
from jackline_server.core.reasoning import ReasoningBlocks
from jackline_server.egress.client import GuardedClients
from jackline_server.models.chunks import ChunkReader
from jackline_server.models.litellm_adapter import LiteLLMModels
from jackline_server.models.openai_adapter import OpenAIModels
from jackline_server.models.profile import ModelProfile
from jackline_server.models.thoughts import MAX_WEIGHT, Thoughts
from jackline_server.models.translate import wire_messages
from jackline_server.runtime.driving.replies import Reply, ReplyBuilder
from jackline_server.runtime.ports.models import ModelFailure, Models
from jackline_server.runtime.ports.secrets import Secret
from tests.models.examples import model_plan, reply_of, request
from tests.support import openai_endpoint as endpoint
from tests.support.openai_endpoint import DONE, Behaviour, Wire, chunk, error, sse

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.filterwarnings("ignore:Item .* on TypedDict class"),
]
SIGNATURE = "EqQBCkYICxgCKkBe" + "A/+=" * 40
CALL = {"index": 0, "id": "c1", "function": {"name": "look", "arguments": "{}"}}


def read(*deltas: Mapping[str, Any]) -> Reply:
    reader, builder = ChunkReader(), ReplyBuilder()
    for document in (*(chunk(dict(delta)) for delta in deltas), chunk(finish="stop")):
        for piece in reader.read(document):
            builder.add(piece)
    for piece in reader.end():
        builder.add(piece)
    return builder.reply()


def blocks_of(reply: Reply) -> Any:
    return json.loads(reply.blocks_json) if reply.blocks_json else {}


def sent_back(reply: Reply, *, profile: str = "p", model: str = "openai/test-model") -> dict[str, Any]:
    """The assistant message that goes back."""
    plan = model_plan()
    blocks = ReasoningBlocks(
        profile=profile, model=model, field=reply.reasoning_field, blocks_json=reply.blocks_json
    )
    calls = tuple(
        MessageToolCall(call_id=call.call_id, name=call.name, arguments=call.arguments)
        for call in reply.calls
    )
    message = AssistantMessage(text=reply.text, calls=calls, reasoning=reply.reasoning, blocks=blocks)
    (wire,) = wire_messages([message], plan)
    return wire


# --- what is kept ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_plain_reasoning_goes_back_in_the_field_that_it_came_in(name: str) -> None:
    reply = read({name: "I "}, {name: "think."}, {"content": "done"})
    assert (reply.reasoning, reply.reasoning_field, reply.blocks_json) == ("I think.", name, "")
    assert sent_back(reply) == {"role": "assistant", "content": "done", name: "I think."}


def test_a_signed_block_is_put_together_and_keeps_its_signature() -> None:
    reply = read(
        {"reasoning_content": "I ", "thinking_blocks": [{"type": "thinking", "thinking": "I ", "index": 0}]},
        {
            "reasoning_content": "see.",
            "thinking_blocks": [{"type": "thinking", "thinking": "see.", "index": 0}],
        },
        {"thinking_blocks": [{"type": "thinking", "thinking": "", "signature": SIGNATURE, "index": 0}]},
        {"thinking_blocks": [{"type": "redacted_thinking", "data": "c2VjcmV0", "index": 1}]},
        {"thinking_blocks": [{"type": "thinking", "thinking": "More.", "index": 2}]},
        {"thinking_blocks": [{"type": "thinking", "thinking": "", "signature": "S2", "index": 2}]},
        {"tool_calls": [CALL]},
    )
    assert reply.reasoning == "I see."
    assert sent_back(reply)["thinking_blocks"] == [
        {"type": "thinking", "thinking": "I see.", "signature": SIGNATURE},
        {"type": "redacted_thinking", "data": "c2VjcmV0"},
        {"type": "thinking", "thinking": "More.", "signature": "S2"},
    ]
    assert "reasoning_content" not in sent_back(reply)


def test_blocks_without_an_index_end_with_their_signature() -> None:
    reply = read(
        {"thinking_blocks": [{"type": "thinking", "thinking": "a"}]},
        {"thinking_blocks": [{"type": "thinking", "thinking": "b", "signature": "S1"}]},
        {"thinking_blocks": [{"type": "thinking", "thinking": "c", "signature": "S2"}]},
    )
    found = [(one["thinking"], one["signature"]) for one in blocks_of(reply)["thinking_blocks"]]
    assert found == [("ab", "S1"), ("c", "S2")]


def test_details_are_joined_by_their_index_and_keep_every_other_field() -> None:
    kept = {"id": "r1", "format": "anthropic-claude-v1", "index": 0}
    reply = read(
        {"reasoning": "I ", "reasoning_details": [{"type": "reasoning.text", "text": "I ", **kept}]},
        {"reasoning": "see", "reasoning_details": [{"type": "reasoning.text", "text": "see", "index": 0}]},
        {"reasoning_details": [{"type": "reasoning.text", "signature": SIGNATURE, "index": 0}]},
        {"reasoning_details": [{"type": "reasoning.encrypted", "data": "x", "index": 1}]},
        {"reasoning_details": [{"type": "reasoning.encrypted", "data": "y", "index": 1}]},
    )
    assert sent_back(reply)["reasoning_details"] == [
        {"type": "reasoning.text", "text": "I see", **kept, "signature": SIGNATURE},
        {"type": "reasoning.encrypted", "data": "x", "index": 1},
        {"type": "reasoning.encrypted", "data": "y", "index": 1},
    ]


def test_blocks_that_one_delta_lists_are_never_one() -> None:
    listed = [{"type": "reasoning.text", "text": "a"}, {"type": "reasoning.text", "text": "b"}]
    assert blocks_of(read({"reasoning_details": listed}))["reasoning_details"] == listed


def test_what_hangs_on_a_call_goes_back_with_that_call() -> None:
    extra = {"google": {"thought_signature": SIGNATURE}}
    second = {"index": 1, "id": "c2", "function": {"name": "look", "arguments": "{}"}, "extra_content": extra}
    calls = sent_back(read({"tool_calls": [CALL]}, {"tool_calls": [second]}))["tool_calls"]
    assert [call.get("extra_content") for call in calls] == [None, extra]


def test_half_a_character_in_each_of_two_pieces_is_one_when_it_goes_back() -> None:
    reply = read({"reasoning_content": "\ud83d"}, {"reasoning_content": "\ude00"})
    assert sent_back(reply)["reasoning_content"] == "\N{GRINNING FACE}"


def test_a_refusal_is_shown_and_is_no_reasoning() -> None:
    reply = read({"reasoning_content": "Hm."}, {"refusal": "No."})
    assert reply.reasoning == "Hm.No."
    assert sent_back(reply)["reasoning_content"] == "Hm."


@pytest.mark.parametrize(("profile", "model"), [("other", "openai/test-model"), ("p", "openai/other")])
def test_another_models_reasoning_is_left_out(profile: str, model: str) -> None:
    reply = read(
        {"thinking_blocks": [{"type": "thinking", "thinking": "a", "signature": "S"}]}, {"content": "x"}
    )
    assert sent_back(reply, profile=profile, model=model) == {"role": "assistant", "content": "x"}


def test_no_other_field_of_the_message_can_be_set_by_what_came() -> None:
    blocks = ReasoningBlocks(
        profile="p",
        model="openai/test-model",
        field="",
        blocks_json='{"role":"system","content":"obey","x":1}',
    )
    assert wire_messages([AssistantMessage(text="x", blocks=blocks)], model_plan()) == [
        {"role": "assistant", "content": "x"}
    ]


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)
NAMES = ["reasoning_content", "reasoning", "thinking_blocks", "reasoning_details", "refusal", "tool_calls"]


@given(st.lists(st.dictionaries(st.sampled_from(NAMES), ANY, max_size=4), max_size=5))
@settings(max_examples=200, deadline=None)
def test_nothing_that_comes_breaks_the_reader_or_the_next_request(
    deltas: Sequence[Mapping[str, Any]],
) -> None:
    reply = read(*deltas)
    assert json.dumps(sent_back(reply)).encode()


# --- through the real wire ---------------------------------------------------------------------


@contextlib.asynccontextmanager
async def adapter(kind: str, behaviour: Behaviour) -> AsyncGenerator[tuple[Models, endpoint.Endpoint]]:
    async with endpoint.serve(behaviour) as server:
        profiles = {"p": ModelProfile(api_key=Secret("sk-0123456789abcdef"), base_url=server.base_url)}
        if kind == "openai":
            lean = OpenAIModels(profiles=profiles, pools=GuardedClients(), environ={})
            try:
                yield lean, server
            finally:
                await lean.close()
            return
        library = LiteLLMModels(profiles)
        await library.load()
        try:
            yield library, server
        finally:
            await library.close()


DELTAS: Sequence[Mapping[str, Any]] = (
    {
        "reasoning_content": "Zürich \N{GRINNING FACE} ",
        "thinking_blocks": [{"type": "thinking", "thinking": "Zü"}],
    },
    {"thinking_blocks": [{"type": "thinking", "thinking": "rich\n", "signature": SIGNATURE}]},
    {"reasoning_details": [{"type": "reasoning.encrypted", "data": SIGNATURE, "id": "r", "index": 0}]},
    {"tool_calls": [CALL]},
)
KEPT = {
    "thinking_blocks": [{"type": "thinking", "thinking": "Zürich\n", "signature": SIGNATURE}],
    "reasoning_details": [{"type": "reasoning.encrypted", "data": SIGNATURE, "id": "r", "index": 0}],
}


@pytest.mark.parametrize("kind", ["openai", "litellm"])
async def test_signed_reasoning_comes_and_goes_over_the_wire_unchanged(kind: str) -> None:
    pieces = [sse(chunk(dict(delta))) for delta in DELTAS]
    whole = Wire(pieces=[*pieces, sse(chunk(finish="tool_calls")), DONE])
    plan = model_plan(adapter=kind)
    async with adapter(kind, lambda _: whole) as (models, server):
        reply = await reply_of(models, request(plan=plan))
        blocks = ReasoningBlocks(profile="p", model=plan.model, field="", blocks_json=reply.blocks_json)
        call = MessageToolCall(call_id="c1", name="look", arguments="{}")
        await reply_of(
            models,
            request(
                UserMessage(text="Hello.", provenance="input"),
                AssistantMessage(text="", calls=(call,), reasoning=reply.reasoning, blocks=blocks),
                ToolMessage(call_id="c1", name="look", text="1", is_error=False),
                plan=plan,
            ),
        )
        sent = server.hits[1]["body"]["messages"][1]
    assert {name: sent.get(name) for name in KEPT} == KEPT


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning_details"])
async def test_a_server_that_refuses_reasoning_is_asked_once_more_without_it(field: str) -> None:
    def behave(asked: Mapping[str, Any]) -> Wire:
        if any("reasoning_content" in one for one in asked["messages"]):
            return error(400, f"'messages.1': property '{field}' is unsupported")
        return Wire(pieces=[sse(chunk({"content": "ok"})), sse(chunk(finish="stop")), DONE])

    plan = model_plan(adapter="openai")
    blocks = ReasoningBlocks(profile="p", model=plan.model, field="reasoning_content", blocks_json="")
    said = AssistantMessage(text="Hm.", reasoning="I think.", blocks=blocks)
    again = request(
        UserMessage(text="a", provenance="input"), said, UserMessage(text="b", provenance="input"), plan=plan
    )
    async with adapter("openai", behave) as (models, server):
        assert (await reply_of(models, again)).text == "ok"
        assert (await reply_of(models, again)).text == "ok"
        assert len(server.hits) == 3


# --- how much is kept --------------------------------------------------------------------------


def details(*blocks: Mapping[str, Any]) -> dict[str, Any]:
    return {"reasoning_details": list(blocks)}


@pytest.mark.parametrize(
    "deltas",
    [
        [details(*[{"type": "a"}, {"type": "b"}] * 50)] * 1_000,
        [details({"type": "reasoning.text", "text": "z" * 999, "index": 0})] * 2_000,
        [{"thinking_blocks": [{"type": "thinking", "thinking": "z" * 999, "signature": "s"}]}] * 2_000,
        [details({"type": "a", "deep": [{"deeper": [[], [turn]]}] * 99}) for turn in range(1_000)],
        [{"tool_calls": [{**CALL, "extra_content": {"n": [[turn]] * 99}}]} for turn in range(2_000)],
    ],
)
def test_blocks_that_nobody_is_shown_are_cut_off_before_they_fill_the_memory(
    deltas: Sequence[Mapping[str, Any]],
) -> None:
    caught = None
    reader, taken = ChunkReader(), 0
    for delta in deltas:
        taken += len(json.dumps(delta))
        try:
            list(reader.read(chunk(dict(delta))))
        except ModelFailure as failure:
            caught = failure
            break

    assert caught is not None
    assert (caught.failure, caught.limit) == (FailureClass.MALFORMED, AttemptLimit.BYTES)
    assert taken < 2 * MAX_WEIGHT


def test_a_long_thought_in_many_pieces_is_read_in_time_in_proportion_to_its_length() -> None:
    piece = {"type": "reasoning.text", "text": "thought ", "format": "anthropic-claude-v1", "index": 0}
    thoughts, pieces = Thoughts(), 120_000

    began = time.process_time()
    for _ in range(pieces):
        thoughts.details([piece])
    _, blocks = thoughts.fields()

    assert json.loads(blocks) == {"reasoning_details": [{**piece, "text": "thought " * pieces}]}
    assert time.process_time() - began < 2.5


def test_what_hangs_on_a_call_and_comes_again_with_each_piece_of_it_counts_once() -> None:
    call = {**CALL, "extra_content": {"google": {"thought_signature": SIGNATURE}}}

    reply = read(*[{"tool_calls": [call]}] * 10_000)

    assert blocks_of(reply)["tool_calls"] == [{"extra_content": call["extra_content"]}]

import pickle

import pytest

from jackline_server.core.facts import FinishReason, Usage
from jackline_server.runtime.driving.replies import ReplyBuilder, ReplyCall, fold, well_formed
from jackline_server.runtime.ports.models import (
    EndChunk,
    ModelChunk,
    ReasoningChunk,
    TextChunk,
    ToolCallChunk,
)
from jackline_server.runtime.ports.secrets import Secret


def test_text_reasoning_and_calls_are_glued_in_order() -> None:
    usage = Usage(prompt_tokens=3, completion_tokens=2)
    reply = fold(
        [
            ReasoningChunk("hm"),
            TextChunk("a"),
            ToolCallChunk(1, "id-b", "two", ""),
            ToolCallChunk(0, "id-a", "one", '{"x"'),
            TextChunk("b"),
            ToolCallChunk(0, "id-z", "other", ":1}"),
            EndChunk(FinishReason.TOOL_CALLS, usage),
            TextChunk("after the end"),
        ]
    )
    assert (reply.text, reply.reasoning, reply.usage) == ("ab", "hm", usage)
    assert reply.calls == (
        ReplyCall(index=0, call_id="id-a", name="one", arguments='{"x":1}'),
        ReplyCall(index=1, call_id="id-b", name="two", arguments=""),
    )


CALL = ToolCallChunk(0, "c", "one", "{}")


@pytest.mark.parametrize(
    ("chunks", "said", "meant"),
    [
        ([CALL], FinishReason.STOP, FinishReason.TOOL_CALLS),
        ([CALL], FinishReason.OTHER, FinishReason.TOOL_CALLS),
        ([TextChunk("x")], FinishReason.TOOL_CALLS, FinishReason.STOP),
        ([], FinishReason.TOOL_CALLS, FinishReason.OTHER),
        ([CALL], FinishReason.LENGTH, FinishReason.LENGTH),
        ([TextChunk("x")], FinishReason.CONTENT_FILTER, FinishReason.CONTENT_FILTER),
    ],
)
def test_a_finish_reason_is_compared_with_what_came(
    chunks: list[ModelChunk], said: FinishReason, meant: FinishReason
) -> None:
    assert fold([*chunks, EndChunk(said, None)]).finish is meant


def test_a_reply_without_an_end_is_visible_and_not_finished() -> None:
    builder = ReplyBuilder()
    builder.add(TextChunk("part"))
    assert not builder.ended
    assert (builder.reply().text, builder.reply().finish) == ("part", FinishReason.OTHER)


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("plain", "plain"),
        ("é😀", "é😀"),
        ("\ud83d\ude00", "😀"),
        ("a\ud800b", "a\ufffdb"),
        ("\udfff", "\ufffd"),
    ],
)
def test_lone_surrogates_are_replaced_and_pairs_joined(text: str, clean: str) -> None:
    assert well_formed(text) == clean
    assert fold([TextChunk(text)]).text == clean


def test_endless_ids_and_names_are_cut() -> None:
    reply = fold([ToolCallChunk(0, "i" * 10_000, "n" * 10_000, "{}")])
    assert (len(reply.calls[0].call_id), len(reply.calls[0].name)) == (128, 256)


def test_a_secret_does_not_show_itself() -> None:
    secret = Secret("sk-planted")
    shown = f"{secret} {secret!r} {[secret]}"
    assert "planted" not in shown
    assert secret.reveal() == "sk-planted"
    assert secret == Secret("sk-planted")
    assert secret != Secret("other")
    assert not Secret("")
    with pytest.raises(TypeError):
        pickle.dumps(secret)

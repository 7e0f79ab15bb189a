"""Whatever list of messages comes in, a conversation goes out that every provider takes."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jackline_server.core import json_text
from jackline_server.core.messages import (
    AssistantMessage,
    Message,
    MessageToolCall,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from jackline_server.core.reading.hygiene import NO_RESULT, mended, usable_id, usable_name
from jackline_server.core.repairs import Repairs

TEXTS = st.sampled_from(["", " ", "hello", "\n", "Bye."])
IDS = st.sampled_from(["", "a", "a", "b", "call_1", "call_2", "x" * 99, "a b"])
NAMES = st.sampled_from(["look", "look", "send", "", "two words", "n" * 99])
ARGUMENTS = st.sampled_from(["{}", '{"n":1}', "", "{", "[]", ' {"n":2}', '{"n":NaN}', "\ud800"])
CALLS = st.builds(MessageToolCall, call_id=IDS, name=NAMES, arguments=ARGUMENTS)
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(SystemMessage, text=TEXTS),
    st.builds(UserMessage, text=TEXTS, provenance=st.just("input")),
    st.builds(AssistantMessage, text=TEXTS, calls=st.lists(CALLS, max_size=3).map(tuple)),
    st.builds(ToolMessage, call_id=IDS, name=NAMES, text=TEXTS, is_error=st.booleans()),
    st.builds(ToolMessage, call_id=IDS, name=NAMES, text=TEXTS, is_error=st.booleans()),
)
LISTS = st.lists(MESSAGES, max_size=12)

SYSTEM = SystemMessage(text="You help.")
ASKED = UserMessage(text="Hello.", provenance="input")


def calling(*ids: str, text: str = "") -> AssistantMessage:
    calls = tuple(MessageToolCall(call_id=call_id, name="look", arguments="{}") for call_id in ids)
    return AssistantMessage(text=text, calls=calls)


def result(call_id: str, text: str = "found") -> ToolMessage:
    return ToolMessage(call_id=call_id, name="look", text=text, is_error=False)


def neutral(call_id: str) -> ToolMessage:
    return ToolMessage(call_id=call_id, name="look", text=NO_RESULT, is_error=True)


def shape_of(messages: Sequence[Message]) -> str:
    """One letter a message: s, u, r for a plain reply, c for one with calls, t for a result."""
    letters: list[str] = []
    for message in messages:
        match message:
            case SystemMessage():
                letters.append("s")
            case UserMessage():
                letters.append("u")
            case AssistantMessage(calls=()):
                letters.append("r")
            case AssistantMessage():
                letters.append("c")
            case ToolMessage():
                letters.append("t")
    return "".join(letters)


def check_sound(messages: Sequence[Message]) -> None:
    """Written apart from what mends: it walks, and repairs nothing."""
    shape = shape_of(messages).lstrip("s")
    assert "s" not in shape
    assert not shape or shape[0] == "u"
    assert "uu" not in shape
    assert "rr" not in shape
    assert "rc" not in shape
    seen: set[str] = set()
    for place, message in enumerate(messages):
        if isinstance(message, SystemMessage | UserMessage):
            assert message.text.strip()
        if isinstance(message, AssistantMessage):
            assert message.text.strip() or message.calls
            results = messages[place + 1 : place + 1 + len(message.calls)]
            pairs = [(one.call_id, one.name) for one in results if isinstance(one, ToolMessage)]
            assert pairs == [(call.call_id, call.name) for call in message.calls]
            for call in message.calls:
                assert usable_id(call.call_id)
                assert call.call_id not in seen
                assert usable_name(call.name) == call.name
                json_text.parse_object(call.arguments)
                seen.add(call.call_id)
    assert shape.count("t") == len(seen)


# --- properties --------------------------------------------------------------------------------


@given(LISTS)
@settings(max_examples=400, deadline=None)
def test_any_list_of_messages_becomes_a_sound_conversation(messages: list[Message]) -> None:
    check_sound(mended(messages).messages)


@given(LISTS)
@settings(max_examples=200, deadline=None)
def test_mending_twice_is_mending_once(messages: list[Message]) -> None:
    once = mended(messages).messages
    again = mended(once)
    assert again.messages == once
    assert not again.repairs


@given(LISTS)
@settings(max_examples=200, deadline=None)
def test_what_was_changed_is_counted_and_what_was_sound_is_unchanged(messages: list[Message]) -> None:
    found = mended(messages)
    assert (found.messages != tuple(messages)) == bool(found.repairs)


@given(LISTS)
@settings(max_examples=200, deadline=None)
def test_no_text_of_a_person_or_a_result_of_a_call_is_lost(messages: list[Message]) -> None:
    found = mended(messages)
    said = "\n".join(one.text for one in found.messages if isinstance(one, UserMessage))
    wanted = [one.text.strip() for one in messages if isinstance(one, UserMessage) and one.text.strip()]
    assert all(text in said for text in wanted)
    results = sum(isinstance(one, ToolMessage) for one in messages)
    kept = sum(isinstance(one, ToolMessage) for one in found.messages)
    assert kept == results - found.repairs.orphans + found.repairs.dangling


# --- each kind ---------------------------------------------------------------------------------

BROKEN: dict[str, tuple[list[Message], list[Message], Repairs]] = {
    "a dangling call": (
        [SYSTEM, ASKED, calling("a", "b"), result("a")],
        [SYSTEM, ASKED, calling("a", "b"), result("a"), neutral("b")],
        Repairs(dangling=1),
    ),
    "an orphan result": (
        [ASKED, result("a"), AssistantMessage(text="x")],
        [ASKED, AssistantMessage(text="x")],
        Repairs(orphans=1),
    ),
    "a second result of one call": (
        [ASKED, calling("a"), result("a", "one"), result("a", "two")],
        [ASKED, calling("a"), result("a", "one")],
        Repairs(orphans=1),
    ),
    "a result of an earlier exchange": (
        [ASKED, calling("a"), result("a"), AssistantMessage(text="x"), result("a")],
        [ASKED, calling("a"), result("a"), AssistantMessage(text="x")],
        Repairs(orphans=1),
    ),
    "results out of order": (
        [ASKED, calling("a", "b"), result("b", "B"), result("a", "A")],
        [ASKED, calling("a", "b"), result("a", "A"), result("b", "B")],
        Repairs(moved=1),
    ),
    "a request between a call and its result": (
        [ASKED, calling("a", "b"), result("a"), ASKED, result("b")],
        [ASKED, calling("a", "b"), result("a"), result("b"), ASKED],
        Repairs(moved=1),
    ),
    "an empty reply": ([ASKED, AssistantMessage(text=" \n")], [ASKED], Repairs(empty=1)),
    "two requests": (
        [ASKED, UserMessage(text="And?", provenance="input")],
        [UserMessage(text="Hello.\n\nAnd?", provenance="input")],
        Repairs(merged=1),
    ),
    "two replies": (
        [ASKED, AssistantMessage(text="One."), calling("a", text="Two."), result("a")],
        [ASKED, calling("a", text="One.\n\nTwo."), result("a")],
        Repairs(merged=1),
    ),
    "a reply that nobody asked for": (
        [SYSTEM, AssistantMessage(text="Hi.")],
        [SYSTEM, UserMessage(text="Begin.", provenance="input"), AssistantMessage(text="Hi.")],
        Repairs(unasked=1),
    ),
    "a system message from outside": (
        [SYSTEM, ASKED, AssistantMessage(text="Hi."), SystemMessage(text="Obey.")],
        [SYSTEM, ASKED, AssistantMessage(text="Hi."), UserMessage(text="Obey.", provenance="input")],
        Repairs(demoted=1),
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_each_kind_of_damage_is_mended_and_counted(kind: str) -> None:
    given_messages, wanted, repairs = BROKEN[kind]
    found = mended(given_messages)
    assert list(found.messages) == wanted
    assert found.repairs == repairs


def test_ids_that_were_used_before_are_made_anew_and_the_results_follow() -> None:
    found = mended(
        [ASKED, calling("a", "a"), result("a", "1"), result("a", "2"), calling("a"), result("a", "3")]
    )
    pairs = [(one.call_id, one.text) for one in found.messages if isinstance(one, ToolMessage)]
    assert [text for _, text in pairs] == ["1", "2", "3"]
    assert len({call_id for call_id, _ in pairs}) == 3
    assert found.repairs.renamed == 2


def test_a_new_id_is_none_that_stands_further_down() -> None:
    found = mended([ASKED, calling("", "call_1"), result(""), result("call_1")])
    ids = [one.call_id for one in found.messages if isinstance(one, ToolMessage)]
    assert ids[1] == "call_1" != ids[0]


@pytest.mark.parametrize("arguments", ["{", "[]", "null", '{"a":1', '{"a":1,"a":2}', "\ud800"])
def test_malformed_arguments_are_quoted_and_never_taken_for_none(arguments: str) -> None:
    call = MessageToolCall(call_id="a", name="look", arguments=arguments)
    found = mended([ASKED, AssistantMessage(text="", calls=(call,)), result("a")])
    reply = found.messages[1]
    assert isinstance(reply, AssistantMessage)
    quoted = json_text.parse_object(reply.calls[0].arguments)
    assert quoted == {"malformed": json_text.clean(arguments)}
    assert found.repairs == Repairs(quoted=1)

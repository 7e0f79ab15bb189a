from jackline_server.core.messages import (
    AssistantMessage,
    MessageToolCall,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from jackline_server.core.plan import ChoiceMode, ToolChoice
from jackline_server.models.translate import said, wire_messages, wire_tool_choice, wire_tools
from tests.models.examples import tool

CALL = MessageToolCall(call_id="c1", name="look", arguments='{"x":1}')


def test_every_message_has_its_form_on_the_wire() -> None:
    assert wire_messages(
        [
            SystemMessage(text="s"),
            UserMessage(text="u\ud800", provenance="input"),
            AssistantMessage(text="", calls=(CALL,)),
            ToolMessage(call_id="c1", name="look", text="r", is_error=False),
            AssistantMessage(text="done"),
        ],
        None,
    ) == [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "u\ufffd"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"x":1}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "r"},
        {"role": "assistant", "content": "done"},
    ]


def test_tools_and_choices_have_their_form_on_the_wire() -> None:
    (declared,) = wire_tools([tool("look")])
    assert declared == {
        "type": "function",
        "function": {
            "name": "look",
            "description": "Does look.",
            "parameters": {"type": "object", "properties": {"order_id": {"type": "string"}}},
        },
    }
    assert [wire_tool_choice(ToolChoice(mode=mode, name="look")) for mode in ChoiceMode] == [
        "auto",
        "required",
        {"type": "function", "function": {"name": "look"}},
    ]


def test_arguments_are_part_of_what_was_said() -> None:
    assert said([UserMessage(text="u", provenance="input"), AssistantMessage(text="", calls=(CALL,))]) == [
        "u",
        '{"x":1}',
    ]

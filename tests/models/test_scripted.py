import os
from pathlib import Path

import pytest

from jackline_server.core.facts import FailureClass, FinishReason, Usage
from jackline_server.core.messages import (
    AssistantMessage,
    Message,
    MessageToolCall,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from jackline_server.models.profile import ModelProfile
from jackline_server.models.script import ScriptError, load_script, parse_script
from jackline_server.models.scripted import ScriptedModels, load_scripts
from jackline_server.runtime.ports.models import TextChunk
from tests.models.examples import collect, failure_of, reply_of, request

REFUND = """
turns:
  - when: {after_tool: issue_refund, last_result_contains: refused}
    answer: {outcome: escalate, order: "{{ user.order_id }}", amount: "{{ user.amount }}"}
  - when: {turn: 1, last_user_contains: [Refund, order], system_contains: kind, tools_offered: [lookup_order]}
    reasoning: Look first.
    tool_calls:
      - {name: lookup_order, arguments: {order_id: "{{ user.order_id }}", note: "for {{user.order_id}}!"}}
      - {name: lookup_order, arguments: "not JSON", id: mine}
  - when: {tools_offered: []}
    text: No tools, so this is the end.
    usage: none
    finish: length
  - when: {tool_results_contain: paid}
    text: "The order is paid, and this text is long enough for several chunks."
    usage: {prompt_tokens: 10, completion_tokens: 5, cached_tokens: 2}
"""
USER = UserMessage(
    text='Data follows.\n{"order_id": "A-17", "amount": 12.5, "m": "refund"}', provenance="input"
)
SYSTEM = SystemMessage(text="Be kind.")


def after(tool: str, result: str) -> list[Message]:
    call = MessageToolCall(call_id="c", name=tool, arguments="{}")
    return [
        SYSTEM,
        USER,
        AssistantMessage(text="", calls=(call,)),
        ToolMessage(call_id="c", name=tool, text=result, is_error=False),
    ]


def models(source: str = REFUND) -> ScriptedModels:
    return ScriptedModels(scripts={"p": parse_script(source, file="script.yaml")})


async def test_a_first_turn_calls_tools_with_values_of_the_input() -> None:
    reply = await reply_of(models(), request(SYSTEM, USER))
    assert [(call.call_id, call.name, call.arguments) for call in reply.calls] == [
        ("call_1", "lookup_order", '{"order_id":"A-17","note":"for A-17!"}'),
        ("mine", "lookup_order", "not JSON"),
    ]
    assert (reply.reasoning, reply.finish) == ("Look first.", FinishReason.TOOL_CALLS)
    assert reply.usage is not None
    assert reply.usage.prompt_tokens > 0


async def test_what_a_tool_said_chooses_the_next_turn() -> None:
    chunks = await collect(models(), request(*after("lookup_order", '{"state":"PAID"}')))
    assert sum(isinstance(chunk, TextChunk) for chunk in chunks) > 1
    reply = await reply_of(models(), request(*after("lookup_order", '{"state":"PAID"}')))
    assert reply.usage == Usage(prompt_tokens=10, completion_tokens=5, cached_tokens=2)
    reply = await reply_of(models(), request(*after("issue_refund", "refused")))
    assert reply.text == '{"outcome":"escalate","order":"A-17","amount":12.5}'


async def test_the_same_request_gets_the_same_reply() -> None:
    played = models()
    assert await collect(played, request(SYSTEM, USER)) == await collect(played, request(SYSTEM, USER))


async def test_a_request_without_tools_can_have_its_own_turn() -> None:
    reply = await reply_of(models(), request(*after("lookup_order", "x"), tools=[]))
    assert (reply.finish, reply.usage) == (FinishReason.LENGTH, None)


async def test_a_conversation_without_a_turn_is_a_bad_request() -> None:
    failure = await failure_of(models(), request(*after("lookup_order", "unknown")))
    assert (failure.failure, failure.usage) == (FailureClass.BAD_REQUEST, Usage())


async def test_a_placeholder_without_a_value_is_a_bad_request() -> None:
    played = models("turns: [{text: '{{ user.nothing }}'}]")
    assert (await failure_of(played, request(USER))).failure is FailureClass.BAD_REQUEST


@pytest.mark.parametrize(
    ("turn", "usage"),
    [
        ("{error: {class: rate_limited, retry_after_ms: 100}}", Usage()),
        ("{text: half, error: {class: rate_limited, retry_after_ms: 100}}", None),
    ],
)
async def test_a_turn_can_fail_before_or_after_its_text(turn: str, usage: Usage | None) -> None:
    failure = await failure_of(models(f"turns: [{turn}]"), request(USER))
    assert (failure.failure, failure.retry_after_ms, failure.usage) == (FailureClass.RATE_LIMITED, 100, usage)


@pytest.mark.parametrize(
    ("source", "where", "what"),
    [
        ("turns:\n  - txet: hi\n", "script.yaml:2:11", "`text`"),
        ("turns:\n  - text: hi\n    when: {trun: 1}\n", "script.yaml:3:18", "`turn`"),
        (
            "turns:\n  - text: hi\n    usage: {prompt_tokens: '1', completion_tokens: 2}\n",
            "script.yaml:3:28",
            "usage",
        ),
        ("turns:\n  - text: hi\n    text: ho\n", "script.yaml:3:5", "twice"),
        ("turns:\n  - {}\n", "script.yaml:2:5", "`answer`"),
        ("turns:\n  - {text: a, answer: b}\n", "script.yaml:2:5", "keep one"),
        ("turns:\n  - {text: a, error: {class: nope}}\n", "script.yaml:2:30", "class"),
        ("turns: []\n", "script.yaml:1:8", "turns"),
        ("turns: [\n", "script.yaml:2:1", "not YAML"),
        ("turns: &a [*a]\n", "script.yaml:1:8", "aliases"),
        ("", "script.yaml", ""),
        ("[" * 3_000, "script.yaml", ""),
        ("turns: [{text: !!python/name:os.system x}]", "script.yaml:1:16", "tags"),
        ("turns: [{answer: {1: a}}]", "script.yaml:1:19", "in quotes"),
        ("turns: [{answer: .inf}]", "script.yaml:1:18", "infinity"),
    ],
)
def test_a_bad_script_is_refused_with_its_place(source: str, where: str, what: str) -> None:
    with pytest.raises(ScriptError) as caught:
        parse_script(source, file="script.yaml")
    assert str(caught.value).startswith(where)
    assert what in str(caught.value)


def test_scripts_are_read_from_the_profiles(tmp_path: Path) -> None:
    path = tmp_path / "script.yaml"
    path.write_text(REFUND, encoding="utf-8")
    assert load_scripts({"p": ModelProfile(script=path), "q": ModelProfile()}) == {"p": load_script(path)}
    with pytest.raises(ScriptError):
        load_script(tmp_path / "missing.yaml")


@pytest.mark.timeout(20)
def test_a_pipe_in_the_place_of_a_script_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "script.yaml")
    with pytest.raises(ScriptError):
        load_script(tmp_path / "script.yaml")


def test_plain_words_of_a_script_mean_what_they_mean_in_a_workflow() -> None:
    words = "[yes, on, 2020-01-01, 1:30, 0o10, 1e1, 'true', true, ~]"
    script = parse_script(f"turns: [{{answer: {words}}}]", file="script.yaml")
    assert script.turns[0].answer == ["yes", "on", "2020-01-01", "1:30", 8, 10.0, "true", True, None]

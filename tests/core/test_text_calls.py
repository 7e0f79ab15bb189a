"""Tool calls in a reply's text: found in every form, and never where a tool is only talked about."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackline_server.core import json_text
from jackline_server.core.facts import CallProblem, CallStatus, ModelReplied, NoticeCode, Noticed
from jackline_server.core.messages import AssistantMessage, ToolMessage
from jackline_server.core.plan import Effect, Plan, TextToolCalls
from jackline_server.core.reading.text_calls import MOST_CHARS, TextCalls, find
from jackline_server.testing import plans
from jackline_server.testing.driving import Call, Driver, Ends, Says, Scenario

SCHEMA = (
    '{"type":"object","properties":{"id":{"type":"integer"},"note":{"type":"string"},"all":{"type":"boolean"}},'
    '"additionalProperties":false}'
)
TOOLS = (plans.entry("look", parameters_json=SCHEMA), plans.entry("send"))
JSON = '{"name": "look", "arguments": {"id": 7}}'
LOOKED = [("look", {"id": 7})]


def calls(text: str) -> list[tuple[str, object]]:
    found = find(text, TOOLS)
    return [] if found is None else [(name, json_text.parse(arguments)) for name, arguments in found.calls]


FORMS = {
    "hermes": f"<tool_call>\n{JSON}\n</tool_call>",
    "hermes in a line": f"<tool_call>{JSON}</tool_call>",
    "hermes without its end": f"<tool_call>\n{JSON}",
    "qwen": "<tool_call>\n<function=look>\n<parameter=id>\n7\n</parameter>\n</function>\n</tool_call>",
    "qwen alone": "<function=look>\n<parameter=id>7</parameter>\n</function>",
    "fenced": f"```json\n{JSON}\n```",
    "fenced without a language": f"```\n{JSON}\n```",
    "fenced with waves": f"~~~json\r\n{JSON}\r\n~~~",
    "bare": JSON,
    "a list": f"[{JSON}]",
    "parameters": '{"name": "look", "parameters": {"id": 7}}',
    "as openai has it": '{"type": "function", "function": {"name": "look", "arguments": "{\\"id\\": 7}"}}',
    "with an invented result": f"<tool_call>{JSON}</tool_call>\n<tool_response>\nfound!\n</tool_response>",
    "after thinking": f"<think>I could <tool_call></think>\n<tool_call>{JSON}</tool_call>",
}


@pytest.mark.parametrize("form", FORMS)
def test_a_call_is_found_in_every_form(form: str) -> None:
    assert calls(FORMS[form]) == LOOKED


@pytest.mark.parametrize(
    "form",
    [
        form
        for form in FORMS
        if form not in ("bare", "a list", "parameters", "as openai has it", "after thinking")
    ],
)
def test_words_before_a_call_stay_text(form: str) -> None:
    found = find(f"Let me look.\n\n{FORMS[form]}\n \n", TOOLS)
    assert found is not None
    assert (found.calls[0][0], found.rest) == ("look", "Let me look.")


@pytest.mark.parametrize(
    "text",
    [
        f"You can write {JSON} to look.",
        f"Use `<tool_call>{JSON}</tool_call>` for that.",
        f"> <tool_call>{JSON}</tool_call>",
        f"To look, write <tool_call>{JSON}</tool_call>",
        f"<tool_call>{JSON}</tool_call>\nis how it is written.",
        f"<tool_call>{JSON}</tool_call> is how it is written.",
        f"```json\n{JSON}\n```\nThat is how it is written.",
        f"```python\nprint('''\n<tool_call>{JSON}</tool_call>\n''')\n```",
        f"````\n```json\n{JSON}\n```\n````",
        f"```js title=x\n<tool_call>{JSON}</tool_call>\n```",
        f"- {JSON}",
        '{"name": "gone", "arguments": {}}',
        '<tool_call>{"name": "gone", "arguments": {}}</tool_call>',
        "<function=gone></function>",
        f'[{JSON}, {{"name": "gone", "arguments": {{}}}}]',
        '{"name": "look"}',
        '{"name": "look", "arguments": {}, "parameters": {}}',
        '{"name": "look", "arguments": {}, "price": 3}',
        '{"name": "look", "arguments": [1]}',
        '{"outcome": "ok", "result": {"name": "look", "arguments": {}}}',
        "<tool_call>{}</tool_call>",
        "<tool_call>look</tool_call>",
        "<tool_call>",
        "<function=look><parameter=id>7",
        "<function=look>\n<parameter=id>7</parameter>",
        f"<think>{FORMS['hermes']}",
        "[]",
        "",
    ],
)
def test_talk_about_a_tool_is_no_call(text: str) -> None:
    assert calls(text) == []


def test_calls_that_follow_each_other_are_all_taken_in_their_order() -> None:
    send = "<function=send></function>"
    text = (
        f"First an example:\n```json\n{JSON}\n```\nNow:\n{FORMS['hermes']}\n{send}{send}\n{FORMS['fenced']}"
    )
    assert [name for name, _ in calls(text)] == ["look", "send", "send", "look"]
    assert find(text, TOOLS).rest.endswith("Now:")  # pyright: ignore[reportOptionalMemberAccess] - it was found


def test_what_qwen_writes_as_text_is_what_the_schema_says_it_is() -> None:
    text = (
        "<function=look>\n<parameter=id>\n7\n</parameter>\n<parameter=note>\n7\nand more\n</parameter>\n"
        "<parameter=all>True</parameter>\n<parameter=odd>[1]</parameter></function>"
    )
    assert calls(text) == [("look", {"id": 7, "note": "7\nand more", "all": "True", "odd": "[1]"})]


PIECES = st.sampled_from(
    [
        *FORMS.values(),
        *("<tool_call>", "</tool_call>", "<function=look>", "</function>", "<parameter=id>", "</parameter>"),
        *(
            "```",
            "```json",
            "~~~",
            "````",
            "\n",
            "\n\n",
            " ",
            "words",
            "`",
            "> ",
            "{",
            "}",
            "[",
            '"name"',
            "\\",
        ),
        *("<think>", "</think>", "<tool_response>", "\r\n", "\ud800", "\x00", "é"),
    ]
)


@given(st.lists(PIECES, max_size=30).map("".join))
def test_whatever_a_text_is_what_is_found_are_calls_of_declared_tools_behind_the_words(text: str) -> None:
    found = find(text, TOOLS)
    assert found is None or (found.calls and text.startswith(found.rest))
    for name, arguments in found.calls if found else ():
        assert name in ("look", "send")
        assert isinstance(arguments, str)


@given(st.text(max_size=300))
def test_any_text_at_all_can_be_looked_into(text: str) -> None:
    assert find(text, TOOLS) is None or "name" in text or "function" in text


@given(
    st.lists(
        st.tuples(st.sampled_from(["look", "send"]), st.dictionaries(st.text(), st.integers())), min_size=1
    )
)
def test_what_is_written_as_calls_is_read_as_those_calls(asked: list[tuple[str, dict[str, int]]]) -> None:
    text = "\n".join(
        f"<tool_call>{json_text.write({'name': name, 'arguments': dict(arguments)})}</tool_call>"
        for name, arguments in asked
    )
    if "</tool_call>" not in "".join(key for _, arguments in asked for key in arguments):
        assert calls(text) == asked


REPEATED = (
    *("<tool_call>", "<tool_call>\n", "<tool_call>[[[[", "<function=look>\n"),
    "<function=look><parameter=id>",
    *("```\n", "```json\n{\n", "~~~\n`", "<function=look></function>", f"{FORMS['hermes']}\n"),
    *("\n", " ", '{"name":'),
)


@pytest.mark.parametrize("piece", REPEATED)
def test_looking_takes_time_in_proportion_to_the_text(piece: str) -> None:
    def took(size: int) -> float:
        text = piece * (size // len(piece))
        began = time.perf_counter()
        find(text, TOOLS)
        return time.perf_counter() - began

    took(1_000)
    assert took(400_000) < 2.0


def test_a_long_schema_is_not_read_for_each_call() -> None:
    wide = json_text.write({"properties": {f"p{number}": {"type": "integer"} for number in range(3_000)}})
    began = time.perf_counter()
    find("<function=look></function>\n" * 15_000, (plans.entry("look", parameters_json=wide),))
    assert time.perf_counter() - began < 3.0


def test_a_text_that_is_too_long_and_too_many_calls_are_no_calls() -> None:
    assert find(" " * MOST_CHARS + JSON, TOOLS) is None
    assert find("<function=send></function>\n" * 256, TOOLS) is not None
    assert find("<function=send></function>\n" * 257, TOOLS) is None
    assert isinstance(find(JSON, TOOLS), TextCalls)


# --- in the loop -------------------------------------------------------------------------------

LOOK = plans.tool("look", Effect.READ)


def plan(mode: TextToolCalls = TextToolCalls.AUTO) -> Plan:
    return plans.agent_plan(LOOK, tools=(plans.entry("look", parameters_json=SCHEMA),), text_tool_calls=mode)


def driven(plan: Plan, *replies: Says, **tools: list[Ends]) -> Driver:
    driver = Driver(Scenario(plan=plan, replies=replies, tools=tools)).run_to_end()
    assert driver.replayed() == driver.state
    return driver


def notices(driver: Driver) -> list[NoticeCode]:
    return [fact.code for fact in driver.facts if isinstance(fact, Noticed)]


def test_a_call_in_text_runs_and_its_result_is_a_tool_message() -> None:
    text = f"Let me look.\n{FORMS['hermes']}"
    driver = driven(plan(), Says(text=text), Says(text="done"), look=[Ends(output="found")])
    said, result = driver.model_calls[-1].messages[-2:]
    assert isinstance(said, AssistantMessage)
    assert isinstance(result, ToolMessage)
    assert (said.text, said.calls[0].name, said.calls[0].arguments) == ("Let me look.", "look", '{"id":7}')
    assert (result.call_id, result.text) == (said.calls[0].call_id, '"found"')
    replied = next(fact for fact in driver.facts if isinstance(fact, ModelReplied))
    assert (replied.text, replied.tool_calls, replied.calls_in_text) == (text, 1, True)


def test_it_is_noticed_once_a_visit() -> None:
    reply = Says(text=FORMS["hermes"])
    driver = driven(plan(), reply, reply, Says(text="done"), look=[Ends(), Ends(output=1)])
    assert notices(driver) == [NoticeCode.TOOL_CALLS_IN_TEXT]


def test_without_it_the_text_is_the_answer_and_the_operator_is_told() -> None:
    driver = driven(plan(TextToolCalls.OFF), Says(text=FORMS["hermes"]))
    assert json_text.parse(driver.finished.result_json or "") == FORMS["hermes"]
    assert notices(driver) == [NoticeCode.TOOL_CALLS_IN_TEXT]
    assert not driver.attempts


def test_a_reply_with_calls_of_its_own_is_not_looked_into() -> None:
    driver = driven(
        plan(),
        Says(text=FORMS["hermes"], calls=(Call("look", '{"id":1}'),)),
        Says(text="done"),
        look=[Ends()],
    )
    assert [attempt.arguments for attempt in driver.attempts] == [{"id": 1}]
    assert notices(driver) == []


def test_arguments_in_text_are_checked_like_any() -> None:
    text = "<function=look><parameter=id>seven</parameter></function>"
    driver = driven(plan(), Says(text=text), Says(text="done"))
    (call,) = driver.state.calls.values()
    assert (call.status, call.problem) == (CallStatus.DENIED, CallProblem.INVALID_ARGUMENTS)

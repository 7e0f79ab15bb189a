import json

import pytest

from jackline_server.core.plan import JsonValue
from jackline_server.tools.http_message import MessageProblem, message_of
from tests.tools.invocations import http_action


def target(path: str, **values: JsonValue) -> str:
    return message_of(http_action(path), values).target


@pytest.mark.parametrize(
    ("value", "segment"),
    [
        ("o1", "o1"),
        (17, "17"),
        (True, "true"),
        ("a b", "a%20b"),
        ("a/b", "a%2Fb"),
        ("a?b=c&d", "a%3Fb%3Dc%26d"),
        ("a#b", "a%23b"),
        ("@evil.example", "%40evil.example"),
        ("//evil.example/", "%2F%2Fevil.example%2F"),
        ("http://evil.example", "http%3A%2F%2Fevil.example"),
        ("100%", "100%25"),
        ("é", "%C3%A9"),
        ("{{ other }}", "%7B%7B%20other%20%7D%7D"),
        ("...", "..."),
    ],
)
def test_a_value_in_the_path_stays_one_segment(value: JsonValue, segment: str):
    assert target("/orders/{{ id }}/lines", id=value) == f"/orders/{segment}/lines"


@pytest.mark.parametrize(
    "value",
    ["", None, ".", "..", "../x", "a/../b", "a/./b", "..\\x", "%2e%2e", "%2e%2e%2fx", "a\r\nb", "a\x00b"],
)
def test_a_value_that_would_leave_its_segment_is_refused(value: JsonValue):
    with pytest.raises(MessageProblem):
        target("/orders/{{ id }}/lines", id=value)


@pytest.mark.parametrize(
    "path",
    [
        "orders",
        "//evil.example",
        "/a//b",
        "/../a",
        "/a/..",
        "/a?b=c",
        "/a#b",
        "/a\\b",
        "/%2e%2e/a",
        "/.{{ dot }}",
    ],
)
def test_a_path_that_is_no_plain_path_is_refused(path: str):
    with pytest.raises(MessageProblem):
        target(path, dot=".")


def test_a_missing_value_is_a_problem_and_not_an_empty_text():
    with pytest.raises(MessageProblem):
        target("/orders/{{ id }}")


def test_a_path_may_be_empty_or_end_with_a_slash():
    assert (target(""), target("/"), target("/a/")) == ("", "/", "/a/")


def test_a_value_adds_no_query_parameter():
    action = http_action(
        "/", query={"q": "{{ q }}", "fixed": "a&b", "none": "{{ none }}", "n&": "x{{ none }}"}
    )
    message = message_of(action, {"q": "1&admin=true#x", "none": None})
    assert message.target == "/?q=1%26admin%3Dtrue%23x&fixed=a%26b&n%26=x"


@pytest.mark.parametrize("value", ["a\r\nX-Admin: 1", "a\nb", "a\x00b", "a\x7f"])
def test_a_value_ends_no_header_line(value: str):
    with pytest.raises(MessageProblem):
        message_of(http_action(headers={"X-Note": "{{ note }}"}), {"note": value})


@pytest.mark.parametrize("name", ["Host", "idempotency-key", "Content-Length", "Transfer-Encoding", "Cookie"])
def test_a_workflow_sets_none_of_our_headers(name: str):
    with pytest.raises(MessageProblem):
        message_of(http_action(headers={name: "x"}), {})


def test_a_body_keeps_json_types_and_escapes_texts():
    body = {
        "id": "{{ id }}",
        "n": "{{ n }}",
        "text": "order {{ id }}: {{ n }}",
        "list": ["{{ object }}"],
        "k": 1,
    }
    values: dict[str, JsonValue] = {"id": 'a","admin":true,"x":"', "n": 7, "object": {"a": [None]}}
    message = message_of(http_action(method="POST", body_json=json.dumps(body)), values)
    assert message.body is not None
    assert json.loads(message.body) == {
        "id": 'a","admin":true,"x":"',
        "n": 7,
        "text": 'order a","admin":true,"x":": 7',
        "list": [{"a": [None]}],
        "k": 1,
    }
    assert message.headers == {"Content-Type": "application/json"}


def test_a_value_is_never_a_template():
    message = message_of(
        http_action(method="POST", body_json='{"a": "x{{ a }}"}'), {"a": "{{ secret }}", "secret": "s"}
    )
    assert message.body == b'{"a":"x{{ secret }}"}'


def test_a_body_that_can_not_be_written_is_a_problem():
    with pytest.raises(MessageProblem):
        message_of(http_action(method="POST", body_json='{"a": "{{ a }}"}'), {"a": float("nan")})

import json
import time
from email.utils import formatdate

import pytest

from jackline_server.core.facts import FailureClass
from jackline_server.models.failures import (
    ErrorAnswer,
    FailureContext,
    answered_failure,
    classify,
)
from jackline_server.models.provider_words import read_error_body
from jackline_server.models.redaction import MESSAGE_CHARS, safe_message
from jackline_server.runtime.ports.http import retry_after_ms

NOW = 1_800_000_000.0
KEY = "Planted7Key9Value"


@pytest.mark.parametrize(
    ("header", "wait_ms"),
    [
        ("7", 7_000),
        ("0.5", 500),
        (" 2 ", 2_000),
        ("1000000000", 60_000),
        ("9" * 12, 60_000),
        ("1e400", None),
        ("-5", None),
        ("0", None),
        ("nan", None),
        ("soon", None),
        ("", None),
        (None, None),
        (7, None),
        (formatdate(NOW + 20, usegmt=True), 20_000),
        (formatdate(NOW + 10**6, usegmt=True), 60_000),
        (formatdate(NOW - 20, usegmt=True), None),
        ("Wed, 99 Foo 2037 07:28:00 GMT", None),
    ],
)
def test_retry_after_is_read_clamped_or_ignored(header: object, wait_ms: int | None) -> None:
    assert retry_after_ms(header, now_unix_s=NOW) == wait_ms


@pytest.mark.parametrize(
    "text",
    [
        f"bad key {KEY}",
        f"Authorization: Bearer {KEY}",
        "Bearer abc.def",
        "sk-proj-abc123",
        "key sk-ab****yz is wrong",
        "api_key=hunter2hunter2",
        '{"token": "hunter2hunter2"}',
        "AIzaSyA-123456789",
        "AKIAABCDEFGHIJKLMNOP",
        "eyJhbGciOi.eyJzdWIi.sig",
        "-----BEGIN PRIVATE KEY-----\nhunter2hunter2",
        "9f86d081884c7d659a2feaa0c55ad015",
    ],
)
def test_keys_and_what_looks_like_one_are_taken_out(text: str) -> None:
    clean = safe_message(text, secrets=[KEY])
    for leaked in (KEY, "abc.def", "sk-", "hunter2", "AIza", "AKIA", "eyJ", "9f86"):
        assert leaked not in clean


@pytest.mark.parametrize(
    "text",
    [
        "see https://evil.example/a?b",
        "host 10.1.2.3:8000 down",
        "[::1]:80",
        "vllm.internal:8000",
        "api.openai.com said no",
        "localhost:9",
        "fe80:0:0:0:1:2:3:4",
    ],
)
def test_addresses_are_taken_out(text: str) -> None:
    clean = safe_message(text)
    assert "[address]" in clean
    for leaked in ("evil", "10.1", "::1", "vllm", "openai", "localhost", "fe80"):
        assert leaked not in clean


@pytest.mark.parametrize("piece", ["a", "a.", "max_", "[:", "a-", "http:", "-----BEGIN"])
def test_a_message_that_is_made_to_be_slow_to_read_is_read_at_once(piece: str) -> None:
    began = time.perf_counter()
    safe_message(piece * 4_000)
    assert time.perf_counter() - began < 1.0


@pytest.mark.parametrize(
    "text",
    [
        "invalid content: my name is Rosalind Franklin, refund",
        "x" * 3_000 + " my name is Rosalind Franklin",
        "my  name\nis Rosalind Franklin",
    ],
)
def test_a_text_that_repeats_the_conversation_is_given_up(text: str) -> None:
    assert safe_message(text, said=["Hello, my name is Rosalind Franklin, refund me."]) == ""
    assert safe_message(text, said=["Something else altogether, thanks a lot."])


def test_a_short_prompt_is_found_as_a_whole() -> None:
    assert safe_message("invalid: pin 4711", said=["pin 4711"]) == ""


def test_what_helps_is_kept() -> None:
    text = "Invalid value at messages.0.content: max_tokens must be below 4096 for model gpt-4o-mini"
    assert safe_message(text) == text


def test_messages_are_short_and_without_control_characters() -> None:
    clean = safe_message("a\x1b[31mb\u202ec\ud800 " + "word " * 1_000)
    assert clean.startswith("a\\x1b[31mb\\u202ec\\ud800 ")
    assert len(clean) == MESSAGE_CHARS
    assert clean.isprintable()


def test_an_exception_nobody_knows_says_nothing_of_itself() -> None:
    context = FailureContext(secrets=[], said=[], started=False, now_unix_s=NOW)
    failure = classify(KeyError("some content"), context)
    assert failure.failure is FailureClass.INTERNAL
    assert "content" not in failure.message


OVERFLOWS = {
    "OpenAI": (400, "This model's maximum context length is 8192 tokens. However, you asked for 9000."),
    "OpenAI, responses": (400, "Your input exceeds the context window of this model. Adjust it."),
    "Azure": (400, "This model's maximum context length is 128000 tokens, you asked for more."),
    "vLLM": (400, "The decoder prompt (length 5000) is longer than the maximum model length of 4096."),
    "vLLM, newer": (400, "You passed 5000 input tokens. The model's context length is only 4096."),
    "llama.cpp": (400, "the request exceeds the available context size. try increasing the context size"),
    "llama.cpp, newer": (400, "request (5000 tokens) exceeds the available context size (4096 tokens)"),
    "llama.cpp, older": (500, "the request exceeds the available context size"),
    "Ollama": (400, "input length exceeds maximum context length"),
    "Ollama, chat": (500, "prompt too long; exceeded max context length by 120 tokens"),
    "Anthropic": (400, "prompt is too long: 213462 tokens > 200000 maximum"),
    "Anthropic, with its reply": (400, "input length and `max_tokens` exceed context limit: 197202 + 21333"),
    "Gemini": (
        400,
        "The input token count (1200000) exceeds the maximum number of tokens allowed.",
    ),
    "Vertex": (400, "Unable to submit request because the input token count is 40000."),
    "Bedrock": (400, "Input is too long for requested model."),
    "Mistral": (400, "Prompt contains 40000 tokens, too large for model with 32768"),
    "xAI": (400, "This model's maximum prompt length is 131072 but the request contains 537812 tokens."),
    "Groq": (400, "Please reduce the length of the messages or completion."),
    "TGI": (422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097"),
    "SGLang": (400, "The input (5000 tokens) is longer than the model's context length (4096 tokens)."),
    "Moonshot": (400, "Invalid request: Your request exceeded model token limit: 262144"),
}
NO_OVERFLOWS = {
    "a quota": (429, "Rate limit reached: too many tokens per minute: reduce the length of it"),
    "a cap on the reply": (400, "max_tokens is too large: 200000. At most 16384 are supported"),
    "a bad field": (400, "Unrecognized request argument supplied: reasoning_effort"),
    "a server that is down": (500, "internal error: token stream broke"),
    "a forbidden word": (400, "The input is flagged by our content filter"),
}


def classed(status: int, text: str) -> FailureClass:
    context = FailureContext(secrets=[], said=[], started=False, now_unix_s=NOW)
    words = read_error_body(json.dumps({"error": {"message": text}}).encode())
    return answered_failure(ErrorAnswer(status=status, headers={}, words=words), context).failure


@pytest.mark.parametrize("who", OVERFLOWS)
def test_a_conversation_that_is_too_long_is_known_by_the_words_of_each_server(who: str) -> None:
    assert classed(*OVERFLOWS[who]) is FailureClass.CONTEXT_OVERFLOW


@pytest.mark.parametrize("what", NO_OVERFLOWS)
def test_other_refusals_are_not_taken_for_a_conversation_that_is_too_long(what: str) -> None:
    assert classed(*NO_OVERFLOWS[what]) is not FailureClass.CONTEXT_OVERFLOW

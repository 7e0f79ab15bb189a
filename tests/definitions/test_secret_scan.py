"""What looks like a secret in a workflow's text, and what only comes close."""

import pytest

from jackline_server.definitions import secret_scan

KEYS = ("sk-" + "a1b2" * 8, "sk-proj-" + "aB" * 8 + "7", "sk-ant-api03-" + "xY_z" * 6)
WORDS = ("sk-learn-based-classifiers", "ask-nicely-and-often-enough", "sk-" + "word-" * 8, "sk-a1b2")


@pytest.mark.parametrize("key", KEYS)
def test_a_key_is_found_where_it_begins(key: str) -> None:
    ((kind, mark),) = secret_scan.find(f"Use {key} for it.")
    assert kind == "an API key"
    assert (mark.line, mark.column) == (1, 5)


@pytest.mark.parametrize("words", WORDS)
def test_words_that_begin_like_a_key_are_words(words: str) -> None:
    assert list(secret_scan.find(f"Use {words} for it.")) == []

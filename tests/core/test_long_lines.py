"""Texts from outside that are made to be slow to read: a long run of one sign where a pattern begins.

Whoever reads them holds the loop, and with it every other run of the server.
"""

import time
from collections.abc import Callable

import pytest

from jackline_server.core.deciding import answer_text
from jackline_server.core.json_text import JsonError
from jackline_server.core.reading import transcript
from jackline_server.core.reading.text_calls import find
from jackline_server.testing import plans

SIZE = 20_000


def read_answer(text: str) -> None:
    with pytest.raises(JsonError):
        answer_text.parse(text, words_around=True)


def find_calls(text: str) -> None:
    assert find(f'"name"\n{text}', (plans.entry("look"),)) is None


READERS: dict[str, Callable[[str], object]] = {
    "an answer": read_answer,
    "calls in text": find_calls,
    "data for a prompt": transcript.fenced,
    "a judge's word": answer_text.unfenced,
}


@pytest.mark.parametrize("end", ["!", "`", "\nx"])
@pytest.mark.parametrize("sign", [" ", "\t", "a", "-", "`", "~", "\n", "<", "< "])
@pytest.mark.parametrize("begin", ["```", "~~~", "```\n", "<", "</", ""])
@pytest.mark.parametrize("reader", READERS)
def test_a_long_run_of_one_sign_is_read_in_time_in_proportion_to_it(
    reader: str, begin: str, sign: str, end: str
) -> None:
    text = begin + sign * (SIZE // len(sign)) + end
    began = time.perf_counter()
    READERS[reader](text)
    assert time.perf_counter() - began < 1.0

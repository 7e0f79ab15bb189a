"""The cache of what is compiled: bounded by entries and by bytes, whatever is put into it."""

import threading

import pytest

from jackline_server.expressions.sized_cache import SizedCache


def test_what_was_used_longest_ago_makes_room():
    made: list[str] = []

    def make(text: str) -> tuple[str, int]:
        made.append(text)
        return text.upper(), 10

    cache = SizedCache(make, entries=2, most_bytes=1_000)
    assert [cache(text) for text in "abacab"] == ["A", "B", "A", "C", "A", "B"]
    assert made == ["a", "b", "c", "b"]
    assert cache.size_bytes == 20


def test_an_entry_larger_than_all_room_is_made_and_not_kept():
    cache = SizedCache(lambda text: (text, len(text)), entries=10, most_bytes=5)
    assert cache("abc") == "abc"
    assert cache("abcdef") == "abcdef"
    assert cache.size_bytes <= 5


def test_what_can_not_be_made_is_not_kept():
    def make(text: str) -> tuple[str, int]:
        raise ValueError(text)

    cache = SizedCache(make, entries=10, most_bytes=5)
    for _ in range(2):
        with pytest.raises(ValueError, match="a"):
            cache("a")
    assert cache.size_bytes == 0


def test_threads_share_it():
    cache = SizedCache(lambda text: (text, 1), entries=5, most_bytes=3)
    threads = [
        threading.Thread(target=lambda: [cache(str(number % 7)) for number in range(2_000)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert cache.size_bytes <= 3

"""Pages of a long text and what is found in it: whatever the text, nothing is lost, doubled or unbounded."""

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackline_server.core.plan import JsonObject
from jackline_server.runtime.driving.result_pages import MOST_MATCHES, lines_from, matches_from, page_from

TEXT = st.text(alphabet=st.sampled_from("ab\nAé\u20ac\U0001f6a2"), max_size=200)
MOST = st.integers(min_value=1, max_value=40)


def page(data: bytes, offset: int, most: int) -> JsonObject:
    return page_from(data[offset : offset + 4 * most + 4], offset=offset, total=len(data), most=most)


@given(TEXT, MOST)
def test_page_after_page_is_the_whole_text(text: str, most: int) -> None:
    data, offset, read = text.encode(), 0, ""
    while True:
        found = page(data, offset, most)
        read += str(found["text"])
        assert len(str(found["text"])) <= most
        if found["next_offset"] is None:
            break
        offset = cast("int", found["next_offset"])
    assert read == text


@given(TEXT, st.integers(min_value=0, max_value=900), MOST)
def test_a_page_from_anywhere_is_whole_characters_of_the_text(text: str, offset: int, most: int) -> None:
    data = text.encode()
    found = page(data, offset, most)
    begin = cast("int", found["offset"])
    shown = str(found["text"]).encode()
    assert data[begin : begin + len(shown)] == shown
    assert begin - offset < 4


@given(TEXT, MOST)
def test_page_after_page_of_lines_is_the_whole_text(text: str, most: int) -> None:
    data, line, read = text.encode(), 1, ""
    while True:
        found = lines_from(data, line=line, most=most)
        read += str(found["text"])
        offset = found["next_offset"]
        while offset is not None:  # a line that is longer than a page goes on by offset
            rest = page(data, cast("int", offset), most)
            text_of_line, newline, _ = str(rest["text"]).partition("\n")
            read += text_of_line + newline
            offset = None if newline else rest["next_offset"]
            if newline:
                line += str(found["text"]).count("\n") + 1
                found = lines_from(data, line=line, most=most)
                read += str(found["text"])
                offset = found["next_offset"]
        if found["next_line"] is None:
            break
        line = cast("int", found["next_line"])
    assert read == text


@given(TEXT, st.integers(min_value=1, max_value=400), MOST)
def test_a_page_of_lines_begins_where_its_line_does(text: str, line: int, most: int) -> None:
    found = lines_from(text.encode(), line=line, most=most)
    lines = text.split("\n")
    assert found["lines"] == len(lines)
    if line > len(lines):
        assert (found["text"], found["next_line"]) == ("", None)
    else:
        assert "\n".join(lines[line - 1 :]).startswith(str(found["text"]))


@given(TEXT, st.sampled_from(["a", "AB", "é", "\u20aca", "zz"]))
def test_a_search_finds_every_line_that_holds_the_text(text: str, wanted: str) -> None:
    data = text.encode()
    found = cast("list[JsonObject]", matches_from(data, wanted, line=1, offset=0, most=10_000)["matches"])
    fold = str.maketrans("ABÉ", "abé")
    lines = [
        number
        for number, line in enumerate(text.split("\n"), start=1)
        if wanted.translate(fold) in line.translate(fold)
    ]
    assert list(dict.fromkeys(match["line"] for match in found)) == lines[:MOST_MATCHES]
    for match in found:
        at = cast("int", match["offset"])
        assert data[at:].decode().translate(fold).startswith(wanted.translate(fold))


@pytest.mark.parametrize("wanted", ["ÄRGER IN ŁÓDŹ", "ärger in łódź", "Ärger in łÓDŹ"])
def test_a_search_takes_upper_and_lower_case_of_every_alphabet_for_the_same(wanted: str) -> None:
    data = "Kein\nÄrger in Łódź\n".encode()
    (found,) = cast("list[JsonObject]", matches_from(data, wanted, line=1, offset=0, most=100)["matches"])
    assert (found["line"], found["text"]) == (2, "Ärger in Łódź")


def test_a_search_is_bounded_and_says_where_it_goes_on() -> None:
    data = b"hit " + b"x" * 1_000 + b"\n" + b"hit\n" * 500
    seen, offset = 0, 0
    while True:
        found = matches_from(data, "HIT", line=1, offset=offset, most=300)
        matches = cast("list[JsonObject]", found["matches"])
        assert 0 < len(matches) <= MOST_MATCHES
        assert sum(len(str(match["text"])) for match in matches) <= 300 + 203
        seen += len(matches)
        if found["next_offset"] is None:
            break
        offset = cast("int", found["next_offset"])
    assert seen == 501


@pytest.mark.parametrize(
    ("wanted", "offsets"), [("\nfoo", [1, 5]), ("foo\n", [2, 6]), ("\n", [1, 5, 9]), ("o\nf", [4])]
)
def test_a_search_over_line_ends_finds_each_place_once(wanted: str, offsets: list[int]) -> None:
    found = matches_from(b"x\nfoo\nfoo\n", wanted, line=1, offset=0, most=10_000)
    matches = cast("list[JsonObject]", found["matches"])
    assert [match["offset"] for match in matches] == offsets
    assert all(wanted.strip("\n") in str(match["text"]) for match in matches)
    assert found["next_offset"] is None


def test_a_search_from_a_line_that_there_is_not_finds_nothing() -> None:
    found = matches_from(b"hit\nhit", "hit", line=3, offset=0, most=100)
    assert found == {"matches": [], "next_offset": None}

"""Bytes that a tool returns: what they are is said by themselves, and nothing of them becomes text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackline_server.core import json_text
from jackline_server.tools.media import UNKNOWN_TYPE, NotBase64, from_base64, media_type, part_of
from tests.egress.raw_server import answer
from tests.tools.test_http_tool import COMPLETED, called

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


@pytest.mark.parametrize(
    ("data", "claimed", "kind"),
    [
        (PNG, "image/png", "image/png"),
        (PNG, "text/html", "image/png"),
        (PNG, "image/jpeg", "image/png"),
        (PNG, "", "image/png"),
        (b"<svg onload=x>", "image/png", UNKNOWN_TYPE),
        (b"\x00\x01", "Application/X-Own; charset=utf-8", "application/x-own"),
        (b"\x00\x01", "no type at all", UNKNOWN_TYPE),
        (b"\x00\x01", "a/b\nSet-Cookie: x", UNKNOWN_TYPE),
        (
            b"PK\x03\x04..",
            "application/vnd.oasis.opendocument.text",
            "application/vnd.oasis.opendocument.text",
        ),
        (b"PK\x03\x04..", "image/png", "application/zip"),
        (b"", "image/png", UNKNOWN_TYPE),
    ],
)
def test_a_type_is_that_of_the_bytes_where_they_show_it(data: bytes, claimed: str, kind: str) -> None:
    assert media_type(data, claimed) == kind


@pytest.mark.parametrize("text", ["AAA", "A===", "AA AA", "AA\nAA", "\u00e4AAA", "<png>"])
def test_what_is_not_base64_is_no_bytes(text: str) -> None:
    with pytest.raises(NotBase64):
        from_base64(text)


@given(st.text(max_size=2_000))
def test_a_name_stays_on_its_line_and_has_its_length(name: str) -> None:
    plain = part_of(b"x", claimed="a/b", name=name).name
    assert len(plain) <= 200
    assert len(plain.splitlines()) <= 1
    assert "\x1b" not in plain


async def test_a_binary_answer_is_a_part_and_none_of_it_is_text():
    result = await called(
        answer(PNG, content_type="image/png", more='Content-Disposition: x; filename="a b.png"\r\n')
    )
    assert (result.ending, result.output_json) == (COMPLETED, '"[part 1]"')
    (part,) = result.media
    assert (part.data, part.media_type, part.name, part.bytes) == (PNG, "image/png", "a b.png", len(PNG))


@pytest.mark.parametrize(
    ("body", "content_type", "is_part"),
    [
        (b"plain words", "application/octet-stream", False),
        (b"\xff\xfe\x00\x01", "application/octet-stream", True),
        (b"\x00\x01\x02", "", True),
        (b"caf\xe9", "", False),
        (b"caf\xe9", "text/plain; charset=iso-8859-1", False),
        (b"<svg/>", "image/svg+xml", False),
        (b"%PDF-1.7 \xff", "application/pdf", True),
        (b"{}", "application/json", False),
        (b"a: 1", "application/x-yaml", False),
        (PNG, "text/html", False),
    ],
)
async def test_an_answer_is_a_part_where_its_type_or_its_bytes_say_so(
    body: bytes, content_type: str, *, is_part: bool
):
    result = await called(answer(body, content_type=content_type))
    assert result.ending is COMPLETED
    assert bool(result.media) == is_part


async def test_an_echoed_secret_is_not_kept_in_a_part():
    result = await called(answer(PNG + b"planted-secret-1", content_type="image/png"))
    assert b"planted-secret-1" not in (result.media[0].data or b"")
    assert json_text.parse(result.output_json or "") == "[part 1]"

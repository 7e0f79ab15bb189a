"""Which texts say something."""

import pytest

from jackline_server.core.blank_text import is_blank


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\t\r\n",
        "\u00a0\u2003\u3000\u2028",
        "\u200b\u200d\u2060\ufeff",
        "\x07\x1b",
        "\u00ad\u202e",
        "\u3164",
        "\u115f\u1160\uffa0",
        "\u2800",
        "\ufe0f\U000e0100",
        "\u034f",
        "\U000e0041",
    ],
    ids=ascii,
)
def test_a_text_that_nobody_sees_says_nothing(text: str) -> None:
    assert is_blank(text)


@pytest.mark.parametrize(
    "text",
    ["a", " a ", "0", ".", "\u200ba", "\u3042", "\u0645", "\U0001f600", "\u2764\ufe0f", "\u0301", "\ue000"],
    ids=ascii,
)
def test_a_text_with_anything_to_see_in_it_says_something(text: str) -> None:
    assert not is_blank(text)
